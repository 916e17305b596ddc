//! Whether the output holds what its items wrote, looked at without a second pass over the source.

use super::context::Run;
use super::result::ItemResult;
use super::resume::is_intact;
use crate::plan::Item;
use crate::resources::in_parallel;
use ckpt_api::Result;

/// For each tensor of the plan, whether its bytes are the source's: those that no step changes, as their checksums say that
/// were computed when the source was read. `false` also if that is unknown: then somebody compares both.
///
/// # Errors
/// Those of reading, and where the run was canceled.
pub(crate) fn verified_by_checksums(run: &Run<'_>, receipts: &[ItemResult]) -> Result<Vec<bool>> {
    let range_of = |receipt: &ItemResult| match run.plan.items().get(receipt.item) {
        Some(Item::Write(range)) => Some(range),
        _ => None,
    };
    let receipts: Vec<&ItemResult> = receipts.iter().collect();
    let looked = in_parallel(&receipts, run.plan.threads, |receipt| match range_of(receipt) {
        Some(range) if range.pieces.iter().any(|piece| run.plan.is_copied(piece)) => is_intact(run, receipt),
        _ => Ok(false),
    })?;
    // Of a tensor without pieces, nothing is known.
    let mut verified = vec![None; run.plan.tensors().len()];
    for (receipt, is_verified) in receipts.into_iter().zip(looked) {
        for piece in range_of(receipt).into_iter().flat_map(|range| &range.pieces) {
            if let Some(slot) = verified.get_mut(piece.tensor as usize) {
                *slot = Some(slot.unwrap_or(true) && is_verified && run.plan.is_copied(piece));
            }
        }
    }
    Ok(verified.into_iter().map(|verified| verified == Some(true)).collect())
}
