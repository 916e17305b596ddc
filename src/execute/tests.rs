//! Whatever the slices, the orders and the budget: a stream yields what naive loops yield.

use super::{Budget, Files, TensorStream};
use ckpt_api::{
    Checkpoint, Checksum, ChecksumAlgorithm, Contents, DType, Encoding, Endian, Extent, FileId, Input, Kind,
    Limits, Packing, Placement, Region, Shape, Tensor, TensorId,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A tensor of u16 whose element `k` in row-major order is `k`.
#[derive(Debug)]
struct Case {
    shape: Vec<u64>,
    regions: Vec<Region>,
    stored: Vec<usize>,
    wanted: Vec<usize>,
    endian: Endian,
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
            let offset = file.len() as u64;
            extents.push(Extent {
                file: FileId(0),
                offset,
                len: bytes.len() as u64,
                region: sliced.then_some(region),
                checksum: Some(checksum),
            });
            file.extend(bytes);
            file.push(0xee);
        }
        let encoding = Encoding {
            dtype: DType::U16,
            endian: self.endian,
            order: self.stored.clone(),
            packing: Packing::Bytes,
        };
        let placement = Placement { tensor: TensorId(0), name: "t".into(), extents, encoding };
        let checkpoint = Checkpoint { tensors: vec![tensor], ..Checkpoint::default() };
        (
            Contents {
                checkpoint,
                files: vec!["f".into()],
                placements: vec![placement],
                ..Contents::default()
            },
            file,
        )
    }

    fn read(&self, contents: &Contents, file: &[u8], budget: Budget) -> ckpt_api::Result<Vec<u8>> {
        let input = Input::memory("f", BTreeMap::from([("f".to_owned(), file.to_vec())]));
        let files = Files::new(&input, contents);
        let target = Encoding {
            dtype: DType::U16,
            endian: Endian::Little,
            order: self.wanted.clone(),
            packing: Packing::Bytes,
        };
        let (tensor, source) = (&contents.checkpoint.tensors[0], &contents.placements[0]);
        TensorStream::new(&files, tensor, source, &target, None, budget)?.read_all()
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
            )
        })
        .prop_map(|(axes, stored, wanted, big)| {
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
            Case { shape, regions, stored, wanted, endian }
        })
}

proptest! {
    #[test]
    fn a_stream_yields_what_naive_loops_yield(case in cases(), sliced in any::<bool>(), slab in 1u64..300) {
        let (contents, file) = case.contents(sliced);
        contents.check(&Limits::default()).unwrap();
        let whole = Region { start: vec![0; case.shape.len()], shape: Shape::new(case.shape.clone()).unwrap() };
        let expected = bytes_of(&numbers(&case.shape, &whole, &case.wanted), Endian::Little);
        for budget in [Budget { chunk: 48, slab }, Budget::default()] {
            prop_assert_eq!(&case.read(&contents, &file, budget).unwrap(), &expected);
        }
    }

    #[test]
    fn a_changed_byte_is_found_whatever_the_budget(case in cases(), sliced in any::<bool>(), slab in 1u64..300, at in any::<prop::sample::Index>()) {
        let (contents, mut file) = case.contents(sliced);
        let covered: Vec<usize> = contents.placements[0].extents.iter()
            .flat_map(|extent| extent.offset as usize..(extent.offset + extent.len) as usize).collect();
        prop_assume!(!covered.is_empty());
        file[covered[at.index(covered.len())]] ^= 0x40;
        for budget in [Budget { chunk: 48, slab }, Budget::default()] {
            prop_assert_eq!(case.read(&contents, &file, budget).unwrap_err().kind(), Kind::Corrupt);
        }
    }
}
