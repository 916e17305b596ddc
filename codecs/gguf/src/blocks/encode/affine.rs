//! `Q2_K`, `Q4_K` and `Q5_K`: groups with a scale and a minimum, both small multiples of a scale of the block.

use super::encoded::{Encoded, SUPER, count};
use super::lanes::{Groups, LANES, Lanes, load, nearest, nearest_one, numbers, splat, store};
use super::pack;
use fearless_simd::prelude::*;
use fearless_simd::{Simd, f32x16};
use half::f16;

/// How the scale and the minimum of a group are searched.
struct Search {
    /// The largest integer.
    most: f32,
    /// What the first try adds to it, and what each of the others adds to that.
    first: f32,
    step: f32,
    /// The number of tries after the first.
    tries: u8,
    /// Whether errors count as they are, not squared.
    is_absolute: bool,
}

/// The scales and minimums of sixteen groups, and what their integers were computed of.
struct Fit<S: Simd> {
    scale: Lanes<S>,
    /// Subtracted from a multiple of the scale.
    min: Lanes<S>,
    inverse: Lanes<S>,
    base: Lanes<S>,
}

/// Finds the scale and the minimum that leave the smallest weighted error: `make_qkx2_quants` in llama.cpp.
#[inline(always)]
fn fit<S: Simd, const N: usize>(
    simd: S,
    groups: &Groups<S, N>,
    weights: &Groups<S, N>,
    search: &Search,
) -> Fit<S> {
    let zero = splat(simd, 0.0);
    let (mut min, mut max) = (groups[0], groups[0]);
    let (mut sum_w, mut sum_x) = (weights[0], weights[0] * groups[0]);
    for (x, w) in groups.iter().zip(weights).skip(1) {
        min = x.simd_lt(min).select(*x, min);
        max = x.simd_gt(max).select(*x, max);
        sum_w += *w;
        sum_x += *w * *x;
    }
    min = min.simd_gt(zero).select(zero, min);
    let (lowest, is_constant) = (min, max.simd_eq(min));
    let most = search.most as i32;
    let mut integers = [zero; N];
    let mut inverse = splat(simd, search.most) / (max - min);
    let mut base = min;
    let mut scale = splat(simd, 1.0) / inverse;
    for (integer, x) in integers.iter_mut().zip(groups) {
        *integer = numbers(nearest(simd, inverse * (*x - min), 0, most));
    }
    let mut least = error(simd, groups, weights, &integers, scale, min, search.is_absolute);
    for number in 0..=search.tries {
        let range = search.first + search.step * f32::from(number) + search.most;
        let tried = splat(simd, range) / (max - min);
        let (mut sum_l, mut sum_ll, mut sum_xl) = (zero, zero, zero);
        for ((integer, x), w) in integers.iter_mut().zip(groups).zip(weights) {
            let l = numbers(nearest(simd, tried * (*x - min), 0, most));
            *integer = l;
            let wl = *w * l;
            sum_l += wl;
            sum_ll += wl * l;
            sum_xl += wl * *x;
        }
        let determinant = sum_w * sum_ll - sum_l * sum_l;
        let new_min = (sum_ll * sum_x - sum_l * sum_xl) / determinant;
        let is_positive = new_min.simd_gt(zero);
        let new_scale = is_positive.select(sum_xl / sum_ll, (sum_w * sum_xl - sum_x * sum_l) / determinant);
        let new_min = is_positive.select(zero, new_min);
        let new = error(simd, groups, weights, &integers, new_scale, new_min, search.is_absolute);
        let is_better = determinant.simd_gt(zero) & new.simd_lt(least);
        least = is_better.select(new, least);
        scale = is_better.select(new_scale, scale);
        inverse = is_better.select(tried, inverse);
        base = is_better.select(min, base);
        // The tries that follow start from the new minimum.
        min = is_better.select(new_min, min);
    }
    Fit {
        scale: is_constant.select(zero, scale),
        min: -is_constant.select(lowest, min),
        inverse: is_constant.select(zero, inverse),
        base: is_constant.select(zero, base),
    }
}

#[inline(always)]
fn error<S: Simd, const N: usize>(
    simd: S,
    groups: &Groups<S, N>,
    weights: &Groups<S, N>,
    integers: &Groups<S, N>,
    scale: Lanes<S>,
    min: Lanes<S>,
    is_absolute: bool,
) -> Lanes<S> {
    let mut sum = splat(simd, 0.0);
    for ((x, w), l) in groups.iter().zip(weights).zip(integers) {
        let difference = scale * *l + min - *x;
        let own = if is_absolute { difference.abs() } else { difference * difference };
        sum += *w * own;
    }
    sum
}

/// Computes the integers again with the stored scales and minimums. Groups without a scale keep those of the search.
#[inline(always)]
fn integers<S: Simd, const N: usize>(
    simd: S,
    groups: &Groups<S, N>,
    fit: &Fit<S>,
    scales: [f32; LANES],
    mins: [f32; LANES],
    most: i32,
) -> [[u8; N]; LANES] {
    let (scales, mins) = (f32x16::simd_from(simd, scales), f32x16::simd_from(simd, mins));
    let has_scale = scales.simd_ne(splat(simd, 0.0));
    let rows = groups.map(
        #[inline(always)]
        |x| {
            let stored = nearest(simd, (x + mins) / scales, 0, most);
            has_scale.select(stored, nearest(simd, fit.inverse * (x - fit.base), 0, most))
        },
    );
    let mut out = [[0; N]; LANES];
    store(&rows, &mut out);
    out
}

/// Returns the largest positive number.
fn largest(numbers: &[f32]) -> f32 {
    numbers.iter().fold(0.0, |most, number| if *number > most { *number } else { most })
}

#[inline(always)]
pub fn q2_k<S: Simd>(simd: S, super_blocks: &[[f32; SUPER]], blocks: &mut [[u8; 84]]) -> Encoded {
    const SEARCH: Search = Search { most: 3.0, first: -0.5, step: 0.1, tries: 15, is_absolute: true };
    let mut encoded = Encoded::default();
    for (own, block) in super_blocks.iter().zip(blocks) {
        let groups: Groups<S, 16> = load(simd, own);
        let weights = groups.map(
            #[inline(always)]
            |x| x.abs(),
        );
        let fit = fit(simd, &groups, &weights, &SEARCH);
        let (scales, mins) = (fit.scale.as_array(), fit.min.as_array());
        let most = [largest(scales), largest(mins)];
        let inverses = most.map(|most| if most > 0.0 { 15.0 / most } else { 0.0 });
        let halves = most.map(|most| f16::from_f32(most / 15.0));
        let [d, d_min] = halves.map(f16::to_f32);
        let mut stored = [[0.0; LANES]; 2];
        for k in 0..LANES {
            let scale = nearest_one(inverses[0] * scales[k]) as u8;
            let packed = scale | (nearest_one(inverses[1] * mins[k]) << 4) as u8;
            block[k] = packed;
            stored[0][k] = d * f32::from(packed & 15);
            stored[1][k] = d_min * f32::from(packed >> 4);
        }
        let integers = integers(simd, &groups, &fit, stored[0], stored[1], 3);
        pack::crumbs(&mut block[16..80], integers.as_flattened());
        pack::halves(&mut block[80..], halves);
        encoded += count(own, most[0], halves);
    }
    encoded
}

#[inline(always)]
pub fn q4_k<S: Simd>(simd: S, super_blocks: &[[f32; SUPER]], blocks: &mut [[u8; 144]]) -> Encoded {
    const SEARCH: Search = Search { most: 15.0, first: -1.0, step: 0.1, tries: 20, is_absolute: false };
    of_32(
        simd,
        super_blocks,
        blocks,
        &SEARCH,
        #[inline(always)]
        |block, integers| pack::nibbles_of_64(&mut block[16..], integers),
    )
}

#[inline(always)]
pub fn q5_k<S: Simd>(simd: S, super_blocks: &[[f32; SUPER]], blocks: &mut [[u8; 176]]) -> Encoded {
    const SEARCH: Search = Search { most: 31.0, first: -0.5, step: 0.1, tries: 15, is_absolute: false };
    of_32(
        simd,
        super_blocks,
        blocks,
        &SEARCH,
        #[inline(always)]
        |block, integers| {
            let (high, low) = block[16..].split_at_mut(32);
            pack::nibbles_of_64(low, integers);
            for (k, group) in integers.as_chunks::<32>().0.iter().enumerate() {
                for (bits, integer) in high.iter_mut().zip(group) {
                    *bits |= (integer >> 4) << k;
                }
            }
        },
    )
}

/// Encodes blocks of eight groups of 32, two blocks at a time.
#[inline(always)]
fn of_32<S: Simd, const BYTES: usize>(
    simd: S,
    super_blocks: &[[f32; SUPER]],
    blocks: &mut [[u8; BYTES]],
    search: &Search,
    store_integers: impl Fn(&mut [u8; BYTES], &[u8]),
) -> Encoded {
    let mut encoded = Encoded::default();
    for (own, blocks) in super_blocks.chunks(2).zip(blocks.chunks_mut(2)) {
        let groups: Groups<S, 32> = load(simd, own.as_flattened());
        let mut squares = splat(simd, 0.0);
        for x in &groups {
            squares += *x * *x;
        }
        let mean = (squares / 32.0).sqrt();
        let weights = groups.map(
            #[inline(always)]
            |x| mean + x.abs(),
        );
        let fit = fit(simd, &groups, &weights, search);
        let (scales, mins) = (fit.scale.as_array(), fit.min.as_array());
        let mut stored = [[0.0; LANES]; 2];
        let pairs = scales.as_chunks::<8>().0.iter().zip(mins.as_chunks::<8>().0);
        for (at, ((own, block), (scales, mins))) in own.iter().zip(blocks.iter_mut()).zip(pairs).enumerate() {
            let most = [largest(scales), largest(mins)];
            let inverses = most.map(|most| if most > 0.0 { 63.0 / most } else { 0.0 });
            let halves = most.map(|most| f16::from_f32(most / 63.0));
            let [d, d_min] = halves.map(f16::to_f32);
            pack::halves(&mut block[..4], halves);
            for k in 0..8 {
                let scale = (nearest_one(inverses[0] * scales[k]) as u8).min(63);
                let min = (nearest_one(inverses[1] * mins[k]) as u8).min(63);
                pack::scale_and_min(&mut block[4..16], k, scale, min);
                stored[0][8 * at + k] = d * f32::from(scale);
                stored[1][8 * at + k] = d_min * f32::from(min);
            }
            encoded += count(own, most[0], halves);
        }
        let integers = integers(simd, &groups, &fit, stored[0], stored[1], search.most as i32);
        for (block, integers) in blocks.iter_mut().zip(integers.as_chunks::<8>().0) {
            store_integers(block, integers.as_flattened());
        }
    }
    encoded
}
