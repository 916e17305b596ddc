//! What holds for all numbers and all blocks.

use ckpt_gguf::blocks::{BlockType, decode, encode};
use proptest::collection::vec;
use proptest::prelude::*;

/// The largest error of a number: half of the step between neighboring integers of a block.
///
/// A scale of groups is searched, and stored with few bits; so their bound is wider, and that of the whole block.
fn most_error(block_type: BlockType, numbers: &[f32]) -> f32 {
    let magnitude = numbers.iter().fold(0f32, |most, number| most.max(number.abs()));
    let min = numbers.iter().fold(f32::INFINITY, |min, number| min.min(*number));
    let max = numbers.iter().fold(f32::NEG_INFINITY, |max, number| max.max(*number));
    0.5 * match block_type {
        BlockType::Q8_0 => magnitude / 127.0,
        BlockType::Q4_1 => (max - min) / 15.0,
        BlockType::Q5_1 => (max - min) / 31.0,
        // The number opposite to the farthest one has no integer of its own: its error is a whole step.
        BlockType::Q4_0 => 2.0 * magnitude / 8.0,
        BlockType::Q5_0 => 2.0 * magnitude / 16.0,
        BlockType::Q6_K => 2.0 * magnitude / 16.0,
        BlockType::Q5_K => 2.0 * (max.max(0.0) - min.min(0.0)) / 16.0,
        BlockType::Q4_K => 2.0 * (max.max(0.0) - min.min(0.0)) / 8.0,
        BlockType::IQ4_NL | BlockType::IQ4_XS => 2.0 * magnitude / 4.0,
        BlockType::MXFP4 => 2.0 * magnitude / 4.0,
        _ => 2.0 * magnitude,
    }
}

proptest! {
    #[test]
    fn no_number_moves_by_more_than_half_a_step(numbers in vec(-1000f32..1000.0, 256..=256), exponent in -3i32..2) {
        let numbers: Vec<f32> = numbers.iter().map(|number| number * 10f32.powi(exponent)).collect();
        let magnitude = numbers.iter().fold(0f32, |most, number| most.max(number.abs()));
        for block_type in BlockType::ALL.iter().filter(|block_type| block_type.is_encodable()) {
            let (mut blocks, mut decoded) = (Vec::new(), [0.0; 256]);
            encode(*block_type, &numbers, &mut blocks).unwrap();
            decode(*block_type, &blocks, &mut decoded);
            // Scale and minimum are rounded to 11 bits.
            let most = most_error(*block_type, &numbers) + 4.0 * magnitude / 2048.0;
            for (number, decoded) in numbers.iter().zip(decoded) {
                prop_assert!((number - decoded).abs() <= most, "{:?}: {} became {}", block_type, number, decoded);
            }
        }
    }

    #[test]
    fn any_bytes_are_blocks(bytes in vec(any::<u8>(), 0..600)) {
        for block_type in BlockType::ALL {
            let blocks = bytes.len() / block_type.bytes() as usize;
            let mut numbers = vec![0.0; blocks * block_type.elements() as usize];
            decode(*block_type, &bytes, &mut numbers);
        }
    }

    #[test]
    fn any_finite_numbers_are_encoded(bits in vec(any::<u32>(), 256..=256)) {
        let finite = |bits: &u32| Some(f32::from_bits(*bits)).filter(|number| number.is_finite()).unwrap_or(0.0);
        let numbers: Vec<f32> = bits.iter().map(finite).collect();
        for block_type in BlockType::ALL.iter().filter(|block_type| block_type.is_encodable()) {
            let mut blocks = Vec::new();
            encode(*block_type, &numbers, &mut blocks).unwrap();
            prop_assert_eq!(blocks.len() as u32, 256 / block_type.elements() * block_type.bytes());
        }
    }
}
