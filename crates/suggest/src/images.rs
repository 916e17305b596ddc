//! Finds the axis along which images were flattened in another order: by values.
//!
//! An axis of flattened images is a matrix of pixels and channels; with the channels first, it is the transposed one.
//! The sums over the slices of the axis show which lengths this matrix has; then the whole values are compared.

use super::elements::{AxisSums, Sum};
use super::reorder::{Reordering, core, has_many_axes, long_axes};
use super::steps::Undecided;
use super::suggestion::{Basis, Untried};
use super::values::{ByNumber, Reading, common};
use ckpt_api::{Axis, Result, Tensor, TensorId};
use ckpt_engine::recipe::{AxisStep, FlattenedImage};
use ckpt_engine::resources::{default_threads, in_parallel};
use ckpt_engine::source::Source;
use std::collections::BTreeSet;

/// How many matrices are compared in full; the sums rarely leave two.
const MAX_COMPARED: usize = 8;

/// An axis of the first checkpoint's tensor that is a transposed matrix in the second's.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Flattened {
    axis: usize,
    rows: u64,
    columns: u64,
    /// What is left to do after the matrix is transposed.
    reordering: Reordering,
}

/// Finds the steps of pairs with the same elements in another order; these pairs are then matched by value.
pub(super) fn prove(pairs: &mut [Undecided], a: &Source, b: &Source) -> Result<()> {
    let convention = Convention::of(pairs, a, b);
    let open = pairs.iter().enumerate().filter(|(_, one)| one.pair.basis == Basis::Elements);
    let open: Vec<(usize, &Undecided)> = open.collect();
    let found = in_parallel(&open, default_threads(), |(index, one)| Ok((index, find(a, b, one)?)))?;
    for (index, Search { mut found, untried }) in found {
        let Some(one) = pairs.get_mut(index) else { continue };
        let Some(tensor) = a.checkpoint().tensors.get(one.ids.0.0) else { continue };
        if found.len() > 1 && found.iter().any(|image| convention.knows(image)) {
            found.retain(|image| convention.knows(image));
        }
        one.images =
            found.into_iter().map(|image| (convention.step(&image, tensor), image.reordering)).collect();
        if one.images.is_empty() {
            one.pair.untried = untried;
        } else {
            one.pair.basis = Basis::Value;
        }
    }
    Ok(())
}

/// What a search for images gave.
#[derive(Default)]
struct Search {
    /// Every matrix on an axis that makes the values equal, as far as they differ in their effect.
    found: Vec<Flattened>,
    /// Why steps remain that were not tried.
    untried: Option<Untried>,
}

fn find(a: &Source, b: &Source, one: &Undecided) -> Result<Search> {
    let (of_a, of_b) = one.ids;
    let without_sums = || {
        let too_long = AxisSums::are_too_long(&core(a.shape(of_a)));
        let untried = if too_long { Untried::LongAxes } else { Untried::Unreadable };
        Ok(Search { found: Vec::new(), untried: Some(untried) })
    };
    let Some(dtype) = common(a.canonical(of_a).dtype, b.canonical(of_b).dtype) else { return without_sums() };
    let sums = |source: &Source, id: TensorId| Reading::own(source, id).with_dtype(dtype).axis_sums(source);
    let (Some(sums_a), Some(sums_b)) = (sums(a, of_a)?, sums(b, of_b)?) else { return without_sums() };
    let mut possible = one.allowed.iter().flat_map(|reordering| possible(&sums_a, &sums_b, reordering));
    let mut search = Search::default();
    for image in possible.by_ref().take(MAX_COMPARED) {
        let Some(axis) = long_axes(a.shape(of_a)).get(image.axis).copied() else { continue };
        let turned = Reading::with_columns_first(a, of_a, axis, image.columns).with_dtype(dtype);
        let other = Reading::in_order(b, of_b, &image.reordering.order).with_dtype(dtype);
        if turned.equals(a, (b, &other))? {
            search.found.push(Flattened { axis, ..image });
        }
    }
    search.untried = match possible.next() {
        Some(_) => Some(Untried::ManyImages),
        None => has_many_axes(a.shape(of_a)).then_some(Untried::ManyAxes),
    };
    Ok(search)
}

/// Returns the matrices that agree with all sums. The axis is still one of those longer than 1.
fn possible(a: &[Vec<Sum>], b: &[Vec<Sum>], reordering: &Reordering) -> Vec<Flattened> {
    let paired = |axis: usize| Some((a.get(axis)?, b.get(*reordering.order.get(axis)?)?));
    let is_same = |axis: usize| paired(axis).is_some_and(|(a, b)| a == b);
    let others = |axis: usize| (0..a.len()).filter(move |other| *other != axis);
    let axes = (0..a.len()).filter(|axis| others(*axis).all(is_same)).filter_map(|axis| {
        let (of_a, of_b) = paired(axis)?;
        let fits = lengths(of_a.len()).filter(|(rows, columns)| is_transposed(of_a, of_b, *rows, *columns));
        Some(fits.map(move |(rows, columns)| (axis, rows, columns)).collect::<Vec<_>>())
    });
    let images = axes.flatten().filter_map(|(axis, rows, columns)| {
        let (rows, columns) = (u64::try_from(rows).ok()?, u64::try_from(columns).ok()?);
        Some(Flattened { axis, rows, columns, reordering: reordering.clone() })
    });
    images.collect()
}

/// Returns the lengths of all matrices with so many elements that are no vectors.
fn lengths(elements: usize) -> impl Iterator<Item = (usize, usize)> {
    let small = (2..).take_while(move |rows: &usize| rows.saturating_mul(*rows) <= elements);
    let small = small.filter(move |rows| elements.is_multiple_of(*rows));
    small.flat_map(move |rows| {
        let columns = elements / rows;
        [(rows, columns), (columns, rows)].into_iter().take(if rows == columns { 1 } else { 2 })
    })
}

fn is_transposed(a: &[Sum], b: &[Sum], rows: usize, columns: usize) -> bool {
    let turned = (0..columns).flat_map(|column| (0..rows).map(move |row| row * columns + column));
    a.len() == b.len() && turned.zip(b).all(|(index, sum)| a.get(index) == Some(sum))
}

/// Where the convolutions of the two checkpoints have their channels.
struct Convention {
    /// How many channels the kernels make that can be channels-last in the first checkpoint and channels-first in the
    /// second.
    to_first: BTreeSet<u64>,
    /// The same for the other direction.
    to_last: BTreeSet<u64>,
    is_to_last: bool,
}

impl Convention {
    /// Takes it from the kernels whose steps the values show.
    fn of(pairs: &[Undecided], a: &Source, b: &Source) -> Self {
        let mut convention =
            Convention { to_first: BTreeSet::new(), to_last: BTreeSet::new(), is_to_last: false };
        let (mut first, mut last) = (0, 0);
        for one in pairs.iter().filter(|one| one.pair.basis == Basis::Value && !one.allowed.is_empty()) {
            let (of_a, of_b) = (core(a.shape(one.ids.0)), core(b.shape(one.ids.1)));
            let Some(end) = of_a.len().checked_sub(1).filter(|end| *end >= 2) else { continue };
            let moves = |from: usize, to: usize| {
                one.allowed.iter().all(|reordering| reordering.order.get(from) == Some(&to))
            };
            // Kernels of one dimension are turned around: [x, in, out] and [out, in, x].
            let (to_first, to_last) = (moves(end, 0), moves(0, end));
            convention.to_first.extend(of_a.last().filter(|_| to_first));
            convention.to_last.extend(of_b.last().filter(|_| to_last));
            first += usize::from(to_first && !to_last);
            last += usize::from(to_last && !to_first);
        }
        convention.is_to_last = last > first;
        convention
    }

    /// Returns whether the channels become first and whether they become last, as far as a convolution makes them.
    fn fits(&self, image: &Flattened) -> (bool, bool) {
        (self.to_first.contains(&image.columns), self.to_last.contains(&image.rows))
    }

    /// Whether a convolution makes the channels of this image.
    fn knows(&self, image: &Flattened) -> bool {
        self.fits(image) != (false, false)
    }

    fn step(&self, image: &Flattened, tensor: &Tensor) -> AxisStep {
        let input = tensor.axes.as_ref().and_then(|axes| axes.iter().position(|axis| *axis == Axis::In));
        let len = tensor.shape.get(image.axis);
        let is_only = tensor.shape.iter().filter(|other| Some(*other) == len).count() == 1;
        let is_default = input.map_or(is_only, |input| input == image.axis);
        let axis = (!is_default).then_some(image.axis);
        let is_to_last = match self.fits(image) {
            (true, false) => false,
            (false, true) => true,
            _ => self.is_to_last,
        };
        if is_to_last {
            AxisStep::UnflattenOrder(FlattenedImage::new(vec![image.columns, image.rows], axis))
        } else {
            AxisStep::FlattenOrder(FlattenedImage::new(vec![image.rows, image.columns], axis))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_may_be_any_matrix_but_a_vector() {
        assert_eq!(lengths(12).collect::<Vec<_>>(), [(2, 6), (6, 2), (3, 4), (4, 3)]);
        assert_eq!(lengths(9).collect::<Vec<_>>(), [(3, 3)]);
        for prime in [0, 1, 2, 7] {
            assert_eq!(lengths(prime).count(), 0);
        }
    }
}
