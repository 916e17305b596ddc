//! Divides and joins axes. The stored bytes stay where they are: an axis whose parts are not stored side by side becomes
//! one that is stored as several.

use super::digits::Digits;
use super::placed::{PlacedTensor, STORE_WHOLE, check_fixed_size, misfit};
use crate::layout::{split_range, strides};
use crate::recipe::{AxisStep, Reshape};
use ckpt_api::{AxisOrder, Error, Extents, Result, Shape};
use std::ops::Range;

/// Gives the axes from `reshape.axis` on the lengths after the arrow.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for lengths that do not fit the tensor; [`ckpt_api::Kind::Unsupported`] for a tensor
/// whose stored parts end within an index on the new axes.
pub(super) fn reshape(mut placed: PlacedTensor, reshape: &Reshape, step: &AxisStep) -> Result<PlacedTensor> {
    check_fixed_size(&placed, "reshaped")?;
    let range = reshape.axis..reshape.axis + reshape.from.len();
    let found = placed.tensor.shape.get(range.clone()).unwrap_or_default().to_vec();
    let Some(lens) = reshape.lengths_after(&found) else {
        let lens: Vec<String> = reshape.from.iter().map(ToString::to_string).collect();
        let expected = format!("axes of the lengths '{}' from axis {} on", lens.join(" "), reshape.axis);
        return Err(misfit(step, &placed, &expected));
    };
    if found.contains(&0) {
        return without_elements(placed, range, &lens);
    }
    let mut axis = reshape.axis;
    for (from, to) in groups(&found, &lens) {
        if found[from.clone()] != lens[to.clone()] {
            placed =
                join(placed, axis, from.len()).and_then(|placed| divide(placed, axis, &lens[to.clone()]))?;
        }
        axis += to.len();
    }
    placed.tensor.axes = None;
    Ok(placed)
}

/// Returns the smallest groups of neighboring axes before and after that hold as many elements, in order. Both sides
/// hold as many elements in all, and none is 0.
fn groups(from: &[u64], to: &[u64]) -> Vec<(Range<usize>, Range<usize>)> {
    let take = |lens: &[u64], at: &mut usize| {
        let len = lens.get(*at).copied().unwrap_or(1);
        *at = lens.len().min(*at + 1);
        len
    };
    let mut groups = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < from.len() && j < to.len() {
        let first = (i, j);
        let (mut a, mut b) = (take(from, &mut i), take(to, &mut j));
        while a != b {
            if a < b {
                a *= take(from, &mut i);
            } else {
                b *= take(to, &mut j);
            }
        }
        // What is left on one side alone are axes of length 1.
        if i == from.len() || j == to.len() {
            (i, j) = (from.len(), to.len());
        }
        groups.push((first.0..i, first.1..j));
    }
    groups
}

/// Reshapes a tensor of which nothing is stored.
fn without_elements(mut placed: PlacedTensor, range: Range<usize>, lens: &[u64]) -> Result<PlacedTensor> {
    let PlacedTensor { tensor, placement } = &mut placed;
    tensor.shape = Shape::new(replaced(&tensor.shape, range, lens))?;
    tensor.axes = None;
    placement.set_window(None);
    placement.extents = Extents::default();
    placement.encoding.set_tiles([]);
    placement.encoding.order = AxisOrder::row_major(tensor.shape.rank());
    Ok(placed)
}

/// Joins `count` axes from `axis` on into one.
pub(super) fn join(placed: PlacedTensor, axis: usize, count: usize) -> Result<PlacedTensor> {
    let range = axis..axis + count;
    let whole = placed.whole().shape;
    let lens = whole[range.clone()].to_vec();
    let mut digits = Digits::of(&placed.placement.encoding, &whole)?;
    digits.join(axis, &lens);
    rearranged(placed, digits, |start, shape| {
        let (first, len) = joined_range(&start[range.clone()], &shape[range.clone()], &lens)?;
        Some((replaced(start, range.clone(), &[first]), replaced(shape, range.clone(), &[len])))
    })
}

/// Divides an axis into several, of these lengths.
fn divide(placed: PlacedTensor, axis: usize, lens: &[u64]) -> Result<PlacedTensor> {
    let whole = placed.whole().shape;
    let inner = lens.iter().skip(1).product::<u64>();
    let outer = whole.get(axis).filter(|len| len.is_multiple_of(inner)).map(|len| len / inner);
    let whole_lens: Vec<u64> = outer.into_iter().chain(lens.iter().skip(1).copied()).collect();
    let digits = Digits::of(&placed.placement.encoding, &whole)?.divide(axis, &whole_lens);
    let digits = digits.filter(|_| outer.is_some()).ok_or_else(|| in_parts(&placed.tensor.name))?;
    let cuts = strides(lens.get(1..).unwrap_or_default());
    rearranged(placed, digits, |start, shape| {
        let parts = split_range(start[axis], shape[axis], &cuts)?;
        let (starts, lens): (Vec<u64>, Vec<u64>) = parts.into_iter().unzip();
        Some((replaced(start, axis..axis + 1, &starts), replaced(shape, axis..axis + 1, &lens)))
    })
}

/// Gives the tensor, its slices and its window the boxes that `place` returns for theirs, and its bytes these stored
/// axes.
fn rearranged(
    mut placed: PlacedTensor,
    digits: Digits,
    place: impl Fn(&[u64], &[u64]) -> Option<(Vec<u64>, Vec<u64>)>,
) -> Result<PlacedTensor> {
    let whole = placed.whole();
    let name = placed.tensor.name.clone();
    let place = |start: &[u64], shape: &[u64]| {
        let (start, shape) = place(start, shape).ok_or_else(|| in_parts(&name))?;
        Ok::<_, Error>((start, Shape::new(shape)?))
    };
    let PlacedTensor { tensor, placement } = &mut placed;
    let new_whole = place(&whole.start, &whole.shape)?.1;
    match placement.window_mut() {
        None => tensor.shape = new_whole,
        Some(window) => {
            (window.start, tensor.shape) = place(&window.start, &tensor.shape)?;
            window.whole = new_whole;
        }
    }
    for region in placement.extents.iter_mut().filter_map(|extent| extent.region_mut()) {
        (region.start, region.shape) = place(&region.start, &region.shape)?;
    }
    placement.encoding = digits.encoding(&placement.encoding, tensor.shape.rank());
    let is_whole =
        placement.window().is_none() && placement.extents.iter().all(|extent| extent.region().is_none());
    let fits = placement.encoding.expanded(&tensor.shape).is_some()
        && (placement.encoding.tiles().is_empty() || is_whole);
    if fits { Ok(placed) } else { Err(in_parts(&name)) }
}

fn replaced(values: &[u64], range: Range<usize>, by: &[u64]) -> Vec<u64> {
    let mut values = values.to_vec();
    values.splice(range, by.iter().copied());
    values
}

/// Returns a box of axes of these lengths as a range of the axis that they become; `None` if it is none.
pub(super) fn joined_range(start: &[u64], shape: &[u64], lens: &[u64]) -> Option<(u64, u64)> {
    let (mut first, mut len, mut stride) = (0u64, 1u64, 1u64);
    let mut is_whole = true;
    for ((own, count), all) in start.iter().zip(shape).zip(lens).rev() {
        if !is_whole && *count != 1 {
            return None;
        }
        first = first.checked_add(own.checked_mul(stride)?)?;
        len = len.checked_mul(*count)?;
        stride = stride.checked_mul(*all)?;
        is_whole = is_whole && count == all;
    }
    Some((first, len))
}

fn in_parts(name: &str) -> Error {
    Error::unsupported("the tensor is stored in parts that do not fit the lengths of the new axes")
        .tensor(name)
        .help(STORE_WHOLE)
}
