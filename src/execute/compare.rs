//! Comparisons that a plan asks for: tensors that must be equal, because one name stands for them.

use super::context::interrupted;
use super::read::{Files, TensorStream, in_lockstep};
use crate::layout::{TargetLayout, axis_order, canonical, compile};
use crate::plan::{Comparison, Stored};
use crate::resources::Budget;
use ckpt_api::{Encoding, Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};

/// # Errors
/// [`ckpt_api::Kind::Mapping`] where the tensors differ.
pub(super) fn check_equal(
    files: &Files<'_>,
    comparison: &Comparison,
    budget: Budget,
    canceled: &AtomicBool,
) -> Result<()> {
    let Comparison { name, first, other } = comparison;
    if are_equal(files, first, other, budget.of_two(), canceled)? {
        return Ok(());
    }
    Err(Error::mapping("tensors that must be equal differ, so they cannot share one name")
        .tensor(name)
        .found(format!("'{}' differs from '{}'", other.tensor.name, first.tensor.name))
        .help("leave one of them out with 'ignore', or give each its own name"))
}

fn are_equal(
    files: &Files<'_>,
    a: &Stored,
    b: &Stored,
    budget: Budget,
    canceled: &AtomicBool,
) -> Result<bool> {
    let own = |stored: &Stored| canonical(&stored.tensor, &stored.placement);
    let (ea, mut eb) = (own(a), own(b));
    match axis_order(&a.tensor, &b.tensor) {
        Some(order) if a.tensor.lengths == b.tensor.lengths && ea.dtype == eb.dtype => eb.order = order,
        _ => return Ok(false),
    }
    let (mut left, mut right) = (stream(files, a, &ea, budget)?, stream(files, b, &eb, budget)?);
    let mut equal = true;
    let together = in_lockstep(&mut left, &mut right, (ea.dtype, eb.dtype), |_, a, b| {
        equal &= a == b;
        if canceled.load(Ordering::Relaxed) { Err(interrupted()) } else { Ok(()) }
    })?;
    Ok(equal && together)
}

fn stream<'a>(
    files: &'a Files<'a>,
    stored: &'a Stored,
    encoding: &Encoding,
    budget: Budget,
) -> Result<TensorStream<'a>> {
    let Stored { tensor, placement } = stored;
    let route = compile(tensor, placement, &TargetLayout::read(encoding), &[])?;
    TensorStream::whole(files, route.into_transfer(tensor, placement, encoding), budget)
}
