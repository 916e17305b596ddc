//! Decoders of K-quants and `IQ4_XS`: 256 numbers with a scale for all, and integers that scale 16 or 32 of them.

use super::arithmetic::{half_at, minus, product, scaled, shifted, u16_at};
use super::simple::{NONLINEAR, nibbles};
use std::array::from_fn;

pub fn q2_k(block: &[u8; 84], out: &mut [f32; 256]) {
    let (d, dmin) = (half_at(block, 80), half_at(block, 82));
    for (k, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let (scale, min) = (block[k] & 15, block[k] >> 4);
        shifted(out, product(d, scale), minus(product(dmin, min)), &crumbs(block, 16, k));
    }
}

pub fn q3_k(block: &[u8; 110], out: &mut [f32; 256]) {
    let d = half_at(block, 108);
    for (k, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let low = block[96 + k % 8] >> (k / 8 * 4) & 15;
        let high = block[104 + k % 4] >> (k / 4 * 2) & 3;
        let scale = (low | high << 4) as i8 - 32;
        let crumbs = crumbs(block, 32, k);
        // A bit that is set stands for 0, one that is not for -4.
        let integers: [i8; 16] = from_fn(|i| {
            let bit = block[k % 2 * 16 + i] >> (k / 2) & 1;
            crumbs[i] as i8 - if bit == 1 { 0 } else { 4 }
        });
        scaled(out, product(d, scale), &integers);
    }
}

pub fn q4_k(block: &[u8; 144], out: &mut [f32; 256]) {
    let (d, dmin) = (half_at(block, 0), half_at(block, 2));
    for (k, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, min) = scale_and_min(block, k);
        shifted(out, product(d, scale), minus(product(dmin, min)), &nibbles_of_32(block, 16, k));
    }
}

pub fn q5_k(block: &[u8; 176], out: &mut [f32; 256]) {
    let (d, dmin) = (half_at(block, 0), half_at(block, 2));
    for (k, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, min) = scale_and_min(block, k);
        let nibbles = nibbles_of_32(block, 48, k);
        let integers: [u8; 32] = from_fn(|i| nibbles[i] | (block[16 + i] >> k & 1) << 4);
        shifted(out, product(d, scale), minus(product(dmin, min)), &integers);
    }
}

pub fn q6_k(block: &[u8; 210], out: &mut [f32; 256]) {
    let d = half_at(block, 208);
    for (k, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let low = &block[k / 8 * 64 + k % 4 * 16..][..16];
        let high = &block[128 + k / 8 * 32 + k % 2 * 16..][..16];
        let (low_shift, high_shift) = (k % 8 / 4 * 4, k % 8 / 2 * 2);
        let integers: [i8; 16] =
            from_fn(|i| (low[i] >> low_shift & 15 | (high[i] >> high_shift & 3) << 4) as i8 - 32);
        scaled(out, product(d, block[192 + k] as i8), &integers);
    }
}

pub fn iq4_xs(block: &[u8; 136], out: &mut [f32; 256]) {
    let (d, high) = (half_at(block, 0), u16_at(block, 2));
    for (k, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let low = block[4 + k / 2] >> (k % 2 * 4) & 15;
        let scale = (low | ((high >> (2 * k) & 3) as u8) << 4) as i8 - 32;
        let integers = nibbles(block, 8 + 16 * k).map(|nibble| NONLINEAR[usize::from(nibble)]);
        scaled(out, product(d, scale), &integers);
    }
}

/// Returns the 6-bit scale and minimum of the 32 numbers `k` of a `Q4_K` or `Q5_K` block.
fn scale_and_min(block: &[u8], k: usize) -> (u8, u8) {
    let packed = &block[4..16];
    if k < 4 {
        return (packed[k] & 63, packed[k + 4] & 63);
    }
    (packed[k + 4] & 15 | packed[k - 4] >> 6 << 4, packed[k + 4] >> 4 | packed[k] >> 6 << 4)
}

/// Returns the 2-bit integers of the 16 numbers `k`: 32 bytes hold those of 128 numbers.
fn crumbs(block: &[u8], at: usize, k: usize) -> [u8; 16] {
    let bytes = &block[at + k / 8 * 32 + k % 2 * 16..][..16];
    from_fn(|i| bytes[i] >> (k % 8 / 2 * 2) & 3)
}

/// Returns the 4-bit integers of the 32 numbers `k`: 32 bytes hold those of 64 numbers.
fn nibbles_of_32(block: &[u8], at: usize, k: usize) -> [u8; 32] {
    let bytes = &block[at + k / 2 * 32..][..32];
    from_fn(|i| bytes[i] >> (k % 2 * 4) & 15)
}
