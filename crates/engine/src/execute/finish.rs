//! Puts the receipts of all items together: checksums of whole extents, for the codec and of the source.

use super::read::{Files, verify_assembled};
use super::result::{ItemResult, Rounding};
use crate::plan::{Item, Plan};
use ckpt_api::{Error, Extent, Result, Written};
use std::collections::{BTreeMap, HashMap};

/// What all items came to together.
#[derive(Debug)]
pub(crate) struct Finished {
    /// For each of the codec's placements, in their order, the checksums that it asked for.
    pub(crate) written: Vec<Written>,
    /// For each tensor of the plan, in its order, the largest absolute rounding error of a cast.
    pub(crate) rounding: Vec<f64>,
    /// For each tensor of the plan, whether an earlier process had written all of it.
    pub(crate) kept: Vec<bool>,
    /// Bytes that share blocks with the source.
    pub(crate) cloned: u64,
}

/// Assembles the checksums of extents from what pieces contribute, and verifies those of the source of which no piece
/// read everything.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for a checksum of the source that differs; [`ckpt_api::Kind::Usage`] if the receipt
/// of an item is missing, or where receipts do not fit together.
pub(crate) fn finish(plan: &Plan, files: &Files<'_>, receipts: &[ItemResult]) -> Result<Finished> {
    let mut sums = Totals::new(plan);
    let mut seen = vec![false; plan.items().len()];
    for receipt in receipts {
        let Some(seen) = seen.get_mut(receipt.item) else { continue };
        if !std::mem::replace(seen, true) {
            sums.add(plan, receipt)?;
        }
    }
    if let Some(missing) = seen.iter().position(|seen| !seen) {
        let count = seen.iter().filter(|seen| !**seen).count();
        return Err(Error::usage("some items of the plan have not run")
            .found(format!("no receipt for item {missing}"))
            .expected(format!(
                "a receipt for each of the {} items; {count} {} missing",
                seen.len(),
                if count == 1 { "is" } else { "are" }
            ))
            .help("run the missing items first"));
    }
    sums.verify_sources(plan, files)?;
    Ok(sums.finished(plan))
}

/// Running sums over receipts.
struct Totals {
    /// For each extent of each placement, in their order, the sum of the remainders.
    written: Vec<u32>,
    /// For each placement, the number of its first extent in `written`.
    starts: Vec<usize>,
    /// Sums of remainders and bytes, by tensor of the plan and extent of its source.
    read: BTreeMap<(u32, u32), (u32, u64)>,
    rounding: Vec<f64>,
    kept: Vec<bool>,
    cloned: u64,
}

impl Totals {
    fn new(plan: &Plan) -> Self {
        let tensors = plan.tensors().len();
        let mut extents = 0;
        let starts = plan.placed.placements.iter().map(|placement| {
            let start = extents;
            extents += placement.extents.len();
            start
        });
        let starts = starts.collect();
        Totals {
            written: vec![0; extents],
            starts,
            read: BTreeMap::new(),
            rounding: vec![0.0; tensors],
            kept: vec![true; tensors],
            cloned: 0,
        }
    }

    fn add(&mut self, plan: &Plan, receipt: &ItemResult) -> Result<()> {
        let Some(Item::Write(range)) = plan.items().get(receipt.item) else { return Ok(()) };
        let pieces = &range.pieces;
        self.cloned = self.cloned.saturating_add(receipt.sums.cloned);
        for (piece, remainder) in pieces.iter().zip(&receipt.sums.written) {
            let start = plan.number_of(piece.tensor).and_then(|number| self.starts.get(number));
            let extents = plan.target_of(piece.tensor).map_or(0, |target| target.extents.len());
            let own = start.and_then(|start| self.written.get_mut(*start..)?.get_mut(..extents));
            let sum = own.and_then(|own| own.get_mut(piece.extent as usize));
            if let Some(sum) = sum {
                *sum ^= remainder;
            }
            if let Some(kept) = self.kept.get_mut(piece.tensor as usize) {
                *kept &= receipt.kept;
            }
        }
        for share in &receipt.sums.read {
            let Some(piece) = pieces.get(share.piece as usize) else { continue };
            let sum = self.read.entry((piece.tensor, share.extent)).or_default();
            let bytes = sum.1.checked_add(share.bytes).ok_or_else(|| {
                Error::usage("the receipts of the plan's items do not fit together")
                    .found(format!("item {}, which reads more bytes than there can be", receipt.item))
                    .help("run the item again")
            })?;
            *sum = (sum.0 ^ share.remainder, bytes);
        }
        for Rounding { piece, error } in &receipt.sums.rounding {
            let tensor = pieces.get(*piece as usize).map(|piece| piece.tensor as usize);
            if let Some(rounding) = tensor.and_then(|tensor| self.rounding.get_mut(tensor)) {
                *rounding = rounding.max(*error);
            }
        }
        Ok(())
    }

    fn verify_sources(&self, plan: &Plan, files: &Files<'_>) -> Result<()> {
        for ((tensor, number), (remainder, bytes)) in &self.read {
            let Some(entry) = plan.tensor(*tensor) else { continue };
            let Some(extent) = entry.from.extents.get(*number as usize) else { continue };
            if *bytes != extent.len {
                return Err(Error::usage("the receipts of the plan's items do not fit together")
                    .tensor(entry.tensor)
                    .found(crate::words::count(*bytes, "byte") + " of it")
                    .expected(extent.len.to_string())
                    .help("run its items again"));
            }
            verify_assembled(files, extent, *remainder).map_err(|error| error.tensor(entry.tensor))?;
        }
        Ok(())
    }

    /// Gives what is written once the results of where it is written.
    fn share(&mut self, plan: &Plan) {
        if plan.shared().is_empty() {
            return;
        }
        let numbers: HashMap<usize, usize> =
            plan.tensors().enumerate().map(|(tensor, entry)| (entry.number, tensor)).collect();
        for (number, other) in plan.shared() {
            let count = plan.placed.placements.get(*number).map_or(0, |placement| placement.extents.len());
            let starts = self.starts.get(*number).zip(self.starts.get(*other));
            let (to, from) = starts.map_or((0, 0), |(to, from)| (*to, *from));
            (0..count).for_each(|extent| copy(&mut self.written, from + extent, to + extent));
            let Some((number, other)) = numbers.get(number).zip(numbers.get(other)) else { continue };
            copy(&mut self.rounding, *other, *number);
            copy(&mut self.kept, *other, *number);
        }
    }

    fn finished(mut self, plan: &Plan) -> Finished {
        self.share(plan);
        let mut sums = self.written.iter();
        let checksum =
            |(extent, sum): (&Extent, &u32)| Some(extent.checksum.as_ref()?.assemble(extent.len, [*sum]));
        let written = plan.placed.placements.iter().map(|placement| Written {
            checksums: placement.extents.iter().zip(sums.by_ref()).map(checksum).collect(),
        });
        let written = written.collect();
        let Totals { rounding, kept, cloned, .. } = self;
        Finished { written, rounding, kept, cloned }
    }
}

/// Copies one element over another.
fn copy<T: Clone>(list: &mut [T], from: usize, to: usize) {
    if let (Some(value), Some(slot)) = (list.get(from).cloned(), list.get_mut(to)) {
        *slot = value;
    }
}
