//! Sides that store an axis as several: whatever the tiles, plain loops give the same.

use super::stream_of_all;
use crate::execute::{Files, TensorStream};
use crate::layout::{TargetLayout, compile};
use crate::resources::Budget;
use ckpt_api::{
    AddedAxis, Checkpoint, Contents, DType, Encoding, Extent, FileId, Input, Kind, Placement, Shape, Tensor,
    TensorId, Tile,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// For every stored position, slowest axis first, the number of the element that is there.
fn stored(shape: &Shape, encoding: &Encoding) -> Vec<f32> {
    let mut out = vec![f32::NAN; shape.elements() as usize];
    for number in 0..shape.elements() {
        let (mut rest, mut digits) = (number, Vec::new());
        for axis in (0..shape.rank()).rev() {
            let mut index = rest % shape[axis];
            rest /= shape[axis];
            for len in encoding.tile(axis).iter().rev() {
                digits.push((index % len, *len));
                index /= len;
            }
            let inner: u64 = encoding.tile(axis).iter().product();
            digits.push((index, shape[axis] / inner));
        }
        digits.reverse();
        let position = encoding.order.iter().fold(0, |position, axis| {
            let (digit, len) = digits[*axis];
            position * len + digit
        });
        out[position as usize] = number as f32;
    }
    out
}

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// A file that holds the tensors one behind the other, and what describes it.
fn contents(tensors: &[(Tensor, Encoding)], values: &[Vec<u8>]) -> (Contents, Files<'static>) {
    let mut contents = Contents::default().with_files(vec!["f".into()]);
    let mut offset = 0;
    for (id, ((tensor, encoding), value)) in tensors.iter().zip(values).enumerate() {
        let len = value.len() as u64;
        let extent = Extent::new(FileId(0), offset, len);
        offset += len;
        contents.placements.push(Placement::new(TensorId(id), "t", vec![extent], encoding.clone()));
        contents.checkpoint.tensors.push(tensor.clone());
    }
    let input = Input::memory("f", BTreeMap::from([("f".to_owned(), values.concat())]));
    let files = Files::new(&input, &contents);
    (contents, std::sync::Arc::into_inner(files).unwrap())
}

fn converted(from: (&Tensor, &Encoding), value: Vec<u8>, to: &Encoding, budget: Budget) -> Vec<u8> {
    let (contents, files) = contents(&[(from.0.clone(), from.1.clone())], &[value]);
    let Contents { checkpoint: Checkpoint { tensors, .. }, placements, .. } = &contents;
    let mut stream = stream_of_all(&files, &tensors[0], &placements[0], to, budget).unwrap();
    stream.read_all().unwrap()
}

/// Axes of `a·b·c`, in tiles of none, `[c]` or `[b, c]`, in any order.
fn encodings(axes: &[(u64, u64, u64)]) -> impl Strategy<Value = Encoding> + use<> {
    let axes = axes.to_vec();
    let shape: Vec<u64> = axes.iter().map(|(a, b, c)| a * b * c).collect();
    let kinds = prop::collection::vec(0usize..3, axes.len());
    kinds
        .prop_flat_map(move |kinds| {
            let tile = |(axis, kind): (usize, &usize)| {
                let (_, b, c) = axes[axis];
                let lens = [vec![], vec![c], vec![b, c]][*kind].clone();
                (!lens.is_empty()).then_some(Tile { axis, lens })
            };
            let tiles: Vec<Tile> = kinds.iter().enumerate().filter_map(tile).collect();
            let rank = axes.len() + tiles.iter().map(|tile| tile.lens.len()).sum::<usize>();
            (Just(tiles), Just((0..rank).collect::<Vec<usize>>()).prop_shuffle())
        })
        .prop_map(move |(tiles, order)| {
            let tensor = Tensor::new("t", DType::F32, Shape::new(shape.clone()).unwrap());
            Encoding::row_major(&tensor).with_tiles(tiles).with_order(order)
        })
}

type Case = (Vec<(u64, u64, u64)>, Encoding, Encoding, Encoding);

fn cases() -> impl Strategy<Value = Case> {
    prop::collection::vec((0u64..4, 1u64..4, 1u64..5), 1..4)
        .prop_flat_map(|axes| (Just(axes.clone()), encodings(&axes), encodings(&axes), encodings(&axes[..1])))
}

proptest! {
    #[test]
    fn tiles_on_either_side_give_what_plain_loops_give_and_come_back(
        (axes, from, to, _) in cases(), slab in 16u64..400,
    ) {
        let shape = Shape::new(axes.iter().map(|(a, b, c)| a * b * c).collect::<Vec<_>>()).unwrap();
        let tensor = Tensor::new("t", DType::F32, shape.clone());
        let budget = Budget { chunk: 48, tile: slab };
        let (source, expected) = (bytes(&stored(&shape, &from)), bytes(&stored(&shape, &to)));
        let out = converted((&tensor, &from), source.clone(), &to, budget);
        prop_assert_eq!(&out, &expected);
        prop_assert_eq!(converted((&tensor, &to), out, &from, budget), source);
    }

    #[test]
    fn what_is_added_may_be_stored_in_tiles(
        (axes, from, to, extra) in cases(), slab in 16u64..400, along in any::<bool>(), at in 0u64..36,
    ) {
        let shape = Shape::new(axes.iter().map(|(a, b, c)| a * b * c).collect::<Vec<_>>()).unwrap();
        prop_assume!(shape.elements() > 0);
        let tensor = Tensor::new("t", DType::F32, shape.clone());
        let own = Tensor::new("a", DType::F32, Shape::new(vec![shape[0]]).unwrap());
        // Added along the first axis; at one index, or at every, of the others.
        let mut places = vec![AddedAxis::Along(0)];
        places.extend(shape[1..].iter().map(|len| if along { AddedAxis::Every } else { AddedAxis::At(at % len) }));
        let values = [bytes(&stored(&shape, &from)), bytes(&stored(&own.shape, &extra))];
        let (contents, files) = contents(&[(tensor.clone(), from), (own, extra)], &values);
        let added = [(&contents.checkpoint.tensors[1], &contents.placements[1], &places[..])];
        let budget = Budget { chunk: 48, tile: slab };
        let route = compile(&tensor, &contents.placements[0], &TargetLayout::read(&to), &added).unwrap();
        let transfer = route.transfer(&tensor, &contents.placements[0], &to, &added);
        let stream = TensorStream::whole(&files, transfer, budget);
        let inner: u64 = shape[1..].iter().product();
        let hit = |number: u64| along || (1..shape.rank()).all(|axis| {
            let stride: u64 = shape[axis + 1..].iter().product();
            number / stride % shape[axis] == at % shape[axis]
        });
        let sum = |number: f32| number + if hit(number as u64) { (number as u64 / inner) as f32 } else { 0.0 };
        let expected: Vec<f32> = stored(&shape, &to).into_iter().map(sum).collect();
        prop_assert_eq!(stream.unwrap().read_all().unwrap(), bytes(&expected));
    }
}

#[test]
fn parts_that_do_not_nest_are_refused() {
    let tensor = Tensor::new("t", DType::F32, Shape::new(vec![12]).unwrap());
    let tiled = |len| {
        let tiles = vec![Tile { axis: 0, lens: vec![len] }];
        Encoding::row_major(&tensor).with_tiles(tiles).with_order(vec![1, 0])
    };
    let (contents, files) = contents(&[(tensor.clone(), tiled(4))], &[vec![0; 48]]);
    let source = &contents.placements[0];
    let refused = stream_of_all(&files, &tensor, source, &tiled(6), Budget::default());
    assert_eq!(refused.err().unwrap().kind(), Kind::Unsupported);
}
