//! Announces what will be read, to stores that fetch it ahead.

use super::files::Files;
use crate::layout::{Part, Piece, within};
use crate::plan::{Item, Plan, TensorEntry};
use ckpt_api::{Extent, FileId, Placement, Result};
use std::ops::Range;

/// A tensor of which boxes are read is announced as a whole up to this size: larger ones would push others out before all
/// boxes were read.
const LARGEST_WHOLE: u64 = 32 << 20;
/// Tensors are announced together up to this size: several readers take small ones one after the other.
const LARGE: u64 = 4 << 20;

/// Announces what items of a plan read, in their order.
///
/// # Errors
/// Those of opening a file.
pub(crate) fn announce_items(files: &Files<'_>, plan: &Plan, items: &[usize]) -> Result<()> {
    if !files.are_far() {
        return Ok(());
    }
    let mut announcing = Announcing::new(files);
    for item in items.iter().filter_map(|number| plan.items().get(*number)) {
        let Item::Write(range) = item else { continue };
        for piece in &range.pieces {
            if let Some(entry) = plan.tensor(piece.tensor) {
                announcing.add_piece(&entry, piece)?;
            }
        }
        // Each item has one reader.
        announcing.end()?;
    }
    Ok(())
}

/// Announces whole tensors, in the order in which they will be read: large ones side by side.
///
/// # Errors
/// Those of opening a file.
pub(crate) fn announce<'a>(
    files: &Files<'_>,
    mut placements: impl Iterator<Item = &'a Placement>,
) -> Result<()> {
    if !files.are_far() {
        return Ok(());
    }
    let mut announcing = Announcing::new(files);
    let mut together = 0_u64;
    placements.try_for_each(|placement| {
        announcing.add_whole(placement, u64::MAX)?;
        together = together.saturating_add(stored_len(placement));
        if together < LARGE {
            return Ok(());
        }
        together = 0;
        announcing.end()
    })?;
    announcing.end()
}

fn stored_len(placement: &Placement) -> u64 {
    placement.extents.iter().fold(0_u64, |sum, extent| sum.saturating_add(extent.stored_len()))
}

/// Ranges of one file that are not announced yet.
struct Announcing<'a> {
    files: &'a Files<'a>,
    file: FileId,
    ranges: Vec<Range<u64>>,
}

impl<'a> Announcing<'a> {
    fn new(files: &'a Files<'a>) -> Self {
        Announcing { files, file: FileId(0), ranges: Vec::new() }
    }

    fn add_piece(&mut self, entry: &TensorEntry<'_>, piece: &Piece) -> Result<()> {
        match &piece.part {
            Part::Sequence { extents, bytes } if entry.from.window().is_none() => {
                let extents = entry.from.extents.get(extents.indices()).unwrap_or_default();
                for (extent, own) in within(extents, bytes) {
                    self.add(extent, own)?;
                }
            }
            _ => self.add_whole(entry.from, LARGEST_WHOLE)?,
        }
        entry.added.iter().try_for_each(|added| self.add_whole(added, LARGEST_WHOLE))
    }

    fn add_whole(&mut self, placement: &Placement, largest: u64) -> Result<()> {
        match stored_len(placement) <= largest {
            true => placement.extents.iter().try_for_each(|extent| self.add(extent, 0..extent.len)),
            false => Ok(()),
        }
    }

    /// Adds bytes of an extent: all of it where the file does not hold them as they are.
    fn add(&mut self, extent: &Extent, own: Range<u64>) -> Result<()> {
        if extent.computed().is_none() && extent.compression().is_none() {
            self.add_range(extent.file, extent.offset, own)
        } else {
            extent.stored_ranges().try_for_each(|(file, offset, len)| self.add_range(file, offset, 0..len))
        }
    }

    /// Adds bytes that begin so far behind `offset`.
    fn add_range(&mut self, file: FileId, offset: u64, own: Range<u64>) -> Result<()> {
        if file != self.file {
            self.end()?;
            self.file = file;
        }
        self.ranges.push(offset.saturating_add(own.start)..offset.saturating_add(own.end));
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        if !self.ranges.is_empty() {
            self.files.will_read(self.file, &self.ranges)?;
            self.ranges.clear();
        }
        Ok(())
    }
}
