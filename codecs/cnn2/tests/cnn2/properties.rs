//! Random nets come back byte for byte; random bytes never panic.

use crate::build::{EXAMPLE, MIXED, Parts, read, rewrite, write};
use proptest::prelude::*;

/// `[kernel, in, out]` of layers that fit each other.
fn nets() -> impl Strategy<Value = Vec<[u32; 3]>> {
    let layer = (prop::sample::select(vec![1u32, 3, 5]), 1u32..9, any::<bool>());
    (8u32..16, prop::collection::vec(layer, 1..4)).prop_map(|(first, layers)| {
        let mut previous = None;
        let mut shapes = Vec::new();
        for (kernel, outputs, joins) in layers {
            let inputs = previous.map_or(first, |made| if joins { made + 8 } else { made });
            shapes.push([kernel, inputs, outputs]);
            previous = Some(outputs);
        }
        shapes
    })
}

fn file(layers: &[[u32; 3]], mip: Option<u32>, padded: bool, seed: u16) -> Vec<u8> {
    let mut parts = Parts::of(layers);
    parts.weights.iter_mut().enumerate().for_each(|(k, weight)| *weight = seed.wrapping_mul(k as u16 | 1));
    if let Some(mip) = mip {
        parts = parts.version_2(mip);
    }
    if padded { parts.bytes() } else { parts.unpadded().bytes() }
}

proptest! {
    #[test]
    fn a_random_net_comes_back_byte_for_byte(
        layers in nets(),
        mip in prop::option::of(0u32..4),
        padded: bool,
        seed: u16,
        border in prop::sample::select(vec!["zero", "clamp"]),
        activation in prop::sample::select(vec!["none", "clamp", "relu", "sigmoid", "tanh"]),
    ) {
        let bytes = file(&layers, mip, padded, seed);
        prop_assert_eq!(&rewrite(&bytes, &[], &[]).unwrap(), &bytes);
        prop_assert_eq!(&rewrite(&bytes, &[("lenient", "true")], &[]).unwrap(), &bytes);
        let stated = [("border", border), ("activation", activation)];
        prop_assert_eq!(&rewrite(&bytes, &stated, &[]).unwrap(), &bytes);
    }

    #[test]
    fn versions_convert_into_each_other_and_back(layers in nets(), seed: u16) {
        let (one, two) = (file(&layers, None, true, seed), file(&layers, Some(0), true, seed));
        prop_assert_eq!(&rewrite(&one, &[], &[("version", "2")]).unwrap(), &two);
        prop_assert_eq!(&rewrite(&two, &[], &[("version", "1")]).unwrap(), &one);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), lenient: bool) {
        let lenient = [("lenient", if lenient { "true" } else { "false" })];
        let _ = read(&bytes, &lenient);
        let _ = read(&[b"CNN2\x01\0\0\0", &bytes[..]].concat(), &lenient);
        let _ = read(&[b"CNN2\x02\0\0\0\x01\0\0\0", &bytes[..]].concat(), &lenient);
    }

    #[test]
    fn a_file_with_a_changed_number_is_refused_or_comes_back(
        which in 0usize..2,
        at in 0usize..20,
        value in prop_oneof![0u32..20, any::<u32>()],
        lenient: bool,
    ) {
        let mut bytes = Parts::of([&EXAMPLE, &MIXED][which]).bytes();
        bytes[at * 4..at * 4 + 4].copy_from_slice(&value.to_le_bytes());
        if let Ok((contents, values)) = read(&bytes, &[("lenient", if lenient { "true" } else { "false" })]) {
            let written = write(&contents.checkpoint, &values, &[]);
            prop_assert!(!contents.repairs.is_empty() || written.unwrap() == bytes);
        }
    }
}
