//! A tensor with its placement, and what is done to both along axes.

use crate::layout::inverse_permutation;
use crate::recipe::AxisStep;
use ckpt_api::{
    Affine, Axis, AxisPart, Encoding, Error, Placement, Quantization, Region, Result, Shape, Tensor, Tile,
    Window,
};
use std::cmp::Ordering;

/// What to do about a tensor that is stored in parts, packed or compressed.
pub(super) const STORE_WHOLE: &str =
    "convert without this mapping first, to a format that stores whole tensors";

/// A tensor and the placement of its bytes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlacedTensor {
    pub(super) tensor: Tensor,
    pub(super) placement: Placement,
}

impl PlacedTensor {
    /// Returns the length of an axis.
    pub(super) fn axis_len(&self, axis: usize) -> Result<u64> {
        self.tensor.shape.get(axis).copied().ok_or_else(|| no_axis(axis, &self.tensor.shape))
    }

    /// Returns the region of the whole stored tensor.
    pub(super) fn whole(&self) -> Region {
        let shape = self.placement.window().map_or(&self.tensor.shape, |window| &window.whole);
        Region { start: vec![0; shape.rank()], shape: shape.clone() }
    }
}

/// Changes the axis along which a tensor has scales.
fn move_scales(tensor: &mut Tensor, moved: impl FnOnce(usize, &Affine) -> Option<Affine>) {
    if let Some(Quantization::Affine(affine)) = &mut tensor.quantization
        && let Some(new) = affine.axis().and_then(|axis| moved(axis, affine))
    {
        **affine = new;
    }
}

pub(super) fn misfit(step: &AxisStep, placed: &PlacedTensor, expected: &str) -> Error {
    Error::mapping("a step does not fit the tensor")
        .found(format!("'{step}' for a tensor of shape {}", placed.tensor.shape))
        .expected(expected)
}

fn no_axis(axis: usize, shape: &Shape) -> Error {
    Error::mapping("the tensor does not have this axis").found(format!("axis {axis} of {shape}"))
}

pub(super) fn permute(mut placed: PlacedTensor, order: &[usize]) -> Result<PlacedTensor> {
    if !order.iter().copied().eq(0..order.len()) {
        check_fixed_size(&placed, "reordered")?;
    }
    let PlacedTensor { tensor, placement } = &mut placed;
    let moved = inverse_permutation(order);
    let pick =
        |values: &[u64]| order.iter().filter_map(|axis| values.get(*axis).copied()).collect::<Vec<u64>>();
    tensor.shape = tensor.shape.permuted(order);
    if let Some(axes) = &mut tensor.axes {
        *axes = order.iter().filter_map(|axis| axes.get(*axis).copied()).collect();
    }
    move_scales(tensor, |axis, own| moved.get(axis).map(|axis| own.clone().with_axis(*axis)));
    renumber(&mut placement.encoding, order.len(), order.len(), |axis| moved.get(axis).copied());
    each_region(placement, |start, shape| {
        *start = pick(start);
        *shape = shape.permuted(order);
        Ok(())
    })?;
    change_strides(placement, |strides| *strides = pick(strides));
    Ok(placed)
}

pub(super) fn squeeze(mut placed: PlacedTensor, axis: usize, step: &AxisStep) -> Result<PlacedTensor> {
    let one = |shape: &Shape| shape.get(axis) == Some(&1);
    if !one(&placed.tensor.shape) || placed.placement.window().is_some_and(|window| !one(&window.whole)) {
        return Err(misfit(step, &placed, "an axis of length 1"));
    }
    let PlacedTensor { tensor, placement } = &mut placed;
    let without = |shape: &Shape| {
        let mut dims = shape.to_vec();
        dims.remove(axis);
        Shape::new(dims)
    };
    tensor.shape = without(&tensor.shape)?;
    change_axes(tensor, |axes| {
        axes.remove(axis);
    });
    move_scales(tensor, |of, own| match of.cmp(&axis) {
        Ordering::Less => None,
        Ordering::Equal => own.at(0),
        Ordering::Greater => Some(own.clone().with_axis(of - 1)),
    });
    // An empty slice could seem to hold elements without this axis.
    placement.extents.retain(|extent| extent.region().is_none_or(|region| region.shape.elements() > 0));
    let rank = tensor.shape.rank();
    let without_it = |stored| (stored != axis).then_some(if stored > axis { stored - 1 } else { stored });
    renumber(&mut placement.encoding, rank + 1, rank, without_it);
    each_region(placement, |start, shape| {
        start.remove(axis);
        *shape = without(shape)?;
        Ok(())
    })?;
    change_strides(placement, |strides| {
        strides.remove(axis);
    });
    Ok(placed)
}

/// Changes what a tensor's axes mean, if it says that.
pub(super) fn change_axes(tensor: &mut Tensor, change: impl FnOnce(&mut Vec<Axis>)) {
    if let Some(axes) = tensor.axes.take() {
        let mut axes = axes.into_vec();
        change(&mut axes);
        tensor.axes = Some(axes.into());
    }
}

pub(super) fn unsqueeze(mut placed: PlacedTensor, axis: usize) -> Result<PlacedTensor> {
    let PlacedTensor { tensor, placement } = &mut placed;
    let with = |shape: &Shape| {
        let mut dims = shape.to_vec();
        dims.insert(axis, 1);
        Shape::new(dims)
    };
    tensor.shape = with(&tensor.shape)?;
    change_axes(tensor, |axes| axes.insert(axis, Axis::Unit));
    move_scales(tensor, |of, own| (of >= axis).then(|| own.clone().with_axis(of + 1)));
    let rank = tensor.shape.rank();
    let with_it = |stored| Some(if stored >= axis { stored + 1 } else { stored });
    renumber(&mut placement.encoding, rank - 1, rank, with_it);
    // An axis of length 1 may be stored anywhere; in order, no data has to move.
    let number = placement.encoding.parts(rank).iter().position(|part| part.axis == axis).unwrap_or(axis);
    let mut order = placement.encoding.order.to_vec();
    let place = order.iter().position(|stored| *stored == number + 1).unwrap_or(order.len());
    order.insert(place, number);
    placement.encoding.order = order.into();
    each_region(placement, |start, shape| {
        start.insert(axis, 0);
        *shape = with(shape)?;
        Ok(())
    })?;
    change_strides(placement, |strides| strides.insert(axis, 0));
    Ok(placed)
}

/// Renumbers the axes of a stored order, from `before` axes to `after`; drops axes that get no number. Numbers may be
/// left free for axes to insert.
fn renumber(encoding: &mut Encoding, before: usize, after: usize, number: impl Fn(usize) -> Option<usize>) {
    let parts = encoding.parts(before);
    let renamed = |part: &AxisPart| number(part.axis).map(|axis| AxisPart { axis, ..*part });
    let stored = encoding.order.iter().filter_map(|stored| parts.get(*stored).and_then(renamed));
    let stored: Vec<AxisPart> = stored.collect();
    let tiles = encoding
        .tiles()
        .iter()
        .filter_map(|tile| Some(Tile { axis: number(tile.axis)?, lens: tile.lens.clone() }));
    let tiles: Vec<Tile> = tiles.collect();
    *encoding = encoding.clone().with_stored(after, tiles, &stored);
}

/// Changes every region of a placement: those of slices, and the window.
fn each_region(
    placement: &mut Placement,
    mut change: impl FnMut(&mut Vec<u64>, &mut Shape) -> Result<()>,
) -> Result<()> {
    for region in placement.extents.iter_mut().filter_map(|extent| extent.region_mut()) {
        change(&mut region.start, &mut region.shape)?;
    }
    placement.window_mut().map_or(Ok(()), |window| change(&mut window.start, &mut window.whole))
}

/// Changes the strides of a window that has some: one for each axis.
fn change_strides(placement: &mut Placement, change: impl FnOnce(&mut Vec<u64>)) {
    let strides = placement.window_mut().map(|window| &mut window.strides);
    if let Some(strides) = strides.filter(|strides| !strides.is_empty()) {
        change(strides);
    }
}

/// Returns one part of a tensor that is split along an axis into parts of these sizes.
pub(super) fn split(
    mut placed: PlacedTensor,
    axis: usize,
    part: usize,
    sizes: &[u64],
) -> Result<PlacedTensor> {
    check_fixed_size(&placed, "split")?;
    let len = placed.axis_len(axis)?;
    let total = sizes.iter().try_fold(0u64, |sum, size| sum.checked_add(*size));
    let (before, rest) = sizes.split_at_checked(part).unwrap_or((sizes, &[]));
    let size = rest.first().copied().filter(|_| total == Some(len)).ok_or_else(|| {
        Error::mapping("the parts do not fit the axis")
            .found(format!("parts of {sizes:?}"))
            .expected(format!("{len} in all, for axis {axis} of {}", placed.tensor.shape))
    })?;
    let first = before.iter().sum::<u64>();
    cut(&mut placed, axis, first, size)?;
    Ok(placed)
}

/// Keeps `len` indices of an axis, from `first` on.
pub(super) fn cut(placed: &mut PlacedTensor, axis: usize, first: u64, len: u64) -> Result<()> {
    let whole = placed.whole();
    let PlacedTensor { tensor, placement } = placed;
    placement.set_shape(None);
    let mut dims = tensor.shape.to_vec();
    let mut window = placement.window().cloned().unwrap_or_else(|| Window::new(whole.start, whole.shape));
    if let (Some(dim), Some(start)) = (dims.get_mut(axis), window.start.get_mut(axis)) {
        *dim = len;
        *start += first;
    }
    placement.set_window(window);
    tensor.shape = Shape::new(dims)?;
    let [first, len] = [first, len].map(|number| usize::try_from(number).unwrap_or(usize::MAX));
    move_scales(tensor, |of, own| (of == axis).then(|| own.part(first, len)));
    Ok(())
}

/// Concatenates tensors along an axis: each becomes a slice of the result.
pub(super) fn merge(tensors: Vec<PlacedTensor>, axis: usize, sizes: Option<&[u64]>) -> Result<PlacedTensor> {
    check_sizes(&tensors, axis, sizes)?;
    let mut tensors = tensors.into_iter();
    let mut merged = tensors.next().map(|placed| as_slices(placed, axis, 0)).transpose()?;
    for placed in tensors {
        let Some(all) = &mut merged else { break };
        check_like(all, &placed, axis)?;
        let (end, len) = (all.axis_len(axis)?, placed.axis_len(axis)?);
        let placed = as_slices(placed, axis, end)?;
        let mut dims = all.tensor.shape.to_vec();
        if let Some(dim) = dims.get_mut(axis) {
            *dim = end.saturating_add(len);
        }
        all.tensor.shape = Shape::new(dims)?;
        all.placement.extents.extend(placed.placement.extents);
        let scales = placed.tensor.quantization.as_ref().and_then(Quantization::affine);
        move_scales(&mut all.tensor, |of, own| {
            scales.filter(|_| of == axis).map(|next| own.followed_by(next))
        });
        if all.tensor.axes != placed.tensor.axes {
            all.tensor.axes = None;
        }
    }
    merged.ok_or_else(|| Error::mapping("a recipe has no source"))
}

fn check_sizes(tensors: &[PlacedTensor], axis: usize, sizes: Option<&[u64]>) -> Result<()> {
    let found = tensors.iter().map(|placed| placed.axis_len(axis)).collect::<Result<Vec<u64>>>()?;
    let fits = match sizes {
        Some(sizes) => sizes == found,
        None => found.windows(2).all(|pair| pair[0] == pair[1]),
    };
    if fits {
        return Ok(());
    }
    let expected =
        sizes.map_or("equal lengths".to_owned(), |sizes| format!("{sizes:?}, the 'sizes' of the rule"));
    Err(Error::mapping("the tensors to merge do not have the expected lengths")
        .found(format!("{found:?} along axis {axis}"))
        .expected(expected)
        .help("set the length of each with 'sizes'; without it, the merge cannot be inverted"))
}

fn check_like(first: &PlacedTensor, other: &PlacedTensor, axis: usize) -> Result<()> {
    let without = |placed: &PlacedTensor| {
        let mut dims = placed.tensor.shape.to_vec();
        dims.remove(axis);
        dims
    };
    let (a, b) = (&first.tensor, &other.tensor);
    if a.shape.rank() != b.shape.rank() || without(first) != without(other) {
        return Err(Error::mapping("tensors of different shapes cannot be merged")
            .tensor(&b.name)
            .found(b.shape.to_string())
            .expected(format!("{}, except for axis {axis}", a.shape)));
    }
    if a.dtype != b.dtype || !have_like_scales(a, b, axis) {
        let described = |tensor: &Tensor| match &tensor.quantization {
            None => tensor.dtype.to_string(),
            Some(own) => format!("{} ({own})", tensor.dtype),
        };
        return Err(Error::mapping("tensors of different dtypes cannot be merged")
            .tensor(&b.name)
            .found(described(b))
            .expected(described(a))
            .help("give them one dtype in a conversion without this mapping, such as with --dtype f32, and convert the result"));
    }
    if first.placement.encoding != other.placement.encoding {
        return Err(
            Error::unsupported("tensors that are stored differently cannot be merged").tensor(&b.name)
        );
    }
    Ok(())
}

/// Whether one description of scales fits two tensors that are merged: the same, or one for each index of that axis.
fn have_like_scales(a: &Tensor, b: &Tensor, axis: usize) -> bool {
    let along = |tensor: &Tensor| tensor.quantization.as_ref().and_then(|own| own.affine()?.axis());
    a.quantization == b.quantization || (along(a) == Some(axis) && along(b) == Some(axis))
}

/// Turns extents into slices of a larger tensor, in which this one begins at `shift` on `axis`.
fn as_slices(mut placed: PlacedTensor, axis: usize, shift: u64) -> Result<PlacedTensor> {
    check_fixed_size(&placed, "merged")?;
    let whole = placed.whole();
    let PlacedTensor { tensor, placement } = &mut placed;
    if !placement.encoding.tiles().is_empty() {
        return Err(
            Error::unsupported("a tensor that is stored in parts cannot be merged").tensor(&tensor.name)
        );
    }
    let in_pieces = placement.extents.len() > 1;
    if placement.window().is_some() || (in_pieces && placement.extents.iter().any(|e| e.region().is_none())) {
        return Err(Error::unsupported("a part of a tensor cannot be merged")
            .tensor(&tensor.name)
            .help(STORE_WHOLE));
    }
    placement.set_shape(None);
    for extent in &mut placement.extents {
        let mut region = extent.region().unwrap_or(&whole).clone();
        if let Some(start) = region.start.get_mut(axis) {
            *start = start.saturating_add(shift);
        }
        extent.set_region(region);
    }
    Ok(placed)
}

/// Checks that all elements have one size.
pub(super) fn check_fixed_size(placed: &PlacedTensor, what: &str) -> Result<()> {
    match placed.tensor.dtype.bytes() {
        Some(_) => Ok(()),
        None => Err(Error::mapping(format!("a tensor of {}s cannot be {what}", placed.tensor.dtype))
            .tensor(&placed.tensor.name)),
    }
}
