//! Operators that move elements.

use super::support::*;
use ckpt_api::{Attribute, Node, Op};
use ckpt_forward::{Random, Value};
use proptest::prelude::*;

fn ints(values: &[i64]) -> Attribute {
    Attribute::Ints(values.to_vec())
}

/// The index of each element, row-major.
fn indices_of(shape: &[usize]) -> Vec<Vec<usize>> {
    let len = shape.iter().product();
    (0..len)
        .map(|mut place: usize| {
            let mut at = vec![0; shape.len()];
            for axis in (0..shape.len()).rev() {
                at[axis] = place % shape[axis];
                place /= shape[axis];
            }
            at
        })
        .collect()
}

fn element(value: &Value, at: &[usize]) -> f64 {
    let place = at.iter().zip(&value.shape).fold(0, |place, (i, len)| place * len + i);
    value.array.to_f64()[place]
}

fn alone(node: Node, x: &Value) -> Value {
    run(node, std::slice::from_ref(x), &Tensors::default()).unwrap()
}

fn shape() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![1 => Just(0usize), 12 => 1usize..5], 1..6)
}

proptest! {
    #[test]
    fn transpose_gives_axis_k_what_axis_perm_k_had(shape in shape(), seed: u64) {
        let mut random = Random::new(seed);
        let x = reals(&mut random, &shape);
        let order = random.order(shape.len());
        let node = Node::new("t", Op::Transpose)
            .attribute("perm", ints(&order.iter().map(|axis| *axis as i64).collect::<Vec<_>>()));
        let expected = reorder(&x, &order);
        assert_close(&alone(node, &x), &expected.shape, &expected.array.to_f64());
        let backwards: Vec<usize> = (0..shape.len()).rev().collect();
        let expected = reorder(&x, &backwards);
        assert_close(&alone(Node::new("t", Op::Transpose), &x), &expected.shape, &expected.array.to_f64());
    }

    #[test]
    fn slice_takes_every_step_from_start_to_before_end(shape in shape(), bounds in prop::collection::vec((-7i64..8, -7i64..8, prop_oneof![1i64..4, -3i64..0]), 6), seed: u64) {
        let x = reals(&mut Random::new(seed), &shape);
        let rank = shape.len();
        let node = Node::new("s", Op::Slice)
            .attribute("starts", ints(&bounds[..rank].iter().map(|bound| bound.0).collect::<Vec<_>>()))
            .attribute("ends", ints(&bounds[..rank].iter().map(|bound| bound.1).collect::<Vec<_>>()))
            .attribute("axes", ints(&(0..rank as i64).map(|axis| axis - rank as i64).collect::<Vec<_>>()))
            .attribute("steps", ints(&bounds[..rank].iter().map(|bound| bound.2).collect::<Vec<_>>()));
        let taken: Vec<Vec<usize>> = shape.iter().zip(&bounds).map(|(len, (start, end, step))| {
            let len = *len as i64;
            let real = |place: i64| if place < 0 { place + len } else { place };
            let mut at = if *step > 0 { real(*start).max(0) } else { real(*start).min(len - 1) };
            let mut taken = Vec::new();
            while (*step > 0 && at < real(*end)) || (*step < 0 && at > real(*end)) {
                taken.extend(usize::try_from(at).ok().filter(|at| *at < len as usize));
                if !(-10..20).contains(&at) {
                    break;
                }
                at += step;
            }
            taken
        }).collect();
        let made: Vec<usize> = taken.iter().map(Vec::len).collect();
        let expected: Vec<f64> = indices_of(&made).into_iter().map(|at| {
            let from: Vec<usize> = at.iter().zip(&taken).map(|(i, taken)| taken[*i]).collect();
            element(&x, &from)
        }).collect();
        assert_close(&alone(node, &x), &made, &expected);
    }

    #[test]
    fn concat_puts_values_one_after_the_other_and_split_takes_them_apart(shape in shape(), lens in prop::collection::vec(0usize..4, 1..4), at in 0usize..5, seed: u64) {
        let mut random = Random::new(seed);
        let axis = at % shape.len();
        let parts: Vec<Value> = lens.iter().map(|len| {
            let mut shape = shape.clone();
            shape[axis] = *len;
            reals(&mut random, &shape)
        }).collect();
        let mut made = shape.clone();
        made[axis] = lens.iter().sum();
        let expected: Vec<f64> = indices_of(&made).into_iter().map(|mut at| {
            let mut part = 0;
            while at[axis] >= lens[part] {
                at[axis] -= lens[part];
                part += 1;
            }
            element(&parts[part], &at)
        }).collect();
        let node = Node::new("c", Op::Concat).attribute("axis", Attribute::Int(axis as i64 - shape.len() as i64));
        let whole = run(node, &parts, &Tensors::default()).unwrap();
        assert_close(&whole, &made, &expected);
        let node = Node::new("s", Op::Split)
            .attribute("axis", Attribute::Int(axis as i64))
            .attribute("split", ints(&lens.iter().map(|len| *len as i64).collect::<Vec<_>>()));
        prop_assert_eq!(run_all(node, &[whole], &Tensors::default(), lens.len()).unwrap(), parts);
    }

    #[test]
    fn pad_puts_a_number_around_a_value_or_repeats_its_elements(shape in prop::collection::vec(1usize..5, 1..5), pads in prop::collection::vec(-1i64..6, 10), mode in 0usize..4, seed: u64) {
        let x = reals(&mut Random::new(seed), &shape);
        let rank = shape.len();
        let made: Vec<i64> = (0..rank).map(|axis| shape[axis] as i64 + pads[axis] + pads[rank + axis]).collect();
        prop_assume!(made.iter().all(|len| *len >= 0));
        let made: Vec<usize> = made.into_iter().map(|len| len as usize).collect();
        let expected: Vec<f64> = indices_of(&made).into_iter().map(|at| {
            let from: Vec<i64> = at.iter().zip(&pads).map(|(i, before)| *i as i64 - before).collect();
            let inside = from.iter().zip(&shape).all(|(i, len)| (0..*len as i64).contains(i));
            let near: Vec<usize> = from.iter().zip(&shape).map(|(i, len)| {
                let last = *len as i64 - 1;
                let mut i = *i;
                while !(0..=last).contains(&i) {
                    i = match mode {
                        1 => i.clamp(0, last),
                        2 if last == 0 => 0,
                        2 => if i < 0 { -i } else { 2 * last - i },
                        _ => if i < 0 { i + last + 1 } else { i - last - 1 },
                    };
                }
                i as usize
            }).collect();
            if inside || mode > 0 { element(&x, &near) } else { -1.5 }
        }).collect();
        let node = Node::new("p", Op::Pad)
            .attribute("pads", ints(&pads[..2 * rank]))
            .attribute("value", Attribute::Float(-1.5))
            .attribute("mode", Attribute::Text(["constant", "edge", "reflect", "wrap"][mode].into()));
        assert_close(&alone(node, &x), &made, &expected);
    }

    #[test]
    fn what_only_changes_the_shape_keeps_the_elements_in_order(shape in shape(), axis in 0usize..6, seed: u64) {
        let x = reals(&mut Random::new(seed), &shape);
        let axis = axis % (shape.len() + 1);
        let (outer, inner): (usize, usize) = (shape[..axis].iter().product(), shape[axis..].iter().product());
        let node = Node::new("f", Op::Flatten).attribute("axis", Attribute::Int(axis as i64));
        prop_assert_eq!(&alone(node, &x), &Value { shape: vec![outer, inner], array: x.array.clone() });
        prop_assert_eq!(&alone(Node::new("i", Op::Identity), &x), &x);
        let node = Node::new("r", Op::Reshape).attribute("shape", ints(&[outer as i64, inner as i64]))
            .attribute("allowzero", Attribute::Int(1));
        prop_assert_eq!(&alone(node, &x), &Value { shape: vec![outer, inner], array: x.array.clone() });
    }
}

proptest! {
    #[test]
    fn gather_takes_elements_along_an_axis_and_negative_indices_count_from_its_end(shape in prop::collection::vec(1usize..5, 1..5), axis in 0usize..5, of in prop::collection::vec(0usize..4, 0..3), seed: u64) {
        let mut random = Random::new(seed);
        let x = reals(&mut random, &shape);
        let axis = axis % shape.len();
        let len = shape[axis];
        let count: usize = of.iter().product();
        let taken: Vec<i32> = (0..count).map(|_| random.between(0, 2 * len - 1) as i32 - len as i32).collect();
        let made = [&shape[..axis], &of, &shape[axis + 1..]].concat();
        let expected: Vec<f64> = indices_of(&made).into_iter().map(|at| {
            let index = at[axis..axis + of.len()].iter().zip(&of).fold(0, |index, (i, len)| index * len + i);
            let from = (taken[index] + len as i32) as usize % len;
            element(&x, &[&at[..axis], &[from], &at[axis + of.len()..]].concat())
        }).collect();
        let node = Node::new("g", Op::Gather).attribute("axis", Attribute::Int(axis as i64 - shape.len() as i64));
        let found = run(node, &[x, integer(&of, &taken)], &Tensors::default()).unwrap();
        assert_close(&found, &made, &expected);
    }
}

#[test]
fn integers_are_padded_with_integers() {
    let x = integer(&[2], &[1, 2]);
    let node = |value| {
        Node::new("p", Op::Pad).attribute("pads", ints(&[1, 0])).attribute("value", Attribute::Float(value))
    };
    assert_eq!(alone(node(-7.0), &x), integer(&[3], &[-7, 1, 2]));
    assert!(run(node(0.5), &[x], &Tensors::default()).unwrap_err().to_string().contains("32 bits"));
}

#[test]
fn more_axes_than_kernels_support_are_merged() {
    let shape = [2, 1, 2, 1, 2, 2, 1, 2, 2, 2, 2];
    let x = reals(&mut Random::new(1), &shape);
    let order = [5, 6, 7, 8, 9, 10, 0, 1, 2, 3, 4];
    let node = Node::new("t", Op::Transpose).attribute("perm", ints(&order.map(|axis| axis as i64)));
    let expected = reorder(&x, &order);
    assert_close(&alone(node, &x), &expected.shape, &expected.array.to_f64());
}

#[test]
fn the_examples_of_onnx_for_reshape_hold() {
    let x = reals(&mut Random::new(2), &[2, 3, 4]);
    for (wanted, made) in [
        (&[4, 2, 3][..], &[4, 2, 3][..]),
        (&[2, 12], &[2, 12]),
        (&[24], &[24]),
        (&[2, -1, 2], &[2, 6, 2]),
        (&[-1, 2, 3, 4], &[1, 2, 3, 4]),
        (&[2, 0, 4, 1], &[2, 3, 4, 1]),
        (&[2, 0, 1, -1], &[2, 3, 1, 4]),
    ] {
        let found = alone(Node::new("r", Op::Reshape).attribute("shape", ints(wanted)), &x);
        assert_eq!((&found.shape[..], &found.array), (made, &x.array));
    }
}

#[test]
fn a_split_without_lengths_has_equal_parts() {
    let x = real(&[6], &[1., 2., 3., 4., 5., 6.]);
    let parts = run_all(Node::new("s", Op::Split), &[x], &Tensors::default(), 3).unwrap();
    assert_eq!(parts, [real(&[2], &[1., 2.]), real(&[2], &[3., 4.]), real(&[2], &[5., 6.])]);
}
