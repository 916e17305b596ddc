//! File ranges: ranges of target files that can be written independently, in any order and by any process.

use super::boxes::whole_box;
use super::origin::{Cut, Origin, origins};
use super::piece::{ExtentNumbers, FileRange, Part, Piece, plan_number};
use super::route::Transfer;
use super::tiles::Tiles;
use super::units::{Units, misplaced};
use ckpt_api::{Extent, FileId, Region, Result, Shape};
use std::ops::Range;

/// The default number of bytes of a range: a thirty-second of the output, so that several threads have work, but no
/// less than what is worth a thread's turn and no more than what may have to be done again.
pub(crate) fn default_range_size(bytes: u64) -> u64 {
    const LEAST: u64 = 1 << 20;
    const MOST: u64 = 64 << 20;
    (bytes / 32).clamp(LEAST, MOST)
}

/// Divides the writing of tensors, each with its number in the plan, into ranges of about `size` bytes, in the order in
/// which the source stores what they read: another order costs many times as much on a cold cache.
///
/// # Errors
/// [`ckpt_api::Kind::Defect`] if an extent of a target ends within an element.
pub(crate) fn cut<'a, 'p>(
    tensors: impl Iterator<Item = (u32, Cut<'a>)>,
    extents: impl Fn(u32) -> ExtentPair<'p>,
    size: u64,
) -> Result<Vec<FileRange>> {
    // Nearly always one for each tensor.
    let mut pieces = Vec::with_capacity(tensors.size_hint().1.unwrap_or(0));
    for (tensor, cut) in tensors {
        cut_one(tensor, &cut, size, &mut pieces).map_err(|error| error.tensor(cut.transfer.tensor))?;
    }
    Ok(group(pieces, &Places(extents), size))
}

/// Where a tensor is on both sides.
#[derive(Clone, Copy, Default)]
pub(crate) struct ExtentPair<'a> {
    pub(crate) source: &'a [Extent],
    pub(crate) target: &'a [Extent],
}

/// Where pieces are on both sides, by the number of their tensor.
struct Places<F>(F);

/// A byte of a file.
type Place = (FileId, u64);

impl<'a, F: Fn(u32) -> ExtentPair<'a>> Places<F> {
    /// Where a piece begins to read.
    fn source(&self, piece: &Piece) -> Place {
        let extents = (self.0)(piece.tensor).source;
        match &piece.part {
            Part::Sequence { extents: numbers, bytes } => {
                position(extents.get(numbers.indices()).unwrap_or_default(), bytes.start)
            }
            Part::Box(_) => position(extents, 0),
        }
    }

    /// Where it writes.
    fn target(&self, piece: &Piece) -> Place {
        let extent = (self.0)(piece.tensor).target.get(piece.extent as usize);
        extent.map_or((FileId(0), 0), |extent| (extent.file, extent.offset.saturating_add(piece.at)))
    }

    /// Puts pieces in the order of their source's bytes.
    fn sort(&self, pieces: &mut [Piece]) {
        pieces.sort_by_key(|piece| (self.source(piece), piece.tensor, piece.at));
    }
}

/// Where a byte of the concatenation of extents is.
fn position(extents: &[Extent], mut byte: u64) -> Place {
    for extent in extents {
        match byte.checked_sub(extent.len) {
            Some(rest) if extent.len > 0 => byte = rest,
            _ => return (extent.file, extent.offset.saturating_add(byte)),
        }
    }
    extents.last().map_or((FileId(0), 0), |extent| (extent.file, extent.offset))
}

/// Memory for so many pieces, about a megabyte, is worth giving back.
const SPARE: usize = 1 << 14;

/// Puts pieces that follow each other in a target file together.
fn group<'a, F: Fn(u32) -> ExtentPair<'a>>(
    mut pieces: Vec<Piece>,
    places: &Places<F>,
    size: u64,
) -> Vec<FileRange> {
    pieces.sort_unstable_by_key(|piece| (places.target(piece), piece.tensor, piece.extent, piece.at));
    let mut ranges: Vec<FileRange> = Vec::new();
    let (mut firsts, mut sum) = (Vec::new(), 0u64);
    for (number, piece) in pieces.iter().enumerate() {
        let (file, start) = places.target(piece);
        let (len, end) = (piece.len, start.saturating_add(piece.len));
        match ranges.last_mut() {
            Some(last) if last.file == file && sum.saturating_add(len) <= size => {
                sum += len;
                last.range.end = last.range.end.max(end);
            }
            _ => {
                sum = len;
                firsts.push(number);
                ranges.push(FileRange { file, range: start..end, pieces: Vec::new() });
            }
        }
    }
    // From the last on, giving memory back, so that many pieces are not held twice.
    for (range, first) in ranges.iter_mut().zip(firsts).rev() {
        range.pieces = match first {
            0 => std::mem::take(&mut pieces),
            _ => pieces.split_off(first),
        };
        range.pieces.shrink_to_fit();
        places.sort(&mut range.pieces);
        // Not for every range, for what remains may be copied.
        if pieces.capacity() - pieces.len() > SPARE.max(pieces.len() / 8) {
            pieces.shrink_to_fit();
        }
    }
    ranges.sort_by_key(|range| {
        range.pieces.first().map(|piece| (places.source(piece), piece.tensor, piece.at))
    });
    ranges
}

fn cut_one(tensor: u32, cut: &Cut<'_>, size: u64, all: &mut Vec<Piece>) -> Result<()> {
    // One piece reads a stream from end to end.
    let size = if cut.transfer.is_one_stream() { None } else { Some(size.max(1)) };
    let mut pieces = Pieces { tensor, size, cut, all };
    for (number, origin) in origins(cut)?.into_iter().enumerate() {
        match origin {
            Origin::Sequence { extents, start } => pieces.sequence(number, extents, start)?,
            Origin::Box { region, start } => pieces.boxes(number, region, start)?,
        }
    }
    Ok(())
}

/// Pieces of one tensor.
struct Pieces<'a, 'c> {
    tensor: u32,
    /// Bytes of a piece; `None` if an extent is one piece.
    size: Option<u64>,
    cut: &'c Cut<'a>,
    all: &'c mut Vec<Piece>,
}

/// A box of a result is so many times as large as a range of bytes in sequence: narrow boxes read short runs.
const BOX: u64 = 4;

impl Pieces<'_, '_> {
    /// An extent that holds what the concatenation of some extents of the source becomes, from a byte on.
    fn sequence(&mut self, number: usize, from: ExtentNumbers, start: u64) -> Result<()> {
        let Cut { transfer, target, .. } = self.cut;
        let units = Units::new(&transfer.source.encoding, &target.encoding, transfer.steps.is_empty())?;
        let total = target.extents.get(number).map_or(0, |extent| extent.len);
        let most = self.size.and_then(|size| units.piece(size)).unwrap_or(u64::MAX);
        let mut at = 0;
        loop {
            let len = most.min(total - at);
            let end = units.source_end(start + at + len, || transfer.stored_len(from))?;
            let bytes = units.source(start + at)?..end;
            self.push(number, at, len, Part::Sequence { extents: from, bytes })?;
            at += len;
            if at == total {
                return Ok(());
            }
        }
    }

    /// An extent that holds a box, from a byte of it on.
    fn boxes(&mut self, number: usize, region: Region, start: u64) -> Result<()> {
        let Transfer { sizes, order, .. } = &self.cut.transfer;
        let units = self.cut.transfer.units();
        let len = self.cut.target.extents.get(number).map_or(0, |extent| extent.len);
        if region.shape.elements() == 0 {
            return self.push(number, 0, 0, Part::Box(Box::new(region)));
        }
        let whole = len.is_multiple_of(sizes.target) && start.is_multiple_of(sizes.target);
        let region = units.of_elements(&region).filter(|_| whole).ok_or_else(misplaced)?;
        let elements = start / sizes.target..(start + len) / sizes.target;
        let regions = match elements == (0..region.shape.elements()) {
            true => vec![region],
            false => boxes_of(&region.shape, order, elements),
        };
        let limit = self.size.map_or(u64::MAX, |size| (BOX.saturating_mul(size) / sizes.target).max(1));
        let mut at = 0;
        for part in regions.into_iter().flat_map(|region| Tiles::in_order(region, order, limit)) {
            let len = part.shape.elements() * sizes.target;
            self.push(number, at, len, Part::Box(Box::new(units.to_elements(part))))?;
            at += len;
        }
        Ok(())
    }

    fn push(&mut self, extent: usize, at: u64, len: u64, part: Part) -> Result<()> {
        self.all.push(Piece { tensor: self.tensor, extent: plan_number(extent)?, at, len, part });
        Ok(())
    }
}

/// The boxes of a range of elements in the order in which a target stores its axes, each of them one run.
fn boxes_of(shape: &Shape, order: &[usize], range: Range<u64>) -> Vec<Region> {
    let lens: Vec<u64> = order.iter().filter_map(|axis| shape.get(*axis).copied()).collect();
    let mut boxes = Vec::new();
    let mut next = range.start;
    while next < range.end {
        let mut start = vec![0; lens.len()];
        let mut len = vec![1; lens.len()];
        let mut unit: u64 = lens.iter().product();
        let mut taken = None;
        for (k, dim) in lens.iter().enumerate() {
            unit /= (*dim).max(1);
            let index = next / unit.max(1) % (*dim).max(1);
            if let (Some(slot), None) = (start.get_mut(k), taken) {
                *slot = index;
            }
            let count = (range.end - next) / unit.max(1);
            if taken.is_none() && next.is_multiple_of(unit.max(1)) && count > 0 {
                let count = count.min(dim - index);
                taken = Some(count * unit);
                len[k] = count;
            } else if taken.is_some() {
                len[k] = *dim;
            }
        }
        let Some(taken) = taken else {
            // A scalar has no axis to take.
            boxes.push(whole_box(shape));
            break;
        };
        boxes.push(unordered(&start, len, order));
        next += taken;
    }
    boxes
}

/// A box whose axes are given in a stored order, in logical order.
fn unordered(start: &[u64], len: Vec<u64>, order: &[usize]) -> Region {
    let mut region = Region { start: vec![0; order.len()], shape: Shape::default() };
    let mut dims = vec![0; order.len()];
    for ((axis, start), len) in order.iter().zip(start).zip(len) {
        if let (Some(own), Some(dim)) = (region.start.get_mut(*axis), dims.get_mut(*axis)) {
            (*own, *dim) = (*start, len);
        }
    }
    // A part of a shape that fits fits too.
    region.shape = Shape::new(dims).unwrap_or_default();
    region
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Origins, Route, TargetLayout, compile};
    use ckpt_api::{DType, Encoding, Placement, Tensor, TensorId};
    use proptest::prelude::*;

    /// Numbers of a box's elements in the order in which a tensor's axes are stored.
    fn numbers(shape: &Shape, order: &[usize], region: &Region) -> Vec<u64> {
        let dims = region.shape.permuted(order);
        let number = |mut k: u64| {
            let mut index = region.start.clone();
            for (axis, len) in order.iter().zip(dims.iter()).rev() {
                index[*axis] += k % len;
                k /= len;
            }
            order.iter().fold(0, |flat, axis| flat * shape[*axis] + index[*axis])
        };
        (0..dims.elements()).map(number).collect()
    }

    fn extents(lens: &[u64]) -> Vec<Extent> {
        let mut offset = 0;
        let extent = |len: &u64| {
            // A gap before each, so that offsets matter.
            offset += 3;
            let extent = Extent::new(FileId(0), offset, *len);
            offset += len;
            extent
        };
        lens.iter().map(extent).collect()
    }

    fn placement(tensor: &Tensor, order: &[usize], lens: &[u64]) -> Placement {
        let encoding = Encoding::row_major(tensor).with_order(order.to_vec());
        Placement::new(TensorId(0), "t", extents(lens), encoding)
    }

    fn cut_one(
        route: &Route,
        tensor: &Tensor,
        from: &Placement,
        to: &Placement,
        size: u64,
    ) -> Vec<FileRange> {
        let transfer = route.transfer(tensor, from, &to.encoding, &[]);
        let regions = route.regions(&to.extents);
        let extents = ExtentPair { source: &from.extents, target: &to.extents };
        cut([(0, Cut { transfer, target: to, regions })].into_iter(), |_| extents, size).unwrap()
    }

    fn shapes() -> impl Strategy<Value = (Vec<u64>, Vec<usize>)> {
        prop::collection::vec(1u64..6, 0..4).prop_flat_map(|dims| {
            let axes: Vec<usize> = (0..dims.len()).collect();
            (Just(dims), Just(axes).prop_shuffle())
        })
    }

    proptest! {
        #[test]
        fn the_boxes_of_a_range_are_its_elements_in_order(
            (dims, order) in shapes(), ends in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        ) {
            let shape = Shape::new(&dims).unwrap();
            let count = shape.elements() as usize;
            let (a, b) = (ends.0.index(count + 1), ends.1.index(count + 1));
            let range = a.min(b) as u64..a.max(b) as u64;
            let boxes = boxes_of(&shape, &order, range.clone());
            prop_assert!(boxes.len() <= 2 * dims.len() + 1);
            let found: Vec<u64> = boxes.iter().flat_map(|region| numbers(&shape, &order, region)).collect();
            prop_assert_eq!(found, range.collect::<Vec<u64>>());
        }

        #[test]
        fn pieces_cover_every_byte_of_every_extent_once(
            (dims, order) in shapes(), size in 1u64..60, cuts in prop::collection::btree_set(1u64..100, 0..3),
        ) {
            let tensor = Tensor::new("t", DType::U16, Shape::new(&dims).unwrap());
            let bytes = tensor.value_bytes();
            let mut edges: Vec<u64> = cuts.iter().map(|cut| cut * 2).filter(|cut| *cut < bytes).collect();
            edges.insert(0, 0);
            edges.push(bytes);
            let lens: Vec<u64> = edges.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let plain: Vec<usize> = (0..dims.len()).collect();
            let (from, to) = (placement(&tensor, &plain, &[bytes]), placement(&tensor, &order, &lens));
            let route = compile(&tensor, &from, &TargetLayout::placed(&to), &[]).unwrap();
            let mut covered: Vec<Vec<u8>> = lens.iter().map(|len| vec![0; *len as usize]).collect();
            let place = Cut {
                transfer: route.transfer(&tensor, &from, &to.encoding, &[]),
                target: &to,
                regions: route.regions(&to.extents),
            };
            let origins = Origins::of(&place).unwrap();
            for range in cut_one(&route, &tensor, &from, &to, size) {
                for piece in &range.pieces {
                    prop_assert!(origins.has(piece));
                    let shifted = Piece { at: piece.at + 2, ..piece.clone() };
                    prop_assert!(!origins.has(&shifted), "{shifted:?}");
                    let extent = &to.extents[piece.extent as usize];
                    prop_assert!(range.range.start <= extent.offset + piece.at);
                    prop_assert!(extent.offset + piece.at + piece.len <= range.range.end);
                    let place = piece.at as usize..(piece.at + piece.len) as usize;
                    covered[piece.extent as usize][place].iter_mut().for_each(|count| *count += 1);
                    let moved = match &piece.part {
                        Part::Sequence { bytes, .. } => bytes.end - bytes.start,
                        Part::Box(region) => region.shape.elements() * 2,
                    };
                    prop_assert_eq!(moved, piece.len);
                }
            }
            prop_assert!(covered.iter().flatten().all(|count| *count == 1));
        }
    }

    #[test]
    fn a_large_tensor_is_cut_at_pages_and_small_ones_share_a_segment() {
        let large = Tensor::new("large", DType::F32, Shape::new([100_000u64]).unwrap());
        let place = placement(&large, &[0], &[400_000]);
        let route = compile(&large, &place, &TargetLayout::placed(&place), &[]).unwrap();
        let ranges = cut_one(&route, &large, &place, &place, 100_000);
        let lens: Vec<u64> = ranges.iter().map(|range| range.range.end - range.range.start).collect();
        assert_eq!(lens, [102_400, 102_400, 102_400, 92_800]);
        let small = Tensor::new("small", DType::U8, Shape::new([10u64]).unwrap());
        let places: Vec<Placement> = (0..5)
            .map(|number| {
                let mut place = placement(&small, &[0], &[10]);
                place.extents[0].offset = number * 10;
                place
            })
            .collect();
        let route = compile(&small, &places[0], &TargetLayout::placed(&places[0]), &[]).unwrap();
        let cuts = places.iter().map(|place| Cut {
            transfer: route.transfer(&small, place, &place.encoding, &[]),
            target: place,
            regions: vec![None],
        });
        let extents = |number: u32| {
            let extents = &places[number as usize].extents[..];
            ExtentPair { source: extents, target: extents }
        };
        let ranges = cut((0..).zip(cuts), extents, 30).unwrap();
        let pieces: Vec<usize> = ranges.iter().map(|range| range.pieces.len()).collect();
        assert_eq!(pieces, [3, 2]);
    }

    #[test]
    fn an_extent_that_ends_within_an_element_is_a_defect_where_elements_change() {
        let tensor = Tensor::new("t", DType::U16, Shape::new([4u64]).unwrap());
        let from = placement(&tensor, &[0], &[8]);
        let mut to = placement(&tensor, &[0], &[3, 5]);
        let route = compile(&tensor, &from, &TargetLayout::placed(&to), &[]).unwrap();
        assert_eq!(cut_one(&route, &tensor, &from, &to, 100).len(), 1, "bytes can be cut anywhere");
        to.encoding.endian = ckpt_api::Endian::Big;
        let route = compile(&tensor, &from, &TargetLayout::placed(&to), &[]).unwrap();
        let transfer = route.transfer(&tensor, &from, &to.encoding, &[]);
        let cuts = [Cut { transfer, target: &to, regions: vec![None, None] }];
        assert_eq!(
            cut((0..).zip(cuts), |_| ExtentPair::default(), 100).unwrap_err().kind(),
            ckpt_api::Kind::Defect
        );
    }
}
