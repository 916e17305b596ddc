//! Comparisons that a plan asks for: tensors that must be equal, because one name stands for them.

use super::interruption::interrupted;
use super::read::{Files, TensorStream, in_lockstep};
use crate::plan::{Comparison, unequal};
use crate::resources::Budget;
use ckpt_api::Result;
use std::sync::atomic::{AtomicBool, Ordering};

/// # Errors
/// [`ckpt_api::Kind::Mapping`] if the tensors differ.
pub(super) fn check_equal(
    files: &Files<'_>,
    comparison: &Comparison,
    budget: Budget,
    canceled: &AtomicBool,
) -> Result<()> {
    let Comparison { name, first, other } = comparison;
    let mut left = TensorStream::whole(files, first.transfer(), budget.of_two())?;
    let mut right = TensorStream::whole(files, other.transfer(), budget.of_two())?;
    let mut equal = true;
    let dtypes = (first.encoding.dtype, other.encoding.dtype);
    let together = in_lockstep(&mut left, &mut right, dtypes, |_, a, b| {
        equal &= a == b;
        if canceled.load(Ordering::Relaxed) { Err(interrupted()) } else { Ok(()) }
    })?;
    match equal && together {
        true => Ok(()),
        false => Err(unequal(name, &first.tensor, &other.tensor)),
    }
}
