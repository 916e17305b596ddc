//! Whether the output holds what its items wrote, looked at without a second pass over the source.

use super::context::{Run, interrupted};
use super::result::ItemResult;
use super::resume::is_intact;
use super::write::Writer;
use crate::layout::FileRange;
use crate::plan::Item;
use crate::resources::in_parallel;
use crate::transform::Buffer;
use ckpt_api::{Result, read_exact_at};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// For each tensor of the plan, whether its bytes are the source's: those that no step changes, as their checksums say that
/// were computed when the source was read. `false` also where that is unknown: then somebody compares both.
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
        Some(range) if range.pieces.iter().all(|piece| run.plan.copied(piece).is_some()) => {
            is_as_written(run, receipt, range)
        }
        _ => Ok(false),
    })?;
    // Of a tensor without pieces, nothing is known.
    let mut verified = vec![None; run.plan.tensors().len()];
    for (receipt, is_verified) in receipts.into_iter().zip(looked) {
        for piece in range_of(receipt).into_iter().flat_map(|range| &range.pieces) {
            if let Some(slot) = verified.get_mut(piece.tensor as usize) {
                *slot = Some(slot.unwrap_or(true) && is_verified);
            }
        }
    }
    Ok(verified.into_iter().map(|verified| verified == Some(true)).collect())
}

fn is_as_written(run: &Run<'_>, receipt: &ItemResult, range: &FileRange) -> Result<bool> {
    if receipt.sums.cloned == 0 {
        return is_intact(run, receipt);
    }
    // Blocks that both files share are the source's. Which ones, is known only where all are that can be.
    let cloned: Vec<_> = run.plan.clones(range).into_iter().map(|clone| clone.to).collect();
    let bytes: u64 = cloned.iter().map(|range| range.end - range.start).sum();
    Ok(bytes == receipt.sums.cloned && rest_is_equal(run, range, &cloned)?)
}

/// Whether what was copied of a range beside blocks that are shared is the source's.
fn rest_is_equal(run: &Run<'_>, range: &FileRange, cloned: &[Range<u64>]) -> Result<bool> {
    let written = run.stage.open(range.file)?;
    let file = run.stage.file(range.file)?;
    let writer = Writer::leaving(&*file, cloned.to_vec());
    let (mut own, mut back) = (Buffer::default(), Buffer::default());
    for copied in range.pieces.iter().filter_map(|piece| run.plan.copied(piece)).flatten() {
        let source = run.files.file(copied.from)?;
        for missing in writer.missing(copied.to.clone()) {
            let mut at = missing.start;
            while at < missing.end {
                if run.canceled.load(Ordering::Relaxed) {
                    return Err(interrupted());
                }
                let len = (missing.end - at).min(run.plan.budget.chunk as u64 / 2).max(1);
                let from = copied.start + (at - copied.to.start);
                let Ok(size) = usize::try_from(len) else { return Ok(false) };
                own.resize(size, from);
                back.resize(size, at);
                source.read_at(from, &mut own)?;
                if read_exact_at(&*written, at, &mut back).is_err() || own[..] != back[..] {
                    return Ok(false);
                }
                at += len;
            }
        }
    }
    Ok(true)
}
