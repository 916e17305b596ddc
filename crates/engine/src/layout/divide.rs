//! Divides a transfer into parts that several threads can read.

use super::boxes::whole_box;
use super::piece::Part;
use super::route::Transfer;
use super::sizes::{Stored, lcm};
use super::steps::Access;
use super::tiles::Tiles;

/// A part of a transfer.
#[derive(Debug, PartialEq)]
pub struct Divided {
    /// The number of elements of the result before it.
    pub first: u64,
    /// What is read.
    pub part: Part,
}

/// Divides all of a transfer into parts of about `elements` elements, in the order of the result. One part is
/// everything where parts would read the same bytes again: where the source can only be read from its beginning, is a
/// part of something larger, or has elements with a length each.
pub fn divide(transfer: &Transfer<'_>, elements: u64) -> Vec<Divided> {
    let whole = || vec![Divided { first: 0, part: transfer.everything() }];
    if transfer.is_one_stream() || transfer.source.window().is_some() || !transfer.addends.is_empty() {
        return whole();
    }
    match (transfer.access, Stored::of(&transfer.source.encoding)) {
        (Access::Stream, Some(stored)) => sequences(transfer, stored, elements),
        (Access::Tile, _) => boxes(transfer, elements).unwrap_or_else(whole),
        _ => whole(),
    }
}

/// Parts whose bytes follow each other.
fn sequences(transfer: &Transfer<'_>, stored: Stored, elements: u64) -> Vec<Divided> {
    let Part::Sequence { extents, bytes } = transfer.everything() else { return Vec::new() };
    // Whole blocks on both sides, and whole bytes.
    let unit = lcm(transfer.sizes.chunk.saturating_mul(8), lcm(stored.bits, 8)) / stored.bits;
    let blocks = (elements / stored.elements).max(1).next_multiple_of(unit.max(1));
    let len = blocks.saturating_mul(stored.bits) / 8;
    let count = bytes.end.div_ceil(len.max(1)).max(1);
    let part = |number: u64| {
        let start = number.saturating_mul(len);
        let bytes = start..start.saturating_add(len).min(bytes.end);
        let first = number.saturating_mul(blocks).saturating_mul(stored.elements);
        Divided { first, part: Part::Sequence { extents, bytes } }
    };
    (0..count).map(part).collect()
}

/// Boxes, each of them one run of the result. `None` if elements cannot be moved one by one.
fn boxes(transfer: &Transfer<'_>, elements: u64) -> Option<Vec<Divided>> {
    let units = transfer.units();
    let whole = units.of_elements(&whole_box(&transfer.shape)).filter(|whole| whole.shape.elements() > 0)?;
    let mut first = 0;
    let tiles = Tiles::in_order(whole, &transfer.order, elements / transfer.sizes.elements.max(1));
    let divided = tiles.map(|tile| {
        let region = units.to_elements(tile);
        let before = first;
        first += region.shape.elements();
        Divided { first: before, part: Part::Box(Box::new(region)) }
    });
    Some(divided.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{TargetLayout, canonical, compile};
    use ckpt_api::{
        Compression, DType, Decoder, Encoding, Extent, FileId, Packing, Placement, Shape, Tensor, TensorId,
    };

    fn divided(tensor: &Tensor, placement: &Placement, elements: u64) -> Vec<Divided> {
        let target = canonical(tensor, placement);
        let route = compile(tensor, placement, &TargetLayout::read(&target), &[]).unwrap();
        divide(&route.into_transfer(tensor, placement, &target), elements)
    }

    fn stored(encoding: Encoding, bytes: u64) -> Placement {
        Placement::new(TensorId(0), "t", vec![Extent::new(FileId(0), 0, bytes)], encoding)
    }

    fn ranges(parts: &[Divided]) -> Vec<(u64, std::ops::Range<u64>)> {
        let range = |part: &Part| match part {
            Part::Sequence { bytes, .. } => bytes.clone(),
            Part::Box(region) => region.start[0]..region.start[0] + region.shape[0],
        };
        parts.iter().map(|divided| (divided.first, range(&divided.part))).collect()
    }

    #[test]
    fn a_sequence_is_divided_at_elements_and_whole_bytes() {
        let tensor = Tensor::new("t", DType::F32, Shape::new([10]).unwrap());
        let placement = stored(Encoding::row_major(&tensor), 40);
        assert_eq!(ranges(&divided(&tensor, &placement, 4)), [(0, 0..16), (4, 16..32), (8, 32..40)]);
        let tensor = Tensor::new("t", DType::U4, Shape::new([10]).unwrap());
        let encoding = Encoding::row_major(&tensor).with_packing(Packing::Bits);
        let placement = stored(encoding, 5);
        assert_eq!(ranges(&divided(&tensor, &placement, 3)), [(0, 0..2), (4, 2..4), (8, 4..5)]);
    }

    #[test]
    fn a_matrix_in_another_order_is_divided_into_rows() {
        let tensor = Tensor::new("t", DType::F32, Shape::new([5, 3]).unwrap());
        let placement = stored(Encoding::row_major(&tensor).with_order(vec![1, 0]), 60);
        assert_eq!(ranges(&divided(&tensor, &placement, 6)), [(0, 0..2), (6, 2..4), (12, 4..5)]);
    }

    #[test]
    fn what_can_only_be_read_from_its_beginning_and_what_is_empty_is_one_part() {
        let tensor = Tensor::new("t", DType::F32, Shape::new([10]).unwrap());
        let mut placement = stored(Encoding::row_major(&tensor), 40);
        let compression = Compression::new(Decoder::REPEATED, 20);
        placement.extents[0] = placement.extents[0].clone().with_compression(compression);
        assert_eq!(ranges(&divided(&tensor, &placement, 4)), [(0, 0..40)]);
        let tensor = Tensor::new("t", DType::F32, Shape::new([0]).unwrap());
        let placement = stored(Encoding::row_major(&tensor), 0);
        assert_eq!(ranges(&divided(&tensor, &placement, 4)), [(0, 0..0)]);
    }
}
