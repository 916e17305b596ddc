//! `IQ4_NL` and `IQ4_XS`: a scale times one of sixteen values, which are closer to each other near 0.

use super::encoded::{ELEMENTS, Encoded, SUPER, count};
use super::lanes::{Groups, LANES, Lanes, ZERO, farthest, farthest_scale, load, nearest_one, splat, store};
use super::pack;
use crate::blocks::simple::NONLINEAR;
use fearless_simd::prelude::*;
use fearless_simd::{Simd, f32x16, i32x16};
use half::f16;

/// From each of these numbers on, the next of the sixteen values is nearer.
const MIDDLES: [f32; 15] = {
    let mut middles = [0.0; 15];
    let mut k = 0;
    while k < middles.len() {
        middles[k] = (NONLINEAR[k] as f32 + NONLINEAR[k + 1] as f32) / 2.0;
        k += 1;
    }
    middles
};

/// The value of the largest magnitude.
const LEAST: f32 = NONLINEAR[0] as f32;

/// Returns the value nearest to each number.
#[inline(always)]
fn nearest_value<S: Simd>(simd: S, numbers: Lanes<S>) -> Lanes<S> {
    let mut value = splat(simd, LEAST);
    for (middle, next) in MIDDLES.iter().zip(&NONLINEAR[1..]) {
        value = numbers.simd_ge(splat(simd, *middle)).select(splat(simd, f32::from(*next)), value);
    }
    value
}

/// Returns the position of the value nearest to each number.
#[inline(always)]
fn nearest_index<S: Simd>(simd: S, numbers: Lanes<S>) -> i32x16<S> {
    let mut index = i32x16::splat(simd, 0);
    for middle in MIDDLES {
        index = numbers.simd_ge(splat(simd, middle)).select(index + 1, index);
    }
    index
}

/// Returns the scales of sixteen groups with the smallest weighted error.
#[inline(always)]
fn fit<S: Simd>(simd: S, groups: &Groups<S, ELEMENTS>) -> Lanes<S> {
    let zero = splat(simd, 0.0);
    let farthest = farthest(simd, groups);
    let is_zero = farthest.abs().simd_lt(splat(simd, ZERO));
    let weights = groups.map(
        #[inline(always)]
        |x| x * x,
    );
    let (sum_xq, sum_qq) = sums(simd, groups, &weights, splat(simd, 1.0) / (-farthest / LEAST));
    let mut scale = sum_qq.simd_gt(zero).select(sum_xq / sum_qq, zero);
    let mut best = scale * sum_xq;
    for number in -7i8..=7 {
        let (sum_xq, sum_qq) =
            sums(simd, groups, &weights, splat(simd, f32::from(number) + LEAST) / farthest);
        let is_better = sum_qq.simd_gt(zero) & (sum_xq * sum_xq).simd_gt(best * sum_qq);
        let new = sum_xq / sum_qq;
        scale = is_better.select(new, scale);
        best = is_better.select(new * sum_xq, best);
    }
    is_zero.select(zero, scale)
}

/// Returns the weighted sums of the products of numbers and values, and of the squares of values.
#[inline(always)]
fn sums<S: Simd>(
    simd: S,
    groups: &Groups<S, ELEMENTS>,
    weights: &Groups<S, ELEMENTS>,
    inverse: Lanes<S>,
) -> (Lanes<S>, Lanes<S>) {
    let (mut sum_xq, mut sum_qq) = (splat(simd, 0.0), splat(simd, 0.0));
    for (x, w) in groups.iter().zip(weights) {
        let q = nearest_value(simd, inverse * *x);
        let wq = *w * q;
        sum_xq += wq * *x;
        sum_qq += wq * q;
    }
    (sum_xq, sum_qq)
}

/// Returns the positions of the values nearest to the numbers, which are divided by the scales of their groups.
#[inline(always)]
fn indexes<S: Simd>(simd: S, groups: &Groups<S, ELEMENTS>, scales: [f32; LANES]) -> [[u8; ELEMENTS]; LANES] {
    let inverses = scales.map(|scale| if scale == 0.0 { 0.0 } else { 1.0 / scale });
    let inverses = f32x16::simd_from(simd, inverses);
    let rows = groups.map(
        #[inline(always)]
        |x| nearest_index(simd, inverses * x),
    );
    let mut out = [[0; ELEMENTS]; LANES];
    store(&rows, &mut out);
    out
}

/// Encodes sixteen blocks at a time.
#[inline(always)]
pub fn iq4_nl<S: Simd>(simd: S, numbers: &[[f32; ELEMENTS]], blocks: &mut [[u8; 18]]) -> Encoded {
    let mut encoded = Encoded::default();
    for (own, blocks) in numbers.chunks(LANES).zip(blocks.chunks_mut(LANES)) {
        let groups: Groups<S, ELEMENTS> = load(simd, own.as_flattened());
        let scales = *fit(simd, &groups).as_array();
        let indexes = indexes(simd, &groups, scales);
        for (((numbers, block), indexes), scale) in own.iter().zip(blocks).zip(&indexes).zip(scales) {
            let half = f16::from_f32(scale);
            pack::halves(&mut block[..2], [half]);
            pack::nibbles_of_32(&mut block[2..], indexes);
            encoded += count(numbers, scale, [half]);
        }
    }
    encoded
}

/// Encodes two blocks of eight groups at a time.
#[inline(always)]
pub fn iq4_xs<S: Simd>(simd: S, super_blocks: &[[f32; SUPER]], blocks: &mut [[u8; 136]]) -> Encoded {
    let mut encoded = Encoded::default();
    for (own, blocks) in super_blocks.chunks(2).zip(blocks.chunks_mut(2)) {
        let groups: Groups<S, ELEMENTS> = load(simd, own.as_flattened());
        let fitted = *fit(simd, &groups).as_array();
        let mut scales = [0.0; LANES];
        let each = own.iter().zip(blocks.iter_mut());
        for ((numbers, block), (fitted, scales)) in
            each.zip(fitted.as_chunks::<8>().0.iter().zip(scales.as_chunks_mut::<8>().0))
        {
            let d = -farthest_scale(fitted) / 32.0;
            let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
            let mut high = 0u16;
            for (k, (fitted, scale)) in fitted.iter().zip(scales).enumerate() {
                let multiple = nearest_one(inverse * fitted).clamp(-32, 31);
                *scale = d * multiple as f32;
                let bits = (multiple + 32) as u8;
                block[4 + k / 2] |= (bits & 15) << (k % 2 * 4);
                high |= u16::from(bits >> 4) << (2 * k);
            }
            block[2..4].copy_from_slice(&high.to_le_bytes());
            let half = f16::from_f32(d);
            pack::halves(&mut block[..2], [half]);
            encoded += count(numbers, d, [half]);
        }
        let indexes = indexes(simd, &groups, scales);
        for (block, indexes) in blocks.iter_mut().zip(indexes.as_chunks::<8>().0) {
            pack::nibbles_of_32(&mut block[8..], indexes.as_flattened());
        }
    }
    encoded
}
