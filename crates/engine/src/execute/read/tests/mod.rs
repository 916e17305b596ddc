//! Whatever the slices, the orders and the budget: a stream yields what naive loops yield.

mod split_axes;
mod strided;
mod words;

use super::stream::Piece;
use super::{Checking, Files, TensorStream};
use crate::layout::{Part, TargetLayout, compile};
use crate::resources::Budget;
use ckpt_api::{
    AddedAxis, Checkpoint, Checksum, ChecksumAlgorithm, Compression, Contents, DType, Encoding, Endian,
    Extent, FileId, Input, Kind, Limits, Packing, Placement, ReadAt, Region, Rounding, Scaling, Shape,
    Tensor, TensorId,
};
use ckpt_containers::decoders::DEFLATE;
use flate2::write::DeflateEncoder;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A stream of all of a tensor in another encoding.
fn stream_of_all<'a>(
    files: &'a Files,
    tensor: &'a Tensor,
    source: &'a Placement,
    target: &Encoding,
    budget: Budget,
) -> ckpt_api::Result<TensorStream<'a>> {
    let route = compile(tensor, source, &TargetLayout::read(target), &[])?;
    TensorStream::whole(files, route.into_transfer(tensor, source, target), budget)
}

/// A tensor of u16 whose element `k` in row-major order is `k`.
#[derive(Debug)]
struct Case {
    shape: Vec<u64>,
    regions: Vec<Region>,
    stored: Vec<usize>,
    wanted: Vec<usize>,
    endian: Endian,
    deflated: bool,
}

fn flat(shape: &[u64], index: &[u64]) -> u64 {
    index.iter().zip(shape).fold(0, |flat, (i, len)| flat * len + i)
}

/// Row-major numbers of a box's elements, in the given axis order.
fn numbers(shape: &[u64], region: &Region, order: &[usize]) -> Vec<u64> {
    let dims = region.shape.permuted(order);
    (0..dims.elements())
        .map(|mut k| {
            let mut index = region.start.clone();
            for (axis, len) in order.iter().zip(dims.iter()).rev() {
                index[*axis] += k % len;
                k /= len;
            }
            flat(shape, &index)
        })
        .collect()
}

fn bytes_of(numbers: &[u64], endian: Endian) -> Vec<u8> {
    let element = |n: &u64| match endian {
        Endian::Little => (*n as u16).to_le_bytes(),
        Endian::Big => (*n as u16).to_be_bytes(),
    };
    numbers.iter().flat_map(element).collect()
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

impl Case {
    fn contents(&self, sliced: bool) -> (Contents, Vec<u8>) {
        let tensor = Tensor::new("t", DType::U16, Shape::new(self.shape.clone()).unwrap());
        let whole = Region { start: vec![0; self.shape.len()], shape: tensor.shape.clone() };
        let regions = if sliced { self.regions.clone() } else { vec![whole] };
        // A gap before each extent, so that offsets matter.
        let mut file = vec![0xee; 3];
        let mut extents = Vec::new();
        for region in regions {
            let bytes = bytes_of(&numbers(&self.shape, &region, &self.stored), self.endian);
            let mut checksum = Checksum { algorithm: ChecksumAlgorithm::MaskedCrc32c, seed: 7, value: None };
            let mut running = checksum.start();
            running.update(&bytes);
            checksum.value = Some(running.finish());
            let extent = Extent::new(FileId(0), file.len() as u64, bytes.len() as u64)
                .with_region(sliced.then_some(region))
                .with_checksum(checksum);
            let stored = if self.deflated { deflate(&bytes) } else { bytes };
            let compression = Compression::new(DEFLATE, stored.len() as u64);
            extents.push(extent.with_compression(self.deflated.then_some(compression)));
            file.extend(stored);
            file.push(0xee);
        }
        let encoding = Encoding::new(DType::U16, self.stored.clone()).with_endian(self.endian);
        let placement = Placement::new(TensorId(0), "t", extents, encoding);
        let checkpoint = Checkpoint { tensors: vec![tensor], ..Checkpoint::default() };
        (
            Contents::default()
                .with_checkpoint(checkpoint)
                .with_files(vec!["f".into()])
                .with_placements(vec![placement]),
            file,
        )
    }

    fn read(&self, contents: &Contents, file: &[u8], budget: Budget) -> ckpt_api::Result<Vec<u8>> {
        let input = Input::memory("f", BTreeMap::from([("f".to_owned(), file.to_vec())]));
        let files = Files::new(&input, contents);
        let target = Encoding::new(DType::U16, self.wanted.clone());
        let (tensor, source) = (&contents.checkpoint.tensors[0], &contents.placements[0]);
        stream_of_all(&files, tensor, source, &target, budget)?.read_all()
    }
}

/// Cuts every axis at random places: the boxes of the grid cover the tensor.
fn cases() -> impl Strategy<Value = Case> {
    (0usize..5)
        .prop_flat_map(|rank| {
            let axes: Vec<usize> = (0..rank).collect();
            let axis = (0u64..7, prop::collection::btree_set(1u64..7, 0..3));
            (
                prop::collection::vec(axis, rank),
                Just(axes.clone()).prop_shuffle(),
                Just(axes).prop_shuffle(),
                any::<bool>(),
                any::<bool>(),
            )
        })
        .prop_map(|(axes, stored, wanted, big, deflated)| {
            let shape: Vec<u64> = axes.iter().map(|(len, _)| *len).collect();
            let mut regions = vec![Region { start: vec![], shape: Shape::scalar() }];
            for (len, cuts) in &axes {
                let mut edges: Vec<u64> =
                    [0].into_iter().chain(cuts.iter().copied().filter(|cut| cut < len)).collect();
                edges.push(*len);
                regions = regions
                    .iter()
                    .flat_map(|region| {
                        edges.windows(2).map(|pair| {
                            let mut start = region.start.clone();
                            let mut dims = region.shape.to_vec();
                            start.push(pair[0]);
                            dims.push(pair[1] - pair[0]);
                            Region { start, shape: Shape::new(dims).unwrap() }
                        })
                    })
                    .collect();
            }
            let endian = if big { Endian::Big } else { Endian::Little };
            Case { shape, regions, stored, wanted, endian, deflated }
        })
}

/// A tensor whose stored bytes are in extents that were cut anywhere, each with its checksum.
fn cut_anywhere(tensor: Tensor, encoding: Encoding, bytes: &[u8], cuts: &BTreeSet<usize>) -> Contents {
    let mut edges: Vec<usize> =
        [0].into_iter().chain(cuts.iter().copied().filter(|cut| *cut < bytes.len())).collect();
    edges.push(bytes.len());
    let extent = |pair: &[usize]| {
        let mut checksum = Checksum { algorithm: ChecksumAlgorithm::Crc32c, seed: 0, value: None };
        let mut running = checksum.start();
        running.update(&bytes[pair[0]..pair[1]]);
        checksum.value = Some(running.finish());
        Extent::new(FileId(0), pair[0] as u64, (pair[1] - pair[0]) as u64).with_checksum(checksum)
    };
    let extents: Vec<_> = edges.windows(2).map(extent).collect();
    let placement = Placement::new(TensorId(0), "t", extents, encoding);
    let contents = Contents::default()
        .with_checkpoint(Checkpoint { tensors: vec![tensor], ..Checkpoint::default() })
        .with_files(vec!["f".into()])
        .with_placements(vec![placement]);
    contents.check(&Limits::default()).unwrap();
    contents
}

/// The stream's bytes, after looking whether it held no more than its budget says.
fn stream(contents: &Contents, file: &[u8], target: &Encoding, budget: Budget) -> Vec<u8> {
    let input = Input::memory("f", BTreeMap::from([("f".to_owned(), file.to_vec())]));
    let files = Files::new(&input, contents);
    let (tensor, source) = (&contents.checkpoint.tensors[0], &contents.placements[0]);
    let mut stream = stream_of_all(&files, tensor, source, target, budget).unwrap();
    let all = stream.read_all().unwrap();
    let most = budget.peak(all.len().max(file.len()) as u64, None).max(48 * 32);
    assert!(stream.held() as u64 <= most, "{} bytes held, {most} planned", stream.held());
    all
}

fn encoding(dtype: DType, endian: Endian, packing: Packing) -> Encoding {
    Encoding::new(dtype, vec![0]).with_endian(endian).with_packing(packing)
}

/// Every budget must give the same.
fn budgets() -> [Budget; 3] {
    [Budget { chunk: 48, tile: 64 }, Budget { chunk: 480, tile: 64 }, Budget::default()]
}

#[test]
fn a_cast_that_makes_elements_eight_times_as_large_stays_within_its_budget() {
    let count = 100_000u64;
    let tensor = Tensor::new("t", DType::U8, Shape::new([count]).unwrap());
    let bytes: Vec<u8> = (0..count).map(|k| (k % 251) as u8).collect();
    let source = encoding(DType::U8, Endian::Little, Packing::Bytes);
    let contents = cut_anywhere(tensor, source, &bytes, &BTreeSet::new());
    let target = encoding(DType::F64, Endian::Little, Packing::Bytes);
    let all = stream(&contents, &bytes, &target, Budget { chunk: 9600, tile: 64 });
    let expected: Vec<u8> = bytes.iter().flat_map(|byte| f64::from(*byte).to_le_bytes()).collect();
    assert!(all == expected);
}

/// What a stream hands out of 4 MiB in another order of the axes, whether it is what plain loops give, and the bytes that it held.
fn reordered(wanted: &[usize]) -> (bool, usize) {
    let shape = [16, 2, 32, 1024];
    let tensor = Tensor::new("t", DType::F32, Shape::new(shape).unwrap());
    let whole = Region { start: vec![0; shape.len()], shape: tensor.shape.clone() };
    let bytes = |order: &[usize]| -> Vec<u8> {
        numbers(&shape, &whole, order).into_iter().flat_map(|number| (number as f32).to_le_bytes()).collect()
    };
    let file = bytes(&[0, 1, 2, 3]);
    let extents = vec![Extent::new(FileId(0), 0, file.len() as u64)];
    let placement = Placement::new(TensorId(0), "t", extents, Encoding::row_major(&tensor));
    let contents = Contents::default().with_files(vec!["f".into()]);
    let input = Input::memory("f", BTreeMap::from([("f".to_owned(), file)]));
    let files = Files::new(&input, &contents);
    let target = Encoding::new(DType::F32, wanted.to_vec());
    let mut stream = stream_of_all(&files, &tensor, &placement, &target, Budget::default()).unwrap();
    let all = stream.read_all().unwrap();
    (all == bytes(wanted), stream.held())
}

#[test]
fn an_order_that_changes_within_small_blocks_takes_small_tiles() {
    // As rotary embeddings are turned: within each of 16 heads.
    let (is_right, held) = reordered(&[0, 2, 1, 3]);
    assert!(is_right && held <= 3 << 20, "{held} bytes held");
    // Across all of them, larger tiles have longer runs.
    let (is_right, held) = reordered(&[2, 1, 0, 3]);
    assert!(is_right && held >= 4 << 20, "{held} bytes held");
}

proptest! {
    #[test]
    fn an_element_may_begin_in_one_extent_and_end_in_the_next(
        values in prop::collection::vec(any::<u16>(), 0..200), cuts in prop::collection::btree_set(0usize..400, 0..9),
    ) {
        let tensor = Tensor::new("t", DType::U16, Shape::new([values.len() as u64]).unwrap());
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_be_bytes()).collect();
        let source = encoding(DType::U16, Endian::Big, Packing::Bytes);
        let contents = cut_anywhere(tensor, source, &bytes, &cuts);
        let swapped: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let cast: Vec<u8> = values.iter().flat_map(|value| f32::from(*value).to_be_bytes()).collect();
        for budget in budgets() {
            let target = encoding(DType::U16, Endian::Little, Packing::Bytes);
            prop_assert_eq!(&stream(&contents, &bytes, &target, budget), &swapped);
            let target = encoding(DType::F32, Endian::Big, Packing::Bytes);
            prop_assert_eq!(&stream(&contents, &bytes, &target, budget), &cast);
        }
    }

    #[test]
    fn packed_elements_are_spread_cast_and_packed_whatever_the_chunks(
        values in prop::collection::vec(0u8..64, 0..100),
        six in any::<bool>(), cuts in prop::collection::btree_set(0usize..100, 0..5),
    ) {
        let (dtype, bits) = if six { (DType::F6E2m3, 6) } else { (DType::U4, 4) };
        let values: Vec<u8> = values.iter().map(|value| value & ((1 << bits) - 1)).collect();
        let stream_of_bits = values.iter().flat_map(|value| (0..bits).map(move |k| value >> k & 1));
        let packed: Vec<u8> = stream_of_bits.collect::<Vec<u8>>().chunks(8)
            .map(|chunk| chunk.iter().rev().fold(0, |byte, bit| byte << 1 | bit)).collect();
        let tensor = || Tensor::new("t", dtype, Shape::new([values.len() as u64]).unwrap());
        let as_bits = encoding(dtype, Endian::Little, Packing::Bits);
        let as_bytes = encoding(dtype, Endian::Little, Packing::Bytes);
        let (from_bits, from_bytes) = (
            cut_anywhere(tensor(), as_bits.clone(), &packed, &cuts),
            cut_anywhere(tensor(), as_bytes.clone(), &values, &cuts),
        );
        let mut wide = Vec::new();
        crate::transform::cast(dtype, DType::F64, 0, &values, &mut wide).unwrap();
        for budget in budgets() {
            prop_assert_eq!(&stream(&from_bits, &packed, &as_bytes, budget), &values);
            prop_assert_eq!(&stream(&from_bits, &packed, &as_bits, budget), &packed);
            prop_assert_eq!(&stream(&from_bytes, &values, &as_bits, budget), &packed);
            let target = encoding(DType::F64, Endian::Little, Packing::Bytes);
            prop_assert_eq!(&stream(&from_bits, &packed, &target, budget), &wide);
        }
    }

    #[test]
    fn a_box_of_the_result_is_what_naive_loops_take_of_it(case in cases(), sliced in any::<bool>(), slab in 1u64..300) {
        let (contents, file) = case.contents(sliced);
        let input = Input::memory("f", BTreeMap::from([("f".to_owned(), file)]));
        let files = Files::new(&input, &contents);
        let mut target = (contents.placements[0].encoding.clone()).with_order(case.wanted.clone());
        target.endian = Endian::Big;
        for region in &case.regions {
            let (tensor, source) = (&contents.checkpoint.tensors[0], &contents.placements[0]);
            let budget = Budget { chunk: 48, tile: slab };
            let route = compile(tensor, source, &TargetLayout::read(&target), &[]).unwrap();
            let (transfer, part) = (route.transfer(tensor, source, &target, &[]), Part::Box(Box::new(region.clone())));
            let mut stream = TensorStream::new(&files, transfer, &part, Checking::Before, budget).unwrap();
            let expected = bytes_of(&numbers(&case.shape, region, &case.wanted), Endian::Big);
            prop_assert_eq!(stream.read_all().unwrap(), expected);
        }
    }
}

proptest! {
    #[test]
    fn a_stream_yields_what_naive_loops_yield(case in cases(), sliced in any::<bool>(), slab in 1u64..300) {
        let (contents, file) = case.contents(sliced);
        contents.check(&Limits::default()).unwrap();
        let whole = Region { start: vec![0; case.shape.len()], shape: Shape::new(case.shape.clone()).unwrap() };
        let expected = bytes_of(&numbers(&case.shape, &whole, &case.wanted), Endian::Little);
        for budget in [Budget { chunk: 48, tile: slab }, Budget::default()] {
            prop_assert_eq!(&case.read(&contents, &file, budget).unwrap(), &expected);
        }
    }

    #[test]
    fn pieces_in_any_order_fill_the_same_places_and_sum_to_the_same(case in cases(), sliced in any::<bool>(), tile in 1u64..300) {
        let (contents, file) = case.contents(sliced);
        let whole = Region { start: vec![0; case.shape.len()], shape: Shape::new(case.shape.clone()).unwrap() };
        let expected = bytes_of(&numbers(&case.shape, &whole, &case.wanted), Endian::Little);
        let input = Input::memory("f", BTreeMap::from([("f".to_owned(), file)]));
        let files = Files::new(&input, &contents);
        let mut target = (contents.placements[0].encoding.clone()).with_order(case.wanted.clone());
        target.endian = Endian::Little;
        let checksum = Checksum { algorithm: ChecksumAlgorithm::Crc32c, seed: 3, value: None };
        for budget in [Budget { chunk: 48, tile }, Budget::default()] {
            let (tensor, source) = (&contents.checkpoint.tensors[0], &contents.placements[0]);
            let stream = stream_of_all(&files, tensor, source, &target, budget).unwrap();
            let (mut stream, mut out) = (stream.in_any_order(), vec![None; expected.len()]);
            let mut scattered = checksum.start_scattered(expected.len() as u64);
            while let Some(Piece { bytes, runs }) = stream.next_piece().unwrap() {
                for (to, from) in runs.iter() {
                    let run = &bytes[from as usize..(from + runs.len) as usize];
                    scattered.update(to, run);
                    for (k, byte) in run.iter().enumerate() {
                        prop_assert_eq!(out[to as usize + k].replace(*byte), None);
                    }
                }
            }
            let out: Option<Vec<u8>> = out.into_iter().collect();
            prop_assert_eq!(out.as_ref(), Some(&expected));
            let mut running = checksum.start();
            running.update(&expected);
            prop_assert_eq!(scattered.finish(), Some(running.finish()));
        }
    }

    #[test]
    fn the_first_number_that_does_not_fit_is_named_whatever_the_budget_and_the_order(
        rows in 1u64..9, columns in 1u64..9, large in prop::collection::vec(any::<prop::sample::Index>(), 1..4), tile in 8u64..90,
    ) {
        let (mut contents, mut file) = (Contents::default(), Vec::new());
        floats(&mut contents, &mut file, "t", &[rows, columns], 0.0);
        let large: BTreeSet<usize> = large.iter().map(|at| at.index((rows * columns) as usize)).collect();
        large.iter().for_each(|at| file[at * 4..at * 4 + 4].copy_from_slice(&1e9f32.to_le_bytes()));
        let target = encoding(DType::F16, Endian::Little, Packing::Bytes).with_order(vec![1, 0]);
        let first = large.iter().map(|at| *at as u64 % columns * rows + *at as u64 / columns).min().unwrap();
        let input = Input::memory("f", BTreeMap::from([("f".to_owned(), file)]));
        let files = Files::new(&input, &contents);
        for budget in [Budget { chunk: 48, tile }, Budget::default()] {
            for any_order in [false, true] {
                let (tensor, source) = (&contents.checkpoint.tensors[0], &contents.placements[0]);
                let mut stream = stream_of_all(&files, tensor, source, &target, budget).unwrap();
                if any_order {
                    stream = stream.in_any_order();
                }
                let error = stream.read_all().unwrap_err().to_string();
                let named = [")", ","].iter().any(|end| error.contains(&format!("element {first}{end}")));
                prop_assert!(named, "{}: {}", first, error);
            }
        }
    }

    #[test]
    fn a_changed_byte_is_found_whatever_the_budget(case in cases(), sliced in any::<bool>(), slab in 1u64..300, at in any::<prop::sample::Index>()) {
        let (contents, mut file) = case.contents(sliced);
        let covered: Vec<usize> = contents.placements[0].extents.iter()
            .flat_map(|extent| extent.offset as usize..(extent.offset + extent.len) as usize).collect();
        prop_assume!(!covered.is_empty());
        file[covered[at.index(covered.len())]] ^= 0x40;
        for budget in [Budget { chunk: 48, tile: slab }, Budget::default()] {
            prop_assert_eq!(case.read(&contents, &file, budget).unwrap_err().kind(), Kind::Corrupt);
        }
    }
}

/// A matrix of floats, row-major, and its values.
fn floats(contents: &mut Contents, file: &mut Vec<u8>, name: &str, shape: &[u64], from: f32) -> Vec<f32> {
    let tensor = Tensor::new(name, DType::F32, Shape::new(shape).unwrap());
    let values: Vec<f32> = (0..tensor.shape.elements()).map(|k| from + k as f32).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let extent = Extent::new(FileId(0), file.len() as u64, bytes.len() as u64);
    file.extend(bytes);
    let id = TensorId(contents.placements.len());
    contents.placements.push(Placement::new(id, name, vec![extent], Encoding::row_major(&tensor)));
    contents.checkpoint.tensors.push(tensor);
    contents.files = vec!["f".into()];
    values
}

proptest! {
    #[test]
    fn what_is_added_lands_where_plain_loops_put_it(
        (a, b, c) in (1u64..5, 1u64..6, 1u64..7), order in Just(vec![0usize, 1, 2]).prop_shuffle(),
        which in Just(vec![0usize, 1, 2]).prop_shuffle(), kinds in prop::collection::vec(0u8..3, 3), at in 0u64..7,
        slab in 16u64..400,
    ) {
        let shape = [a, b, c];
        // Which axes of the added tensor are along which axes, and in which order it has them.
        let own: Vec<usize> = which.iter().copied().filter(|axis| kinds[*axis] == 0).collect();
        let axes: Vec<AddedAxis> = (0..3).map(|axis| match kinds[axis] {
            0 => AddedAxis::Along(own.iter().position(|other| *other == axis).unwrap()),
            1 => AddedAxis::Every,
            _ => AddedAxis::At(at % shape[axis]),
        }).collect();
        let (mut contents, mut file) = (Contents::default(), Vec::new());
        let main = floats(&mut contents, &mut file, "main", &shape, 0.0);
        let own_shape: Vec<u64> = own.iter().map(|axis| shape[*axis]).collect();
        let extra = floats(&mut contents, &mut file, "extra", &own_shape, 1000.0);
        let mut sums = Vec::new();
        for (k, value) in main.iter().enumerate() {
            let k = k as u64;
            let index = [k / (b * c), k / c % b, k % c];
            let hit = (0..3).all(|axis| !matches!(axes[axis], AddedAxis::At(at) if at != index[axis]));
            let flat = own.iter().fold(0, |flat, axis| flat * shape[*axis] + index[*axis]);
            sums.push(if hit { value + extra[flat as usize] } else { *value });
        }
        let whole = Region { start: vec![0; 3], shape: Shape::new(shape).unwrap() };
        let expected: Vec<u8> = numbers(&shape, &whole, &order).iter()
            .flat_map(|number| (sums[*number as usize] as i16).to_le_bytes()).collect();
        let input = Input::memory("f", BTreeMap::from([("f".to_owned(), file)]));
        let files = Files::new(&input, &contents);
        let scaling = Some(Scaling { scale: 1.try_into().unwrap(), rounding: Rounding::Truncate, limit: None, each_term: false });
        let target = encoding(DType::I16, Endian::Little, Packing::Bytes).with_order(order).with_scaling(scaling);
        let added = [(&contents.checkpoint.tensors[1], &contents.placements[1], &axes[..])];
        let (tensor, source) = (&contents.checkpoint.tensors[0], &contents.placements[0]);
        let budget = Budget { chunk: 48, tile: slab };
        let route = compile(tensor, source, &TargetLayout::read(&target), &added).unwrap();
        let transfer = route.transfer(tensor, source, &target, &added);
        let mut stream = TensorStream::whole(&files, transfer, budget).unwrap();
        prop_assert_eq!(stream.read_all().unwrap(), expected);
    }
}

/// The stored integers of one number and what is added to it.
fn sum_stored(terms: [f32; 2], scaling: Scaling) -> ckpt_api::Result<Vec<u8>> {
    let (mut contents, mut file) = (Contents::default(), Vec::new());
    floats(&mut contents, &mut file, "main", &[2], 0.0);
    floats(&mut contents, &mut file, "extra", &[2], 0.0);
    for (slot, term) in [(4, terms[0]), (12, terms[1])] {
        file[slot..slot + 4].copy_from_slice(&term.to_le_bytes());
    }
    let input = Input::memory("f", BTreeMap::from([("f".to_owned(), file)]));
    let files = Files::new(&input, &contents);
    let along = [AddedAxis::Along(0)];
    let added = [(&contents.checkpoint.tensors[1], &contents.placements[1], &along[..])];
    let encoding = encoding(DType::I16, Endian::Little, Packing::Bytes);
    let target = encoding.with_order(vec![0]).with_scaling(Some(scaling));
    let (tensor, source) = (&contents.checkpoint.tensors[0], &contents.placements[0]);
    let route = compile(tensor, source, &TargetLayout::read(&target), &added)?;
    let transfer = route.transfer(tensor, source, &target, &added);
    TensorStream::whole(&files, transfer, Budget::default())?.read_all()
}

#[test]
fn terms_become_whole_units_by_themselves_where_they_are_to() {
    let stored = |terms: [f32; 2], rounding, each_term| {
        let scaling = Scaling { scale: 255.try_into().unwrap(), rounding, limit: None, each_term };
        let bytes = sum_stored(terms, scaling).unwrap();
        i16::from_le_bytes([bytes[2], bytes[3]])
    };
    // 0.4 + 0.4 units.
    let halves = [0.4 / 255.0, 0.4 / 255.0];
    assert_eq!(stored(halves, Rounding::Nearest, false), 1);
    assert_eq!(stored(halves, Rounding::Nearest, true), 0);
    // 1.6 + 1.6 units.
    let more = [1.6 / 255.0, 1.6 / 255.0];
    let all =
        [false, true].map(|each| [Rounding::Truncate, Rounding::Nearest].map(|way| stored(more, way, each)));
    assert_eq!(all, [[3, 3], [2, 4]]);
    for units in [-32767i16, -7, 1, 3, 254, 32767] {
        let half = f32::from(units) / 510.0;
        let each = (255.0 * f64::from(half)).trunc() as i16;
        assert_eq!(stored([half, half], Rounding::Truncate, true), each + each, "{units}");
    }
}

#[test]
fn a_sum_that_no_float_holds_is_an_error_that_names_the_element() {
    let scaling =
        Scaling { scale: 1.try_into().unwrap(), rounding: Rounding::Nearest, limit: None, each_term: false };
    let error = sum_stored([3e38, 3e38], scaling).unwrap_err();
    assert_eq!(error.kind(), ckpt_api::Kind::Lossy);
    let said = error.to_string();
    assert!(said.contains("element 1") && said.contains("'extra'") && said.contains("main"), "{said}");
    // Infinity that was there before is the quantization's to refuse.
    let error = sum_stored([f32::INFINITY, 1.0], scaling).unwrap_err().to_string();
    assert!(error.contains("does not fit"), "{error}");
}

/// Counts the bytes that are read.
#[derive(Debug)]
struct Counting(Vec<u8>, AtomicU64);

impl ReadAt for Counting {
    fn size(&self) -> std::io::Result<u64> {
        self.0.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.0.read_at(offset, buffer)?;
        self.1.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[test]
fn a_compressed_tensor_is_decompressed_once_where_its_axes_are_turned_in_any_order_and_once_a_tile_in_order()
{
    let shape = [1500u64, 1000];
    let tensor = Tensor::new("t", DType::U16, Shape::new(shape).unwrap());
    let mut state = 1u32;
    let values: Vec<u8> = (0..tensor.value_bytes())
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect();
    let stored = deflate(&values);
    let size = stored.len() as u64;
    let compression = Compression::new(DEFLATE, size);
    let extent = Extent::new(FileId(0), 0, tensor.value_bytes()).with_compression(compression);
    let source = Placement::new(TensorId(0), "t", vec![extent], Encoding::row_major(&tensor));
    let contents = Contents::default().with_files(vec!["f".into()]);
    let file = Arc::new(Counting(stored, AtomicU64::new(0)));
    let input = Input::of("f", BTreeMap::from([("f".to_owned(), file.clone() as Arc<dyn ReadAt>)]));
    let files = Files::new(&input, &contents);
    let target = Encoding::new(DType::U16, vec![1, 0]);
    let tile = 300 << 10;
    let tiles = tensor.value_bytes().div_ceil(tile);
    for (any_order, passes) in [(true, 1), (false, tiles)] {
        file.1.store(0, Ordering::Relaxed);
        let stream = stream_of_all(&files, &tensor, &source, &target, Budget { chunk: 48, tile }).unwrap();
        let mut stream = if any_order { stream.in_any_order() } else { stream };
        while stream.next_piece().unwrap().is_some() {}
        let read = file.1.load(Ordering::Relaxed);
        assert!(read <= passes * size + (1 << 16), "{read} bytes of {size} read, in {passes} passes");
    }
}
