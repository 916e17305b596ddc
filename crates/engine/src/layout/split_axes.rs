//! Splits axes so that source and target both store whole axes. After this step, layouts differ only by a permutation.

use ckpt_api::{AddedAxis, Encoding, Error, Placement, Region, Result, Shape, Tensor, Window};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A transfer with every axis split wherever one of its sides splits it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Split {
    /// The tensor's shape.
    pub(super) shape: Shape,
    /// The source, in whole axes.
    pub(super) source: Placement,
    /// The order in which the target stores the axes.
    pub(super) order: Vec<usize>,
    /// For each extent of the target the box that it holds.
    pub(super) regions: Vec<Option<Region>>,
    /// What is added.
    pub(super) added: Vec<SplitAddend>,
}

/// An added tensor whose axes are split as those of the sum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SplitAddend {
    pub(super) shape: Shape,
    pub(super) source: Placement,
    pub(super) axes: Vec<AddedAxis>,
}

/// One tensor that is added: itself, if it is stored, and where on each axis of the sum its values go.
pub(super) type Added<'a> = (&'a Tensor, &'a Placement, &'a [AddedAxis]);

/// Splits every axis wherever one side does; `None` if no side does. `regions` are the boxes of the target's
/// extents.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] if the sizes of the two sides do not divide each other, or a slice ends within a
/// part.
pub(super) fn split_axes<'r>(
    tensor: &Tensor,
    source: &Placement,
    target: &Encoding,
    regions: impl Iterator<Item = Option<&'r Region>>,
    added: &[Added<'_>],
) -> Result<Option<Split>> {
    let mut encodings =
        [&source.encoding, target].into_iter().chain(added.iter().map(|(_, source, _)| &source.encoding));
    if encodings.all(|encoding| encoding.tiles().is_empty()) {
        return Ok(None);
    }
    let split = || -> Result<Split> {
        let cuts = Cuts::new(tensor.shape.rank(), &source.encoding, target, added)?;
        Ok(Split {
            shape: cuts.shape(&tensor.shape)?,
            source: cuts.placement(source)?,
            order: cuts.order(target),
            regions: regions
                .map(|region| region.map(|region| cuts.region(region)).transpose())
                .collect::<Result<_>>()?,
            added: added.iter().map(|added| cuts.addend(added)).collect::<Result<_>>()?,
        })
    };
    split().map(Some).map_err(|error| error.tensor(&tensor.name))
}

/// For every logical axis the distances between neighbors of its parts, the slowest first; the last is 1.
struct Cuts(Vec<Vec<u64>>);

/// Distances between neighbors of an axis's parts, the slowest first.
pub(crate) fn strides(tile: &[u64]) -> Vec<u64> {
    let mut strides = vec![1u64];
    for len in tile.iter().rev() {
        strides.push(strides.last().map_or(1, |stride| stride.saturating_mul(*len)));
    }
    strides.reverse();
    strides
}

impl Cuts {
    fn new(rank: usize, source: &Encoding, target: &Encoding, added: &[Added<'_>]) -> Result<Self> {
        let axis_cuts = |axis: usize| {
            let mut all: BTreeSet<u64> =
                [source, target].iter().flat_map(|e| strides(e.tile(axis))).collect();
            for (_, source, axes) in added {
                if let Some(AddedAxis::Along(own)) = axes.get(axis) {
                    all.extend(strides(source.encoding.tile(*own)));
                }
            }
            let cuts: Vec<u64> = all.into_iter().rev().collect();
            if cuts.windows(2).all(|pair| pair[0].is_multiple_of(pair[1])) {
                return Ok(cuts);
            }
            Err(Error::unsupported("the tile sizes of source and target do not divide each other")
                .found(format!("axis {axis} in tiles of {}", tile_sizes(&cuts)))
                .expected("sizes that divide each other")
                .help("convert through a format that stores whole axes"))
        };
        (0..rank).map(axis_cuts).collect::<Result<Vec<_>>>().map(Cuts)
    }

    /// The number of an axis's first part.
    fn base(&self, axis: usize) -> usize {
        self.0.iter().take(axis).map(Vec::len).sum()
    }

    fn shape(&self, shape: &Shape) -> Result<Shape> {
        Ok(self.range(&vec![0; shape.rank()], shape)?.1)
    }

    /// A box, as one of the parts.
    fn range(&self, start: &[u64], shape: &Shape) -> Result<(Vec<u64>, Shape)> {
        let (mut starts, mut lens) = (Vec::new(), Vec::new());
        for ((cuts, first), len) in self.0.iter().zip(start).zip(shape.iter()) {
            let parts = split_range(*first, *len, cuts).ok_or_else(|| {
                Error::unsupported("a slice ends within a tile")
                    .found(format!("{start:?}+{shape}"))
                    .expected(format!("multiples of {}", cuts.first().copied().unwrap_or(1)))
                    .help("convert through a format that stores whole tensors")
            })?;
            starts.extend(parts.iter().map(|(start, _)| *start));
            lens.extend(parts.iter().map(|(_, len)| *len));
        }
        Ok((starts, Shape::new(lens)?))
    }

    fn region(&self, region: &Region) -> Result<Region> {
        let (start, shape) = self.range(&region.start, &region.shape)?;
        Ok(Region { start, shape })
    }

    fn placement(&self, placement: &Placement) -> Result<Placement> {
        let mut placement = placement.clone();
        placement.encoding.order = self.order(&placement.encoding).into();
        placement.encoding.set_tiles([]);
        for region in placement.extents.iter_mut().filter_map(|extent| extent.region_mut()) {
            *region = self.region(region)?;
        }
        if let Some(Window { start, whole, strides, .. }) = placement.window_mut() {
            if !strides.is_empty() {
                let part = |(cuts, stride): (&Vec<u64>, &u64)| {
                    cuts.iter().map(|cut| cut.saturating_mul(*stride)).collect::<Vec<u64>>()
                };
                *strides = self.0.iter().zip(strides.iter()).flat_map(part).collect();
            }
            *whole = self.shape(whole)?;
            *start = self.range(start, &Shape::new(vec![1; start.len()])?)?.0;
        }
        Ok(placement)
    }

    /// The stored order, of the parts.
    fn order(&self, encoding: &Encoding) -> Vec<usize> {
        let parts = encoding.parts(self.0.len());
        let mut order = Vec::new();
        for part in encoding.order.iter().filter_map(|number| parts.get(*number)) {
            let own = strides(encoding.tile(part.axis));
            let least = own.get(part.part).copied().unwrap_or(1);
            let below = part.part.checked_sub(1).and_then(|slower| own.get(slower)).copied();
            let cuts = self.0.get(part.axis).into_iter().flatten().enumerate();
            let within = cuts.filter(|(_, cut)| **cut >= least && below.is_none_or(|below| **cut < below));
            order.extend(within.map(|(k, _)| self.base(part.axis) + k));
        }
        order
    }

    fn addend(&self, (tensor, source, axes): &Added<'_>) -> Result<SplitAddend> {
        let mut own = vec![vec![1]; tensor.shape.rank()];
        for (axis, cuts) in axes.iter().zip(&self.0) {
            if let AddedAxis::Along(along) = axis
                && let Some(slot) = own.get_mut(*along)
            {
                slot.clone_from(cuts);
            }
        }
        let own = Cuts(own);
        let mut split = Vec::new();
        for (axis, cuts) in axes.iter().zip(&self.0) {
            let parts = 0..cuts.len();
            match *axis {
                AddedAxis::Every => split.extend(parts.map(|_| AddedAxis::Every)),
                AddedAxis::Along(along) => split.extend(parts.map(|k| AddedAxis::Along(own.base(along) + k))),
                AddedAxis::At(index) => {
                    let digits = split_range(index, 1, cuts).unwrap_or_default();
                    split.extend(digits.iter().map(|(digit, _)| AddedAxis::At(*digit)));
                }
            }
        }
        Ok(SplitAddend { shape: own.shape(&tensor.shape)?, source: own.placement(source)?, axes: split })
    }
}

/// Distances as people should see them: without the 1 at the end.
fn tile_sizes(cuts: &[u64]) -> String {
    let sizes: Vec<String> = cuts.iter().filter(|cut| **cut > 1).map(u64::to_string).collect();
    sizes.join(" and ")
}

/// A range of an axis as ranges of its parts, the slowest first; `None` if it is none.
pub(crate) fn split_range(start: u64, len: u64, cuts: &[u64]) -> Option<Vec<(u64, u64)>> {
    let (mut start, mut len) = (start, len);
    let mut parts = Vec::with_capacity(cuts.len());
    for pair in cuts.windows(2).rev() {
        let part = pair[0].checked_div(pair[1])?;
        let digit = start.checked_rem(part)?;
        if digit == 0 && len.is_multiple_of(part) {
            parts.push((0, part));
            len /= part;
        } else if digit.saturating_add(len) <= part {
            parts.push((digit, len));
            len = 1;
        } else {
            return None;
        }
        start /= part;
    }
    parts.push((start, len));
    parts.reverse();
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_range_is_one_of_its_parts_or_none(start in 0u64..40, len in 0u64..40, b in 1u64..4, c in 1u64..5) {
            let numbers: Vec<u64> = (start..start + len).collect();
            let Some(parts) = split_range(start, len, &[b * c, c, 1]) else {
                prop_assert!(len > 1);
                return Ok(());
            };
            let within = |(first, count): (u64, u64)| first..first + count;
            let mut found = Vec::new();
            for i in within(parts[0]) {
                for j in within(parts[1]) {
                    found.extend(within(parts[2]).map(|k| i * b * c + j * c + k));
                }
            }
            prop_assert_eq!(found, numbers);
        }
    }
}
