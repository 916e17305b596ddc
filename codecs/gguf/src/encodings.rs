//! GGUF's block types as block encodings of the engine, in both byte orders.

use crate::blocks::{self, BlockType};
use ckpt_api::{Blocks, DecodeBlock, EncodeBlocks, Endian};

macro_rules! encodings {
    ($($name:ident)*) => {
        /// Every block type, in the order of [`KNOWN`].
        const TYPES: &[BlockType] = &[$(BlockType::$name,)*];

        /// The little-endian block encodings, then the big-endian ones.
        static KNOWN: [Blocks; 2 * TYPES.len()] = [
            $(encoding(
                BlockType::$name,
                concat!("gguf.", stringify!($name)),
                |block, numbers| blocks::decode(BlockType::$name, block, numbers),
                |numbers, encoded| blocks::encode_finite(BlockType::$name, numbers, encoded),
            ),)*
            $(encoding(
                BlockType::$name,
                concat!("gguf.", stringify!($name), ".big_endian"),
                |block, numbers| {
                    let mut little = block.to_vec();
                    blocks::swap_endian(BlockType::$name, &mut little);
                    blocks::decode(BlockType::$name, &little, numbers);
                },
                |numbers, encoded| {
                    blocks::encode_finite(BlockType::$name, numbers, encoded)?;
                    blocks::swap_endian(BlockType::$name, encoded);
                    Ok(())
                },
            ),)*
        ];
    };
}

encodings! {
    Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q8_1 Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K IQ2_XXS IQ2_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ2_S IQ4_XS
    IQ1_M TQ1_0 TQ2_0 MXFP4 NVFP4 Q1_0
}

const fn encoding(
    block_type: BlockType,
    name: &'static str,
    decoder: DecodeBlock,
    encoder: EncodeBlocks,
) -> Blocks {
    let (elements, bytes) = (block_type.elements(), block_type.bytes());
    match (block_type.is_decodable(), block_type.is_encodable()) {
        (true, true) => Blocks::encoded(name, elements, bytes, decoder, encoder),
        (true, false) => Blocks::decoded(name, elements, bytes, decoder),
        (false, _) => Blocks::opaque(name, elements, bytes),
    }
}

/// See [`ckpt_api::Codec::block_encodings`].
pub(crate) fn all() -> &'static [Blocks] {
    &KNOWN
}

/// Returns the block encoding of a type in a byte order.
pub(crate) fn of(block_type: BlockType, endian: Endian) -> Option<&'static Blocks> {
    let position = TYPES.iter().position(|own| *own == block_type)?;
    KNOWN.get(if endian == Endian::Big { TYPES.len() + position } else { position })
}

/// Returns the type that a block encoding has in a file of this byte order; `None` for those of other byte orders and
/// formats.
pub(crate) fn type_of(blocks: &Blocks, endian: Endian) -> Option<BlockType> {
    TYPES.iter().copied().find(|block_type| of(*block_type, endian) == Some(blocks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Kind;

    #[test]
    fn every_block_type_has_an_encoding_in_each_byte_order() {
        assert_eq!(TYPES, BlockType::ALL);
        for block_type in BlockType::ALL {
            let [little, big] = [Endian::Little, Endian::Big].map(|endian| of(*block_type, endian).unwrap());
            assert_eq!(little.name(), format!("gguf.{}", block_type.name()));
            assert_eq!(big.name(), format!("gguf.{}.big_endian", block_type.name()));
            assert_eq!(type_of(little, Endian::Little), Some(*block_type));
            assert_eq!(type_of(little, Endian::Big), None);
        }
    }

    #[test]
    fn numbers_are_stored_in_the_blocks_of_either_byte_order_and_misfits_are_named() {
        let bytes = |numbers: &[f32]| -> Vec<u8> { numbers.iter().flat_map(|x| x.to_le_bytes()).collect() };
        let mut encoded = 0;
        for block_type in BlockType::ALL.iter().filter(|block_type| block_type.is_encodable()) {
            encoded += 1;
            let elements = block_type.elements() as usize;
            let numbers: Vec<f32> = (0..3 * elements).map(|k| (k as f32).sin()).collect();
            let mut own = Vec::new();
            blocks::encode(*block_type, &numbers, &mut own).unwrap();
            for endian in [Endian::Big, Endian::Little].into_iter().take(if cfg!(miri) { 1 } else { 2 }) {
                let (blocks, mut stored) = (of(*block_type, endian).unwrap(), Vec::new());
                assert!(blocks.encode(0, &bytes(&numbers), &mut stored).unwrap() < 0.51);
                if endian == Endian::Big {
                    crate::blocks::swap_endian(*block_type, &mut stored);
                }
                assert!(stored == own, "{}", blocks.name());
                let last = 3 * elements - 1;
                for (position, number) in
                    [(elements + 8, f32::NAN), (last, f32::INFINITY), (elements + 1, -1e12)]
                {
                    if *block_type == BlockType::MXFP4 && number == -1e12 {
                        continue; // Its scales are powers of two up to 2¹²⁷.
                    }
                    let mut wrong = numbers.clone();
                    (wrong[position], wrong[last]) = (number, f32::NAN);
                    let error = blocks.encode(1000, &bytes(&wrong), &mut Vec::new()).unwrap_err();
                    let element = format!("element {}", 1000 + position);
                    assert!(error.kind() == Kind::Lossy && error.to_string().contains(&element), "{error}");
                }
            }
        }
        assert_eq!(encoded, 16);
    }

    #[test]
    fn a_big_endian_block_stands_for_the_numbers_of_the_little_endian_one() {
        let mut block: Vec<u8> = (0..34).collect();
        let mut decoded = [Vec::new(), Vec::new()];
        of(BlockType::Q8_0, Endian::Little).unwrap().decode(&block, &mut decoded[0]).unwrap();
        block[..2].reverse();
        of(BlockType::Q8_0, Endian::Big).unwrap().decode(&block, &mut decoded[1]).unwrap();
        assert_eq!(decoded[0], decoded[1]);
    }
}
