//! Parts of a whole that are not side by side on one axis: those that take turns on it, and those that are stored in
//! different orders.
//!
//! No byte moves. A part that takes turns is a view with strides; parts that are joined become runs of bytes, each a box of
//! the result.

use super::placed::{PlacedTensor, STORE_WHOLE, check_fixed_size, merge};
use super::reorder::reorder;
use super::stack::{element, stack};
use crate::layout::strides;
use crate::recipe::{AxisStep, Length, Reshape};
use ckpt_api::{AxisOrder, Error, Extent, Packing, Region, Result, Shape, Window};

/// The runs that the parts of one tensor may consist of.
const MOST: u64 = 1 << 22;

/// The indices `part`, `part + parts`, `part + 2 · parts` and so on of an axis.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for an axis that is not of equal parts, [`ckpt_api::Kind::Unsupported`] for a tensor that is not
/// stored as one run of plain elements, if the axis is the one that is stored fastest.
pub(super) fn interleaved_part(
    mut placed: PlacedTensor,
    axis: usize,
    part: usize,
    parts: usize,
) -> Result<PlacedTensor> {
    let (part, parts) = (part as u64, parts as u64);
    check_fixed_size(&placed, "split")?;
    let len = placed.axis_len(axis)?;
    if parts == 0 || !len.is_multiple_of(parts) {
        return Err(Error::mapping("the axis cannot be split into equal parts")
            .found(format!("axis {axis} of {}", placed.tensor.shape))
            .expected(format!("a multiple of {parts}")));
    }
    let Some((extent, size)) = plain(&placed) else {
        // Without strides: the axis becomes two, of which one index is taken.
        let lengths = Reshape::new(vec![Length::Rest], vec![Length::Rest, Length::Of(parts)], axis);
        let divided = reorder(placed, &[AxisStep::Reshape(lengths)])?;
        return element(&divided, axis + 1, part);
    };
    let refused = || in_parts(&placed.tensor.name);
    let (start, mut own) = elements(&placed).ok_or_else(refused)?;
    let stride = own.get_mut(axis).ok_or_else(refused)?;
    let first = part.checked_mul(*stride).and_then(|first| first.checked_add(start)).ok_or_else(refused)?;
    *stride = stride.checked_mul(parts).ok_or_else(refused)?;
    let mut lens = placed.tensor.shape.to_vec();
    lens[axis] = len / parts;
    let shape = Shape::new(lens)?;
    let window = Window::new(vec![0; shape.rank()], shape.clone()).with_strides(own);
    let bytes = window.reach().and_then(|reach| reach.checked_mul(size)).ok_or_else(refused)?;
    let offset =
        first.checked_mul(size).and_then(|first| extent.offset.checked_add(first)).ok_or_else(refused)?;
    let extent = Extent::new(extent.file, offset, bytes);
    placed.tensor.shape = shape;
    placed.tensor.axes = None;
    placed.placement.set_shape(None);
    placed.placement.extents = vec![extent].into();
    placed.placement.set_window(window);
    Ok(placed)
}

/// The first element of a tensor in its extent, and the distances of neighbors on each axis.
fn elements(placed: &PlacedTensor) -> Option<(u64, Vec<u64>)> {
    let window = placed.placement.window();
    let whole = window.map_or(&placed.tensor.shape, |window| &window.whole);
    let own = match window.filter(|window| !window.strides.is_empty()) {
        Some(window) => window.strides.clone(),
        None => {
            let order = &placed.placement.encoding.order;
            let lens: Option<Vec<u64>> = order.iter().map(|axis| whole.get(*axis).copied()).collect();
            let lens = lens?;
            let stored = strides(lens.get(1..).unwrap_or_default());
            let mut own = vec![0; whole.rank()];
            for (axis, stride) in order.iter().zip(stored) {
                *own.get_mut(*axis)? = stride;
            }
            own
        }
    };
    let starts = window.map_or(&[][..], |window| &window.start);
    let first = starts
        .iter()
        .zip(&own)
        .try_fold(0u64, |first, (start, stride)| first.checked_add(start.checked_mul(*stride)?))?;
    Some((first, own))
}

/// The one extent of a tensor of plain elements, and bytes of an element.
fn plain(placed: &PlacedTensor) -> Option<(&Extent, u64)> {
    let encoding = &placed.placement.encoding;
    let [extent] = &placed.placement.extents[..] else { return None };
    let is_plain = extent.region().is_none()
        && extent.compression().is_none()
        && !extent.is_computed()
        && encoding.tiles().is_empty()
        && encoding.blocks().is_none()
        && encoding.packing == Packing::Bytes;
    Some((extent, encoding.dtype.bytes().filter(|_| is_plain)?))
}

/// Joins parts that take turns on an axis: as they are, or in runs of bytes if they are not stored in one way.
///
/// # Errors
/// As [`merge`]; [`ckpt_api::Kind::Unsupported`] for tensors that are not stored as one run of bytes each.
pub(super) fn interleave(tensors: Vec<PlacedTensor>, axis: usize) -> Result<PlacedTensor> {
    let parts = tensors.len() as u64;
    // One after the other, the parts are all bytes of the tensor in another order of axes.
    let lengths = Reshape::new(vec![Length::Rest, Length::Of(parts)], vec![Length::Rest], axis);
    let stacked = stack(tensors.clone(), axis.saturating_add(1), None);
    let joined = stacked.and_then(|stacked| reorder(stacked, &[AxisStep::Reshape(lengths)]));
    if joined.is_ok() {
        return joined;
    }
    let cut = tensors.into_iter().map(|placed| {
        let order = &placed.placement.encoding.order;
        let outer = order.iter().position(|stored| *stored == axis).map_or(0, |at| at + 1);
        in_runs(placed, outer)
    });
    let mut merged = merge(cut.collect::<Result<_>>()?, axis, None)?;
    let len = merged.axis_len(axis)?.checked_div(parts).unwrap_or(0).max(1);
    for region in merged.placement.extents.iter_mut().filter_map(|extent| extent.region_mut()) {
        if let Some(start) = region.start.get_mut(axis) {
            // Index i of part k.
            *start = (*start % len).saturating_mul(parts).saturating_add(*start / len);
        }
    }
    Ok(merged)
}

/// Makes tensors alike that are to be merged along an axis and reshaped then: each becomes runs of bytes that have one index on
/// the axes before it. Those of another order of axes than the others become runs along a single axis, for which any order
/// holds.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for tensors that are not stored as one run of bytes each.
pub(super) fn alike(tensors: Vec<PlacedTensor>, axis: usize) -> Result<Vec<PlacedTensor>> {
    let mut orders = tensors.iter().map(|placed| &placed.placement.encoding.order);
    let first = orders.next();
    let is_one = orders.all(|order| Some(order) == first);
    let each = tensors.into_iter().map(|mut placed| {
        let rank = placed.tensor.shape.rank();
        let row_major = AxisOrder::row_major(rank);
        let order = &placed.placement.encoding.order;
        if is_one || *order == row_major {
            let before = order.iter().rposition(|stored| *stored < axis).map_or(0, |at| at + 1);
            return in_runs(placed, before);
        }
        if placed.placement.encoding.blocks().is_some() {
            return Err(in_blocks(&placed.tensor.name));
        }
        placed = in_runs(placed, rank.saturating_sub(1))?;
        placed.placement.encoding.order = row_major;
        Ok(placed)
    });
    each.collect()
}

/// Divides the extent of a tensor into runs that have one index on the `outer` slowest axes.
fn in_runs(mut placed: PlacedTensor, outer: usize) -> Result<PlacedTensor> {
    check_fixed_size(&placed, "merged")?;
    let PlacedTensor { tensor, placement } = &placed;
    let refused = || in_parts(&tensor.name);
    let [extent] = &placement.extents[..] else { return Err(refused()) };
    let order = placement.encoding.order.to_vec();
    let (slow, fast) = order.split_at(outer.min(order.len()));
    let len = |axis: &usize| tensor.shape.get(*axis).copied().unwrap_or(1);
    let runs = slow.iter().map(len).try_fold(1u64, u64::checked_mul).unwrap_or(u64::MAX);
    let is_plain = extent.region().is_none()
        && extent.compression().is_none()
        && !extent.is_computed()
        && placement.window().is_none()
        && placement.encoding.tiles().is_empty()
        && placement.encoding.packing == Packing::Bytes
        && (placement.encoding.blocks().is_none() || !fast.is_empty());
    if runs == 1 || tensor.shape.elements() == 0 {
        return Ok(placed);
    }
    if !is_plain || runs > MOST || !extent.len.is_multiple_of(runs) {
        return Err(refused());
    }
    let bytes = extent.len / runs;
    let mut shape = tensor.shape.to_vec();
    for axis in slow {
        shape[*axis] = 1;
    }
    let shape = Shape::new(shape)?;
    let mut extents = Vec::with_capacity(usize::try_from(runs).unwrap_or(0));
    for number in 0..runs {
        let mut start = vec![0; tensor.shape.rank()];
        let mut rest = number;
        for axis in slow.iter().rev() {
            start[*axis] = rest % len(axis);
            rest /= len(axis);
        }
        let run = Extent::new(extent.file, extent.offset.saturating_add(number.saturating_mul(bytes)), bytes);
        extents.push(run.with_region(Region { start, shape: shape.clone() }));
    }
    placed.placement.set_shape(None);
    placed.placement.extents = extents.into();
    Ok(placed)
}

fn in_parts(name: &str) -> Error {
    Error::unsupported(
        "parts can only be taken from, and joined to, a tensor that is stored as one run of plain bytes",
    )
    .tensor(name)
    .help(STORE_WHOLE)
}

fn in_blocks(name: &str) -> Error {
    Error::unsupported("quantized tensors whose blocks lie along different axes cannot be joined")
        .tensor(name)
        .help("decode them in a conversion without this mapping, such as with --dtype f32, and convert the result")
}
