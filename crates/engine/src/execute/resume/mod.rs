//! What of an earlier process's work is still there: per-piece checksums that resume uses to decide what to keep.

use super::context::Run;
use super::interruption::interrupted;
use super::result::ItemResult;
use crate::layout::Piece;
use crate::plan::{Item, Plan, TensorEntry};
use crate::transform::Buffer;
use ckpt_api::{Checksum, ChecksumAlgorithm, Extent, ReadAt, Result};
use std::sync::atomic::Ordering;

/// Computed where neither side has a checksum of the bytes.
const OWN: Checksum = Checksum { algorithm: ChecksumAlgorithm::Crc32c, seed: 0, value: None };

/// What a piece of a target's extent is known by.
pub(super) enum KnownBy<'a> {
    /// A checksum of the target's bytes: the one that its codec asks for, or one of the engine's.
    Own(Checksum),
    /// The bytes are those of an extent of the source, whose checksum is verified on the way.
    Source(&'a Checksum),
    /// Nothing: checksums are left alone, and nothing of an earlier process is kept.
    Nothing,
}

/// What a piece is known by.
pub(super) fn known_by<'a>(plan: &Plan, entry: &TensorEntry<'a>, piece: &Piece) -> KnownBy<'a> {
    let (from, to) = (entry.from, entry.to);
    let asked = to.extents.get(piece.extent as usize).and_then(|extent| extent.checksum.as_ref());
    if let Some(asked) = asked {
        return KnownBy::Own(Checksum { value: None, ..asked.clone() });
    }
    if plan.settings.unchecked {
        return KnownBy::Nothing;
    }
    let source = from.extents.get(piece.extent as usize).and_then(|extent| extent.checksum.as_ref());
    let Some(source) = source.filter(|checksum| checksum.value.is_some()) else {
        return KnownBy::Own(OWN);
    };
    let unchanged = entry.steps.is_empty()
        && entry.added.is_empty()
        && from.window().is_none()
        && from.encoding == to.encoding
        && from.extents.len() == to.extents.len()
        && from.extents.iter().zip(&to.extents).all(|(a, b)| a.len == b.len && a.region() == b.region());
    if unchanged { KnownBy::Source(source) } else { KnownBy::Own(OWN) }
}

/// Whether the output still holds what an earlier process wrote for an item: reads every byte of it.
///
/// # Errors
/// [`ckpt_api::Kind::Io`] if the run was canceled.
pub(super) fn is_intact(run: &Run<'_>, receipt: &ItemResult) -> Result<bool> {
    let Some(Item::Write(range)) = run.plan.items().get(receipt.item) else { return Ok(false) };
    let Ok(file) = run.stage.open(range.file) else { return Ok(false) };
    let mut buffer = Buffer::default();
    for ((number, piece), before) in (0..).zip(&range.pieces).zip(&receipt.sums.written) {
        if run.canceled.load(Ordering::Relaxed) {
            return Err(interrupted());
        }
        let Some(entry) = run.plan.tensor(piece.tensor) else { return Ok(false) };
        let Some(extent) = entry.to.extents.get(piece.extent as usize) else { return Ok(false) };
        let (checksum, expected) = match known_by(run.plan, &entry, piece) {
            KnownBy::Nothing => return Ok(false),
            KnownBy::Own(checksum) => (checksum, *before),
            KnownBy::Source(checksum) => match receipt.sums.read.iter().find(|share| share.piece == number) {
                Some(share) => (checksum.clone(), share.remainder),
                // All of the extent was read, and its checksum was right.
                None => match is_whole(checksum, extent, piece, &*file, run, &mut buffer) {
                    true => continue,
                    false => return Ok(false),
                },
            },
        };
        if remainder(&checksum, extent, piece, &*file, run, &mut buffer) != Some(expected) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a piece is a whole extent with this checksum.
fn is_whole(
    checksum: &Checksum,
    extent: &Extent,
    piece: &Piece,
    file: &dyn ReadAt,
    run: &Run<'_>,
    buffer: &mut Buffer,
) -> bool {
    let found = remainder(checksum, extent, piece, file, run, buffer);
    found.is_some_and(|found| Some(checksum.assemble(extent.len, [found])) == checksum.value)
}

/// What the bytes of a piece, as the output holds them, contribute to its extent's checksum; `None` if they cannot
/// be read.
fn remainder(
    checksum: &Checksum,
    extent: &Extent,
    piece: &Piece,
    file: &dyn ReadAt,
    run: &Run<'_>,
    buffer: &mut Buffer,
) -> Option<u32> {
    let mut running = checksum.start_scattered(extent.len);
    let mut done = 0;
    while done < piece.len {
        let len = (piece.len - done).min(run.plan.budget.chunk as u64);
        let at = piece.at + done;
        buffer.resize(usize::try_from(len).ok()?, extent.offset + at);
        ckpt_api::read_exact_at(file, extent.offset + at, buffer).ok()?;
        running.update(at, buffer);
        done += len;
    }
    Some(running.remainder())
}
