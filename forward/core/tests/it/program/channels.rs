//! Normalizations over groups of channels, and those by the size of the elements.

use super::support::*;
use ckpt_api::{Attribute, Axis, Node, Op};
use ckpt_forward::Random;
use proptest::prelude::*;

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Each row of `len` elements with mean 0 and variance 1.
fn normal(values: &[f64], len: usize) -> Vec<f64> {
    let rows = values.chunks(len).flat_map(|row| {
        let center = mean(row);
        let variance = mean(&row.iter().map(|x| (x - center).powi(2)).collect::<Vec<_>>());
        row.iter().map(move |x| (x - center) / (variance + 1e-3).sqrt()).collect::<Vec<_>>()
    });
    rows.collect()
}

proptest! {
    #[test]
    fn a_group_normalization_normalizes_groups_of_channels(batch in 0usize..3, groups in 1usize..4, each in 1usize..4, places in prop::collection::vec(1usize..4, 0..4), scaled: bool, instance: bool, seed: u64) {
        let mut random = Random::new(seed);
        let channels = groups * each;
        let shape = [&[batch, channels], &places[..]].concat();
        let (x, s, b) = (reals(&mut random, &shape), reals(&mut random, &[channels]), reals(&mut random, &[channels]));
        let inner: usize = places.iter().product();
        let len = if instance { inner } else { each * inner };
        let (ss, bs) = (s.array.to_f64(), b.array.to_f64());
        let expected: Vec<f64> = normal(&x.array.to_f64(), len).into_iter().enumerate().map(|(place, x)| {
            let channel = place / inner % channels;
            if scaled { x * ss[channel] + bs[channel] } else { x }
        }).collect();
        let mut node = match instance {
            true => Node::new("n", Op::InstanceNormalization),
            false => Node::new("n", Op::GroupNormalization).attribute("num_groups", Attribute::Int(groups as i64)),
        };
        node = node.attribute("epsilon", Attribute::Float(1e-3));
        if scaled {
            node = node.parameter("scale", "s").parameter("bias", "b");
        }
        let tensors = Tensors::default().with("s", &[Axis::Out], &s).with("b", &[Axis::Out], &b);
        assert_close(&run(node, &[x], &tensors).unwrap(), &shape, &expected);
    }

    #[test]
    fn a_root_mean_square_normalization_divides_by_the_size_of_a_row(rows in prop::collection::vec(0usize..4, 0..3), len in 1usize..9, scaled: bool, seed: u64) {
        let mut random = Random::new(seed);
        let shape = [&rows[..], &[len]].concat();
        let (x, s) = (reals(&mut random, &shape), reals(&mut random, &[len]));
        let ss = s.array.to_f64();
        let expected: Vec<f64> = x.array.to_f64().chunks(len).flat_map(|row| {
            let root = (mean(&row.iter().map(|x| x * x).collect::<Vec<_>>()) + 1e-5).sqrt();
            row.iter().enumerate().map(|(i, x)| x / root * if scaled { ss[i] } else { 1.0 }).collect::<Vec<_>>()
        }).collect();
        let mut node = Node::new("n", Op::RMSNormalization);
        if scaled {
            node = node.parameter("scale", "s");
        }
        assert_close(&run(node, &[x], &Tensors::default().with("s", &[Axis::Out], &s)).unwrap(), &shape, &expected);
    }

    #[test]
    fn a_local_response_normalization_divides_by_the_squares_of_neighboring_channels(channels in 1usize..7, places in prop::collection::vec(1usize..4, 0..3), size in 1usize..6, seed: u64) {
        let shape = [&[2, channels], &places[..]].concat();
        let x = reals(&mut Random::new(seed), &shape);
        let values = x.array.to_f64();
        let inner: usize = places.iter().product();
        let expected: Vec<f64> = (0..values.len()).map(|place| {
            let channel = (place / inner % channels) as i64;
            let (first, last) = (channel - (size as i64 - 1) / 2, channel + size as i64 / 2);
            let squares = (first.max(0)..=last.min(channels as i64 - 1))
                .map(|other| values[(place as i64 + (other - channel) * inner as i64) as usize].powi(2));
            values[place] / (2.0 + 0.3 / size as f64 * squares.sum::<f64>()).powf(0.6)
        }).collect();
        let node = Node::new("n", Op::LRN)
            .attribute("size", Attribute::Int(size as i64))
            .attribute("alpha", Attribute::Float(0.3))
            .attribute("beta", Attribute::Float(0.6))
            .attribute("bias", Attribute::Float(2.0));
        assert_close(&run(node, &[x], &Tensors::default()).unwrap(), &shape, &expected);
    }

    #[test]
    fn a_unit_norm_divides_by_the_norm_of_an_axis(shape in prop::collection::vec(1usize..5, 1..4), axis in 0usize..3, p in 1i64..3, seed: u64) {
        let axis = axis % shape.len();
        let mut values = reals(&mut Random::new(seed), &shape).array.to_f64();
        let inner: usize = shape[axis + 1..].iter().product();
        let row = |place: usize| {
            let first = place / (inner * shape[axis]) * inner * shape[axis] + place % inner;
            (0..shape[axis]).map(move |i| first + i * inner)
        };
        // One row is 0.
        row(0).for_each(|place| values[place] = 0.0);
        let expected: Vec<f64> = (0..values.len()).map(|place| {
            let norm = match p {
                1 => row(place).map(|place| values[place].abs()).sum::<f64>(),
                _ => row(place).map(|place| values[place].powi(2)).sum::<f64>().sqrt(),
            };
            if norm == 0.0 { 0.0 } else { values[place] / norm }
        }).collect();
        let node = Node::new("n", Op::LpNormalization)
            .attribute("axis", Attribute::Int(axis as i64))
            .attribute("p", Attribute::Int(p));
        assert_close(&run(node, &[real(&shape, &values)], &Tensors::default()).unwrap(), &shape, &expected);
    }
}

#[test]
fn groups_and_sizes_that_do_not_fit_are_refused() {
    let x = real(&[1, 4], &[0.0; 4]);
    for (node, part) in [
        (
            Node::new("n", Op::GroupNormalization).attribute("num_groups", Attribute::Int(3)),
            "divisor of the 4",
        ),
        (Node::new("n", Op::GroupNormalization).attribute("num_groups", Attribute::Int(0)), "num_groups"),
        (Node::new("n", Op::LRN), "size"),
        (Node::new("n", Op::LRN).attribute("size", Attribute::Int(i64::MAX)), "size"),
        (Node::new("n", Op::LpNormalization).attribute("p", Attribute::Int(3)), "1 or 2"),
        (Node::new("n", Op::RMSNormalization).attribute("epsilon", Attribute::Float(-1.0)), "epsilon"),
    ] {
        let error = run(node, std::slice::from_ref(&x), &Tensors::default()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}
