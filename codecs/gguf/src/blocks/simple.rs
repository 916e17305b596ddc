//! Decoders of blocks whose numbers share one scale, or one for each 16.

use super::arithmetic::{half_at, scaled, shifted, u32_at};
use std::array::from_fn;

/// The values of 4-bit floats (E2M1), doubled; their scales are halved.
pub const E2M1: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// The values of `IQ4_NL` and `IQ4_XS`.
pub const NONLINEAR: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

pub fn q1_0(block: &[u8; 18], out: &mut [f32; 128]) {
    let signs: [i8; 128] = from_fn(|k| if block[2 + k / 8] >> (k % 8) & 1 == 1 { 1 } else { -1 });
    scaled(out, half_at(block, 0), &signs);
}

pub fn q4_0(block: &[u8; 18], out: &mut [f32; 32]) {
    scaled(out, half_at(block, 0), &nibbles(block, 2).map(|nibble| nibble as i8 - 8));
}

pub fn q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    shifted(out, half_at(block, 0), half_at(block, 2), &nibbles(block, 4));
}

pub fn q5_0(block: &[u8; 22], out: &mut [f32; 32]) {
    let integers = with_fifth_bits(nibbles(block, 6), u32_at(block, 2));
    scaled(out, half_at(block, 0), &integers.map(|integer| integer as i8 - 16));
}

pub fn q5_1(block: &[u8; 24], out: &mut [f32; 32]) {
    let integers = with_fifth_bits(nibbles(block, 8), u32_at(block, 4));
    shifted(out, half_at(block, 0), half_at(block, 2), &integers);
}

pub fn q8_0(block: &[u8; 34], out: &mut [f32; 32]) {
    let integers: [i8; 32] = from_fn(|k| block[2 + k] as i8);
    scaled(out, half_at(block, 0), &integers);
}

/// The sums of integers behind the integers only speed up products.
pub fn q8_k(block: &[u8; 292], out: &mut [f32; 256]) {
    let integers: [i8; 256] = from_fn(|k| block[4 + k] as i8);
    scaled(out, f32::from_bits(u32_at(block, 0)), &integers);
}

/// Five digits of base 3 in a byte: the byte is their fraction of 3⁵, as 256ths.
pub fn tq1_0(block: &[u8; 54], out: &mut [f32; 256]) {
    const POWERS: [u8; 5] = [1, 3, 9, 27, 81];
    let digits: [i8; 256] = from_fn(|k| {
        let (byte, place) = match k {
            0..160 => (k % 32, k / 32),
            160..240 => (32 + (k - 160) % 16, (k - 160) / 16),
            _ => (48 + (k - 240) % 4, (k - 240) / 4),
        };
        let fraction = block[byte].wrapping_mul(POWERS[place]);
        ((u16::from(fraction) * 3) >> 8) as i8 - 1
    });
    scaled(out, half_at(block, 52), &digits);
}

pub fn tq2_0(block: &[u8; 66], out: &mut [f32; 256]) {
    let digits: [i8; 256] = from_fn(|k| (block[k / 128 * 32 + k % 32] >> (k % 128 / 32 * 2) & 3) as i8 - 1);
    scaled(out, half_at(block, 64), &digits);
}

pub fn iq4_nl(block: &[u8; 18], out: &mut [f32; 32]) {
    scaled(out, half_at(block, 0), &nibbles(block, 2).map(|nibble| NONLINEAR[usize::from(nibble)]));
}

pub fn mxfp4(block: &[u8; 17], out: &mut [f32; 32]) {
    scaled(out, half_of_e8m0(block[0]), &nibbles(block, 1).map(|nibble| E2M1[usize::from(nibble)]));
}

/// Returns half of a power of two that 8 bits state: 2^(e − 128).
pub fn half_of_e8m0(exponent: u8) -> f32 {
    let exponent = u32::from(exponent);
    f32::from_bits(if exponent < 2 { 0x0020_0000 << exponent } else { (exponent - 1) << 23 })
}

pub fn nvfp4(block: &[u8; 36], out: &mut [f32; 64]) {
    for (k, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let pairs: [u8; 8] = from_fn(|i| block[4 + 8 * k + i]);
        let integers: [i8; 16] = from_fn(|i| E2M1[usize::from(pairs[i % 8] >> (i / 8 * 4) & 15)]);
        scaled(out, half_of_e4m3(block[k]), &integers);
    }
}

/// Returns half of an unsigned 8-bit float (E4M3). Bit 7 means nothing, but 0x7f alone is 0.
fn half_of_e4m3(byte: u8) -> f32 {
    let (exponent, mantissa) = (u32::from(byte >> 3 & 15), f32::from(byte & 7));
    match (byte, exponent) {
        (0x7f, _) => 0.0,
        (_, 0) => mantissa / 1024.0,
        _ => (8.0 + mantissa) * f32::from_bits((exponent + 116) << 23), // times 2^(exponent − 11)
    }
}

/// Returns the 32 nibbles of 16 bytes: the low ones, then the high ones.
pub fn nibbles(block: &[u8], at: usize) -> [u8; 32] {
    let bytes = &block[at..at + 16];
    from_fn(|k| bytes[k % 16] >> (k / 16 * 4) & 15)
}

fn with_fifth_bits(nibbles: [u8; 32], bits: u32) -> [u8; 32] {
    from_fn(|k| nibbles[k] | ((bits >> k & 1) as u8) << 4)
}
