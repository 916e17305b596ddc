//! Encoders with the bytes of `gguf-py`'s own quantizer.
//!
//! The stored scale is rounded to 16 bits; what the numbers are divided by is not.

use super::BlockType;
use ckpt_api::{Error, Misfit, Result};
use fearless_simd::{Level, dispatch};
use half::f16;
use std::ops::AddAssign;

/// Numbers of a block that can be encoded.
const ELEMENTS: usize = 32;

/// How many blocks lost their scale, which has 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Encoded {
    /// Blocks with an infinite scale or minimum, because a number is too large: they decode to infinities and NaN.
    pub overflowed: u64,
    /// Blocks with the scale 0, because the numbers are too close to each other or to 0: they decode to one number.
    pub underflowed: u64,
}

impl AddAssign for Encoded {
    fn add_assign(&mut self, other: Self) {
        self.overflowed += other.overflowed;
        self.underflowed += other.underflowed;
    }
}

/// Appends the blocks of `numbers`, which fill whole blocks.
///
/// Each block is what `gguf-py` gives for the same numbers. Where the smallest number of a `Q4_1` or `Q5_1` block is 0, and
/// zeros of both signs occur, `gguf-py`'s sign depends on the processor: here, the last zero's is stored.
///
/// ```
/// use ckpt_gguf::blocks::{BlockType, decode, encode};
/// let numbers: Vec<f32> = (0..32).map(|k| k as f32 - 16.0).collect();
/// let (mut blocks, mut decoded) = (Vec::new(), [0.0; 32]);
/// let encoded = encode(BlockType::Q8_0, &numbers, &mut blocks)?;
/// assert_eq!((blocks.len(), encoded.overflowed, encoded.underflowed), (34, 0, 0));
/// decode(BlockType::Q8_0, &blocks, &mut decoded);
/// assert!(numbers.iter().zip(decoded).all(|(number, decoded)| (number - decoded).abs() <= 0.5 * 16.0 / 127.0));
/// # Ok::<(), ckpt_api::Error>(())
/// ```
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for a type without an encoder, for numbers that do not fill their blocks, and for NaN
/// and infinity, which no block can store. Nothing is appended then.
pub fn encode(block_type: BlockType, numbers: &[f32], out: &mut Vec<u8>) -> Result<Encoded> {
    if !block_type.is_encodable() {
        return Err(Error::unsupported(format!("numbers cannot be encoded as {}", block_type.name()))
            .expected("Q8_0, Q4_0, Q4_1, Q5_0 or Q5_1"));
    }
    if !numbers.len().is_multiple_of(ELEMENTS) {
        let message = format!("{} numbers do not fill blocks of {ELEMENTS}", numbers.len());
        return Err(Error::unsupported(message));
    }
    if let Some(first) = not_finite(numbers) {
        return Err(Error::unsupported(format!("{} stores no NaN and no infinity", block_type.name()))
            .found(format!("{} at element {first}", numbers[first]))
            .expected("finite numbers"));
    }
    let start = out.len();
    out.resize(start + numbers.len() / ELEMENTS * block_type.bytes() as usize, 0);
    Ok(fill(block_type, numbers, &mut out[start..]))
}

/// Writes the blocks of `numbers`, as the engine wants them: a block whose scale is infinite is refused.
///
/// # Errors
/// The first number that is not finite, or the largest one of the first block whose scale is too large, whichever block
/// comes first.
pub(crate) fn encode_finite(
    block_type: BlockType,
    numbers: &[f32],
    blocks: &mut [u8],
) -> std::result::Result<(), Misfit> {
    if not_finite(numbers).is_none() && fill(block_type, numbers, blocks).overflowed == 0 {
        return Ok(());
    }
    let pairs = numbers.chunks(ELEMENTS).zip(blocks.chunks_mut(block_type.bytes() as usize)).enumerate();
    for (block, (numbers, bytes)) in pairs {
        let misfit = |position, expected: &str| Err(Misfit::new(block * ELEMENTS + position, expected));
        if let Some(position) = not_finite(numbers) {
            return misfit(position, "finite numbers");
        }
        if fill(block_type, numbers, bytes).overflowed > 0 {
            let largest =
                numbers.iter().enumerate().rev().max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()));
            let position = largest.map_or(0, |(position, _)| position);
            return misfit(position, "a block whose scale and minimum are 16-bit floats, at most 65504");
        }
    }
    Ok(())
}

/// Writes the blocks of numbers; nothing for a type without an encoder.
fn fill(block_type: BlockType, numbers: &[f32], blocks: &mut [u8]) -> Encoded {
    macro_rules! with {
        // A closure: what is passed as a function is not compiled for each instruction set.
        ($encoder:ident) => {
            each(
                numbers,
                blocks,
                #[inline(always)]
                |block, bytes| $encoder(block, bytes),
            )
        };
    }
    match block_type {
        BlockType::Q4_0 => with!(q4_0),
        BlockType::Q4_1 => with!(q4_1),
        BlockType::Q5_0 => with!(q5_0),
        BlockType::Q5_1 => with!(q5_1),
        BlockType::Q8_0 => with!(q8_0),
        _ => Encoded::default(),
    }
}

fn each<const BYTES: usize>(
    numbers: &[f32],
    blocks: &mut [u8],
    encode: impl Fn(&[f32; ELEMENTS], &mut [u8; BYTES]) -> Encoded,
) -> Encoded {
    let (numbers, blocks) = (numbers.as_chunks().0, blocks.as_chunks_mut().0);
    // The loops are compiled once for each instruction set.
    dispatch!(Level::new(), _ => encode_all(numbers, blocks, encode))
}

#[inline(always)]
fn encode_all<const BYTES: usize>(
    numbers: &[[f32; ELEMENTS]],
    blocks: &mut [[u8; BYTES]],
    encode: impl Fn(&[f32; ELEMENTS], &mut [u8; BYTES]) -> Encoded,
) -> Encoded {
    let mut encoded = Encoded::default();
    for (numbers, block) in numbers.iter().zip(blocks) {
        encoded += encode(numbers, block);
    }
    encoded
}

/// Returns the position of the first number that is NaN or infinite.
fn not_finite(numbers: &[f32]) -> Option<usize> {
    // The exponent of NaN and infinity carries into the sign. One pass without branches takes a tenth of the time.
    let carries = numbers.iter().fold(0, |bits, number| bits | (number.abs().to_bits() + (1 << 23)));
    if carries >> 31 == 0 { None } else { numbers.iter().position(|number| !number.is_finite()) }
}

#[inline(always)]
fn q8_0(numbers: &[f32; ELEMENTS], block: &mut [u8; 34]) -> Encoded {
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
fn q4_0(numbers: &[f32; ELEMENTS], block: &mut [u8; 18]) -> Encoded {
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
fn q4_1(numbers: &[f32; ELEMENTS], block: &mut [u8; 20]) -> Encoded {
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
fn q5_0(numbers: &[f32; ELEMENTS], block: &mut [u8; 22]) -> Encoded {
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
fn q5_1(numbers: &[f32; ELEMENTS], block: &mut [u8; 24]) -> Encoded {
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
