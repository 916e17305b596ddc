//! Exponential functions of binary32 that vectorize: plain arithmetic in binary64, without branches or fused operations,
//! so that every processor gives the same bits. The error is below 0.51 ULP of binary32.

use std::f64::consts::{LN_2, LOG2_E};

/// Adding and subtracting this number rounds to an integer, which is left in the lowest bits of the sum.
const ROUNDS: f64 = 6_755_399_441_055_744.0;

/// 1/n! from n = 2 on. The terms that are left out are below 3·10⁻¹⁰ of the result for |r| ≤ ln 2 / 2.
const POWERS: [f64; 7] =
    [1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0, 1.0 / 40320.0];

/// `erf(x) = x·P(x²)/Q(x²)` for |x| ≤ 4, within 10⁻¹¹ of the result: minimax coefficients, the constant ones first.
const ERF_P: [f64; 8] = [
    1.128_379_167_086_793,
    0.200_181_907_449_710_5,
    0.058_091_990_253_843_796,
    0.004_954_326_807_757_131,
    0.000_512_487_399_930_147,
    2.172_986_991_055_207e-5,
    7.519_845_837_639_381e-7,
    3.006_555_589_773_896_4e-9,
];
const ERF_Q: [f64; 8] = [
    1.0,
    0.510_739_929_294_674_2,
    0.121_729_332_566_374_36,
    0.017_702_620_755_620_055,
    0.001_712_987_141_021_09,
    0.000_111_323_741_001_893_72,
    4.509_167_296_147_268e-6,
    7.329_077_336_902_135e-8,
];

/// eˣ.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the result is rounded to binary32, which may overflow")]
pub(super) fn exp(x: f32) -> f32 {
    // Beyond, the result is 0 or infinite.
    let (less_one, power) = parts(within(f64::from(x), 110.0));
    (power * less_one + power) as f32
}

/// The hyperbolic tangent: `m / (m + 2)` with `m = e²ˣ − 1`.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the result is rounded to binary32")]
pub(super) fn tanh(x: f32) -> f32 {
    // Beyond, the result is rounded to 1.
    let (less_one, power) = parts(2.0 * within(f64::from(x), 10.0));
    let m = power * less_one + (power - 1.0);
    ((m / (m + 2.0)) as f32).copysign(x)
}

/// The error function.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the result is rounded to binary32")]
pub(super) fn erf(x: f32) -> f32 {
    // Beyond, the result is rounded to 1.
    let x = within(f64::from(x), 4.0);
    let square = x * x;
    (x * polynomial(&ERF_P, square) / polynomial(&ERF_Q, square)) as f32
}

/// `x` to the power `y`; squares and cubes, which networks have most, as products that are rounded once.
#[inline(always)]
#[expect(clippy::float_cmp, reason = "the powers are exactly these")]
pub(super) fn pow(x: f32, y: f32) -> f32 {
    match y {
        _ if y == 2.0 => x * x,
        _ if y == 3.0 => cube(x),
        _ => libm::powf(x, y),
    }
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the result is rounded to binary32, which may overflow")]
fn cube(x: f32) -> f32 {
    let x = f64::from(x);
    (x * x * x) as f32
}

/// Returns `eʳ − 1` and `2ⁿ` for the parts of `x = n·ln 2 + r`. NaN gives NaN.
#[inline(always)]
fn parts(x: f64) -> (f64, f64) {
    let rounded = x * LOG2_E + ROUNDS;
    let r = x - (rounded - ROUNDS) * LN_2;
    let power = f64::from_bits(rounded.to_bits().wrapping_add(1023) << 52);
    (r + r * r * polynomial(&POWERS, r), power)
}

/// `x`, or the bound that it exceeds. NaN stays.
#[inline(always)]
fn within(x: f64, bound: f64) -> f64 {
    let x = if x > bound { bound } else { x };
    if x < -bound { -bound } else { x }
}

/// Horner's scheme.
#[inline(always)]
fn polynomial<const N: usize>(coefficients: &[f64; N], x: f64) -> f64 {
    let mut sum = coefficients[N - 1];
    for coefficient in coefficients.iter().rev().skip(1) {
        sum = sum * x + coefficient;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of every exponent and sign, and those around 0, 1 and the bounds.
    fn numbers() -> impl Iterator<Item = f32> {
        let every = (0..u32::MAX / 4999).map(|i| f32::from_bits(i * 4999)).filter(|x| !x.is_nan());
        every.chain((-12_000i16..=12_000).map(|i| f32::from(i) / 100.0))
    }

    /// The distance in units in the last place of `found`.
    fn ulps(found: f32, exact: f64) -> f64 {
        let unit = f64::from(f32::from_bits((found.abs().to_bits()).max(1) + 1)) - f64::from(found.abs());
        (f64::from(found) - exact).abs() / unit
    }

    fn assert_close(function: fn(f32) -> f32, exact: fn(f64) -> f64) {
        for x in numbers() {
            let (found, exact) = (function(x), exact(f64::from(x)));
            let is_beyond = !(exact.abs() as f32).is_finite();
            assert!(
                if is_beyond { found == exact as f32 } else { ulps(found, exact) < 0.51 },
                "{x}: {found} {exact}"
            );
        }
    }

    #[test]
    fn an_exponential_function_is_within_its_bound_everywhere() {
        assert_close(exp, libm::exp);
        assert_close(tanh, libm::tanh);
        assert_close(erf, libm::erf);
        assert_close(cube, |x| x * x * x);
    }

    #[test]
    fn special_numbers_have_the_values_of_their_limits() {
        for function in [exp, tanh, erf, cube] {
            assert!(function(f32::NAN).is_nan());
        }
        let infinite = [f32::NEG_INFINITY, f32::INFINITY];
        assert_eq!(infinite.map(exp), [0.0, f32::INFINITY]);
        assert_eq!(infinite.map(tanh), [-1.0, 1.0]);
        assert_eq!(infinite.map(erf), [-1.0, 1.0]);
        for function in [tanh, erf, cube] {
            assert_eq!([-0.0f32, 0.0].map(|x| function(x).to_bits()), [(-0.0f32).to_bits(), 0]);
        }
        assert_eq!([-0.0f32, 0.0].map(exp), [1.0, 1.0]);
    }
}
