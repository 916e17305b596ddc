//! Elementwise functions.

use super::support::*;
use ckpt_api::{Attribute, Kind, Node, Op};
use ckpt_forward::{Random, Value, op};
use proptest::prelude::*;
use std::cmp::Ordering;

fn alpha(op: Op, alpha: f64) -> Node {
    Node::new("f", op).attribute("alpha", Attribute::Float(alpha))
}

fn clip(min: f64, max: f64) -> Node {
    Node::new("f", Op::Clip).attribute("min", Attribute::Float(min)).attribute("max", Attribute::Float(max))
}

fn plain(op: Op) -> Node {
    Node::new("f", op)
}

/// The error function, by a series of terms of one sign: `2/√π·e^(−x²)·Σ 2ⁿ·x^(2n+1)/(2n+1)‼`.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    sum * (-x * x).exp() * 2.0 / std::f64::consts::PI.sqrt()
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
        (plain(Op::Selu), |x| {
            1.050_701_022_148_132_3 * if x < 0.0 { 1.673_263_192_176_818_8 * (x.exp() - 1.0) } else { x }
        }),
        (alpha(Op::Celu, 0.5), |x| x.max(0.0) + (0.5 * ((x / 0.5).exp() - 1.0)).min(0.0)),
        (alpha(Op::ThresholdedRelu, 0.25), |x| if x > 0.25 { x } else { 0.0 }),
        (plain(Op::Softsign), |x| x / (1.0 + x.abs())),
        (plain(Op::HardSigmoid), |x| (0.2 * x + 0.5).clamp(0.0, 1.0)),
        (alpha(Op::HardSigmoid, 1.0 / 6.0).attribute("beta", Attribute::Float(0.25)), |x| {
            (x / 6.0 + 0.25).clamp(0.0, 1.0)
        }),
        (plain(Op::HardSwish), |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0),
        (plain(Op::Swish), |x| x / (1.0 + (-x).exp())),
        (alpha(Op::Swish, 1.702), |x| x / (1.0 + (-1.702 * x).exp())),
        (plain(Op::Mish), |x| x * (1.0 + x.exp()).ln().tanh()),
        (plain(Op::Abs), |x| if x < 0.0 { -x } else { x }),
        (plain(Op::Neg), |x| 0.0 - x),
        (plain(Op::Sign), |x| f64::from(x > 0.0) - f64::from(x < 0.0)),
        (plain(Op::Reciprocal), |x| 1.0 / x),
        (plain(Op::Sqrt), |x| if x < 0.0 { f64::NAN } else { x.powf(0.5) }),
        (plain(Op::Exp), |x| x.sinh() + x.cosh()),
        (plain(Op::Log), |x| if x < 0.0 { f64::NAN } else { 2.0 * x.sqrt().ln() }),
        (plain(Op::Sin), |x| 2.0 * (x / 2.0).sin() * (x / 2.0).cos()),
        (plain(Op::Cos), |x| 1.0 - 2.0 * (x / 2.0).sin().powi(2)),
        (plain(Op::Tan), |x| x.sin() / x.cos()),
        (plain(Op::Asin), |x| x.atan2((1.0 - x * x).sqrt())),
        (plain(Op::Acos), |x| (1.0 - x * x).sqrt().atan2(x)),
        (plain(Op::Atan), |x| x.atan2(1.0)),
        (plain(Op::Sinh), |x| (x.exp() - (-x).exp()) / 2.0),
        (plain(Op::Cosh), |x| f64::midpoint(x.exp(), (-x).exp())),
        (plain(Op::Asinh), |x| (x + (x * x + 1.0).sqrt()).ln()),
        (plain(Op::Acosh), |x| if x < 1.0 { f64::NAN } else { 2.0 * ((x - 1.0) / 2.0).sqrt().asinh() }),
        (plain(Op::Atanh), |x| if x.abs() > 1.0 { f64::NAN } else { ((1.0 + x) / (1.0 - x)).ln() / 2.0 }),
        (plain(Op::Erf), erf),
        (plain(Op::Floor), |x| x - x.rem_euclid(1.0)),
        (plain(Op::Ceil), |x| x + (-x).rem_euclid(1.0)),
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

    #[test]
    fn a_function_of_two_values_is_computed_of_each_pair(rows in 0usize..4, columns in 0usize..4, seed: u64) {
        let mut random = Random::new(seed);
        let shape = [rows, columns];
        let steps = |value: &Value| value.array.to_f64().into_iter().map(|x| (x * 3.0).round()).collect::<Vec<_>>();
        let a = steps(&reals(&mut random, &shape));
        // A row, for all rows.
        let b = steps(&reals(&mut random, &[columns]));
        for (op, formula) in pairs() {
            let expected: Vec<f64> = a.iter().enumerate().map(|(at, a)| formula(*a, b[at % columns])).collect();
            let inputs = [real(&shape, &a), real(&[columns], &b)];
            assert_close(&run(plain(op.clone()), &inputs, &Tensors::default()).unwrap(), &shape, &expected);
            if !matches!(op, Op::Pow | Op::Div) {
                let inputs = [integers(&shape, &a), integers(&[columns], &b)];
                let found = run(plain(op), &inputs, &Tensors::default()).unwrap();
                assert_eq!(found, integers(&shape, &expected));
            }
        }
        for (op, relation) in relations() {
            let expected: Vec<f64> =
                a.iter().enumerate().map(|(at, a)| f64::from(relation(*a, b[at % columns]))).collect();
            for inputs in [[real(&shape, &a), real(&[columns], &b)], [integers(&shape, &a), integers(&[columns], &b)]] {
                let found = run(plain(op.clone()), &inputs, &Tensors::default()).unwrap();
                assert_eq!(found, integers(&shape, &expected));
            }
        }
    }
}

type Pair = fn(f64, f64) -> f64;

fn pairs() -> Vec<(Op, Pair)> {
    vec![
        (Op::Add, |a, b| a + b),
        (Op::Sub, |a, b| a - b),
        (Op::Mul, |a, b| a * b),
        (Op::Div, |a, b| a / b),
        (Op::Pow, |a, b| a.powi(b as i32)),
        (Op::Max, |a, b| if a > b { a } else { b }),
        (Op::Min, |a, b| if a < b { a } else { b }),
    ]
}

type Relates = fn(f64, f64) -> bool;

fn relations() -> Vec<(Op, Relates)> {
    vec![
        (Op::Equal, |a, b| a.partial_cmp(&b) == Some(Ordering::Equal)),
        (Op::Less, |a, b| b > a),
        (Op::LessOrEqual, |a, b| a.partial_cmp(&b).is_some_and(Ordering::is_le)),
        (Op::Greater, |a, b| b < a),
        (Op::GreaterOrEqual, |a, b| a.partial_cmp(&b).is_some_and(Ordering::is_ge)),
    ]
}

fn integers(shape: &[usize], values: &[f64]) -> Value {
    integer(shape, &values.iter().map(|value| *value as i32).collect::<Vec<_>>())
}

fn plainly(op: Op, inputs: &[Value]) -> Value {
    run(plain(op), inputs, &Tensors::default()).unwrap()
}

#[test]
fn truth_values_are_1_and_0() {
    let (a, b) = (integer(&[4], &[0, 0, 1, 1]), integer(&[4], &[0, 1, 0, 1]));
    for (op, expected) in [(Op::And, [0, 0, 0, 1]), (Op::Or, [0, 1, 1, 1]), (Op::Xor, [0, 1, 1, 0])] {
        assert_eq!(plainly(op, &[a.clone(), b.clone()]), integer(&[4], &expected));
    }
    assert_eq!(plainly(Op::Not, &[a]), integer(&[4], &[1, 1, 0, 0]));
}

#[test]
fn where_chooses_for_each_place_and_broadcasts() {
    let condition = integer(&[2, 1], &[1, 0]);
    let (a, b) = (real(&[3], &[1.0, 2.0, 3.0]), real(&[], &[-1.0]));
    let found = plainly(Op::Where, &[condition.clone(), a, b]);
    assert_close(&found, &[2, 3], &[1.0, 2.0, 3.0, -1.0, -1.0, -1.0]);
    let (a, b) = (integer(&[2], &[7, 8]), integer(&[2, 2], &[1, 2, 3, 4]));
    assert_eq!(plainly(Op::Where, &[condition, a, b]), integer(&[2, 2], &[7, 8, 3, 4]));
}

#[test]
fn max_and_min_take_any_number_of_values() {
    let values = [real(&[2], &[1.0, f64::NAN]), real(&[2], &[3.0, 1.0]), real(&[1], &[2.0])];
    assert_close(&plainly(Op::Max, &values), &[2], &[3.0, f64::NAN]);
    assert_close(&plainly(Op::Min, &values), &[2], &[1.0, f64::NAN]);
    assert_close(&plainly(Op::Max, &values[1..2]), &[2], &[3.0, 1.0]);
}

#[test]
fn prelu_multiplies_what_is_below_0_by_its_slope() {
    let (x, slope) = (real(&[2, 2], &[-1.0, -2.0, 3.0, f64::NAN]), real(&[2], &[0.5, 2.0]));
    assert_close(&plainly(Op::PRelu, &[x.clone(), slope]), &[2, 2], &[-0.5, -4.0, 3.0, f64::NAN]);
    let wide = real(&[3, 2, 2], &[1.0; 12]);
    let error = run(plain(Op::PRelu), &[x, wide], &Tensors::default()).unwrap_err().to_string();
    assert!(error.contains("broadcasts to [2, 2]"), "{error}");
}

#[test]
fn cast_changes_the_kind_of_numbers() {
    let cast = |to: &str| plain(Op::Cast).attribute("to", Attribute::Text(to.into()));
    let alone = |to: &str, x: &Value| run(cast(to), std::slice::from_ref(x), &Tensors::default());
    let x = real(&[5], &[0.0, -0.0, 1.9, -1.9, f64::NAN]);
    assert_eq!(alone("bool", &x).unwrap(), integer(&[5], &[0, 0, 1, 1, 1]));
    assert_eq!(alone("int", &real(&[3], &[1.9, -1.9, 0.5])).unwrap(), integer(&[3], &[1, -1, 0]));
    for beyond in [f64::NAN, 2147483648.0, f64::NEG_INFINITY] {
        let error = alone("int", &real(&[1], &[beyond])).unwrap_err().to_string();
        assert!(error.contains("does not fit an integer of 32 bits"), "{error}");
    }
    assert_eq!(alone("int", &real(&[1], &[2147483647.5])).unwrap(), integer(&[1], &[i32::MAX]));
    let n = integer(&[3], &[0, -2, 7]);
    assert_close(&alone("float", &n).unwrap(), &[3], &[0.0, -2.0, 7.0]);
    assert_eq!(alone("bool", &n).unwrap(), integer(&[3], &[0, 1, 1]));
    assert_eq!(alone("int", &n).unwrap(), n);
    let error = alone("text", &n).unwrap_err().to_string();
    assert!(error.contains("'text'") && error.contains("'bool'"), "{error}");
}

#[test]
fn a_cast_to_16_bits_rounds_to_the_nearest_number() {
    let cast = |to: &str, x: &Value| {
        let node = plain(Op::Cast).attribute("to", Attribute::Text(to.into()));
        run(node, std::slice::from_ref(x), &Tensors::default()).unwrap()
    };
    let unit = |bits: i32| 2f64.powi(-bits);
    let x = [1.0 + unit(11), 1.0 + 3.0 * unit(11), -65519.0, 65520.0, unit(25), 1.5 * unit(24), f64::NAN];
    let expected = [1.0, 1.0 + unit(9), -65504.0, f64::INFINITY, 0.0, 2.0 * unit(24), f64::NAN];
    assert_close(&cast("float16", &real(&[7], &x)), &[7], &expected);
    let x = [1.0 + unit(8), 1.0 + 3.0 * unit(8), -65519.0, unit(130)];
    let expected = [1.0, 1.0 + unit(6), -65536.0, unit(130)];
    assert_close(&cast("bfloat16", &real(&[4], &x)), &[4], &expected);
    assert_close(&cast("float16", &integer(&[2], &[2049, -2051])), &[2], &[2048.0, -2052.0]);
}

#[test]
fn a_number_halfway_is_rounded_to_the_even_integer() {
    let x = real(&[5], &[0.5, 1.5, -0.5, -2.5, 2.4]);
    assert_close(&plainly(Op::Round, &[x]), &[5], &[0.0, 2.0, 0.0, -2.0, 2.0]);
}

#[test]
fn integers_are_divided_towards_zero_and_never_by_0() {
    let a = integer(&[3], &[7, -7, 6]);
    assert_eq!(plainly(Op::Div, &[a.clone(), integer(&[1], &[2])]), integer(&[3], &[3, -3, 3]));
    let error = run(plain(Op::Div), &[a, integer(&[1], &[0])], &Tensors::default()).unwrap_err().to_string();
    assert!(error.contains("a division of integers by 0"), "{error}");
}

#[test]
fn values_of_different_kinds_do_not_mix() {
    let (a, b) = (integer(&[1], &[1]), real(&[1], &[1.0]));
    for op in [Op::Add, Op::Less, Op::Max] {
        let error = run(plain(op), &[a.clone(), b.clone()], &Tensors::default()).unwrap_err().to_string();
        assert!(error.contains("different kind"), "{error}");
    }
    let error = run(plain(Op::And), &[b.clone(), b], &Tensors::default()).unwrap_err().to_string();
    assert!(error.contains("different kind"), "{error}");
}

#[test]
fn powers_of_integers_are_integers() {
    let (base, exponent) = (integer(&[5], &[3, -2, 7, -1, 4]), integer(&[5], &[4, 3, 0, -3, -1]));
    assert_eq!(plainly(Op::Pow, &[base, exponent]), integer(&[5], &[81, -8, 1, -1, 0]));
    for (base, exponent, expected) in [(2, 31, "exceeds 32 bits"), (0, -1, "infinite")] {
        let inputs = [integer(&[1], &[base]), integer(&[1], &[exponent])];
        let error = run(plain(Op::Pow), &inputs, &Tensors::default()).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn bits_of_integers_are_combined_and_moved() {
    let (a, b) = (integer(&[3], &[12, -1, i32::MIN]), integer(&[3], &[10, 6, 1]));
    assert_eq!(plainly(Op::BitwiseAnd, &[a.clone(), b.clone()]), integer(&[3], &[8, 6, 0]));
    assert_eq!(plainly(Op::BitwiseOr, &[a.clone(), b.clone()]), integer(&[3], &[14, -1, i32::MIN + 1]));
    assert_eq!(plainly(Op::BitwiseXor, &[a, b]), integer(&[3], &[6, -7, i32::MIN + 1]));
    let moved = |direction: &str, x: &[i32], places: &[i32]| {
        let node = plain(Op::BitShift).attribute("direction", Attribute::Text(direction.into()));
        run(node, &[integer(&[x.len()], x), integer(&[places.len()], places)], &Tensors::default()).unwrap()
    };
    // What leaves the 32 bits is lost, also if there are more places than bits.
    let left = moved("LEFT", &[1, 1, -3, 1 << 30, 5, 5], &[4, 31, 1, 2, 32, -1]);
    assert_eq!(left, integer(&[6], &[16, i32::MIN, -6, 0, 0, 0]));
    let right = moved("RIGHT", &[16, -16, i32::MIN, 5, -5], &[2, 3, 31, 40, -1]);
    assert_eq!(right, integer(&[5], &[4, -2, -1, 0, -1]));
    for op in [Op::BitwiseAnd, Op::BitwiseOr, Op::BitwiseXor] {
        let reals = [real(&[1], &[1.0]), real(&[1], &[1.0])];
        let error = run(plain(op), &reals, &Tensors::default()).unwrap_err().to_string();
        assert!(error.contains("different kind"), "{error}");
    }
}

#[test]
fn a_cast_to_a_few_bits_gives_the_nearest_number_of_the_type() {
    // Bits of the significand and of the exponent, bias, and how many of the greatest bytes are no finite numbers.
    let types = [
        ("float8e4m3fn", 3, 4, 7, 1),
        ("float8e4m3fnuz", 3, 4, 8, 0),
        ("float8e5m2", 2, 5, 15, 4),
        ("float8e5m2fnuz", 2, 5, 16, 0),
        ("float4e2m1", 1, 2, 1, 0),
    ];
    for (name, digits, exponents, bias, others) in types {
        let value = |byte: i32| {
            let (exponent, rest) = (byte >> digits, f64::from(byte & ((1 << digits) - 1)));
            let part = rest / f64::from(1 << digits);
            if exponent == 0 { part * 2f64.powi(1 - bias) } else { (1.0 + part) * 2f64.powi(exponent - bias) }
        };
        let all: Vec<f64> = (0..(1 << (digits + exponents)) - others).map(value).collect();
        let cast = |saturate: i64, x: &[f64]| {
            let node = plain(Op::Cast).attribute("to", Attribute::Text(name.into()));
            let node = node.attribute("saturate", Attribute::Int(saturate));
            run(node, &[real(&[x.len()], x)], &Tensors::default()).unwrap()
        };
        assert_close(&cast(1, &all), &[all.len()], &all);
        for (at, pair) in all.windows(2).enumerate() {
            let (low, high, span) = (pair[0], pair[1], pair[1] - pair[0]);
            let x = [low + span * 0.4375, low + span * 0.5, low + span * 0.5625, -(low + span * 0.5625)];
            let even = if at % 2 == 0 { low } else { high };
            assert_close(&cast(1, &x), &[4], &[low, even, high, -high]);
        }
        let most = all[all.len() - 1];
        let beyond = [most * 2.0, f64::INFINITY, f64::NAN, -most * 2.0];
        assert_close(&cast(1, &beyond), &[4], &[most, most, f64::NAN, -most]);
        let other = match name {
            "float8e5m2" => f64::INFINITY,
            "float4e2m1" => most,
            _ => f64::NAN,
        };
        assert_close(&cast(0, &beyond), &[4], &[other, other, f64::NAN, -other]);
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
