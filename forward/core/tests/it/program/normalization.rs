//! Normalizations, softmax, and the static features of an image.

use super::support::*;
use ckpt_api::{Attribute, Axis, Node, Op};
use ckpt_forward::{Random, op};
use proptest::prelude::*;

proptest! {
    #[test]
    fn batch_normalization_uses_each_channels_statistics(outer in 0usize..4, channels in 1usize..6, places in prop::collection::vec(1usize..4, 0..3), seed: u64) {
        let mut random = Random::new(seed);
        let shape = [&[outer, channels], &places[..]].concat();
        let x = reals(&mut random, &shape);
        let [scale, bias, mean] = [0, 1, 2].map(|_| reals(&mut random, &[channels]));
        let variance = real(&[channels], &(0..channels).map(|_| random.real().abs()).collect::<Vec<_>>());
        let inner: usize = places.iter().product();
        let list = [&scale, &bias, &mean, &variance].map(|value| value.array.to_f64());
        let normal = |(place, x): (usize, f64)| {
            let c = place / inner % channels;
            (x - list[2][c]) / (list[3][c] + 0.01).sqrt() * list[0][c] + list[1][c]
        };
        let expected: Vec<f64> = x.array.to_f64().into_iter().enumerate().map(normal).collect();
        let roles = [("scale", &scale), ("bias", &bias), ("mean", &mean), ("variance", &variance)];
        let tensors = roles.iter().fold(Tensors::default(), |tensors, (role, value)| tensors.with(role, &[Axis::Out], value));
        let node = Node::new("n", Op::BatchNormalization).attribute("epsilon", Attribute::Float(0.01));
        let node = roles.iter().fold(node, |node, (role, _)| node.parameter(role, *role));
        assert_close(&run(node, &[x], &tensors).unwrap(), &shape, &expected);
    }

    #[test]
    fn layer_normalization_makes_each_row_of_mean_0_and_variance_1(rows in prop::collection::vec(0usize..4, 1..3), len in 2usize..30, biased: bool, seed: u64) {
        let mut random = Random::new(seed);
        let shape = [&rows[..], &[len]].concat();
        let (x, scale, bias) = (reals(&mut random, &shape), reals(&mut random, &[len]), reals(&mut random, &[len]));
        let (s, b) = (scale.array.to_f64(), bias.array.to_f64());
        let mut expected = Vec::new();
        for row in x.array.to_f64().chunks(len) {
            let mean = row.iter().sum::<f64>() / len as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / len as f64;
            let normal = |(i, x): (usize, &f64)| (x - mean) / (variance + 1e-5).sqrt() * s[i] + if biased { b[i] } else { 0.0 };
            expected.extend(row.iter().enumerate().map(normal));
        }
        let tensors = Tensors::default().with("s", &[Axis::Out], &scale).with("b", &[Axis::Out], &bias);
        let mut node = Node::new("n", Op::LayerNormalization).parameter("scale", "s");
        if biased {
            node = node.parameter("bias", "b");
        }
        assert_close(&run(node, &[x], &tensors).unwrap(), &shape, &expected);
    }

    #[test]
    fn softmax_divides_exponentials_by_their_sum_along_its_axis(shape in prop::collection::vec(1usize..6, 1..4), axis in 0usize..3, seed: u64) {
        let x = reals(&mut Random::new(seed), &shape);
        let axis = axis % shape.len();
        let inner: usize = shape[axis + 1..].iter().product();
        let values = x.array.to_f64();
        let share = |place: usize| {
            let first = place / (inner * shape[axis]) * inner * shape[axis] + place % inner;
            values[place].exp() / (0..shape[axis]).map(|i| values[first + i * inner].exp()).sum::<f64>()
        };
        let expected: Vec<f64> = (0..values.len()).map(share).collect();
        let node = |op| Node::new("s", op).attribute("axis", Attribute::Int(axis as i64 - shape.len() as i64));
        assert_close(&run(node(Op::Softmax), std::slice::from_ref(&x), &Tensors::default()).unwrap(), &shape, &expected);
        let logs: Vec<f64> = expected.iter().map(|share| share.ln()).collect();
        assert_close(&run(node(Op::LogSoftmax), &[x], &Tensors::default()).unwrap(), &shape, &logs);
    }

    #[test]
    fn static_features_are_the_image_the_places_and_a_constant(batch in 0usize..3, height in 1usize..6, width in 1usize..6, seed: u64) {
        let x = reals(&mut Random::new(seed), &[batch, 4, height, width]);
        let values = x.array.to_f64();
        let mut expected = Vec::new();
        for n in 0..batch {
            for channel in 0..8 {
                for row in 0..height {
                    for column in 0..width {
                        let u = (column as f64 + 0.5) / width as f64;
                        expected.push(match channel {
                            0..4 => values[((n * 4 + channel) * height + row) * width + column],
                            4 => u,
                            5 => (row as f64 + 0.5) / height as f64,
                            6 => (10.0 * u).sin(),
                            _ => 1.0,
                        });
                    }
                }
            }
        }
        let found = run(Node::new("f", Op::custom(op::STATIC_FEATURES)), &[x], &Tensors::default()).unwrap();
        assert_close(&found, &[batch, 8, height, width], &expected);
    }
}

#[test]
fn the_examples_of_onnx_for_softmax_hold() {
    let x = real(&[2, 4], &[0., 1., 2., 3., 10000., 10001., 10002., 10003.]);
    let found = run(Node::new("s", Op::Softmax), &[x], &Tensors::default()).unwrap().array.to_f64();
    for (found, expected) in found.iter().zip([0.032058604, 0.08714432, 0.23688284, 0.6439143].repeat(2)) {
        assert!((found - expected).abs() < 1e-7, "{found} {expected}");
    }
}

#[test]
fn a_normalization_without_scale_and_bias_uses_1_and_0() {
    let (mean, variance) = (real(&[2], &[1.0, 2.0]), real(&[2], &[4.0, 9.0]));
    let tensors = Tensors::default().with("m", &[Axis::Out], &mean).with("v", &[Axis::Out], &variance);
    let node = Node::new("n", Op::BatchNormalization).attribute("epsilon", Attribute::Float(0.0));
    let node = node.parameter("mean", "m").parameter("variance", "v");
    assert_close(&run(node, &[real(&[1, 2], &[5.0, 8.0])], &tensors).unwrap(), &[1, 2], &[2.0, 2.0]);
}
