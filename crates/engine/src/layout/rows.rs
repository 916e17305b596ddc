//! Rows of a tensor: which parts of a transfer hold them.

use super::boxes::whole_box;
use super::piece::Part;
use super::route::Transfer;
use super::sizes::stored_bits;
use ckpt_api::{Region, Shape, Tensor};
use std::ops::Range;

/// The parts that hold some rows of a tensor, in order.
#[derive(Debug, PartialEq)]
pub(crate) struct Rows {
    pub(crate) parts: Vec<Part>,
    /// Elements at the beginning of the first part that belong to earlier rows: they share a byte with the rows.
    pub(crate) skip: u64,
}

/// Finds rows of `tensor`, which are indices of its first axis, in a transfer to row-major order. The rows must exist.
pub(crate) fn rows(tensor: &Tensor, transfer: &Transfer<'_>, rows: Range<u64>) -> Rows {
    let row: u64 = tensor.shape.iter().skip(1).product();
    let elements = rows.start * row..rows.end * row;
    if elements.is_empty() {
        return Rows { parts: Vec::new(), skip: 0 };
    }
    match transfer.everything() {
        Part::Box(_) => {
            let boxes = boxes(&transfer.shape, tensor.shape.first().copied().unwrap_or(1), rows);
            Rows { parts: boxes.into_iter().map(Box::new).map(Part::Box).collect(), skip: 0 }
        }
        Part::Sequence { extents, .. } => {
            let (bytes, skip) = stored_bytes(tensor, transfer, elements);
            Rows { parts: vec![Part::Sequence { extents, bytes }], skip }
        }
    }
}

/// The bytes in which these elements are stored in sequence, and how many elements begin there before them.
fn stored_bytes(tensor: &Tensor, transfer: &Transfer<'_>, elements: Range<u64>) -> (Range<u64>, u64) {
    match (stored_bits(&transfer.source.encoding), &tensor.lengths) {
        (Some(bits), _) => {
            // Every eighth element begins at a byte, whatever its size.
            if bits.is_multiple_of(8) {
                return (elements.start * (bits / 8)..elements.end * (bits / 8), 0);
            }
            let skip = elements.start % 8;
            ((elements.start - skip) * bits / 8..(elements.end * bits).div_ceil(8), skip)
        }
        (None, Some(lengths)) => {
            let end = |count: u64| lengths.iter().zip(0..count).map(|(len, _)| *len).sum();
            (end(elements.start)..end(elements.end), 0)
        }
        (None, None) => (0..0, 0),
    }
}

/// Rows as boxes of whole axes, of which the first ones together are the `len` rows of the tensor.
fn boxes(shape: &Shape, len: u64, rows: Range<u64>) -> Vec<Region> {
    let mut product = 1;
    let mut parts: Vec<u64> = Vec::new();
    for part in shape.iter() {
        if !parts.is_empty() && product == len {
            break;
        }
        product *= part;
        parts.push(*part);
    }
    let mut boxes = Vec::new();
    let mut at = rows.start;
    while at < rows.end {
        let (region, count) = largest(shape, &parts, at..rows.end);
        boxes.push(region);
        at += count;
    }
    boxes
}

/// The largest box that begins with the first of these rows and has no others, and how many rows it has. `parts` are
/// the lengths of the axes that together are the rows.
fn largest(shape: &Shape, parts: &[u64], rows: Range<u64>) -> (Region, u64) {
    let Region { mut start, shape: whole } = whole_box(shape);
    let mut lens = whole.to_vec();
    // Rows of one index of the axis.
    let mut one = 1u64;
    let (mut count, mut along) = (1, 0);
    for (axis, len) in parts.iter().enumerate().rev() {
        let fits = rows.start.is_multiple_of(one) && rows.start + one <= rows.end;
        if fits {
            let left = ((rows.end - rows.start) / one).min(len - rows.start / one % len);
            (count, along) = (left * one, axis);
        }
        start[axis] = rows.start / one % len;
        lens[axis] = if fits { count / one } else { 1 };
        one *= len;
    }
    // Axes after the one that the box is along are whole, those before it have one index.
    for (axis, len) in parts.iter().enumerate() {
        if axis > along {
            (start[axis], lens[axis]) = (0, *len);
        } else if axis < along {
            lens[axis] = 1;
        }
    }
    // A part of a shape that fits fits too.
    (Region { start, shape: Shape::new(lens).unwrap_or_default() }, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Row-major numbers of the elements of a box.
    fn elements(shape: &[u64], region: &Region) -> Vec<u64> {
        let mut all = Vec::new();
        for mut number in 0..region.shape.elements() {
            let mut index = region.start.clone();
            for axis in (0..shape.len()).rev() {
                index[axis] += number % region.shape[axis];
                number /= region.shape[axis];
            }
            all.push(index.iter().zip(shape).fold(0, |flat, (index, len)| flat * len + index));
        }
        all
    }

    proptest! {
        #[test]
        fn rows_are_the_elements_that_a_slice_of_the_whole_has_however_axes_are_split(
            parts in prop::collection::vec(1u64..5, 1..4),
            others in prop::collection::vec(1u64..4, 0..3),
            from: prop::sample::Index, to: prop::sample::Index,
        ) {
            let shape: Vec<u64> = parts.iter().chain(&others).copied().collect();
            let (len, row) = (parts.iter().product::<u64>(), others.iter().product::<u64>());
            let (a, b) = (from.index(len as usize + 1) as u64, to.index(len as usize + 1) as u64);
            let (start, end) = (a.min(b), a.max(b));
            let boxes = boxes(&Shape::new(&shape).unwrap(), len, start..end);
            let found: Vec<u64> = boxes.iter().flat_map(|region| elements(&shape, region)).collect();
            prop_assert_eq!(found, (start * row..end * row).collect::<Vec<_>>());
            prop_assert!(boxes.len() < 2 * parts.len());
        }
    }
}
