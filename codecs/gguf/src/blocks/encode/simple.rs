//! Blocks with one scale for all of their numbers.

use super::encoded::{ELEMENTS, Encoded, SUPER};
use super::pack;
use crate::blocks::simple::{E2M1, half_of_e8m0};
use half::f16;

#[inline(always)]
pub fn q8_0(numbers: &[f32; ELEMENTS], block: &mut [u8; 34]) -> Encoded {
    let scale = f32::from_bits(magnitude(numbers)) / 127.0;
    let integers = integers(
        numbers,
        scale,
        #[inline(always)]
        |number, inverse| half_away_from_zero(number * inverse),
    );
    block[2..].copy_from_slice(&integers);
    store(block, [scale])
}

#[inline(always)]
pub fn q4_0(numbers: &[f32; ELEMENTS], block: &mut [u8; 18]) -> Encoded {
    let scale = farthest(numbers) / -8.0;
    let integers = integers(
        numbers,
        scale,
        #[inline(always)]
        |number, inverse| whole::<15>(number * inverse + 8.5),
    );
    store_nibbles(&mut block[2..], &integers);
    store(block, [scale])
}

#[inline(always)]
pub fn q4_1(numbers: &[f32; ELEMENTS], block: &mut [u8; 20]) -> Encoded {
    let (min, max) = bounds(numbers);
    let scale = (max - min) / 15.0;
    let integers = integers(
        numbers,
        scale,
        #[inline(always)]
        |number, inverse| whole::<15>((number - min) * inverse + 0.5),
    );
    store_nibbles(&mut block[4..], &integers);
    store(block, [scale, min])
}

#[inline(always)]
pub fn q5_0(numbers: &[f32; ELEMENTS], block: &mut [u8; 22]) -> Encoded {
    let scale = farthest(numbers) / -16.0;
    let integers = integers(
        numbers,
        scale,
        #[inline(always)]
        |number, inverse| whole::<31>(number * inverse + 16.5),
    );
    block[2..6].copy_from_slice(&fifth_bits(&integers));
    store_nibbles(&mut block[6..], &integers);
    store(block, [scale])
}

#[inline(always)]
pub fn q5_1(numbers: &[f32; ELEMENTS], block: &mut [u8; 24]) -> Encoded {
    let (min, max) = bounds(numbers);
    let scale = (max - min) / 31.0;
    let integers = integers(
        numbers,
        scale,
        #[inline(always)]
        |number, inverse| whole::<31>((number - min) * inverse + 0.5),
    );
    block[4..8].copy_from_slice(&fifth_bits(&integers));
    store_nibbles(&mut block[8..], &integers);
    store(block, [scale, min])
}

/// Returns the bits of the largest absolute value, which are in the order of the values.
#[inline(always)]
fn magnitude(numbers: &[f32; ELEMENTS]) -> u32 {
    let mut most = 0;
    for number in numbers {
        most = most.max(number.abs().to_bits());
    }
    most
}

/// Returns the first number of the largest absolute value.
#[inline(always)]
fn farthest(numbers: &[f32; ELEMENTS]) -> f32 {
    let magnitude = magnitude(numbers);
    let mut places = 0;
    for (k, number) in numbers.iter().enumerate() {
        places |= u32::from(number.abs().to_bits() == magnitude) << k;
    }
    numbers[places.trailing_zeros() as usize % ELEMENTS]
}

/// Returns the smallest and the largest number. A zero has the sign of the last zero.
#[inline(always)]
fn bounds(numbers: &[f32; ELEMENTS]) -> (f32, f32) {
    // As integers in the order of the numbers: unlike those of floats, their extremes are found in vectors.
    let (mut min, mut max) = (i32::MAX, i32::MIN);
    for number in numbers {
        let key = ordered(number.to_bits().cast_signed());
        (min, max) = (min.min(key), max.max(key));
    }
    let signed = |key| match f32::from_bits(ordered(key).cast_unsigned()) {
        0.0 => numbers.iter().rfind(|number| **number == 0.0).copied().unwrap_or_default(),
        number => number,
    };
    (signed(min), signed(max))
}

/// Turns the bits of a float into an integer in the order of floats, and back.
#[inline(always)]
fn ordered(bits: i32) -> i32 {
    bits ^ ((bits >> 31).cast_unsigned() >> 1).cast_signed()
}

/// Returns the integers that `divide` makes of the numbers and of 1 / scale, or 0 if the scale is 0.
///
/// They are all 0 if the scale or its inverse is infinite: `gguf-py` gets no numbers there that can be converted.
#[inline(always)]
fn integers(numbers: &[f32; ELEMENTS], scale: f32, divide: impl Fn(f32, f32) -> u8) -> [u8; ELEMENTS] {
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let mut integers = [0; ELEMENTS];
    if scale.is_finite() && inverse.is_finite() {
        for (integer, number) in integers.iter_mut().zip(numbers) {
            *integer = divide(*number, inverse);
        }
    }
    integers
}

/// Added to a smaller number, it leaves the nearest integer in the low bits of the sum.
const NEAREST: f32 = 12_582_912.0; // 1.5 · 2²³

/// Returns the integer part of a number between 0 and 256, at most `MOST`.
///
/// A conversion by `as` checks for NaN and for the largest integers: half of the speed.
#[inline(always)]
fn whole<const MOST: u32>(number: f32) -> u8 {
    let sum = number + NEAREST;
    let above = u32::from(sum - NEAREST > number);
    (sum.to_bits() - NEAREST.to_bits() - above).min(MOST) as u8
}

/// Returns the bits of the nearest integer, of two equally near ones that farther from 0, for numbers from -128 to 127.
#[inline(always)]
fn half_away_from_zero(number: f32) -> u8 {
    let sum = number + NEAREST;
    let rest = number - (sum - NEAREST);
    let up = u32::from(rest == 0.5 && number > 0.0);
    let down = u32::from(rest == -0.5 && number < 0.0);
    sum.to_bits().wrapping_sub(NEAREST.to_bits()).wrapping_add(up).wrapping_sub(down) as u8
}

#[inline(always)]
fn store_nibbles(bytes: &mut [u8], integers: &[u8; ELEMENTS]) {
    let (low, high) = integers.split_at(ELEMENTS / 2);
    for ((byte, low), high) in bytes.iter_mut().zip(low).zip(high) {
        *byte = low & 15 | high << 4;
    }
}

#[inline(always)]
fn fifth_bits(integers: &[u8; ELEMENTS]) -> [u8; 4] {
    let mut bits = [0; 4];
    for (bits, integers) in bits.iter_mut().zip(integers.as_chunks().0) {
        // The product has the lowest bits of eight bytes in its highest byte, in their order.
        let lowest = u64::from_le_bytes(*integers) >> 4 & 0x0101_0101_0101_0101;
        *bits = (lowest.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8;
    }
    bits
}

/// Stores the scale, and the minimum if there is one, as 16-bit floats at the start of the block.
#[inline(always)]
fn store<const N: usize>(block: &mut [u8], numbers: [f32; N]) -> Encoded {
    let halves = numbers.map(f16::from_f32);
    for (bytes, half) in block.as_chunks_mut().0.iter_mut().zip(halves) {
        *bytes = half.to_le_bytes();
    }
    let (scale, stored) = (numbers[0], halves[0]);
    Encoded {
        overflowed: halves.iter().any(|half| half.is_infinite()).into(),
        underflowed: (scale != 0.0 && stored.to_f32() == 0.0).into(),
    }
}

/// Returns the largest absolute value, and its inverse for digits from -1 to 1: 0 if it has none.
#[inline(always)]
fn scale_of_digits(numbers: &[f32; SUPER]) -> (f32, f32) {
    let scale = numbers.iter().fold(0f32, |most, number| most.max(number.abs()));
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    (scale, if inverse.is_finite() { inverse } else { 0.0 })
}

#[inline(always)]
pub fn tq1_0(numbers: &[f32; SUPER], block: &mut [u8; 54]) -> Encoded {
    let (scale, inverse) = scale_of_digits(numbers);
    let digits = numbers.map(|number| u16::from(half_away_from_zero(number * inverse).wrapping_add(1)));
    let (first, rest) = digits.split_at(160);
    let (second, third) = rest.split_at(80);
    for (bytes, digits, step) in [(0..32, first, 32), (32..48, second, 16), (48..52, third, 4)] {
        for (k, byte) in block[bytes].iter_mut().enumerate() {
            // Five digits of base 3, of which the last four bytes have no fifth.
            let digit = |place: usize| digits.get(k + step * place).copied().unwrap_or_default();
            let number = (0..5).fold(0, |number, place| 3 * number + digit(place));
            // A fraction of 3⁵ as 256ths, rounded up.
            *byte = (number * 256).div_ceil(243) as u8;
        }
    }
    store_at(block, 52, scale)
}

#[inline(always)]
pub fn tq2_0(numbers: &[f32; SUPER], block: &mut [u8; 66]) -> Encoded {
    let (scale, inverse) = scale_of_digits(numbers);
    let digits = numbers.map(|number| half_away_from_zero(number * inverse).wrapping_add(1) & 3);
    pack::crumbs(&mut block[..64], &digits);
    store_at(block, 64, scale)
}

/// Stores the scale as a 16-bit float at an offset of the block.
#[inline(always)]
fn store_at(block: &mut [u8], offset: usize, scale: f32) -> Encoded {
    store(&mut block[offset..], [scale])
}

#[inline(always)]
pub fn mxfp4(numbers: &[f32; ELEMENTS], block: &mut [u8; 17]) -> Encoded {
    let most = f32::from_bits(magnitude(numbers));
    // The logarithm is rounded to 32 bits as llama.cpp does, which decides for numbers just below a power of two. The
    // exponent of numbers below 2⁻¹²⁵ wraps; all of their integers are 0.
    let exponent = (f64::from(most).log2() as f32).floor() - 2.0 + 127.0;
    block[0] = if most > 0.0 { exponent as i32 as u8 } else { 0 };
    let scale = half_of_e8m0(block[0]);
    let mut integers = [0; ELEMENTS];
    for (integer, number) in integers.iter_mut().zip(numbers) {
        let mut least = f32::MAX;
        for (k, value) in (0..).zip(E2M1) {
            let error = (f32::from(value) * scale - number).abs();
            let is_nearer = error < least;
            *integer = if is_nearer { k } else { *integer };
            least = if is_nearer { error } else { least };
        }
    }
    store_nibbles(&mut block[1..], &integers);
    Encoded::default()
}
