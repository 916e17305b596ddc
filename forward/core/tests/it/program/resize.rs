//! Images of other sizes.

use super::support::*;
use ckpt_api::{Attribute, Node, Op};
use ckpt_forward::{Random, Value};
use proptest::prelude::*;

const MODES: [&str; 6] = [
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
];
const ROUNDINGS: [&str; 4] = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"];

/// ONNX's formula for the place of element `i` of `to`.
fn place(mode: &str, i: usize, from: usize, to: usize, scale: f64) -> f64 {
    let (x, length, resized) = (i as f64, from as f64, to as f64);
    match mode {
        "half_pixel" => (x + 0.5) / scale - 0.5,
        "half_pixel_symmetric" => {
            let adjustment = resized / (scale * length);
            let offset = length / 2.0 * (1.0 - adjustment);
            offset + (x + 0.5) / scale - 0.5
        }
        "pytorch_half_pixel" if to > 1 => (x + 0.5) / scale - 0.5,
        "pytorch_half_pixel" => 0.0,
        "align_corners" if to == 1 => 0.0,
        "align_corners" => x * (length - 1.0) / (resized - 1.0),
        "asymmetric" => x / scale,
        _ => (x + 0.5) / scale,
    }
}

fn rounded(mode: &str, x: f64) -> f64 {
    let is_half = x.fract().abs() == 0.5;
    match mode {
        "round_prefer_floor" if is_half => x.floor(),
        "round_prefer_ceil" if is_half => x.ceil(),
        "floor" => x.floor(),
        "ceil" => x.ceil(),
        _ => x.round(),
    }
}

/// The weight of each element of an axis for element `i` of the result.
fn weights(kind: &str, rounding: &str, at: f64, from: usize) -> Vec<f64> {
    let mut weights = vec![0.0; from];
    let last = from as i64 - 1;
    let mut add = |place: i64, weight: f64| weights[place.clamp(0, last) as usize] += weight;
    let (floor, share) = (at.floor() as i64, at - at.floor());
    match kind {
        "nearest" => add(rounded(rounding, at) as i64, 1.0),
        "linear" if at <= 0.0 => add(0, 1.0),
        "linear" if at >= last as f64 => add(last, 1.0),
        "linear" => {
            add(floor, 1.0 - share);
            add(floor + 1, share);
        }
        _ => {
            let a = -0.75;
            for tap in -1..3i64 {
                let d = (share - tap as f64).abs();
                add(
                    floor + tap,
                    match d {
                        d if d <= 1.0 => (a + 2.0) * d.powi(3) - (a + 3.0) * d.powi(2) + 1.0,
                        d if d < 2.0 => a * d.powi(3) - 5.0 * a * d.powi(2) + 8.0 * a * d - 4.0 * a,
                        _ => 0.0,
                    },
                );
            }
        }
    }
    weights
}

fn text(node: Node, name: &str, value: &str) -> Node {
    node.attribute(name, Attribute::Text(value.into()))
}

proptest! {
    #[test]
    fn each_element_is_a_weighted_sum_of_those_near_its_place(
        lens in prop::collection::vec((1usize..6, 1usize..9), 1..4), kind in 0usize..3, mode in 0usize..6, rounding in 0usize..4, seed: u64,
    ) {
        let shape = [vec![2], lens.iter().map(|(from, _)| *from).collect()].concat();
        let made = [vec![2], lens.iter().map(|(_, to)| *to).collect()].concat();
        let x = reals(&mut Random::new(seed), &shape);
        let (kind, mode, rounding) = (["nearest", "linear", "cubic"][kind], MODES[mode], ROUNDINGS[rounding]);
        // One axis after the other.
        let mut values = x.array.to_f64();
        let mut now = shape.clone();
        for axis in 1..shape.len() {
            let (from, to) = (shape[axis], made[axis]);
            if from == to {
                continue;
            }
            let inner: usize = now[axis + 1..].iter().product();
            let outer: usize = now[..axis].iter().product();
            let mut next = Vec::new();
            for o in 0..outer {
                for i in 0..to {
                    let weights = weights(kind, rounding, place(mode, i, from, to, to as f64 / from as f64), from);
                    for rest in 0..inner {
                        next.push(weights.iter().enumerate().map(|(k, w)| w * values[(o * from + k) * inner + rest]).sum::<f64>());
                    }
                }
            }
            values = next;
            now[axis] = to;
        }
        let sizes = Attribute::Ints(made.iter().map(|len| *len as i64).collect());
        let node = text(text(Node::new("r", Op::Resize), "mode", kind), "nearest_mode", rounding);
        let node = text(node, "coordinate_transformation_mode", mode).attribute("sizes", sizes);
        assert_close(&run(node, &[x], &Tensors::default()).unwrap(), &made, &values);
    }
}

fn resized(x: &Value, scales: &[f64], attributes: &[(&str, &str)]) -> Vec<f64> {
    let node = Node::new("r", Op::Resize).attribute("scales", Attribute::Floats(scales.to_vec()));
    let node = attributes.iter().fold(node, |node, (name, value)| text(node, name, value));
    run(node, std::slice::from_ref(x), &Tensors::default()).unwrap().array.to_f64()
}

#[test]
fn the_examples_of_onnx_for_resize_hold() {
    let x = real(&[1, 1, 2, 2], &[1., 2., 3., 4.]);
    let scales = [1.0, 1.0, 2.0, 3.0];
    let found = resized(&x, &scales, &[("mode", "nearest")]);
    let expected = [
        [1., 1., 1., 2., 2., 2.],
        [1., 1., 1., 2., 2., 2.],
        [3., 3., 3., 4., 4., 4.],
        [3., 3., 3., 4., 4., 4.],
    ];
    assert_eq!(found, expected.concat());
    let x = real(&[1, 1, 2, 4], &[1., 2., 3., 4., 5., 6., 7., 8.]);
    assert_eq!(resized(&x, &[1.0, 1.0, 0.6, 0.6], &[("mode", "nearest")]), [1., 3.]);
    let found = resized(&x, &[1.0, 1.0, 0.6, 0.6], &[("mode", "linear")]);
    let expected = [2.6666665, 4.3333331];
    assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6), "{found:?}");
    let aligned = [("mode", "linear"), ("coordinate_transformation_mode", "align_corners")];
    let x = real(&[1, 1, 2, 2], &[1., 2., 3., 4.]);
    let found = resized(&x, &[1.0, 1.0, 2.0, 2.0], &aligned);
    let expected = [
        1.0, 1.33333333, 1.66666667, 2.0, 1.66666667, 2.0, 2.33333333, 2.66666667, 2.33333333, 2.66666667,
        3.0, 3.33333333, 3.0, 3.33333333, 3.66666667, 4.0,
    ];
    assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-7), "{found:?}");
}

#[test]
fn sizes_and_modes_that_do_not_fit_are_refused() {
    let x = real(&[1, 1, 2, 2], &[0.0; 4]);
    let node = || Node::new("r", Op::Resize);
    let sizes = |sizes: &[i64]| node().attribute("sizes", Attribute::Ints(sizes.to_vec()));
    let scales = |scales: &[f64]| node().attribute("scales", Attribute::Floats(scales.to_vec()));
    for (node, part) in [
        (node(), "sizes"),
        (sizes(&[1, 1, 4]), "4 lengths"),
        (sizes(&[1, 1, 4, -2]), "4 lengths"),
        (sizes(&[1, 1, 4, 0]), "resized"),
        (sizes(&[1, 1, 4, 1 << 60]), "resized"),
        (scales(&[1.0, 1.0, 2.0]), "4 numbers"),
        (scales(&[1.0, 1.0, 2.0, 0.0]), "4 numbers"),
        (scales(&[1.0, 1.0, 2.0, 1e300]), "resized"),
        (scales(&[1.0, 1.0, 2.0, f64::INFINITY]), "4 numbers"),
        (text(sizes(&[1, 1, 4, 4]), "mode", "area"), "nearest, linear"),
        (text(sizes(&[1, 1, 4, 4]), "nearest_mode", "up"), "round_prefer_floor"),
        (text(sizes(&[1, 1, 4, 4]), "coordinate_transformation_mode", "tf_crop_and_resize"), "half_pixel"),
        (sizes(&[1, 1, 4, 4]).attribute("antialias", Attribute::Int(1)), "antialias"),
        (text(sizes(&[1, 1, 4, 4]), "keep_aspect_ratio_policy", "not_larger"), "keep_aspect_ratio_policy"),
    ] {
        let error = run(node, std::slice::from_ref(&x), &Tensors::default()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn an_axis_of_size_minus_1_keeps_its_length() {
    let x = real(&[2, 1, 2], &[1., 2., 3., 4.]);
    let node = Node::new("r", Op::Resize).attribute("sizes", Attribute::Ints(vec![-1, -1, 4]));
    let found = run(node, &[x], &Tensors::default()).unwrap();
    assert_close(&found, &[2, 1, 4], &[1., 1., 2., 2., 3., 3., 4., 4.]);
}
