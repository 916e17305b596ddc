//! Sixteen groups of numbers side by side: each has a lane of the vectors.
//!
//! llama.cpp adds up the terms of a group one after the other, which decides the last bits of the sum. So a vector holds
//! one number of each of sixteen groups, and every lane keeps llama.cpp's order of operations.

use fearless_simd::prelude::*;
use fearless_simd::{Simd, f32x16, i32x16};

/// The number of groups that are side by side.
pub const LANES: usize = 16;

/// A number of each group.
pub type Lanes<S> = f32x16<S>;

/// Groups of N numbers: row `i` has number `i` of each.
pub type Groups<S, const N: usize> = [Lanes<S>; N];

/// A group whose largest absolute value is below this counts as zeros.
pub const ZERO: f32 = 1e-15;

/// Returns sixteen groups of neighboring numbers. Groups that are not there are zeros.
#[inline(always)]
pub fn load<S: Simd, const N: usize>(simd: S, numbers: &[f32]) -> Groups<S, N> {
    let mut rows = [[0.0; LANES]; N];
    for (lane, group) in numbers.as_chunks::<N>().0.iter().take(LANES).enumerate() {
        for (row, number) in rows.iter_mut().zip(group) {
            row[lane] = *number;
        }
    }
    rows.map(
        #[inline(always)]
        |row| f32x16::simd_from(simd, row),
    )
}

/// Stores sixteen groups of integers as neighbors.
#[inline(always)]
pub fn store<S: Simd, const N: usize>(integers: &[i32x16<S>; N], out: &mut [[u8; N]; LANES]) {
    for (i, row) in integers.iter().enumerate() {
        let row = row.as_array();
        for (group, integer) in out.iter_mut().zip(row) {
            group[i] = *integer as u8;
        }
    }
}

/// Returns the same number in every lane.
#[inline(always)]
pub fn splat<S: Simd>(simd: S, number: f32) -> Lanes<S> {
    f32x16::splat(simd, number)
}

/// Added to a number below 2²², it leaves the nearest integer in the low bits of the sum.
const NEAREST: f32 = 12_582_912.0; // 1.5 · 2²³

/// Returns the nearest integer of each number, at least `least` and at most `most`.
///
/// For numbers from 2²² on, for infinities and for NaN it is another integer, but always the one of llama.cpp.
#[inline(always)]
pub fn nearest<S: Simd>(simd: S, numbers: Lanes<S>, least: i32, most: i32) -> i32x16<S> {
    let bits: i32x16<S> = (numbers + NEAREST).bitcast();
    let integers = (bits & 0x007f_ffff) - 0x0040_0000;
    integers.max(i32x16::splat(simd, least)).min(i32x16::splat(simd, most))
}

/// Returns integers as numbers.
#[inline(always)]
pub fn numbers<S: Simd>(integers: i32x16<S>) -> Lanes<S> {
    f32x16::float_from(integers)
}

/// Returns what [`nearest`] does for one number, without limits.
#[inline(always)]
pub fn nearest_one(number: f32) -> i32 {
    ((number + NEAREST).to_bits() & 0x007f_ffff).cast_signed() - 0x0040_0000
}

/// Returns the number of the largest absolute value of each group, with its sign: the first, if there are several.
#[inline(always)]
pub fn farthest<S: Simd, const N: usize>(simd: S, groups: &Groups<S, N>) -> Lanes<S> {
    let (mut most, mut farthest) = (splat(simd, 0.0), splat(simd, 0.0));
    for row in groups {
        let magnitude = row.abs();
        let is_farther = magnitude.simd_gt(most);
        most = is_farther.select(magnitude, most);
        farthest = is_farther.select(*row, farthest);
    }
    farthest
}

/// Returns the first scale of the largest absolute value.
pub fn farthest_scale(scales: &[f32]) -> f32 {
    let farther = |most: f32, scale: &f32| if scale.abs() > most.abs() { *scale } else { most };
    scales.iter().fold(0.0, farther)
}
