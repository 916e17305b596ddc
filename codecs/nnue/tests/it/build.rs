//! Networks made byte by byte.

use ckpt_api::Input;

pub const VERSION: u32 = 0x6A44_8AFA;
/// Features of PP_3Wide.
pub const PAIRS: u64 = 4560;
const PAIRS_HASH: u32 = 0x86F2_B1DD;
/// Neurons of one side.
pub const L1: u64 = 2;
/// Outputs and inputs of the layers.
pub const LAYERS: [(&str, u64, u64); 3] = [("layer_1", 8, 32), ("layer_2", 32, 32), ("output", 1, 96)];

/// How the network is made.
#[derive(Clone, Copy)]
pub struct Made {
    pub version: u32,
    pub is_compressed: bool,
    /// Whether it has three features that nobody knows, and smaller layers.
    pub is_small: bool,
}

pub const MADE: Made = Made { version: VERSION, is_compressed: true, is_small: false };
pub const SMALL_FEATURES: u64 = 3;
pub const SMALL_LAYERS: [(&str, u64, u64); 3] = [("layer_1", 2, 32), ("layer_2", 3, 32), ("output", 1, 32)];

/// The integers of an array: mostly zeros.
pub fn integers(count: u64, most: i32) -> Vec<i32> {
    (0..count).map(|at| if at.is_multiple_of(5) { (at as i32 * 7919) % most } else { 0 }).collect()
}

pub fn leb128(integers: &[i32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for integer in integers {
        let mut rest = *integer;
        loop {
            let low = (rest & 0x7F) as u8;
            rest >>= 7;
            if rest == if low & 0x40 == 0 { 0 } else { -1 } {
                bytes.push(low);
                break;
            }
            bytes.push(low | 0x80);
        }
    }
    bytes
}

pub fn compressed(integers: &[i32]) -> Vec<u8> {
    let bytes = leb128(integers);
    [b"COMPRESSED_LEB128", &(bytes.len() as u32).to_le_bytes()[..], &bytes].concat()
}

fn bytes(integers: &[i32], width: usize) -> Vec<u8> {
    integers.iter().flat_map(|integer| integer.to_le_bytes().into_iter().take(width)).collect()
}

fn layers_hash(layers: [(&str, u64, u64); 3]) -> u32 {
    layers.iter().fold(0xEC42_E90D ^ (2 * L1 as u32), |before, (_, outputs, _)| {
        let hash = (0xCC03_DAE4_u32.wrapping_add(*outputs as u32)) ^ (before >> 1) ^ (before << 31);
        if *outputs == 1 { hash } else { hash.wrapping_add(0x538D_24C7) }
    })
}

/// A network of pawn pairs, and the bytes of the tensors in the order of the file.
pub fn network(made: Made) -> (Vec<u8>, Vec<Vec<u8>>) {
    let layers = if made.is_small { SMALL_LAYERS } else { LAYERS };
    let hash = layers_hash(layers);
    let transformer = if made.is_small { 0x1234_5678 } else { PAIRS_HASH } ^ (2 * L1 as u32);
    let mut file = [made.version, transformer ^ hash, 4].map(u32::to_le_bytes).concat();
    file.extend(b"pawn");
    file.extend(transformer.to_le_bytes());
    let mut values = Vec::new();
    let mut add = |file: &mut Vec<u8>, count, most, width, is_compressible| {
        let integers = integers(count, most);
        let plain = bytes(&integers, width);
        match is_compressible && made.is_compressed {
            true => file.extend(compressed(&integers)),
            false => file.extend(&plain),
        }
        values.push(plain);
    };
    add(&mut file, L1, 300, 2, true);
    match made.is_small {
        true => add(&mut file, SMALL_FEATURES * L1, 20_000, 2, true),
        false => add(&mut file, PAIRS * L1, 100, 1, false),
    }
    let features = if made.is_small { SMALL_FEATURES } else { PAIRS };
    add(&mut file, features * 8, 100_000, 4, true);
    for _ in 0..8 {
        file.extend(hash.to_le_bytes());
        for (_, outputs, inputs) in layers {
            add(&mut file, outputs, 9000, 4, false);
            add(&mut file, outputs * inputs, 120, 1, false);
        }
    }
    (file, values)
}

pub fn input(file: Vec<u8>) -> Input {
    Input::memory("n.nnue", [("n.nnue".to_owned(), file)].into())
}
