//! Decoders of `IQ1`, `IQ2` and `IQ3` blocks: 256 numbers as rows of a codebook, with signs and small scales.

use super::arithmetic::{half_at, product, scaled, u16_at, u32_at};
use super::grids::{IQ1, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS};
use half::f16;
use std::array::from_fn;

pub fn iq2_xxs(block: &[u8; 66], out: &mut [f32; 256]) {
    let d = half_at(block, 0);
    for (k, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let at = 2 + 8 * k;
        let packed = u32_at(block, at + 4);
        let integers: [[i8; 8]; 4] = from_fn(|l| {
            let row = IQ2_XXS[usize::from(block[at + l])];
            signed(eight(row), even_signs(packed >> (7 * l)))
        });
        scaled(out, quarter(d, (packed >> 28) as u8), integers.as_flattened());
    }
}

pub fn iq2_xs(block: &[u8; 74], out: &mut [f32; 256]) {
    let d = half_at(block, 0);
    for (k, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let integers: [[i8; 8]; 2] = from_fn(|l| {
            let packed = u16_at(block, 2 + 4 * k + 2 * l);
            signed(eight(IQ2_XS[usize::from(packed & 511)]), even_signs(u32::from(packed >> 9)))
        });
        scaled(out, quarter(d, nibble(block, 66, k)), integers.as_flattened());
    }
}

pub fn iq2_s(block: &[u8; 82], out: &mut [f32; 256]) {
    let d = half_at(block, 0);
    for (k, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let integers: [[i8; 8]; 2] = from_fn(|l| {
            let l = 2 * k + l;
            let high = block[66 + l / 4] >> (l % 4 * 2) & 3;
            signed(eight(IQ2_S[index(block[2 + l], high)]), block[34 + l])
        });
        scaled(out, quarter(d, nibble(block, 74, k)), integers.as_flattened());
    }
}

pub fn iq3_xxs(block: &[u8; 98], out: &mut [f32; 256]) {
    let d = half_at(block, 0);
    for (k, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let packed = u32_at(block, 66 + 4 * k);
        let integers: [[i8; 8]; 4] = from_fn(|l| {
            let rows = [0, 1].map(|half| IQ3_XXS[usize::from(block[2 + 8 * k + 2 * l + half])]);
            signed(four_and_four(rows, IQ3_XXS_VALUES), even_signs(packed >> (7 * l)))
        });
        let scale = product(product(d, 0.5 + (packed >> 28) as f32), 0.5_f32);
        scaled(out, scale, integers.as_flattened());
    }
}

pub fn iq3_s(block: &[u8; 110], out: &mut [f32; 256]) {
    let d = half_at(block, 0);
    for (k, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let integers: [[i8; 8]; 4] = from_fn(|l| {
            let rows = [0, 1].map(|half| {
                let l = 2 * l + half;
                IQ3_S[index(block[2 + 8 * k + l], block[66 + k] >> l & 1)]
            });
            signed(four_and_four(rows, IQ3_S_VALUES), block[74 + 4 * k + l])
        });
        scaled(out, product(d, 1 + 2 * nibble(block, 106, k)), integers.as_flattened());
    }
}

pub fn iq1_s(block: &[u8; 50], out: &mut [f32; 256]) {
    let d = half_at(block, 0);
    for (k, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let packed = u16_at(block, 34 + 2 * k);
        let delta = if packed >> 15 == 0 { DELTA } else { -DELTA };
        let numbers: [[f32; 8]; 4] = from_fn(|l| {
            let high = (packed >> (3 * l) & 7) as u8;
            ternary(IQ1[index(block[2 + 4 * k + l], high)], delta)
        });
        scaled(out, product(d, odd(packed >> 12)), numbers.as_flattened());
    }
}

pub fn iq1_m(block: &[u8; 56], out: &mut [f32; 256]) {
    let scales: [u16; 4] = from_fn(|k| u16_at(block, 48 + 2 * k));
    let d = (0..4).fold(0, |bits, k| bits | scales[k] >> 12 << (4 * k));
    let d = f16::from_bits(d).to_f32();
    for (k, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let numbers: [[f32; 8]; 2] = from_fn(|l| {
            let high = nibble(block, 32, 2 * k + l);
            let delta = if high & 8 == 0 { DELTA } else { -DELTA };
            ternary(IQ1[index(block[2 * k + l], high & 7)], delta)
        });
        scaled(out, product(d, odd(scales[k / 4] >> (k % 4 * 3))), numbers.as_flattened());
    }
}

/// What is added to the values -1, 0 and 1 of a codebook.
const DELTA: f32 = 0.125;

const IQ2_VALUES: [i8; 4] = [8, 25, 43, 0];
const IQ3_XXS_VALUES: [i8; 8] = [4, 12, 20, 28, 36, 44, 52, 62];
const IQ3_S_VALUES: [i8; 8] = [1, 3, 5, 7, 9, 11, 13, 15];

/// Returns the values of a row of eight.
fn eight(row: u16) -> [i8; 8] {
    from_fn(|i| IQ2_VALUES[usize::from(row >> (2 * i) & 3)])
}

/// Returns the values of two rows of four.
fn four_and_four(rows: [u16; 2], values: [i8; 8]) -> [i8; 8] {
    from_fn(|i| values[usize::from(rows[i / 4] >> (i % 4 * 4) & 7)])
}

fn ternary(row: u16, delta: f32) -> [f32; 8] {
    from_fn(|i| f32::from(row >> (2 * i) & 3) - 1.0 + delta)
}

fn signed(values: [i8; 8], signs: u8) -> [i8; 8] {
    from_fn(|i| if signs >> i & 1 == 1 { -values[i] } else { values[i] })
}

/// Returns eight signs of which seven are stored: the number of minus signs is even.
fn even_signs(stored: u32) -> u8 {
    let stored = stored & 127;
    (stored | (stored.count_ones() & 1) << 7) as u8
}

/// Returns the number of a row: its low byte and the bits above.
fn index(low: u8, high: u8) -> usize {
    usize::from(low) | usize::from(high) << 8
}

/// Returns nibble `k` of the bytes from `at`, the low ones first.
fn nibble(block: &[u8], at: usize, k: usize) -> u8 {
    block[at + k / 2] >> (k % 2 * 4) & 15
}

fn quarter(d: f32, scale: u8) -> f32 {
    product(product(d, 0.5 + f32::from(scale)), 0.25_f32)
}

/// Returns the odd number that three bits stand for.
fn odd(bits: u16) -> u16 {
    2 * (bits & 7) + 1
}
