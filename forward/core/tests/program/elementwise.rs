//! Elementwise functions.

use crate::support::*;
use ckpt_api::{Attribute, Node, Op};
use ckpt_forward::{Random, op};
use proptest::prelude::*;

fn alpha(op: Op, alpha: f64) -> Node {
    Node::new("f", op).attribute("alpha", Attribute::Float(alpha))
}

fn clip(min: f64, max: f64) -> Node {
    Node::new("f", Op::Clip).attribute("min", Attribute::Float(min)).attribute("max", Attribute::Float(max))
}

fn plain(op: Op) -> Node {
    Node::new("f", op)
}

/// The error function, by its Maclaurin series.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..120 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

type Formula = fn(f64) -> f64;

fn functions() -> Vec<(Node, Formula)> {
    let tanh = plain(Op::Gelu).attribute("approximate", Attribute::Text("tanh".into()));
    vec![
        (plain(Op::Relu), |x| x.max(0.0)),
        (plain(Op::LeakyRelu), |x| x.max(0.0) + 0.01 * x.min(0.0)),
        (alpha(Op::LeakyRelu, 0.2), |x| x.max(0.0) + 0.2 * x.min(0.0)),
        (plain(Op::Elu), |x| if x < 0.0 { x.exp() - 1.0 } else { x }),
        (alpha(Op::Elu, 2.0), |x| if x < 0.0 { 2.0 * (x.exp() - 1.0) } else { x }),
        (plain(Op::Gelu), |x| 0.5 * x * (1.0 + erf(x / 2f64.sqrt()))),
        (tanh, |x| {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
        }),
        (plain(Op::Softplus), |x| (1.0 + x.exp()).ln()),
        (plain(Op::Sigmoid), |x| 1.0 / (1.0 + (-x).exp())),
        (plain(Op::Tanh), |x| x.sinh() / x.cosh()),
        (clip(-0.5, 0.25), |x| x.clamp(-0.5, 0.25)),
        (plain(Op::Clip), |x| x),
        (clip(1.0, -1.0), |_| -1.0),
        (plain(Op::custom(op::SQUARE)), |x| x * x),
    ]
}

proptest! {
    #[test]
    fn a_function_is_computed_of_each_element(shape in prop::collection::vec(0usize..6, 0..4), scale in 0.1f64..4.0, seed: u64) {
        let unit = reals(&mut Random::new(seed), &shape);
        let x = real(&shape, &unit.array.to_f64().iter().map(|x| x * scale).collect::<Vec<_>>());
        for (node, formula) in functions() {
            let expected: Vec<f64> = x.array.to_f64().into_iter().map(formula).collect();
            assert_close(&run(node, std::slice::from_ref(&x), &Tensors::default()).unwrap(), &shape, &expected);
        }
    }

    #[test]
    fn add_and_mul_broadcast_as_numpy_does(shape in prop::collection::vec(1usize..4, 0..5), kept in prop::collection::vec(any::<bool>(), 10), skipped in 0usize..5, seed: u64) {
        let mut random = Random::new(seed);
        let rank = shape.len();
        let one = |kept: &[bool]| -> Vec<usize> { shape.iter().zip(kept).map(|(len, kept)| if *kept { *len } else { 1 }).collect() };
        let a_shape = one(&kept[..5]);
        let b_shape = one(&kept[5..])[skipped.min(rank)..].to_vec();
        let (a, b) = (reals(&mut random, &a_shape), reals(&mut random, &b_shape));
        let made: Vec<usize> = (0..rank).map(|axis| {
            let from_b = axis.checked_sub(rank - b_shape.len()).map_or(1, |axis| b_shape[axis]);
            a_shape[axis].max(from_b)
        }).collect();
        let (xs, ys) = (a.array.to_f64(), b.array.to_f64());
        let len: usize = made.iter().product();
        let (mut sums, mut products) = (Vec::new(), Vec::new());
        for place in 0..len {
            let mut rest = place;
            let mut at = vec![0; rank];
            for axis in (0..rank).rev() {
                at[axis] = rest % made[axis];
                rest /= made[axis];
            }
            let find = |shape: &[usize]| shape.iter().zip(&at[rank - shape.len()..]).fold(0, |place, (len, i)| place * len + i % len);
            let (x, y) = (xs[find(&a_shape)], ys[find(&b_shape)]);
            sums.push(x + y);
            products.push(x * y);
        }
        for (op, expected) in [(Op::Add, sums), (Op::Mul, products)] {
            assert_close(&run(plain(op), &[a.clone(), b.clone()], &Tensors::default()).unwrap(), &made, &expected);
        }
    }
}

#[test]
fn nan_stays_nan_and_infinities_give_the_limits_of_functions() {
    let x = real(&[3], &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
    for (op, high, low) in [
        (Op::Relu, f64::INFINITY, 0.0),
        (Op::Softplus, f64::INFINITY, 0.0),
        (Op::Sigmoid, 1.0, 0.0),
        (Op::Tanh, 1.0, -1.0),
        (Op::Elu, f64::INFINITY, -1.0),
    ] {
        let found = run(plain(op), std::slice::from_ref(&x), &Tensors::default()).unwrap();
        assert_close(&found, &[3], &[f64::NAN, high, low]);
    }
}
