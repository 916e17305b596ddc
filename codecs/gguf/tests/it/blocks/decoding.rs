//! Blocks are decoded as `gguf-py` does.

use ckpt_gguf::blocks::{BlockType, decode};
use std::collections::BTreeMap;

/// Random blocks of every type with the CRC-32 of their numbers, written by `make.py`.
const DECODED: &str = include_str!("decoded.txt");

#[test]
fn every_bit_is_that_of_gguf_py() {
    let mut blocks = BTreeMap::<&str, usize>::new();
    for line in DECODED.lines() {
        let [name, seed, special @ .., crc32] = &line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let block_type = named(name);
        let mut block = random_bytes(seed.parse().unwrap(), block_type.bytes());
        for scale in special {
            let (offset, scale) = scale.split_once(':').unwrap();
            let scale = u16::from_str_radix(scale, 16).unwrap();
            block[offset.parse().unwrap()..][..2].copy_from_slice(&scale.to_le_bytes());
        }
        let bytes: Vec<u8> =
            decoded(block_type, &block).iter().flat_map(|number| number.to_le_bytes()).collect();
        assert_eq!(format!("{:08x}", crc32fast::hash(&bytes)), *crc32, "{line}");
        *blocks.entry(name).or_default() += 1;
    }
    assert!(blocks.len() == 23 && blocks.values().all(|count| [8, 13].contains(count)), "{blocks:?}");
}

#[test]
fn the_scale_comes_first_and_multiplies_integers() {
    let mut block = [0; 34];
    block[..5].copy_from_slice(&[0x00, 0x38, 3, 0xff, 0x80]);
    assert_eq!(decoded(BlockType::Q8_0, &block)[..4], [1.5, -0.5, -64.0, 0.0]);
}

#[test]
fn low_nibbles_come_before_high_ones() {
    let mut block = [0x88; 18];
    block[..3].copy_from_slice(&[0x00, 0x3c, 0xf0]);
    let numbers = decoded(BlockType::Q4_0, &block);
    assert_eq!((numbers[0], numbers[1], numbers[16]), (-8.0, 0.0, 7.0));
}

#[test]
fn the_bits_of_q1_0_are_signs() {
    let mut block = [0; 18];
    block[..3].copy_from_slice(&[0x00, 0x40, 0b101]);
    assert_eq!(decoded(BlockType::Q1_0, &block)[..4], [2.0, -2.0, 2.0, -2.0]);
}

#[test]
fn q8_k_has_a_scale_of_32_bits() {
    let mut block = [0; 292];
    block[..4].copy_from_slice(&1e-30f32.to_le_bytes());
    block[259] = 0xfd;
    block[260] = 9; // of the sums, which are no numbers
    assert_eq!(decoded(BlockType::Q8_K, &block)[254..], [0.0, -3.0 * 1e-30]);
}

#[test]
fn an_opaque_type_gives_nan_and_no_stale_numbers() {
    assert!(decoded(BlockType::Q8_1, &[0; 40]).iter().all(|number| number.is_nan()));
}

fn decoded(block_type: BlockType, block: &[u8]) -> Vec<f32> {
    let mut numbers = vec![0.0; block_type.elements() as usize];
    decode(block_type, block, &mut numbers);
    numbers
}

fn named(name: &str) -> BlockType {
    *BlockType::ALL.iter().find(|block_type| block_type.name() == name).unwrap()
}

/// The high bytes of a linear congruential generator's states.
fn random_bytes(seed: u64, count: u32) -> Vec<u8> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..count).map(next).collect()
}
