//! Operators on elements in the order of an axis, or of their size, and blocks of places.

use super::support::*;
use ckpt_api::{Attribute, Node, Op};
use ckpt_forward::{Array, Random, Value};
use proptest::prelude::*;

/// The places of each row along an axis.
fn rows(shape: &[usize], axis: usize) -> Vec<Vec<usize>> {
    let (outer, inner): (usize, usize) = (shape[..axis].iter().product(), shape[axis + 1..].iter().product());
    let row = |o: usize, i: usize| (0..shape[axis]).map(|k| (o * shape[axis] + k) * inner + i).collect();
    (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))).map(|(o, i)| row(o, i)).collect()
}

fn int(node: Node, name: &str, value: i64) -> Node {
    node.attribute(name, Attribute::Int(value))
}

/// Few different numbers, so that some are equal.
fn few(shape: &[usize], seed: u64) -> Value {
    let mut random = Random::new(seed);
    let len = shape.iter().product();
    real(shape, &(0..len).map(|_| random.between(0, 4) as f64 - 2.0).collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn arg_max_and_top_k_are_places_in_the_order_of_the_elements(shape in prop::collection::vec(1usize..5, 1..4), axis in 0usize..3, k in 0usize..5, greatest: bool, last: bool, keeps: bool, seed: u64) {
        let axis = axis % shape.len();
        let k = k.min(shape[axis]);
        let x = few(&shape, seed);
        let values = x.array.to_f64();
        let (mut best, mut places, mut elements) = (Vec::new(), vec![0; values.len()], vec![0.0; values.len()]);
        let mut made = shape.clone();
        made[axis] = k;
        for (row, slots) in rows(&shape, axis).into_iter().zip(rows(&made, axis)) {
            let mut order: Vec<usize> = (0..row.len()).collect();
            let size = |i: usize| if greatest { -values[row[i]] } else { values[row[i]] };
            order.sort_by(|a, b| size(*a).total_cmp(&size(*b)));
            let first = order[0];
            best.push(if last { *order.iter().filter(|i| size(**i) == size(first)).max().unwrap() } else { first } as i32);
            for (slot, i) in slots.into_iter().zip(order) {
                (places[slot], elements[slot]) = (i as i32, values[row[i]]);
            }
        }
        let mut one = shape.clone();
        if keeps {
            one[axis] = 1;
        } else {
            one.remove(axis);
        }
        let node = Node::new("a", if greatest { Op::ArgMax } else { Op::ArgMin });
        let node = int(int(int(node, "axis", axis as i64), "keepdims", i64::from(keeps)), "select_last_index", i64::from(last));
        for x in [x.clone(), Value::new(&shape[..], Array::I32(values.iter().map(|x| *x as i32).collect())).unwrap()] {
            prop_assert_eq!(run(node.clone(), &[x], &Tensors::default()).unwrap(), integer(&one, &best));
        }
        let node = int(int(Node::new("t", Op::TopK), "k", k as i64), "axis", axis as i64 - shape.len() as i64);
        let found = run_all(int(node, "largest", i64::from(greatest)), &[x], &Tensors::default(), 2).unwrap();
        let count: usize = made.iter().product();
        prop_assert_eq!(found, [real(&made, &elements[..count]), integer(&made, &places[..count])]);
    }

    #[test]
    fn a_cumulative_sum_adds_what_comes_before(shape in prop::collection::vec(1usize..5, 1..4), axis in 0usize..3, exclusive: bool, reverse: bool, seed: u64) {
        let axis = axis % shape.len();
        let x = few(&shape, seed);
        let values = x.array.to_f64();
        let mut expected = vec![0.0; values.len()];
        for row in rows(&shape, axis) {
            for (i, place) in row.iter().enumerate() {
                let before = if reverse { &row[i..] } else { &row[..=i] };
                let sum: f64 = before.iter().map(|place| values[*place]).sum();
                expected[*place] = sum - if exclusive { values[*place] } else { 0.0 };
            }
        }
        let node = int(Node::new("c", Op::CumSum), "axis", axis as i64);
        let node = int(int(node, "exclusive", i64::from(exclusive)), "reverse", i64::from(reverse));
        assert_close(&run(node.clone(), std::slice::from_ref(&x), &Tensors::default()).unwrap(), &shape, &expected);
        let integers = |values: &[f64]| integer(&shape, &values.iter().map(|x| *x as i32).collect::<Vec<_>>());
        prop_assert_eq!(run(node, &[integers(&values)], &Tensors::default()).unwrap(), integers(&expected));
    }

    #[test]
    fn a_cumulative_product_multiplies_what_comes_before(shape in prop::collection::vec(1usize..5, 1..4), axis in 0usize..3, exclusive: bool, reverse: bool, seed: u64) {
        let axis = axis % shape.len();
        let x = few(&shape, seed);
        let values = x.array.to_f64();
        let mut expected = vec![0.0; values.len()];
        for row in rows(&shape, axis) {
            for (i, place) in row.iter().enumerate() {
                let (own, after) = (usize::from(exclusive && reverse), usize::from(!exclusive));
                let before = if reverse { &row[i + own..] } else { &row[..i + after] };
                expected[*place] = before.iter().map(|place| values[*place]).product();
            }
        }
        let node = int(Node::new("c", Op::CumProd), "axis", axis as i64);
        let node = int(int(node, "exclusive", i64::from(exclusive)), "reverse", i64::from(reverse));
        assert_close(&run(node, &[x], &Tensors::default()).unwrap(), &shape, &expected);
    }

    #[test]
    fn a_triangle_keeps_what_is_above_or_below_a_diagonal(batch in prop::collection::vec(0usize..3, 0..2), rows in 0usize..5, columns in 0usize..5, k in -6i64..6, upper: bool, seed: u64) {
        let shape = [&batch[..], &[rows, columns]].concat();
        let x = reals(&mut Random::new(seed), &shape);
        let kept = |place: usize| {
            let (row, column) = ((place / columns % rows) as i64, (place % columns) as i64);
            if upper { column - row >= k } else { column - row <= k }
        };
        let expected: Vec<f64> =
            x.array.to_f64().into_iter().enumerate().map(|(place, x)| if kept(place) { x } else { 0.0 }).collect();
        let node = int(int(Node::new("t", Op::Trilu), "k", k), "upper", i64::from(upper));
        assert_close(&run(node, &[x], &Tensors::default()).unwrap(), &shape, &expected);
    }

    #[test]
    fn blocks_of_places_become_channels_and_back(batch in 1usize..3, depth in 1usize..4, height in 1usize..3, width in 1usize..4, size in 1usize..4, together: bool, seed: u64) {
        let (from, made) = ([batch, depth * size * size, height, width], [batch, depth, height * size, width * size]);
        let x = reals(&mut Random::new(seed), &from);
        let values = x.array.to_f64();
        let mut expected = Vec::new();
        for place in 0..values.len() {
            let (column, row) = (place % made[3], place / made[3] % made[2]);
            let (channel, image) = (place / made[3] / made[2] % depth, place / made[3] / made[2] / depth);
            let block = row % size * size + column % size;
            let channel = if together { channel * size * size + block } else { block * depth + channel };
            expected.push(values[((image * from[1] + channel) * height + row / size) * width + column / size]);
        }
        let node = |op| int(Node::new("b", op), "blocksize", size as i64)
            .attribute("mode", Attribute::Text(if together { "CRD" } else { "DCR" }.into()));
        let found = run(node(Op::DepthToSpace), std::slice::from_ref(&x), &Tensors::default()).unwrap();
        assert_close(&found, &made, &expected);
        prop_assert_eq!(run(node(Op::SpaceToDepth), &[found], &Tensors::default()).unwrap(), x);
    }
}

#[test]
fn what_a_division_leaves_has_the_sign_of_the_divisor_or_of_the_dividend() {
    let run_one = |a: Value, b: Value, fmod: i64| {
        run(int(Node::new("m", Op::Mod), "fmod", fmod), &[a, b], &Tensors::default())
    };
    let (a, b) = ([-7, 7, -7, 7, 6, 0], [3, 3, -3, -3, -3, 5]);
    let (floored, truncated) = ([2, 1, -1, -2, 0, 0], [-1, 1, -1, 1, 0, 0]);
    assert_eq!(run_one(integer(&[6], &a), integer(&[6], &b), 0).unwrap(), integer(&[6], &floored));
    assert_eq!(run_one(integer(&[6], &a), integer(&[6], &b), 1).unwrap(), integer(&[6], &truncated));
    let half = |values: [i32; 6]| real(&[6], &values.map(|x| f64::from(x) / 2.0));
    assert_close(&run_one(half(a), half(b), 0).unwrap(), &[6], &floored.map(|x| f64::from(x) / 2.0));
    assert_close(&run_one(half(a), half(b), 1).unwrap(), &[6], &truncated.map(|x| f64::from(x) / 2.0));
    let error = run_one(integer(&[1], &[1]), integer(&[1], &[0]), 0).unwrap_err().to_string();
    assert!(error.contains("by 0"), "{error}");
}

#[test]
fn nan_is_both_the_greatest_and_the_least_and_is_found() {
    let x = real(&[4], &[1.0, f64::NAN, 3.0, f64::INFINITY]);
    for op in [Op::ArgMax, Op::ArgMin] {
        let found = run(Node::new("a", op), std::slice::from_ref(&x), &Tensors::default()).unwrap();
        assert_eq!(found, integer(&[1], &[1]));
    }
    let found = run(Node::new("n", Op::IsNaN), &[x], &Tensors::default()).unwrap();
    assert_eq!(found, integer(&[4], &[0, 1, 0, 0]));
}

#[test]
fn attributes_that_do_not_fit_are_refused() {
    let x = real(&[2, 3], &[0.0; 6]);
    let image = real(&[1, 3, 2, 3], &[0.0; 18]);
    for (node, x, part) in [
        (int(Node::new("t", Op::TopK), "k", 4), &x, "0 to 3"),
        (Node::new("t", Op::TopK), &x, "k"),
        (int(Node::new("a", Op::ArgMax), "axis", 2), &x, "axis"),
        (int(Node::new("t", Op::Trilu), "upper", 1), &real(&[2], &[0.0; 2]), "matrices"),
        (int(Node::new("d", Op::DepthToSpace), "blocksize", 2), &image, "multiple of 4 channels"),
        (int(Node::new("d", Op::SpaceToDepth), "blocksize", 2), &image, "multiple of 2 rows"),
        (int(Node::new("d", Op::SpaceToDepth), "blocksize", 1 << 40), &image, "blocksize"),
    ] {
        let outputs = if node.op == Op::TopK { 2 } else { 1 };
        let error =
            run_all(node, std::slice::from_ref(x), &Tensors::default(), outputs).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}
