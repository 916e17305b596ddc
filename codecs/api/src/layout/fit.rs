//! Whether a placement fits its tensor: the same question when reading and when writing.

use super::cover::{check_cover, is_inside};
use crate::{DType, Encoding, Error, Extent, Packing, Placement, Region, Result, Shape, Tensor, Window};

/// Checks the axis order, the stored sizes, and that regions cover the tensor exactly.
pub(crate) fn check_fit(tensor: &Tensor, placement: &Placement) -> Result<()> {
    check_tiles(tensor, placement)?;
    let rank =
        tensor.shape.rank() + placement.encoding.tiles().iter().map(|tile| tile.lens.len()).sum::<usize>();
    if !is_permutation(&placement.encoding, rank) {
        return Err(Error::corrupt("the stored axis order does not fit the tensor")
            .found(format!("{:?}", placement.encoding.order))
            .expected(format!("every axis from 0 to {rank} (exclusive) once")));
    }
    let shape = stored_shape(tensor, placement)?;
    if let Some(window) = placement.window().filter(|window| !window.strides.is_empty()) {
        return check_strides(window, placement);
    }
    check_blocks(tensor, placement, shape)?;
    if let Some(stated) = placement.shape()
        && stated.elements() != tensor.shape.elements()
    {
        return Err(Error::corrupt("the stated shape does not fit the tensor")
            .found(stated.to_string())
            .expected(format!("as many elements as {}", tensor.shape)));
    }
    if placement.extents.iter().any(|extent| extent.region().is_some()) {
        return check_regions(shape, placement);
    }
    let stored = placement.extents.iter().try_fold(0u64, |sum, extent| sum.checked_add(extent.len));
    let expected = match tensor.dtype.bytes() {
        Some(_) => placement.encoding.padded_len(shape.elements()),
        None => Some(tensor.value_bytes()),
    };
    if stored.is_some() && stored == expected {
        return Ok(());
    }
    Err(Error::corrupt("the stored size does not fit the shape")
        .found(stored.map_or("too many bytes".to_owned(), |bytes| crate::count(bytes, "byte")))
        .expected(match expected {
            Some(bytes) => format!("{bytes} bytes for {shape} of {}", placement.encoding.dtype),
            None => format!("a whole number of bytes for {shape} of {}", placement.encoding.dtype),
        }))
}

/// The one extent holds every element of a whole that skips or repeats what it holds.
fn check_strides(window: &Window, placement: &Placement) -> Result<()> {
    let Placement { encoding, extents, .. } = placement;
    let shape = placement.shape();
    let wrong = || {
        Error::corrupt("the strides do not fit the tensor")
            .found(format!("{:?} for {}", window.strides, window.whole))
    };
    let reach = window.reach().and_then(|elements| encoding.stored_len(elements));
    let [extent] = &extents[..] else {
        return Err(wrong().expected("one extent that holds every element"));
    };
    let is_plain = encoding.blocks().is_none() && encoding.packing == Packing::Bytes && shape.is_none();
    if reach == Some(extent.len) && extent.region().is_none() && is_plain {
        return Ok(());
    }
    Err(wrong().expected(format!(
        "an extent of {} that ends with the last element, of elements of whole bytes",
        crate::count(extent.len, "byte")
    )))
}

/// Every tile divides its axis of what is stored: the whole tensor, or a whole that it is a box of; of elements that can be
/// moved.
fn check_tiles(tensor: &Tensor, placement: &Placement) -> Result<()> {
    let Placement { encoding, extents, .. } = placement;
    if encoding.tiles().is_empty() {
        return Ok(());
    }
    let window = placement.window();
    let shape = window.map_or(&tensor.shape, |window| &window.whole);
    let is_strided = window.is_some_and(|window| !window.strides.is_empty());
    let is_whole = !is_strided && extents.iter().all(|extent| extent.region().is_none());
    if is_whole && tensor.dtype.bytes().is_some() && encoding.expanded(shape).is_some() {
        return Ok(());
    }
    Err(Error::corrupt("the tiles do not fit the tensor")
        .found(format!("{:?}", encoding.tiles()))
        .expected(format!("parts that divide the axes of {shape}, stored whole, of elements of one size")))
}

fn is_permutation(encoding: &Encoding, rank: usize) -> bool {
    if encoding.order.iter().copied().eq(0..rank) {
        return true;
    }
    let mut seen = vec![false; rank];
    encoding.order.len() == rank
        && encoding
            .order
            .iter()
            .all(|axis| seen.get_mut(*axis).is_some_and(|seen| !std::mem::replace(seen, true)))
}

/// Every element is in exactly one region, and every region has its bytes.
fn check_regions(shape: &Shape, placement: &Placement) -> Result<()> {
    let mut boxes = Vec::with_capacity(placement.extents.len());
    for extent in &placement.extents {
        let region = region_of(shape, extent)?;
        if placement.encoding.stored_len(region.shape.elements()) != Some(extent.len) {
            return Err(Error::corrupt("a slice's stored size does not fit its shape")
                .offset(extent.offset)
                .found(crate::count(extent.len, "byte"))
                .expected(format!("{} of {}", region.shape, placement.encoding.dtype)));
        }
        boxes.push(region);
    }
    check_cover(shape, &boxes)
}

fn region_of<'a>(shape: &Shape, extent: &'a Extent) -> Result<&'a Region> {
    let outside = || Error::corrupt("a slice lies outside its tensor").offset(extent.offset);
    let region = extent.region().ok_or_else(outside)?;
    if is_inside(&region.start, &region.shape, shape) {
        Ok(region)
    } else {
        Err(outside()
            .found(format!("{:?}+{}", region.start, region.shape))
            .expected(format!("inside {shape}")))
    }
}

/// The shape of what the extents hold: the tensor's own, or that of the whole that it is a window of.
fn stored_shape<'a>(tensor: &'a Tensor, placement: &'a Placement) -> Result<&'a Shape> {
    let Some(window) = placement.window() else { return Ok(&tensor.shape) };
    if tensor.dtype.bytes().is_some() && is_inside(&window.start, &tensor.shape, &window.whole) {
        return Ok(&window.whole);
    }
    Err(Error::corrupt("the tensor is not a part of the whole that it refers to")
        .found(format!("{:?}+{}", window.start, tensor.shape))
        .expected(format!("a box inside {}, of elements of one size", window.whole)))
}

/// Checks that blocks hold floats, as 32-bit ones, and fill the fastest stored axis of the tensor and of each of its slices.
fn check_blocks(tensor: &Tensor, placement: &Placement, stored: &Shape) -> Result<()> {
    let encoding @ Encoding { dtype, order, .. } = &placement.encoding;
    let Some(blocks) = encoding.blocks() else { return Ok(()) };
    let error = || Error::corrupt("the blocks do not fit the tensor").found(format!("{blocks:?}"));
    if *dtype != DType::F32
        || !tensor.dtype.is_float()
        || !encoding.tiles().is_empty()
        || encoding.scaling().is_some()
    {
        return Err(error().expected("numbers that are read as f32, with whole axes and no scale"));
    }
    let fastest = order.last().copied();
    let len = |shape: &Shape| fastest.and_then(|axis| shape.get(axis).copied()).unwrap_or(1);
    let start = |start: &[u64]| fastest.and_then(|axis| start.get(axis).copied()).unwrap_or(0);
    let whole = |number: u64| number.is_multiple_of(blocks.elements());
    let regions = placement.extents.iter().filter_map(|extent| extent.region());
    let mut boxes = regions.map(|region| (start(&region.start), len(&region.shape)));
    if whole(len(stored)) && boxes.all(|(start, len)| whole(start) && whole(len)) {
        return Ok(());
    }
    Err(error().expected(format!("a multiple of {} along the fastest axis of {stored}", blocks.elements())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Blocks, FileId, TensorId};

    const SCALED: Blocks = Blocks::decoded("toy.scaled", 2, 3, |_, _| ());

    #[test]
    fn blocks_fill_the_fastest_axis_of_the_tensor_and_of_every_slice() {
        let tensor = Tensor::new("w", DType::F32, Shape::new([3, 4]).unwrap());
        let encoding =
            |order: &[usize]| Encoding::row_major(&tensor).with_order(order.to_vec()).in_blocks(SCALED);
        let fits = |encoding: Encoding, regions: &[([u64; 2], [u64; 2])]| {
            let extent = |(start, shape): &([u64; 2], [u64; 2])| {
                let shape = Shape::new(shape).unwrap();
                Extent::new(FileId(0), 0, 0).with_region(Region { start: start.to_vec(), shape })
            };
            let extents: Vec<_> = regions.iter().map(extent).collect();
            check_blocks(&tensor, &Placement::new(TensorId(0), "w", extents, encoding), &tensor.shape).is_ok()
        };
        assert!(fits(encoding(&[0, 1]), &[]));
        assert!(!fits(encoding(&[1, 0]), &[]), "3 elements along the fastest axis");
        assert!(fits(encoding(&[0, 1]), &[([0, 0], [3, 2]), ([0, 2], [3, 2])]));
        assert!(!fits(encoding(&[0, 1]), &[([0, 0], [3, 1]), ([0, 1], [3, 3])]));
        assert!(!fits(encoding(&[0, 1]).with_dtype(DType::F16), &[]));
    }
}
