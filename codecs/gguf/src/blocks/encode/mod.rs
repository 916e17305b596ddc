//! Encoders with the bytes of llama.cpp's quantizer, and of `gguf-py`'s if it has one.
//!
//! The order of operations is part of the definition: sums are added from the first number on, products from the left, and
//! each operation rounds once. A fused multiplication and addition, or a sum in another order, gives other blocks.

mod affine;
mod encoded;
mod lanes;
mod lattice;
mod nonlinear;
mod pack;
mod simple;
mod symmetric;

pub use encoded::Encoded;

use super::BlockType;
use ckpt_api::{Error, Misfit, Result};
use fearless_simd::{Level, dispatch};

/// Appends the blocks of `numbers`, which fill whole blocks.
///
/// Each block is what llama.cpp gives for the same numbers without an importance matrix. Where the smallest number of a
/// `Q4_1` or `Q5_1` block is 0, and zeros of both signs occur, `gguf-py`'s sign depends on the processor: here, the last
/// zero's is stored.
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
        let types = BlockType::ALL.iter().filter(|block_type| block_type.is_encodable());
        let names: Vec<&str> = types.map(|block_type| block_type.name()).collect();
        return Err(Error::unsupported(format!("numbers cannot be encoded as {}", block_type.name()))
            .expected(format!("one of {}", names.join(", "))));
    }
    let elements = block_type.elements() as usize;
    if !numbers.len().is_multiple_of(elements) {
        let message = format!("{} numbers do not fill blocks of {elements}", numbers.len());
        return Err(Error::unsupported(message));
    }
    if let Some(first) = not_finite(numbers) {
        return Err(Error::unsupported(format!("{} stores no NaN and no infinity", block_type.name()))
            .found(format!("{} at element {first}", numbers[first]))
            .expected("finite numbers"));
    }
    let start = out.len();
    out.resize(start + numbers.len() / elements * block_type.bytes() as usize, 0);
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
    let elements = block_type.elements() as usize;
    let pairs = numbers.chunks(elements).zip(blocks.chunks_mut(block_type.bytes() as usize)).enumerate();
    for (block, (numbers, bytes)) in pairs {
        let misfit = |position, expected: &str| Err(Misfit::new(block * elements + position, expected));
        if let Some(position) = not_finite(numbers) {
            return misfit(position, "finite numbers");
        }
        bytes.fill(0);
        if fill(block_type, numbers, bytes).overflowed > 0 {
            let largest =
                numbers.iter().enumerate().rev().max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()));
            let position = largest.map_or(0, |(position, _)| position);
            return misfit(position, "a block whose scale and minimum are 16-bit floats, at most 65504");
        }
    }
    Ok(())
}

/// Writes the blocks of numbers over zeros; nothing for a type without an encoder.
fn fill(block_type: BlockType, numbers: &[f32], blocks: &mut [u8]) -> Encoded {
    macro_rules! each {
        // A closure: what is passed as a function is not compiled for each instruction set.
        ($encoder:path) => {
            each(
                numbers,
                blocks,
                #[inline(always)]
                |numbers, block| $encoder(numbers, block),
            )
        };
    }
    macro_rules! all {
        ($encoder:path) => {{
            let (numbers, blocks) = (numbers.as_chunks().0, blocks.as_chunks_mut().0);
            dispatch!(Level::new(), simd => $encoder(simd, numbers, blocks))
        }};
    }
    match block_type {
        BlockType::Q4_0 => each!(simple::q4_0),
        BlockType::Q4_1 => each!(simple::q4_1),
        BlockType::Q5_0 => each!(simple::q5_0),
        BlockType::Q5_1 => each!(simple::q5_1),
        BlockType::Q8_0 => each!(simple::q8_0),
        BlockType::Q2_K => all!(affine::q2_k),
        BlockType::Q3_K => all!(symmetric::q3_k),
        BlockType::Q4_K => all!(affine::q4_k),
        BlockType::Q5_K => all!(affine::q5_k),
        BlockType::Q6_K => all!(symmetric::q6_k),
        BlockType::IQ4_NL => all!(nonlinear::iq4_nl),
        BlockType::IQ4_XS => all!(nonlinear::iq4_xs),
        BlockType::IQ3_S => each!(lattice::iq3_s),
        BlockType::TQ1_0 => each!(simple::tq1_0),
        BlockType::TQ2_0 => each!(simple::tq2_0),
        BlockType::MXFP4 => each!(simple::mxfp4),
        _ => Encoded::default(),
    }
}

fn each<const NUMBERS: usize, const BYTES: usize>(
    numbers: &[f32],
    blocks: &mut [u8],
    encode: impl Fn(&[f32; NUMBERS], &mut [u8; BYTES]) -> Encoded,
) -> Encoded {
    let (numbers, blocks) = (numbers.as_chunks().0, blocks.as_chunks_mut().0);
    // The loops are compiled once for each instruction set.
    dispatch!(Level::new(), _ => encode_all(numbers, blocks, encode))
}

#[inline(always)]
fn encode_all<const NUMBERS: usize, const BYTES: usize>(
    numbers: &[[f32; NUMBERS]],
    blocks: &mut [[u8; BYTES]],
    encode: impl Fn(&[f32; NUMBERS], &mut [u8; BYTES]) -> Encoded,
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
