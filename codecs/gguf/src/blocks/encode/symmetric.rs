//! `Q3_K` and `Q6_K`: groups of 16 with a scale of either sign, a small multiple of the scale of the block.

use super::encoded::{Encoded, SUPER, count};
use super::lanes::{
    Groups, LANES, Lanes, ZERO, farthest, farthest_scale, load, nearest, nearest_one, numbers, splat, store,
};
use super::pack;
use fearless_simd::prelude::*;
use fearless_simd::{Simd, f32x16, i32x16};
use half::f16;

/// The numbers of a group.
const GROUP: usize = 16;

/// Computes the integers again with the stored scales, from 0 on. Groups without a scale keep those of the search.
#[inline(always)]
fn integers<S: Simd>(
    simd: S,
    groups: &Groups<S, GROUP>,
    scales: [f32; LANES],
    searched: &[i32x16<S>; GROUP],
    most: i32,
) -> [[u8; GROUP]; LANES] {
    let scales = f32x16::simd_from(simd, scales);
    let has_scale = scales.simd_ne(splat(simd, 0.0));
    let mut rows = *searched;
    for (row, x) in rows.iter_mut().zip(groups) {
        let stored = nearest(simd, *x / scales, -most, most - 1) + most;
        *row = has_scale.select(stored, *row);
    }
    let mut out = [[0; GROUP]; LANES];
    store(&rows, &mut out);
    out
}

#[inline(always)]
pub fn q6_k<S: Simd>(simd: S, super_blocks: &[[f32; SUPER]], blocks: &mut [[u8; 210]]) -> Encoded {
    let mut encoded = Encoded::default();
    for (own, block) in super_blocks.iter().zip(blocks) {
        let groups: Groups<S, GROUP> = load(simd, own);
        let (scales, searched) = q6_fit(simd, &groups);
        let scales = scales.as_array();
        let farthest = farthest_scale(scales);
        if farthest.abs() < ZERO {
            encoded += count(own, 0.0, [f16::ZERO]);
            continue;
        }
        let inverse = -128.0 / farthest;
        let half = f16::from_f32(1.0 / inverse);
        let d = half.to_f32();
        let mut stored = [0.0; LANES];
        for (k, scale) in scales.iter().enumerate() {
            let scale = nearest_one(inverse * scale).min(127) as i8;
            block[192 + k] = scale.cast_unsigned();
            stored[k] = d * f32::from(scale);
        }
        let integers = integers(simd, &groups, stored, &searched, 32);
        q6_pack(block, integers.as_flattened());
        pack::halves(&mut block[208..], [half]);
        encoded += count(own, farthest, [half]);
    }
    encoded
}

/// Returns the scales with the smallest weighted error, and their integers from 0 on: `make_qx_quants` in llama.cpp.
#[inline(always)]
fn q6_fit<S: Simd>(simd: S, groups: &Groups<S, GROUP>) -> (Lanes<S>, [i32x16<S>; GROUP]) {
    let zero = splat(simd, 0.0);
    let farthest = farthest(simd, groups);
    let is_zero = farthest.abs().simd_lt(splat(simd, ZERO));
    let weights = groups.map(
        #[inline(always)]
        |x| x * x,
    );
    let mut inverse = splat(simd, -32.0) / farthest;
    let (sum_xl, sum_ll) = q6_sums(simd, groups, &weights, inverse);
    let mut scale = sum_ll.simd_eq(zero).select(zero, sum_xl / sum_ll);
    let mut best = scale * sum_xl;
    for number in (-9i8..=9).filter(|number| *number != 0) {
        let tried = splat(simd, -(32.0 + 0.1 * f32::from(number))) / farthest;
        let (sum_xl, sum_ll) = q6_sums(simd, groups, &weights, tried);
        let is_better = sum_ll.simd_gt(zero) & (sum_xl * sum_xl).simd_gt(best * sum_ll);
        let new = sum_xl / sum_ll;
        scale = is_better.select(new, scale);
        best = is_better.select(new * sum_xl, best);
        inverse = is_better.select(tried, inverse);
    }
    let integers = groups.map(
        #[inline(always)]
        |x| {
            let own = nearest(simd, inverse * x, -32, 31) + 32;
            is_zero.select(i32x16::splat(simd, 0), own)
        },
    );
    (is_zero.select(zero, scale), integers)
}

/// Returns the weighted sums of the products of numbers and integers, and of the squares of integers.
#[inline(always)]
fn q6_sums<S: Simd>(
    simd: S,
    groups: &Groups<S, GROUP>,
    weights: &Groups<S, GROUP>,
    inverse: Lanes<S>,
) -> (Lanes<S>, Lanes<S>) {
    let (mut sum_xl, mut sum_ll) = (splat(simd, 0.0), splat(simd, 0.0));
    for (x, w) in groups.iter().zip(weights) {
        let l = numbers(nearest(simd, inverse * *x, -32, 31));
        sum_xl += *w * *x * l;
        sum_ll += *w * l * l;
    }
    (sum_xl, sum_ll)
}

fn q6_pack(block: &mut [u8; 210], integers: &[u8]) {
    let (low, high) = block[..192].split_at_mut(128);
    let halves = low.as_chunks_mut::<64>().0.iter_mut().zip(high.as_chunks_mut::<32>().0);
    for ((low, high), own) in halves.zip(integers.as_chunks::<128>().0) {
        for k in 0..32 {
            let [a, b, c, d] = [own[k], own[k + 32], own[k + 64], own[k + 96]];
            low[k] = a & 15 | c << 4;
            low[k + 32] = b & 15 | d << 4;
            high[k] = a >> 4 | b >> 4 << 2 | c >> 4 << 4 | d >> 4 << 6;
        }
    }
}

#[inline(always)]
pub fn q3_k<S: Simd>(simd: S, super_blocks: &[[f32; SUPER]], blocks: &mut [[u8; 110]]) -> Encoded {
    let mut encoded = Encoded::default();
    for (own, block) in super_blocks.iter().zip(blocks) {
        let groups: Groups<S, GROUP> = load(simd, own);
        let (scales, searched) = q3_fit(simd, &groups);
        let scales = scales.as_array();
        let farthest = farthest_scale(scales);
        let inverse = -32.0 / farthest;
        let half = if farthest == 0.0 { f16::ZERO } else { f16::from_f32(1.0 / inverse) };
        let d = half.to_f32();
        let mut stored = [0.0; LANES];
        for (k, scale) in scales.iter().enumerate().filter(|_| farthest != 0.0) {
            let scale = i32::from(nearest_one(inverse * scale) as i8).clamp(-32, 31);
            let bits = (scale + 32) as u8;
            block[96 + k % 8] |= (bits & 15) << (k / 8 * 4);
            block[104 + k % 4] |= bits >> 4 << (k / 4 * 2);
            stored[k] = d * scale as f32;
        }
        let integers = integers(simd, &groups, stored, &searched, 4);
        q3_pack(block, integers.as_flattened());
        pack::halves(&mut block[108..], [half]);
        encoded += count(own, farthest, [half]);
    }
    encoded
}

/// Returns scales, and integers from 0 on that were moved one by one if that left a smaller error: `make_q3_quants` in
/// llama.cpp.
#[inline(always)]
fn q3_fit<S: Simd>(simd: S, groups: &Groups<S, GROUP>) -> (Lanes<S>, [i32x16<S>; GROUP]) {
    const MOST: i32 = 4;
    let zero = splat(simd, 0.0);
    let farthest = farthest(simd, groups);
    let is_zero = farthest.abs().simd_lt(splat(simd, ZERO));
    let inverse = splat(simd, -4.0) / farthest;
    let weights = groups.map(
        #[inline(always)]
        |x| x * x,
    );
    let mut integers = [zero; GROUP];
    let (mut sum_xl, mut sum_ll) = (zero, zero);
    for ((integer, x), w) in integers.iter_mut().zip(groups).zip(&weights) {
        let l = numbers(nearest(simd, inverse * *x, -MOST, MOST - 1));
        *integer = l;
        sum_xl += *w * *x * l;
        sum_ll += *w * l * l;
    }
    for _ in 0..5 {
        let mut changed = zero.simd_ne(zero);
        for ((integer, x), w) in integers.iter_mut().zip(groups).zip(&weights) {
            let l = *integer;
            let own_xl = sum_xl - *w * *x * l;
            let own_ll = sum_ll - *w * l * l;
            let new = numbers(nearest(simd, *x * own_ll / own_xl, -MOST, MOST - 1));
            let new_xl = own_xl + *w * *x * new;
            let new_ll = own_ll + *w * new * new;
            let is_better = own_xl.simd_gt(zero)
                & new.simd_ne(l)
                & new_ll.simd_gt(zero)
                & (new_xl * new_xl * sum_ll).simd_gt(sum_xl * sum_xl * new_ll);
            *integer = is_better.select(new, l);
            sum_xl = is_better.select(new_xl, sum_xl);
            sum_ll = is_better.select(new_ll, sum_ll);
            changed |= is_better;
        }
        if changed.all_false() {
            break;
        }
    }
    let scale = sum_ll.simd_gt(zero).select(sum_xl / sum_ll, zero);
    let integers = integers.map(
        #[inline(always)]
        |l| {
            let own = nearest(simd, l, -MOST, MOST - 1) + MOST;
            is_zero.select(i32x16::splat(simd, 0), own)
        },
    );
    (is_zero.select(zero, scale), integers)
}

fn q3_pack(block: &mut [u8; 110], integers: &[u8]) {
    let low: [u8; SUPER] = std::array::from_fn(|k| integers[k] & 3);
    let (mask, crumbs) = block[..96].split_at_mut(32);
    pack::crumbs(crumbs, &low);
    for (k, group) in integers.as_chunks::<32>().0.iter().enumerate() {
        for (bits, integer) in mask.iter_mut().zip(group) {
            *bits |= (integer >> 2 & 1) << k;
        }
    }
}
