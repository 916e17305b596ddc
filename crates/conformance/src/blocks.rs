//! Checks the block encodings of a codec: names, decoders and encoders.

use crate::steps::Steps;
use ckpt_api::{Blocks, Codec};
use std::collections::HashSet;

/// Blocks that are encoded at once.
const BLOCKS: usize = 3;

/// Names differ and begin with the codec's id; each decoder takes any bytes; each encoder gives every block the bytes
/// that its own numbers give, whatever is beside it, and they decode.
pub(crate) fn check_encodings(codec: &dyn Codec, steps: &Steps) {
    let id = codec.info().id;
    let mut names = HashSet::new();
    for blocks in codec.block_encodings() {
        let what = format!("{id}: the block encoding '{blocks}'");
        let own = blocks.name().strip_prefix(id).is_some_and(|rest| rest.starts_with('.'));
        assert!(own, "{what} does not begin with '{id}.'");
        assert!(names.insert(blocks.name()), "{what} is there twice");
        if !blocks.is_opaque() {
            steps.run(&format!("{what}, decoded"), || check_decoder(blocks, &what));
        }
        if blocks.is_encodable() {
            steps.run(&format!("{what}, encoded"), || check_encoder(blocks, &what));
        }
    }
}

fn check_decoder(blocks: &Blocks, what: &str) {
    let len = usize::try_from(blocks.bytes()).unwrap_or_default();
    for pattern in [0x00, 0xff, 0x5a] {
        let mut numbers = Vec::new();
        blocks.decode(&vec![pattern; len], &mut numbers).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(numbers.len() as u64 == 4 * blocks.elements(), "{what} has another number of elements");
    }
}

fn check_encoder(blocks: &Blocks, what: &str) {
    let elements = usize::try_from(blocks.elements()).unwrap_or_default();
    let number = |k: usize| ((k * 7 % 31) as f32 / 16.0).to_le_bytes();
    let numbers: Vec<u8> = (0..BLOCKS * elements).flat_map(number).collect();
    let encoded = |numbers: &[u8]| {
        let mut out = Vec::new();
        // Blocks may hold other numbers than these.
        blocks.encode(0, numbers, &mut out).ok().map(|_| out)
    };
    let Some(all) = encoded(&numbers) else { return };
    let each = numbers.chunks(4 * elements).map(|own| encoded(own).unwrap_or_default());
    assert!(each.collect::<Vec<_>>().concat() == all, "{what}: a block depends on those beside it");
    let mut decoded = Vec::new();
    blocks.decode(&all, &mut decoded).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(decoded.len() == numbers.len(), "{what}: blocks decode to another number of elements");
}
