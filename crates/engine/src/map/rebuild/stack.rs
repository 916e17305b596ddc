//! Stacks tensors along a new axis, and takes the elements of a stack.

use super::placed::{
    PlacedTensor, STORE_WHOLE, change_axes, check_fixed_size, cut, merge, permute, squeeze, unsqueeze,
};
use super::reshape::{join, joined_range};
use crate::recipe::{AxisStep, Parts};
use ckpt_api::{Error, Extent, Quantization, Result, Shape};
use std::cmp::Ordering;

/// Puts tensors of one shape side by side along a new axis. With `merged`, so many tensors are concatenated to each
/// element before.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for tensors of different shapes or dtypes, and for an axis that the result does not have;
/// [`ckpt_api::Kind::Unsupported`] for tensors that are stored differently.
pub(super) fn stack(tensors: Vec<PlacedTensor>, axis: usize, merged: Option<&Parts>) -> Result<PlacedTensor> {
    let elements = match merged {
        None => tensors,
        Some(Parts { axis, parts, sizes }) => {
            let mut elements = Vec::with_capacity(tensors.len().div_ceil((*parts).max(1)));
            let mut tensors = tensors.into_iter().peekable();
            while tensors.peek().is_some() {
                elements.push(merge(
                    tensors.by_ref().take((*parts).max(1)).collect(),
                    *axis,
                    sizes.as_deref(),
                )?);
            }
            elements
        }
    };
    check_shapes(&elements)?;
    let elements = elements.into_iter().map(|element| with_stack_axis(element, axis));
    merge(elements.collect::<Result<_>>()?, axis, None).map(as_sequence)
}

fn check_shapes(elements: &[PlacedTensor]) -> Result<()> {
    let mut elements = elements.iter().map(|element| &element.tensor);
    let Some(first) = elements.next() else { return Ok(()) };
    match elements.find(|other| other.shape != first.shape) {
        None => Ok(()),
        Some(other) => Err(Error::mapping("the tensors of a stack have different shapes")
            .tensor(&other.name)
            .found(other.shape.to_string())
            .expected(format!("{}, as '{}'", first.shape, first.name))),
    }
}

/// Inserts the axis of the stack, which is stored slowest: then the elements are stored one after the other.
fn with_stack_axis(element: PlacedTensor, axis: usize) -> Result<PlacedTensor> {
    let rank = element.tensor.shape.rank();
    if axis > rank {
        return Err(Error::mapping("a stack of these tensors does not have this axis")
            .tensor(&element.tensor.name)
            .found(format!("axis {axis}, for elements of shape {}", element.tensor.shape))
            .expected(format!("an axis from 0 to {rank}")));
    }
    let mut element = unsqueeze(element, axis)?;
    let encoding = &mut element.placement.encoding;
    if let Some(number) = encoding.parts(rank + 1).iter().position(|part| part.axis == axis) {
        let others = encoding.order.iter().copied().filter(|other| *other != number);
        encoding.order = std::iter::once(number).chain(others).collect();
    }
    Ok(element)
}

/// Slices that follow each other are the tensor's bytes in order: these can be copied without assembling slices.
fn as_sequence(mut placed: PlacedTensor) -> PlacedTensor {
    let PlacedTensor { tensor, placement } = &mut placed;
    let encoding = &placement.encoding;
    let stored = |values: &[u64]| -> Vec<u64> {
        encoding.order.iter().filter_map(|axis| values.get(*axis).copied()).collect()
    };
    let lens = stored(&tensor.shape);
    let mut next = 0u64;
    let mut follows = |extent: &Extent| {
        let Some(region) = extent.region() else { return false };
        let range = joined_range(&stored(&region.start), &stored(&region.shape), &lens);
        let Some((first, len)) = range.filter(|(first, _)| *first == next) else { return false };
        next = first.saturating_add(len);
        encoding.stored_len(len) == Some(extent.len)
    };
    if encoding.tiles().is_empty()
        && placement.window().is_none()
        && placement.extents.iter().all(&mut follows)
    {
        placement.extents.iter_mut().for_each(|extent| extent.set_region(None));
    }
    placed
}

/// Takes what one index on an axis holds, without that axis.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for an axis or index that the tensor does not have; [`ckpt_api::Kind::Unsupported`] for a
/// tensor whose elements are not stored one after the other.
pub(super) fn element(whole: &PlacedTensor, axis: usize, index: u64) -> Result<PlacedTensor> {
    check_fixed_size(whole, "unstacked")?;
    let len = whole.axis_len(axis)?;
    if index >= len {
        return Err(Error::mapping("a stack does not have this element")
            .found(format!("element {index} of axis {axis} of {}", whole.tensor.shape)));
    }
    let index_of_scale = usize::try_from(index).unwrap_or(usize::MAX);
    let scales = whole.tensor.quantization.clone().map(|own| without_axis(own, axis, index_of_scale));
    let mut element = element_without_scales(whole, axis, index, len)?;
    element.tensor.quantization = scales;
    Ok(element)
}

/// What the integers at one index of an axis stand for.
fn without_axis(own: Quantization, axis: usize, index: usize) -> Quantization {
    let affine = match &own {
        Quantization::Affine(affine) => affine,
        Quantization::Units { .. } => return own,
    };
    let new = match affine.axis().map(|of| (of, of.cmp(&axis))) {
        Some((_, Ordering::Equal)) => affine.at(index),
        Some((of, Ordering::Greater)) => Some((**affine).clone().with_axis(of - 1)),
        Some((_, Ordering::Less)) | None => None,
    };
    new.map_or(own, Quantization::from)
}

fn element_without_scales(whole: &PlacedTensor, axis: usize, index: u64, len: u64) -> Result<PlacedTensor> {
    let mut whole = whole.clone();
    whole.tensor.quantization = None;
    let whole = &whole;
    if let Some(extent) = own_extent(whole, axis, index, len) {
        let PlacedTensor { tensor, placement } = whole;
        let mut placement = placement.clone().with_extents(vec![extent]);
        placement.set_shape(None);
        let mut element = PlacedTensor { tensor: tensor.clone(), placement };
        let mut dims = tensor.shape.to_vec();
        dims.splice(axis..=axis, [1]);
        element.tensor.shape = Shape::new(dims)?;
        return squeeze(element, axis, &AxisStep::Squeeze(axis));
    }
    let mut element = whole.clone();
    if len == 1 && element.placement.window().is_none() {
        return squeeze(element, axis, &AxisStep::Squeeze(axis));
    }
    cut(&mut element, axis, index, 1)?;
    joined_with_faster(element, axis)
}

/// Removes an axis of which one index is left: joins it to the axis that is stored next to it, and faster.
fn joined_with_faster(element: PlacedTensor, axis: usize) -> Result<PlacedTensor> {
    let rank = element.tensor.shape.rank();
    let stored = element.placement.encoding.order.iter().skip_while(|stored| **stored != axis).nth(1);
    let Some(faster) = stored.copied().filter(|_| element.placement.encoding.tiles().is_empty()) else {
        return Err(Error::unsupported("the elements of a stack are not stored one after the other")
            .tensor(&element.tensor.name)
            .help(STORE_WHOLE));
    };
    let others = (0..rank).filter(|other| *other != axis);
    let order: Vec<usize> =
        [axis, faster].into_iter().chain(others.clone().filter(|other| *other != faster)).collect();
    let axes = element.tensor.axes.clone();
    let mut joined = join(permute(element, &order)?, 0, 2)?;
    joined.tensor.axes = None;
    // Back to the order without the axis.
    let moved: Vec<usize> = order.iter().skip(1).copied().collect();
    let back: Vec<usize> =
        others.filter_map(|other| moved.iter().position(|moved| *moved == other)).collect();
    let mut element = permute(joined, &back)?;
    element.tensor.axes = axes;
    change_axes(&mut element.tensor, |axes| {
        axes.remove(axis);
    });
    Ok(element)
}

/// Returns the bytes that hold one element and nothing else; `None` if the file does not store it so, or has a checksum
/// of all elements that would not be compared.
fn own_extent(whole: &PlacedTensor, axis: usize, index: u64, len: u64) -> Option<Extent> {
    let PlacedTensor { tensor, placement } = whole;
    let encoding = &placement.encoding;
    let [extent] = &placement.extents[..] else { return None };
    let is_alone = extent.region().is_none()
        && extent.checksum.is_none()
        && extent.compression().is_none()
        && !extent.is_computed();
    let is_slowest = encoding.tiles().is_empty() && encoding.order.first() == Some(&axis);
    if !is_alone || !is_slowest || placement.window().is_some() {
        return None;
    }
    let bytes = encoding.stored_len(tensor.shape.elements().checked_div(len)?)?;
    let offset = extent.offset.checked_add(index.checked_mul(bytes)?)?;
    Some(Extent::new(extent.file, offset, bytes))
}
