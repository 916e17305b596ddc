//! Numbers are encoded as llama.cpp and `gguf-py` do.

use super::numbers::{SHAPES, numbers};
use ckpt_api::Kind;
use ckpt_gguf::blocks::{BlockType, Encoded, decode, encode};

/// Rows of 32 numbers and their blocks, written by `make.py`.
const ENCODED: &str = include_str!("encoded.txt");

/// Rows by their shape with the CRC-32 of their blocks, written by `make_quantized.py`.
const QUANTIZED: &str = include_str!("quantized.txt");

/// The types that `gguf-py` quantizes to, too.
const TYPES: [BlockType; 5] =
    [BlockType::Q8_0, BlockType::Q4_0, BlockType::Q4_1, BlockType::Q5_0, BlockType::Q5_1];

/// Every type that is written.
fn encodable() -> impl Iterator<Item = BlockType> {
    BlockType::ALL.iter().copied().filter(|block_type| block_type.is_encodable())
}

#[test]
fn every_byte_is_that_of_gguf_py() {
    let mut rows = 0;
    for (name, numbers, blocks) in fixture() {
        for (block_type, expected) in TYPES.into_iter().zip(blocks) {
            assert_eq!(hexadecimal(&encoded(block_type, &numbers).0), expected, "{name}: {block_type:?}");
        }
        rows += 1;
    }
    assert_eq!(rows, 19);
}

#[test]
fn every_byte_is_that_of_llama_cpp() {
    let mut checked = 0;
    for line in QUANTIZED.lines() {
        let [name, shape, seed, crc32] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let block_type = *BlockType::ALL.iter().find(|own| own.name().eq_ignore_ascii_case(name)).unwrap();
        let (blocks, counts) = encoded(block_type, &numbers(shape, seed.parse().unwrap()));
        assert_eq!(format!("{:08x}", crc32fast::hash(&blocks)), crc32, "{line}");
        assert_eq!(counts.overflowed, 0, "{line}");
        checked += 1;
    }
    assert_eq!(checked, encodable().count() * SHAPES.len());
}

#[test]
fn a_block_does_not_depend_on_those_beside_it() {
    let all = numbers("normal", 5);
    for block_type in encodable() {
        let mut each = Vec::new();
        for own in all.chunks(block_type.elements() as usize) {
            encode(block_type, own, &mut each).unwrap();
        }
        assert!(each == encoded(block_type, &all).0, "{block_type:?}");
    }
}

#[test]
fn zeros_and_equal_numbers_are_decoded_again() {
    for (block_type, number) in encodable().flat_map(|own| [0.0, 1.0, -2.0].map(|number| (own, number))) {
        let mut decoded = [f32::NAN; 256];
        decode(block_type, &encoded(block_type, &[number; 256]).0, &mut decoded);
        // A scale has 11 bits. Of equal magnitudes, IQ3_S has one point, which the search does not try.
        let most = if block_type == BlockType::IQ3_S { 0.25 } else { 0.004 };
        for found in decoded {
            assert!((found - number).abs() <= most * number.abs(), "{block_type:?}: {number} became {found}");
        }
    }
}

#[test]
fn numbers_whose_sums_are_infinite_are_counted_as_too_large() {
    for block_type in encodable().filter(|own| *own != BlockType::MXFP4) {
        for scale in [1e10, 1e15, 1e25, 1e36] {
            let numbers: Vec<f32> = (0..256).map(|k| (k as f32 - 100.0) * scale).collect();
            let blocks = 256 / u64::from(block_type.elements());
            assert_eq!(encoded(block_type, &numbers).1.overflowed, blocks, "{block_type:?} {scale}");
        }
    }
}

#[test]
fn scales_that_16_bits_cannot_hold_are_counted() {
    let counts = |scale: f32, block_type| {
        let numbers: Vec<f32> = (0..64).map(|k| (k as f32 - 16.0) * scale).collect();
        let Encoded { overflowed, underflowed, .. } = encoded(block_type, &numbers).1;
        (overflowed, underflowed)
    };
    for block_type in TYPES {
        assert_eq!(counts(1.0, block_type), (0, 0), "{block_type:?}");
        assert_eq!(counts(1e9, block_type), (2, 0), "{block_type:?}");
        assert_eq!(counts(1e-12, block_type), (0, 2), "{block_type:?}");
    }
    // The minimum of the second block alone is too large.
    let numbers: Vec<f32> = (0..64).map(|k| 70_000.0 * (k / 32) as f32 + k as f32).collect();
    assert_eq!(encoded(BlockType::Q4_1, &numbers).1.overflowed, 1);
}

#[test]
fn of_zeros_with_different_signs_the_last_is_the_minimum() {
    let minimum = |zeros: [f32; 2]| {
        let numbers: Vec<f32> = (0..32).map(|k| if k < 2 { zeros[k] } else { 1.0 }).collect();
        encoded(BlockType::Q4_1, &numbers).0[3]
    };
    assert_eq!((minimum([0.0, -0.0]), minimum([-0.0, 0.0])), (0x80, 0));
}

#[test]
fn nan_and_infinity_are_refused_with_their_place() {
    for number in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut numbers = [1.0; 512];
        numbers[70] = number;
        for block_type in encodable() {
            let mut out = vec![9];
            let error = encode(block_type, &numbers, &mut out).unwrap_err();
            assert!(error.kind() == Kind::Unsupported && error.to_string().contains("element 70"), "{error}");
            assert_eq!(out, [9]);
        }
    }
}

#[test]
fn numbers_that_fill_no_block_are_refused() {
    let error =
        |block_type, count| encode(block_type, &vec![0.0; count], &mut Vec::new()).unwrap_err().to_string();
    let [small, large] = [error(BlockType::Q8_0, 33), error(BlockType::Q6_K, 128)];
    assert!(small.contains("33 numbers do not fill blocks of 32"), "{small}");
    assert!(large.contains("128 numbers do not fill blocks of 256"), "{large}");
}

#[test]
fn other_types_are_refused_by_name() {
    let others: Vec<_> = BlockType::ALL.iter().filter(|block_type| !block_type.is_encodable()).collect();
    assert_eq!(others.len(), 10);
    for block_type in others {
        let error = encode(*block_type, &[0.0; 256], &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains(block_type.name()) && error.contains("Q6_K"), "{error}");
    }
}

#[test]
fn integers_times_the_scale_are_decoded_again() {
    let cases = [
        (BlockType::Q8_0, -127.0, 127.0, 7.0),
        (BlockType::Q4_0, -8.0, 7.0, 1.0),
        (BlockType::Q4_1, 0.0, 15.0, 1.0),
        (BlockType::Q5_0, -16.0, 15.0, 1.0),
        (BlockType::Q5_1, 0.0, 31.0, 1.0),
    ];
    for (block_type, least, most, step) in cases {
        let mut numbers: Vec<f32> = (0..32).map(|k| f32::min(least + step * k as f32, most) * 0.25).collect();
        numbers[31] = most * 0.25;
        let mut decoded = [0.0; 32];
        decode(block_type, &encoded(block_type, &numbers).0, &mut decoded);
        assert_eq!(decoded[..], numbers, "{block_type:?}");
    }
}

fn encoded(block_type: BlockType, numbers: &[f32]) -> (Vec<u8>, Encoded) {
    assert!(block_type.is_encodable());
    let mut out = Vec::new();
    let encoded = encode(block_type, numbers, &mut out).unwrap();
    (out, encoded)
}

/// Names, numbers, and the hexadecimal digits of the blocks of each type.
fn fixture() -> impl Iterator<Item = (&'static str, Vec<f32>, Vec<&'static str>)> {
    ENCODED.lines().map(|line| {
        let mut parts = line.split('|');
        let (name, numbers) = (parts.next().unwrap(), parts.next().unwrap());
        let number = |k: usize| u32::from_str_radix(&numbers[8 * k..8 * k + 8], 16).unwrap().swap_bytes();
        (name, (0..32).map(|k| f32::from_bits(number(k))).collect(), parts.collect())
    })
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
