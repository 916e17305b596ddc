//! The conformance kit notices every way in which a codec can break the contract.

mod blocks;
mod chest;
mod deaths;
mod decoders;
mod faults;
mod mistakes;

use ckpt_api::Codec;
use ckpt_conformance::{Sample, check};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

/// What the kit reports of a codec on a sample; `None` if it passes.
///
/// One at a time: the kit measures the memory of the process, and one of the mistakes is to take gigabytes of it.
fn complaint(codec: &dyn Codec, sample: &Sample) -> Option<String> {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let samples = std::slice::from_ref(sample);
    let panic = catch_unwind(AssertUnwindSafe(|| check(codec, samples))).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    Some(text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
}
