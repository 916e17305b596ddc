//! Where the bytes of each extent of a target come from.

use super::boxes::whole_box;
use super::piece::{ExtentNumbers, Part, Piece, plan_number};
use super::route::{Transfer, stored_slices};
use super::runs::Runs;
use super::steps::Access;
use super::units::{Units, misplaced};
use ckpt_api::{Placement, Region, Result};
use std::ops::Range;

/// One tensor's transfer, to be divided into pieces.
pub(crate) struct Cut<'a> {
    pub(crate) transfer: Transfer<'a>,
    /// How and where it is written.
    pub(crate) target: &'a Placement,
    /// The boxes of the target's extents, in whole axes.
    pub(crate) regions: Vec<Option<&'a Region>>,
}

/// What one extent of a target holds.
pub(super) enum Origin {
    /// What the concatenation of these extents of the source becomes, from this byte of it on.
    Sequence { extents: ExtentNumbers, start: u64 },
    /// This box of the tensor in the target's order, from this byte of it on.
    Box { region: Region, start: u64 },
}

/// What each extent of a tensor's target holds.
///
/// # Errors
/// [`ckpt_api::Kind::Defect`] if only some extents hold a box, or there are too many of the source's.
pub(super) fn origins(cut: &Cut<'_>) -> Result<Vec<Origin>> {
    let Cut { transfer, target, regions } = cut;
    if regions.iter().any(Option::is_some) {
        let stored = stored_slices(transfer);
        let origin = |region: &Option<&Region>| match region.map(|region| (region, stored.get(region))) {
            Some((_, Some(extent))) => {
                let number = plan_number(*extent)?;
                Ok(Origin::Sequence { extents: (number..number + 1).try_into()?, start: 0 })
            }
            Some((region, None)) => Ok(Origin::Box { region: Region::clone(region), start: 0 }),
            None => Err(misplaced()),
        };
        return regions.iter().map(origin).collect();
    }
    if is_alike(cut) {
        let origin = |number| Ok(Origin::Sequence { extents: (number..number + 1).try_into()?, start: 0 });
        return (0..plan_number(target.extents.len())?).map(origin).collect();
    }
    let extents = (0..plan_number(transfer.source.extents.len())?).try_into()?;
    let mut start = 0u64;
    let origins = target.extents.iter().map(|extent| {
        let first = start;
        start = first.saturating_add(extent.len);
        match transfer.access {
            Access::Stream => Origin::Sequence { extents, start: first },
            Access::Tile => Origin::Box { region: whole_box(&transfer.shape), start: first },
        }
    });
    Ok(origins.collect())
}

/// Whether each of many extents holds what the source's extent of its number does: a piece need not look at all of them.
fn is_alike(cut: &Cut<'_>) -> bool {
    let Cut { transfer, target, .. } = cut;
    let (own, source) = (&target.extents, &transfer.source.extents);
    own.len() > 1
        && own.len() == source.len()
        && transfer.steps.is_empty()
        && matches!(transfer.access, Access::Stream)
        && transfer.source.encoding == target.encoding
        && transfer.source.window().is_none()
        && source.iter().zip(own.iter()).all(|(from, to)| from.len == to.len && from.region().is_none())
}

/// What the extents of one tensor's target hold, to look up whether pieces are parts of that.
pub(crate) struct Origins<'c> {
    cut: &'c Cut<'c>,
    origins: Vec<Origin>,
}

impl<'c> Origins<'c> {
    /// # Errors
    /// [`ckpt_api::Kind::Defect`] if only some extents of the target hold a box.
    pub(crate) fn of(cut: &'c Cut<'c>) -> Result<Self> {
        Ok(Origins { cut, origins: origins(cut)? })
    }

    /// Whether a piece is what its place in its extent holds.
    pub(crate) fn has(&self, piece: &Piece) -> bool {
        match (&piece.part, self.origins.get(piece.extent as usize)) {
            (Part::Sequence { extents, bytes }, Some(Origin::Sequence { extents: all, start })) => {
                extents == all && self.stored(*extents, *start, piece).is_some_and(|stored| stored == *bytes)
            }
            (Part::Box(part), Some(Origin::Box { region, start })) => {
                start.checked_add(piece.at).is_some_and(|at| self.is_run(region, part, at, piece.len))
            }
            _ => false,
        }
    }

    /// The source's bytes that become a piece of what begins at `start`.
    fn stored(&self, extents: ExtentNumbers, start: u64, piece: &Piece) -> Option<Range<u64>> {
        let Cut { transfer, target, .. } = self.cut;
        let units =
            Units::new(&transfer.source.encoding, &target.encoding, transfer.steps.is_empty()).ok()?;
        let first = start.checked_add(piece.at)?;
        let end = first.checked_add(piece.len)?;
        Some(units.source(first).ok()?..units.source_end(end, || transfer.stored_len(extents)).ok()?)
    }

    /// Whether `part` is the `len` bytes from `at` of `region` in the target's order.
    fn is_run(&self, region: &Region, part: &Region, at: u64, len: u64) -> bool {
        let Transfer { sizes, order, .. } = &self.cut.transfer;
        let units = self.cut.transfer.units();
        let (Some(region), Some(part)) = (units.of_elements(region), units.of_elements(part)) else {
            return false;
        };
        let within = |axis: usize| {
            let ends = part.start[axis].checked_add(part.shape[axis]);
            let all = region.start[axis].checked_add(region.shape[axis]);
            part.start[axis] >= region.start[axis] && ends.zip(all).is_some_and(|(end, all)| end <= all)
        };
        let rank = region.shape.rank();
        let inside = sizes.largest.is_some()
            && part.start.len() == rank
            && part.shape.rank() == rank
            && (0..rank).all(within)
            && part.shape.elements().checked_mul(sizes.target) == Some(len);
        if !inside || len == 0 {
            return inside;
        }
        let runs = Runs::of_tile(&region, &part, order, sizes.target);
        runs.bytes() == runs.len && runs.source == at
    }
}
