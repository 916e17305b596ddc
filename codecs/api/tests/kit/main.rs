//! The conformance kit notices every way in which a codec can break the contract.

mod blocks;
mod chest;
mod deaths;
mod faults;
mod mistakes;

use ckpt_api::Codec;
use ckpt_api::conformance::{Sample, check};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What the kit reports of a codec on a sample; `None` where it passes.
fn complaint(codec: &dyn Codec, sample: &Sample) -> Option<String> {
    let samples = std::slice::from_ref(sample);
    let panic = catch_unwind(AssertUnwindSafe(|| check(codec, samples))).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    Some(text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
}
