//! What recipes do to one tensor and the placement of its bytes.

use super::AxisStep;
use crate::layout::inverse_permutation;
use ckpt_api::{Axis, AxisPart, Encoding, Error, Placement, Region, Result, Shape, Tensor, Tile, Window};

/// A tensor and where its bytes are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) tensor: Tensor,
    pub(super) placement: Placement,
}

impl Piece {
    /// The length of an axis.
    pub(super) fn axis_len(&self, axis: usize) -> Result<u64> {
        self.tensor.shape.get(axis).copied().ok_or_else(|| no_axis(axis, &self.tensor.shape))
    }

    /// The box that an extent holds, of all that is stored.
    fn whole(&self) -> Region {
        let shape = self.placement.window.as_ref().map_or(&self.tensor.shape, |window| &window.whole);
        Region { start: vec![0; shape.rank()], shape: shape.clone() }
    }
}

/// Reorders the axes of a tensor. Stored bytes stay where they are: what changes is which axis is which.
pub(super) fn reorder(mut piece: Piece, steps: &[AxisStep]) -> Result<Piece> {
    for step in steps {
        // A shape that the file states differently belongs to the axes as they were.
        piece.placement.shape = None;
        piece = match step {
            AxisStep::Transpose if piece.tensor.shape.rank() == 2 => permute(piece, &[1, 0])?,
            AxisStep::Transpose => return Err(misfit(step, &piece, "a matrix")),
            AxisStep::Permute(order) if order.len() == piece.tensor.shape.rank() => permute(piece, order)?,
            AxisStep::Permute(order) => {
                return Err(misfit(step, &piece, &format!("a tensor of {} axes", order.len())));
            }
            AxisStep::Squeeze(axis) => squeeze(piece, *axis, step)?,
            AxisStep::Unsqueeze(axis) if *axis <= piece.tensor.shape.rank() => unsqueeze(piece, *axis)?,
            AxisStep::Unsqueeze(axis) => {
                return Err(misfit(step, &piece, &format!("a tensor of at least {axis} axes")));
            }
        };
    }
    Ok(piece)
}

fn misfit(step: &AxisStep, piece: &Piece, expected: &str) -> Error {
    Error::mapping("a step does not fit the tensor")
        .found(format!("'{step}' for a tensor of shape {}", piece.tensor.shape))
        .expected(expected)
}

fn no_axis(axis: usize, shape: &Shape) -> Error {
    Error::mapping("the tensor does not have the axis").found(format!("axis {axis} of {shape}"))
}

fn permute(mut piece: Piece, order: &[usize]) -> Result<Piece> {
    if !order.iter().copied().eq(0..order.len()) {
        of_one_size(&piece, "reordered")?;
    }
    let Piece { tensor, placement } = &mut piece;
    let moved = inverse_permutation(order);
    let pick =
        |values: &[u64]| order.iter().filter_map(|axis| values.get(*axis).copied()).collect::<Vec<u64>>();
    tensor.shape = tensor.shape.permuted(order);
    if let Some(axes) = &mut tensor.axes {
        *axes = order.iter().filter_map(|axis| axes.get(*axis).copied()).collect();
    }
    renumber(&mut placement.encoding, order.len(), order.len(), |axis| moved.get(axis).copied());
    each_box(placement, |start, shape| {
        *start = pick(start);
        *shape = shape.permuted(order);
        Ok(())
    })?;
    Ok(piece)
}

fn squeeze(mut piece: Piece, axis: usize, step: &AxisStep) -> Result<Piece> {
    let one = |shape: &Shape| shape.get(axis) == Some(&1);
    if !one(&piece.tensor.shape) || piece.placement.window.as_ref().is_some_and(|window| !one(&window.whole))
    {
        return Err(misfit(step, &piece, "an axis of length 1"));
    }
    let Piece { tensor, placement } = &mut piece;
    let without = |shape: &Shape| {
        let mut dims = shape.to_vec();
        dims.remove(axis);
        Shape::new(dims)
    };
    tensor.shape = without(&tensor.shape)?;
    if let Some(axes) = &mut tensor.axes {
        axes.remove(axis);
    }
    // Without that axis, a slice that holds nothing could seem to hold something.
    placement
        .extents
        .retain(|extent| extent.region.as_ref().is_none_or(|region| region.shape.elements() > 0));
    let rank = tensor.shape.rank();
    let without_it = |stored| (stored != axis).then_some(if stored > axis { stored - 1 } else { stored });
    renumber(&mut placement.encoding, rank + 1, rank, without_it);
    each_box(placement, |start, shape| {
        start.remove(axis);
        *shape = without(shape)?;
        Ok(())
    })?;
    Ok(piece)
}

fn unsqueeze(mut piece: Piece, axis: usize) -> Result<Piece> {
    let Piece { tensor, placement } = &mut piece;
    let with = |shape: &Shape| {
        let mut dims = shape.to_vec();
        dims.insert(axis, 1);
        Shape::new(dims)
    };
    tensor.shape = with(&tensor.shape)?;
    if let Some(axes) = &mut tensor.axes {
        axes.insert(axis, Axis::Unit);
    }
    let rank = tensor.shape.rank();
    let with_it = |stored| Some(if stored >= axis { stored + 1 } else { stored });
    renumber(&mut placement.encoding, rank - 1, rank, with_it);
    // Where it does not matter, it stays in order: then nothing has to be moved.
    let number = placement.encoding.parts(rank).iter().position(|part| part.axis == axis).unwrap_or(axis);
    let order = &mut placement.encoding.order;
    let place = order.iter().position(|stored| *stored == number + 1).unwrap_or(order.len());
    order.insert(place, number);
    each_box(placement, |start, shape| {
        start.insert(axis, 0);
        *shape = with(shape)?;
        Ok(())
    })?;
    Ok(piece)
}

/// Gives the logical axes of a stored order, of which there were `before` and will be `after`, other numbers; those
/// without one are gone. The numbers leave room for axes that are stored nowhere yet.
fn renumber(encoding: &mut Encoding, before: usize, after: usize, number: impl Fn(usize) -> Option<usize>) {
    let parts = encoding.parts(before);
    let renamed = |part: &AxisPart| number(part.axis).map(|axis| AxisPart { axis, ..*part });
    let stored = encoding.order.iter().filter_map(|stored| parts.get(*stored).and_then(renamed));
    let stored: Vec<AxisPart> = stored.collect();
    let tiles = encoding
        .tiles
        .iter()
        .filter_map(|tile| Some(Tile { axis: number(tile.axis)?, lens: tile.lens.clone() }));
    let tiles = tiles.collect();
    *encoding = encoding.clone().with_stored(after, tiles, &stored);
}

/// Changes every box of a placement: the slices', and that of the tensor within something larger.
fn each_box(
    placement: &mut Placement,
    mut change: impl FnMut(&mut Vec<u64>, &mut Shape) -> Result<()>,
) -> Result<()> {
    let regions = placement.extents.iter_mut().filter_map(|extent| extent.region.as_mut());
    let regions = regions.map(|region| (&mut region.start, &mut region.shape));
    let window = placement.window.iter_mut().map(|window| (&mut window.start, &mut window.whole));
    regions.chain(window).try_for_each(|(start, shape)| change(start, shape))
}

/// One of the parts of a tensor along an axis, of which each has its length in `sizes`.
pub(super) fn cut(mut piece: Piece, axis: usize, part: usize, sizes: &[u64]) -> Result<Piece> {
    of_one_size(&piece, "cut")?;
    let len = piece.axis_len(axis)?;
    let total = sizes.iter().try_fold(0u64, |sum, size| sum.checked_add(*size));
    let (before, rest) = sizes.split_at_checked(part).unwrap_or((sizes, &[]));
    let size = rest.first().copied().filter(|_| total == Some(len)).ok_or_else(|| {
        Error::mapping("the parts do not fit the axis")
            .found(format!("parts of {sizes:?}"))
            .expected(format!("{len} in all, for axis {axis} of {}", piece.tensor.shape))
    })?;
    let whole = piece.whole();
    let Piece { tensor, placement } = &mut piece;
    placement.shape = None;
    let mut dims = tensor.shape.to_vec();
    let window = placement.window.get_or_insert(Box::new(Window { start: whole.start, whole: whole.shape }));
    if let (Some(dim), Some(start)) = (dims.get_mut(axis), window.start.get_mut(axis)) {
        *dim = size;
        *start += before.iter().sum::<u64>();
    }
    tensor.shape = Shape::new(dims)?;
    Ok(piece)
}

/// Several tensors, one behind the other along an axis: what was a tensor becomes a slice.
pub(super) fn merge(pieces: Vec<Piece>, axis: usize, sizes: Option<&[u64]>) -> Result<Piece> {
    check_sizes(&pieces, axis, sizes)?;
    let mut pieces = pieces.into_iter();
    let mut merged = pieces.next().map(|piece| as_slices(piece, axis, 0)).transpose()?;
    for piece in pieces {
        let Some(all) = &mut merged else { break };
        check_like(all, &piece, axis)?;
        let (end, len) = (all.axis_len(axis)?, piece.axis_len(axis)?);
        let piece = as_slices(piece, axis, end)?;
        let mut dims = all.tensor.shape.to_vec();
        if let Some(dim) = dims.get_mut(axis) {
            *dim = end.saturating_add(len);
        }
        all.tensor.shape = Shape::new(dims)?;
        all.placement.extents.extend(piece.placement.extents);
        if all.tensor.axes != piece.tensor.axes {
            all.tensor.axes = None;
        }
    }
    merged.ok_or_else(|| Error::mapping("a recipe names no tensor"))
}

fn check_sizes(pieces: &[Piece], axis: usize, sizes: Option<&[u64]>) -> Result<()> {
    let found = pieces.iter().map(|piece| piece.axis_len(axis)).collect::<Result<Vec<u64>>>()?;
    let fits = match sizes {
        Some(sizes) => sizes == found,
        None => found.windows(2).all(|pair| pair[0] == pair[1]),
    };
    if fits {
        return Ok(());
    }
    let expected = sizes.map_or("all equal".to_owned(), |sizes| format!("{sizes:?}, as 'sizes' says"));
    Err(Error::mapping("the tensors to be merged do not have the expected lengths")
        .found(format!("{found:?} along axis {axis}"))
        .expected(expected)
        .help("say the length of each with 'sizes': without them it could not be split again"))
}

fn check_like(first: &Piece, other: &Piece, axis: usize) -> Result<()> {
    let without = |piece: &Piece| {
        let mut dims = piece.tensor.shape.to_vec();
        dims.remove(axis);
        dims
    };
    let (a, b) = (&first.tensor, &other.tensor);
    if a.shape.rank() != b.shape.rank() || without(first) != without(other) {
        return Err(Error::mapping("tensors of different shapes cannot be merged")
            .tensor(&b.name)
            .found(b.shape.to_string())
            .expected(format!("{} but for axis {axis}", a.shape)));
    }
    if a.dtype != b.dtype || a.quantization != b.quantization {
        return Err(Error::mapping("tensors of different dtypes cannot be merged")
            .tensor(&b.name)
            .found(b.dtype.name())
            .expected(a.dtype.name()));
    }
    if first.placement.encoding != other.placement.encoding {
        return Err(
            Error::unsupported("tensors that are stored differently cannot be merged").tensor(&b.name)
        );
    }
    Ok(())
}

/// The extents as slices of something larger, in which the tensor begins at `shift` on `axis`.
fn as_slices(mut piece: Piece, axis: usize, shift: u64) -> Result<Piece> {
    of_one_size(&piece, "merged")?;
    let whole = piece.whole();
    let Piece { tensor, placement } = &mut piece;
    let in_pieces = placement.extents.len() > 1;
    if placement.window.is_some() || (in_pieces && placement.extents.iter().any(|e| e.region.is_none())) {
        return Err(
            Error::unsupported("a part of a tensor cannot be merged with another").tensor(&tensor.name)
        );
    }
    placement.shape = None;
    for extent in &mut placement.extents {
        let region = extent.region.get_or_insert_with(|| Box::new(whole.clone()));
        if let Some(start) = region.start.get_mut(axis) {
            *start = start.saturating_add(shift);
        }
    }
    Ok(piece)
}

fn of_one_size(piece: &Piece, what: &str) -> Result<()> {
    match piece.tensor.dtype.bytes() {
        Some(_) => Ok(()),
        None => Err(Error::mapping(format!("a tensor of {}s cannot be {what}", piece.tensor.dtype))
            .tensor(&piece.tensor.name)),
    }
}
