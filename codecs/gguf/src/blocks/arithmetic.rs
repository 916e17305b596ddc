//! 32-bit arithmetic with one result everywhere, NaN included.
//!
//! Rust leaves the bits of a NaN open. `gguf-py` on x86-64 with AVX gives those of the first NaN operand, made quiet; an
//! operation without NaN operands that has no result (∞ · 0, ∞ − ∞) gives the NaN [`INVALID`]. These functions do the same.

use half::f16;

const INVALID: f32 = f32::from_bits(0xffc0_0000);
const QUIET: u32 = 0x0040_0000;

/// Returns the 16-bit float at an offset of a block.
pub fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_bits(u16_at(block, at)).to_f32()
}

pub fn u16_at(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}

pub fn u32_at(block: &[u8], at: usize) -> u32 {
    u32::from(u16_at(block, at)) | u32::from(u16_at(block, at + 2)) << 16
}

/// Returns `a · b`, where `b` is finite.
pub fn product(a: f32, b: impl Into<f32>) -> f32 {
    let product = a * b.into();
    if product.is_nan() { nan_of(&[a]) } else { product }
}

/// Returns `-a`; a NaN keeps its sign, as one that is subtracted.
pub fn minus(a: f32) -> f32 {
    if a.is_nan() { a } else { -a }
}

/// Sets each number to `scale · integer`.
#[inline(always)]
pub fn scaled<T: Copy + Into<f32>>(out: &mut [f32], scale: f32, integers: &[T]) {
    for (out, integer) in out.iter_mut().zip(integers) {
        *out = scale * (*integer).into();
    }
    if !scale.is_finite() {
        out.iter_mut().filter(|out| out.is_nan()).for_each(|out| *out = nan_of(&[scale]));
    }
}

/// Sets each number to `scale · integer + offset`, rounded twice.
#[inline(always)]
pub fn shifted(out: &mut [f32], scale: f32, offset: f32, integers: &[u8]) {
    for (out, integer) in out.iter_mut().zip(integers) {
        *out = scale * f32::from(*integer) + offset;
    }
    if !(scale.is_finite() && offset.is_finite()) {
        for (out, integer) in out.iter_mut().zip(integers).filter(|(out, _)| out.is_nan()) {
            *out = nan_of(&[product(scale, *integer), offset]);
        }
    }
}

/// Returns the NaN of an operation on these numbers.
#[cold]
fn nan_of(operands: &[f32]) -> f32 {
    let nan = operands.iter().find(|operand| operand.is_nan());
    nan.map_or(INVALID, |nan| f32::from_bits(nan.to_bits() | QUIET))
}
