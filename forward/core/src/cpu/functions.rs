//! Functions of binary32 with the bits of the crate `libm` (after FreeBSD's msun), as all backends have them, in a form
//! that vectorizes: every piece is computed and one is selected, without branches.
//!
//! The operations are those of `libm`, in its order. What differs is exact: a power of two is multiplied in two steps,
//! the first of which leaves a normal number, and an argument beyond the last piece is replaced by one whose result is
//! the limit.
//
// ====================================================
// Copyright (C) 1993 by Sun Microsystems, Inc. All rights reserved.
//
// Developed at SunPro, a Sun Microsystems, Inc. business.
// Permission to use, copy, modify, and distribute this
// software is freely granted, provided that this notice
// is preserved.
// ====================================================

/// Adding and subtracting this number rounds to an integer, which is left in the lowest bits of the sum.
const ROUNDS: f32 = 12_582_912.0;
const INV_LN2: f32 = std::f32::consts::LOG2_E;
/// ln 2 / 2 and 3/2 ln 2: the bounds between the multiples 0, 1 and those that are computed.
const HALF_LN2: f32 = f32::from_bits(0x3eb1_7218);
const NEAR_LN2: f32 = f32::from_bits(0x3f85_1592);
/// The last argument of a finite exponential; the result of the next one is infinite.
const EXP_MAX: f32 = f32::from_bits(0x42b1_7217);
/// The first argument whose exponential is rounded to 0.
const EXP_MIN: f32 = f32::from_bits(0xc2cf_f1b5);

/// `eˣ`.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    let power = exp_between(x);
    let power = if x > EXP_MAX { f32::INFINITY } else { power };
    if x <= EXP_MIN { 0.0 } else { power }
}

/// `eˣ − 1`.
#[inline(always)]
pub(super) fn expm1(x: f32) -> f32 {
    // Below, the result is −1.
    let less_one = expm1_between(if x < -27.0 { -27.0 } else { x });
    if x > EXP_MAX { f32::INFINITY } else { less_one }
}

/// The hyperbolic tangent.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let w = x.abs();
    // Beyond, the result is 1.
    let w = if w > 10.0 { 10.0 } else { w };
    // The bounds are ln(5/3) / 2 and ln 3 / 2.
    let is_small = w <= f32::from_bits(0x3e82_c578);
    let is_large = w > f32::from_bits(0x3f0c_9f54);
    let m = expm1_between(if is_small { -2.0 * w } else { 2.0 * w });
    let part = if is_small { -m } else { m };
    let quotient = (if is_large { 2.0 } else { part }) / (m + 2.0);
    (if is_large { 1.0 - quotient } else { quotient }).copysign(x)
}

/// The error function.
#[inline(always)]
pub(super) fn erf(x: f32) -> f32 {
    let w = x.abs();
    // Beyond, the result is 1.
    let w = if w > 6.0 { 6.0 } else { w };
    let (small, about_one, large) = (erf_small(w), erf_about_one(w), erf_large(w));
    let y = if w < 1.25 { about_one } else { large };
    (if w < 0.84375 { small } else { y }).copysign(x)
}

/// The error function for x < 0.84375. The factors 8 and 1/8 keep the bits of products that are subnormal.
#[inline(always)]
fn erf_small(x: f32) -> f32 {
    const P: [f32; 5] = [1.283_791_7e-1, -3.250_421e-1, -2.848_175e-2, -5.770_270_2e-3, -2.376_301_7e-5];
    const Q: [f32; 6] = [1.0, 3.979_172e-1, 6.502_225e-2, 5.081_306e-3, 1.324_947_4e-4, -3.960_228_2e-6];
    let z = x * x;
    let y = polynomial(&P, z) / polynomial(&Q, z);
    0.125 * (8.0 * x + 8.0 * y * x)
}

/// The error function for 0.84375 ≤ x < 1.25.
#[inline(always)]
fn erf_about_one(x: f32) -> f32 {
    const ERF_1: f32 = 8.450_629e-1;
    const P: [f32; 7] = [
        -2.362_118_6e-3,
        4.148_561e-1,
        -3.722_078_8e-1,
        3.183_466_2e-1,
        -1.108_946_95e-1,
        3.547_830_5e-2,
        -2.166_375_5e-3,
    ];
    const Q: [f32; 7] =
        [1.0, 1.064_208_8e-1, 5.403_979_4e-1, 7.182_865_6e-2, 1.261_712_2e-1, 1.363_708_4e-2, 1.198_45e-2];
    let s = x - 1.0;
    1.0 - (1.0 - ERF_1 - polynomial(&P, s) / polynomial(&Q, s))
}

/// The error function for 1.25 ≤ x ≤ 6.
#[inline(always)]
fn erf_large(x: f32) -> f32 {
    const P: [f32; 8] = [
        -9.864_944e-3,
        -6.938_585_6e-1,
        -1.055_862_6e1,
        -6.237_533e1,
        -1.623_966_7e2,
        -1.846_050_9e2,
        -8.128_744e1,
        -9.814_329,
    ];
    const Q: [f32; 9] = [
        1.0,
        1.965_127_2e1,
        1.376_577_6e2,
        4.345_659e2,
        6.453_872_7e2,
        4.290_081_5e2,
        1.086_35e2,
        6.570_249_6,
        -6.042_441_4e-2,
    ];
    const FAR_P: [f32; 7] = [
        -9.864_943e-3,
        -7.992_832_7e-1,
        -1.775_795_6e1,
        -1.606_363_8e2,
        -6.375_664_7e2,
        -1.025_095_1e3,
        -4.835_192e2,
    ];
    const FAR_Q: [f32; 8] = [
        1.0,
        3.033_806e1,
        3.257_925e2,
        1.536_729_6e3,
        3.199_858_2e3,
        2.553_050_3e3,
        4.745_285_3e2,
        -2.244_095_2e1,
    ];
    let s = 1.0 / (x * x);
    // 1 / 0.35.
    let is_far = x >= f32::from_bits(0x4036_db6d);
    let (p, far_p) = (polynomial(&P, s), polynomial(&FAR_P, s));
    let (q, far_q) = (polynomial(&Q, s), polynomial(&FAR_Q, s));
    let quotient = if is_far { far_p } else { p } / if is_far { far_q } else { q };
    let z = f32::from_bits(x.to_bits() & 0xffff_e000);
    1.0 - exp_between(-z * z - 0.5625) * exp_between((z - x) * (z + x) + quotient) / x
}

/// `x` to the power `y`; squares and cubes, which networks have most, as products that are rounded once. No backend
/// but this one has powers, so that these bits need not be those of `libm`.
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

/// `eˣ` for results above 0 that are finite. NaN stays.
#[inline(always)]
fn exp_between(x: f32) -> f32 {
    let (k, multiple) = multiple_of_ln2(x);
    let hi = x - multiple * 6.931_457_5e-1;
    let lo = multiple * 1.428_606_8e-6;
    let r = hi - lo;
    let square = r * r;
    let c = r - square * (1.666_662_5e-1 + square * -2.766_733_3e-3);
    let power = scaled(1.0 + (r * c / (2.0 - c) - lo + hi), k);
    // 2⁻¹⁴.
    if x.abs() <= f32::from_bits(0x3900_0000) { 1.0 + x } else { power }
}

/// `eˣ − 1` for x ≥ −27 and results that are finite. NaN stays.
#[inline(always)]
fn expm1_between(x: f32) -> f32 {
    let (k, multiple) = multiple_of_ln2(x);
    let hi = x - multiple * 6.931_381e-1;
    let lo = multiple * 9.058_001e-6;
    let r = hi - lo;
    let c = (hi - r) - lo;
    let half = 0.5 * r;
    let square = r * half;
    let r1 = 1.0 + square * (-3.333_321_2e-2 + square * 1.580_717e-3);
    let t = 3.0 - r1 * half;
    let e = square * ((r1 - t) / (6.0 - r * t));
    let e = r * (e - c) - c - square;
    let least = power_of_two(k.wrapping_neg());
    let power = if k < 23 { r - e + (1.0 - least) } else { r - (e + least) + 1.0 };
    let beyond = scaled(r - e + 1.0, k) - 1.0;
    let y = if !(0..=56).contains(&k) { beyond } else { scaled(power, k) };
    let y = if k == 0 { r - e } else { y };
    let y = if k == -1 { 0.5 * (r - e) - 0.5 } else { y };
    let one = if r < -0.25 { -2.0 * (e - (r + 0.5)) } else { 1.0 + 2.0 * (r - e) };
    if k == 1 { one } else { y }
}

/// The multiple of ln 2 next to `x`, as an integer and as a number, within ±2²¹; 0 for NaN.
#[inline(always)]
fn multiple_of_ln2(x: f32) -> (i32, f32) {
    let (magnitude, one) = (x.abs(), 1.0f32.copysign(x));
    // The fraction is cut off. A conversion to integers, which saturates, would not vectorize.
    let multiple = INV_LN2 * x + 0.5f32.copysign(x);
    let rounded = (multiple + ROUNDS) - ROUNDS;
    let k = if rounded.abs() > multiple.abs() { rounded - one } else { rounded };
    let k = if magnitude > NEAR_LN2 { k } else { one };
    let k = if magnitude > HALF_LN2 { k } else { 0.0 };
    ((k + ROUNDS).to_bits().wrapping_sub(ROUNDS.to_bits()).cast_signed(), k)
}

/// `x·2ᵏ` for x about 1 and |k| ≤ 150, rounded once.
#[inline(always)]
fn scaled(x: f32, k: i32) -> f32 {
    let step = k >> 1;
    x * power_of_two(step) * power_of_two(k.wrapping_sub(step))
}

#[inline(always)]
fn power_of_two(k: i32) -> f32 {
    f32::from_bits(k.wrapping_add(127).cast_unsigned() << 23)
}

/// Horner's scheme.
#[inline(always)]
fn polynomial<const N: usize>(coefficients: &[f32; N], x: f32) -> f32 {
    let mut sum = coefficients[N - 1];
    for coefficient in coefficients[..N - 1].iter().rev() {
        sum = coefficient + x * sum;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first number of every piece, of one of the functions.
    const BOUNDS: [u32; 23] = [
        0x0000_0000,
        0x0080_0000,
        0x3180_0000,
        0x3300_0000,
        0x3900_0000,
        0x3e00_0000,
        0x3e82_c578,
        0x3eb1_7218,
        0x3f0c_9f54,
        0x3f58_0000,
        0x3f80_0000,
        0x3f85_1592,
        0x3fa0_0000,
        0x4036_db6d,
        0x40c0_0000,
        0x4120_0000,
        0x4195_b844,
        0x42ae_ac50,
        0x42b1_7218,
        0x42cf_f1b5,
        0x42d0_0000,
        0x7f80_0000,
        0x7fc0_0000,
    ];

    /// Numbers of every exponent and sign, and those around 0 and the bounds.
    fn numbers() -> impl Iterator<Item = f32> {
        // Miri is a thousand times as slow.
        let (step, hundredths) = if cfg!(miri) { (49_999_991, 120) } else { (4999, 12_000) };
        let every = (0..u32::MAX / step).map(move |i| i * step);
        let bounds = BOUNDS.into_iter().flat_map(|bound| bound.saturating_sub(3)..=bound + 3);
        let signed = bounds.flat_map(|bits| [bits, bits | 1 << 31]);
        let decimal = (-hundredths..=hundredths).map(|i: i16| f32::from(i) / 100.0);
        every.chain(signed).map(f32::from_bits).chain(decimal)
    }

    fn assert_same(function: fn(f32) -> f32, reference: fn(f32) -> f32) {
        for x in numbers() {
            let (found, expected) = (function(x), reference(x));
            let is_same = found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
            assert!(is_same, "{x:e} ({:#010x}): {found:e} instead of {expected:e}", x.to_bits());
        }
    }

    #[test]
    fn an_exponential_has_the_bits_of_the_reference() {
        assert_same(exp, libm::expf);
        assert_same(expm1, libm::expm1f);
    }

    #[test]
    fn a_hyperbolic_tangent_has_the_bits_of_the_reference() {
        assert_same(tanh, libm::tanhf);
    }

    #[test]
    fn an_error_function_has_the_bits_of_the_reference() {
        assert_same(erf, libm::erff);
    }

    #[test]
    fn a_cube_is_rounded_once() {
        for x in numbers().filter(|x| !x.is_nan()) {
            let exact = f64::from(x) * f64::from(x) * f64::from(x);
            assert_eq!(pow(x, 3.0).to_bits(), (exact as f32).to_bits(), "{x:e}");
        }
    }

    #[test]
    fn special_numbers_have_the_values_of_their_limits() {
        for function in [exp, expm1, tanh, erf, cube] {
            assert!(function(f32::NAN).is_nan());
        }
        let infinite = [f32::NEG_INFINITY, f32::INFINITY];
        assert_eq!(infinite.map(exp), [0.0, f32::INFINITY]);
        assert_eq!(infinite.map(expm1), [-1.0, f32::INFINITY]);
        assert_eq!(infinite.map(tanh), [-1.0, 1.0]);
        assert_eq!(infinite.map(erf), [-1.0, 1.0]);
        for function in [expm1, tanh, erf, cube] {
            assert_eq!([-0.0f32, 0.0].map(|x| function(x).to_bits()), [(-0.0f32).to_bits(), 0]);
        }
        assert_eq!([-0.0f32, 0.0].map(exp), [1.0, 1.0]);
    }
}
