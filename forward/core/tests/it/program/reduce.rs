//! Functions of whole axes, and products of values.

use super::support::*;
use ckpt_api::{Attribute, Node, Op};
use ckpt_forward::{Random, Value};
use proptest::prelude::*;

fn ints(values: &[usize]) -> Attribute {
    Attribute::Ints(values.iter().map(|value| *value as i64).collect())
}

/// The index of a place, row-major.
fn index(mut place: usize, shape: &[usize]) -> Vec<usize> {
    let mut at = vec![0; shape.len()];
    for axis in (0..shape.len()).rev() {
        at[axis] = place % shape[axis];
        place /= shape[axis];
    }
    at
}

/// Folds the elements of each index of the axes that are kept.
fn fold(x: &Value, axes: &[usize], start: f64, step: fn(f64, f64) -> f64) -> Vec<f64> {
    let kept: Vec<usize> = (0..x.shape.len()).filter(|axis| !axes.contains(axis)).collect();
    let lens: Vec<usize> = kept.iter().map(|axis| x.shape[*axis]).collect();
    let mut made = vec![start; lens.iter().product()];
    for (place, value) in x.array.to_f64().into_iter().enumerate() {
        let at = index(place, &x.shape);
        let slot = kept.iter().fold(0, |slot, axis| slot * x.shape[*axis] + at[*axis]);
        made[slot] = step(made[slot], value);
    }
    made
}

proptest! {
    #[test]
    fn a_reduction_folds_the_axes_that_it_names(shape in prop::collection::vec(1usize..4, 1..5), chosen in prop::collection::vec(any::<bool>(), 5), keeps: bool, seed: u64) {
        let x = reals(&mut Random::new(seed), &shape);
        let axes: Vec<usize> = (0..shape.len()).filter(|axis| chosen[*axis]).collect();
        let reduced = if axes.is_empty() { (0..shape.len()).collect() } else { axes.clone() };
        let count = reduced.iter().map(|axis| shape[*axis]).product::<usize>() as f64;
        let made: Vec<usize> = (0..shape.len())
            .filter(|axis| keeps || !reduced.contains(axis))
            .map(|axis| if reduced.contains(&axis) { 1 } else { shape[axis] })
            .collect();
        let sums = fold(&x, &reduced, 0.0, |a, b| a + b);
        let means = sums.iter().map(|sum| sum / count).collect();
        for (op, expected) in [
            (Op::ReduceSum, sums),
            (Op::ReduceMean, means),
            (Op::ReduceProd, fold(&x, &reduced, 1.0, |a, b| a * b)),
            (Op::ReduceMax, fold(&x, &reduced, f64::NEG_INFINITY, f64::max)),
            (Op::ReduceMin, fold(&x, &reduced, f64::INFINITY, f64::min)),
        ] {
            let mut node = Node::new("r", op).attribute("keepdims", Attribute::Int(i64::from(keeps)));
            if !axes.is_empty() {
                node = node.attribute("axes", ints(&axes));
            }
            assert_close(&run(node, std::slice::from_ref(&x), &Tensors::default()).unwrap(), &made, &expected);
        }
    }

    #[test]
    fn matmul_multiplies_matrices_and_broadcasts_what_is_before(a_batch in prop::collection::vec(1usize..3, 0..3), b_batch in prop::collection::vec(1usize..3, 0..3), [rows, inner, columns] in [1usize..9, 0usize..9, 1usize..20], seed: u64) {
        let mut random = Random::new(seed);
        let rank = a_batch.len().max(b_batch.len());
        let lens = |own: &[usize]| [vec![1; rank - own.len()], own.to_vec()].concat();
        let (a_lens, b_lens) = (lens(&a_batch), lens(&b_batch));
        let fits = a_lens.iter().zip(&b_lens).all(|(a, b)| a == b || *a == 1 || *b == 1);
        let a = reals(&mut random, &[&a_batch[..], &[rows, inner]].concat());
        let b = reals(&mut random, &[&b_batch[..], &[inner, columns]].concat());
        let found = run(Node::new("m", Op::MatMul), &[a.clone(), b.clone()], &Tensors::default());
        prop_assert_eq!(found.is_ok(), fits);
        let Ok(found) = found else { return Ok(()) };
        let batch: Vec<usize> = a_lens.iter().zip(&b_lens).map(|(a, b)| *a.max(b)).collect();
        let shape = [&batch[..], &[rows, columns]].concat();
        let (xs, ys) = (a.array.to_f64(), b.array.to_f64());
        let mut expected = Vec::new();
        for place in 0..shape.iter().product() {
            let at = index(place, &shape);
            let matrix = |lens: &[usize]| at.iter().zip(lens).fold(0, |slot, (i, len)| slot * len + i % len);
            let (a_first, b_first) = (matrix(&a_lens) * rows * inner, matrix(&b_lens) * inner * columns);
            let (r, c) = (at[rank], at[rank + 1]);
            expected.push((0..inner).map(|k| xs[a_first + r * inner + k] * ys[b_first + k * columns + c]).sum());
        }
        assert_close(&found, &shape, &expected);
    }
}

#[test]
fn a_vector_is_a_row_of_the_first_input_and_a_column_of_the_second() {
    let product = |a: &Value, b: &Value| {
        run(Node::new("m", Op::MatMul), &[a.clone(), b.clone()], &Tensors::default()).unwrap()
    };
    let matrix = real(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let (two, three) = (real(&[2], &[1.0, -1.0]), real(&[3], &[1.0, 0.0, 2.0]));
    assert_close(&product(&two, &matrix), &[3], &[-3.0, -3.0, -3.0]);
    assert_close(&product(&matrix, &three), &[2], &[7.0, 16.0]);
    assert_close(&product(&three, &three), &[], &[5.0]);
}

#[test]
fn matmul_refuses_lengths_that_differ() {
    let (a, b) = (real(&[1, 2], &[1.0; 2]), real(&[3, 1], &[1.0; 3]));
    let error = run(Node::new("m", Op::MatMul), &[a, b], &Tensors::default()).unwrap_err().to_string();
    assert!(error.contains("[3, 1]") && error.contains("2 rows"), "{error}");
}

#[test]
fn the_sum_of_nothing_is_0_and_its_maximum_infinite() {
    let x = real(&[2, 0], &[]);
    let node = |op: Op| Node::new("r", op).attribute("axes", ints(&[1]));
    let alone = |op: Op| run(node(op), std::slice::from_ref(&x), &Tensors::default());
    assert_close(&alone(Op::ReduceSum).unwrap(), &[2, 1], &[0.0, 0.0]);
    assert_close(&alone(Op::ReduceProd).unwrap(), &[2, 1], &[1.0, 1.0]);
    assert_close(&alone(Op::ReduceMax).unwrap(), &[2, 1], &[f64::NEG_INFINITY; 2]);
    assert_close(&alone(Op::ReduceMin).unwrap(), &[2, 1], &[f64::INFINITY; 2]);
    assert_close(&alone(Op::ReduceLogSumExp).unwrap(), &[2, 1], &[f64::NEG_INFINITY; 2]);
    let error = alone(Op::ReduceMean).unwrap_err().to_string();
    assert!(error.contains("an element on the axes"), "{error}");
    let none = integer(&[2, 0], &[]);
    let error = run(node(Op::ReduceMax), &[none], &Tensors::default()).unwrap_err().to_string();
    assert!(error.contains("an element on the axes"), "{error}");
}

#[test]
fn integers_are_reduced_as_integers_but_have_no_mean() {
    let x = integer(&[2, 2], &[3, -4, 5, 6]);
    let alone = |op: Op| run(Node::new("r", op), std::slice::from_ref(&x), &Tensors::default());
    for (op, expected) in
        [(Op::ReduceSum, 10), (Op::ReduceProd, -360), (Op::ReduceMax, 6), (Op::ReduceMin, -4)]
    {
        assert_eq!(alone(op).unwrap(), integer(&[1, 1], &[expected]));
    }
    assert!(alone(Op::ReduceMean).unwrap_err().to_string().contains("different kind"));
}

#[test]
fn a_repeated_axis_and_one_beyond_the_value_are_refused() {
    let x = real(&[2, 2], &[0.0; 4]);
    for (axes, part) in [(vec![0, -2], "each axis once"), (vec![2], "names an axis")] {
        let node = Node::new("r", Op::ReduceSum).attribute("axes", Attribute::Ints(axes));
        let error = run(node, std::slice::from_ref(&x), &Tensors::default()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn the_global_maximum_is_of_all_places_of_a_channel() {
    let x = real(&[1, 2, 2, 2], &[1.0, 5.0, 2.0, 0.0, -1.0, -3.0, -2.0, -8.0]);
    let found = run(Node::new("p", Op::GlobalMaxPool), &[x], &Tensors::default()).unwrap();
    assert_close(&found, &[1, 2, 1, 1], &[5.0, -1.0]);
}

proptest! {
    #[test]
    fn a_norm_and_a_logarithm_of_a_sum_fold_the_axes_that_they_name(shape in prop::collection::vec(1usize..4, 1..5), chosen in prop::collection::vec(any::<bool>(), 5), seed: u64) {
        let x = reals(&mut Random::new(seed), &shape);
        let axes: Vec<usize> = (0..shape.len()).filter(|axis| chosen[*axis]).collect();
        let reduced = if axes.is_empty() { (0..shape.len()).collect() } else { axes.clone() };
        let made: Vec<usize> =
            (0..shape.len()).filter(|axis| !reduced.contains(axis)).map(|axis| shape[axis]).collect();
        let over = |values: Vec<f64>, f: fn(f64) -> f64| values.into_iter().map(f).collect::<Vec<_>>();
        let squares = || fold(&x, &reduced, 0.0, |sum, x| sum + x * x);
        for (op, expected) in [
            (Op::ReduceL1, fold(&x, &reduced, 0.0, |sum, x| sum + x.abs())),
            (Op::ReduceL2, over(squares(), f64::sqrt)),
            (Op::ReduceSumSquare, squares()),
            (Op::ReduceLogSum, over(fold(&x, &reduced, 0.0, |a, b| a + b), f64::ln)),
            (Op::ReduceLogSumExp, over(fold(&x, &reduced, 0.0, |sum, x| sum + x.exp()), f64::ln)),
        ] {
            let mut node = Node::new("r", op).attribute("keepdims", Attribute::Int(0));
            if !axes.is_empty() {
                node = node.attribute("axes", ints(&axes));
            }
            assert_close(&run(node, std::slice::from_ref(&x), &Tensors::default()).unwrap(), &made, &expected);
        }
    }
}

#[test]
fn the_logarithm_of_a_sum_of_powers_does_not_overflow() {
    let of = |values: &[f64]| {
        run(Node::new("r", Op::ReduceLogSumExp), &[real(&[values.len()], values)], &Tensors::default())
            .unwrap()
            .array
            .to_f64()[0]
    };
    assert!((of(&[1000.0, 1000.0]) - (1000.0 + 2f64.ln())).abs() < 1e-9);
    assert_eq!(of(&[f64::NEG_INFINITY, f64::NEG_INFINITY]), f64::NEG_INFINITY);
    assert_eq!(of(&[1.0, f64::INFINITY]), f64::INFINITY);
    assert!(of(&[1.0, f64::NAN]).is_nan());
}
