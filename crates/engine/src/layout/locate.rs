//! Where an element is, for errors.

use ckpt_api::{Encoding, FileId, Packing, Placement, Region, Shape, Window};

/// The logical index of the element at `position` of what `encoding` stores of a tensor of this shape.
pub(crate) fn index_at(encoding: &Encoding, shape: &Shape, position: u64) -> Option<Vec<u64>> {
    let parts = encoding.expanded(shape)?;
    let (mut digits, mut rest) = (vec![0; parts.rank()], position);
    for part in encoding.order.iter().rev() {
        let len = *parts.get(*part)?;
        *digits.get_mut(*part)? = rest.checked_rem(len)?;
        rest = rest.checked_div(len)?;
    }
    let mut digits = digits.into_iter();
    let index = (0..shape.rank()).map(|axis| {
        let slowest = digits.next()?;
        encoding
            .tile(axis)
            .iter()
            .try_fold(slowest, |index, len| index.checked_mul(*len)?.checked_add(digits.next()?))
    });
    index.collect()
}

/// The file and the offset of the element at a logical index; `None` for what has no fixed place: strings, and what is
/// compressed, in blocks or computed.
pub(crate) fn place_of(placement: &Placement, shape: &Shape, index: &[u64]) -> Option<(FileId, u64)> {
    let Placement { encoding, extents, .. } = placement;
    if encoding.blocks().is_some()
        || extents.iter().any(|extent| extent.compression().is_some() || extent.is_computed())
    {
        return None;
    }
    let start = placement.window().map_or(&[][..], |window| &window.start);
    let shifts = start.iter().copied().chain(std::iter::repeat(0));
    let index = index
        .iter()
        .zip(shifts)
        .map(|(index, shift)| index.checked_add(shift))
        .collect::<Option<Vec<_>>>()?;
    let whole = placement.window().map_or(shape, |window| &window.whole);
    let bits = match encoding.packing {
        Packing::Bits => u64::from(encoding.dtype.bits()?),
        Packing::Bytes => encoding.dtype.bytes()?.checked_mul(8)?,
    };
    if let Some(Window { strides, .. }) = placement.window().filter(|window| !window.strides.is_empty()) {
        let mut axes = index.iter().zip(strides);
        let element =
            axes.try_fold(0u64, |sum, (index, stride)| sum.checked_add(index.checked_mul(*stride)?))?;
        let extent = extents.first()?;
        return Some((extent.file, extent.offset.checked_add(element.checked_mul(bits)? / 8)?));
    }
    let byte =
        |shape: &Shape, index: &[u64]| Some(position_of(encoding, shape, index)?.checked_mul(bits)? / 8);
    if let Some((extent, region)) = extents
        .iter()
        .filter_map(|extent| Some((extent, extent.region()?)))
        .find(|(_, region)| contains(region, &index))
    {
        let local: Vec<u64> = index.iter().zip(&region.start).map(|(index, start)| index - start).collect();
        return Some((extent.file, extent.offset.checked_add(byte(&region.shape, &local)?)?));
    }
    let mut left = byte(whole, &index)?;
    for extent in extents.iter().filter(|extent| extent.region().is_none()) {
        match left.checked_sub(extent.len) {
            None => return Some((extent.file, extent.offset.checked_add(left)?)),
            Some(rest) => left = rest,
        }
    }
    None
}

fn contains(region: &Region, index: &[u64]) -> bool {
    let axes = region.start.iter().zip(region.shape.iter());
    index.iter().zip(axes).all(|(index, (start, len))| index.checked_sub(*start).is_some_and(|at| at < *len))
}

/// The inverse of [`index_at`].
fn position_of(encoding: &Encoding, shape: &Shape, index: &[u64]) -> Option<u64> {
    let parts = encoding.expanded(shape)?;
    let mut digits = Vec::with_capacity(parts.rank());
    for (axis, index) in index.iter().enumerate() {
        let (mut own, mut rest) = (Vec::new(), *index);
        for len in encoding.tile(axis).iter().rev() {
            own.push(rest.checked_rem(*len)?);
            rest = rest.checked_div(*len)?;
        }
        own.push(rest);
        digits.extend(own.into_iter().rev());
    }
    encoding.order.iter().try_fold(0u64, |position, part| {
        position.checked_mul(*parts.get(*part)?)?.checked_add(*digits.get(*part)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::{DType, Extent, Tensor, TensorId, Tile, Window};

    fn tensor(shape: &[u64]) -> Tensor {
        Tensor::new("t", DType::I16, Shape::new(shape).unwrap())
    }

    fn extent(offset: u64, len: u64, region: Option<Region>) -> Extent {
        Extent::new(FileId(0), offset, len).with_region(region)
    }

    #[test]
    fn every_position_leads_to_an_index_and_back_whatever_the_order_and_the_tiles() {
        let tensor = tensor(&[4, 6, 3]);
        let plain = Encoding::row_major(&tensor);
        let tiled =
            plain.clone().with_tiles(vec![Tile { axis: 1, lens: vec![3] }]).with_order(vec![2, 0, 3, 1]);
        let swapped = plain.clone().with_order(vec![2, 0, 1]);
        for encoding in [plain, swapped, tiled] {
            let indices: Vec<_> = (0..72).map(|k| index_at(&encoding, &tensor.shape, k).unwrap()).collect();
            let back: Vec<u64> =
                indices.iter().map(|index| position_of(&encoding, &tensor.shape, index).unwrap()).collect();
            assert_eq!(back, (0..72).collect::<Vec<u64>>());
            assert!(
                indices.iter().all(|index| index.iter().zip(tensor.shape.iter()).all(|(k, len)| k < len))
            );
        }
    }

    #[test]
    fn an_element_lies_in_the_extent_the_box_or_the_window_that_holds_it() {
        let t = tensor(&[2, 3]);
        let at = |extents: Vec<Extent>, window: Option<Window>, index: &[u64]| {
            let placement =
                Placement::new(TensorId(0), "t", extents, Encoding::row_major(&t)).with_window(window);
            place_of(&placement, &t.shape, index).map(|(_, offset)| offset)
        };
        assert_eq!(at(vec![extent(100, 4, None), extent(200, 8, None)], None, &[1, 0]), Some(202));
        let region = |start: &[u64], shape: &[u64]| {
            Some(Region { start: start.to_vec(), shape: Shape::new(shape).unwrap() })
        };
        let slices = vec![extent(0, 6, region(&[0, 0], &[1, 3])), extent(50, 6, region(&[1, 0], &[1, 3]))];
        assert_eq!(at(slices, None, &[1, 2]), Some(54));
        let window = Window::new(vec![1, 1], Shape::new([4, 5]).unwrap());
        assert_eq!(at(vec![extent(10, 40, None)], Some(window), &[1, 2]), Some(10 + 2 * (2 * 5 + 3)));
        let strided = Window::new(vec![0, 1], Shape::new([2, 4]).unwrap()).with_strides(vec![1, 7]);
        assert_eq!(at(vec![extent(10, 46, None)], Some(strided), &[1, 2]), Some(10 + 2 * (1 + 3 * 7)));
        assert_eq!(at(vec![], None, &[0, 0]), None);
    }
}
