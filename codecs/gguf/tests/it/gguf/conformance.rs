//! The kit's checks on one sample of every sort.

use super::build::{Build, F16, F32, I8, Q8_0, array, floats, key, q8_0, string, tensor};
use ckpt_api::{DType, MetadataMap, MetadataValue};
use ckpt_conformance::{Sample, check};
use ckpt_gguf::Gguf;
use std::collections::BTreeMap;

const PADDING: &str = "bytes between and after tensors mean nothing";

fn sample_of(name: &'static str, file: &Build) -> Sample {
    Sample::new(name, "m.gguf", BTreeMap::from([("m.gguf".to_owned(), file.bytes())]))
}

/// A key of every type.
fn keys() -> Vec<Vec<u8>> {
    vec![
        key("general.architecture", 8, string(b"llama")),
        key("k.u8", 0, [200]),
        key("k.i8", 1, [200]),
        key("k.u16", 2, 50_000u16.to_le_bytes()),
        key("k.i16", 3, (-5i16).to_le_bytes()),
        key("k.u32", 4, 7u32.to_le_bytes()),
        key("k.i32", 5, (-7i32).to_le_bytes()),
        key("k.f32", 6, f32::NAN.to_le_bytes()),
        key("k.bool", 7, [1]),
        key("k.u64", 10, u64::MAX.to_le_bytes()),
        key("k.i64", 11, i64::MIN.to_le_bytes()),
        key("k.f64", 12, f64::NAN.to_le_bytes()),
        key("k.bytes", 9, array(0, 2, [1, 2])),
        key("k.list", 9, array(8, 2, [string(b"a"), string(b"")].concat())),
        key("k.empty", 9, array(4, 0, [])),
        key("k.lists", 9, array(9, 2, [array(3, 1, [1, 0]), array(8, 0, [])].concat())),
        key("k.odd", 8, string(&[0xff])),
    ]
}

fn with_metadata(sample: Sample) -> Sample {
    let of = |element: &str| MetadataValue::Map(MetadataMap::from_iter([("array_of", element)]));
    let odd = MetadataMap::from_iter([("string", MetadataValue::Bytes(vec![0xff]))]);
    sample
        .metadata("gguf", "general.architecture", "llama")
        .metadata("gguf", "k.u8", 200u8)
        .metadata("gguf", "k.i8", -56i8)
        .metadata("gguf", "k.u16", 50_000u16)
        .metadata("gguf", "k.i16", -5i16)
        .metadata("gguf", "k.u32", 7u32)
        .metadata("gguf", "k.i32", -7i32)
        .metadata("gguf", "k.f32", f32::NAN)
        .metadata("gguf", "k.bool", true)
        .metadata("gguf", "k.u64", u64::MAX)
        .metadata("gguf", "k.i64", i64::MIN)
        .metadata("gguf", "k.f64", f64::NAN)
        .metadata("gguf", "k.bytes", MetadataValue::Bytes(vec![1, 2]))
        .metadata("gguf", "k.list", ["a", ""])
        .metadata("gguf", "k.empty", of("u32"))
        .metadata("gguf", "k.lists", MetadataValue::List(vec![[1i16].into(), of("string")]))
        .metadata("gguf", "k.odd", odd)
}

/// Leaves the padding of a file out of the check: that of its header, and that of each tensor.
fn ignoring_padding(mut sample: Sample, file: &Build) -> Sample {
    let mut end = file.header(0, 0).len();
    for tensor in &file.tensors {
        let start = end.next_multiple_of(file.alignment);
        sample = sample.ignoring("m.gguf", end..start, PADDING);
        end = start + tensor.data.len();
    }
    sample
}

#[test]
fn the_codec_keeps_the_contract() {
    // Each last tensor fills whole multiples of the alignment: a file may end without padding.
    let matrix = || tensor("w", &[4, 2], F32, floats(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]));
    let numbers = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
    let plain = Build::new(keys(), vec![tensor("h", &[4], F16, [0; 8]), tensor("i", &[], I8, [7]), matrix()]);
    let bytes = q8_0().0;
    let blocks = Build::new(vec![], vec![tensor("q", &[32, 2], Q8_0, bytes.clone()), matrix()]);
    let version_2 = Build { version: 2, ..Build::new(vec![], vec![matrix()]) };
    let unpadded = Build::new(vec![], vec![tensor("v", &[1], F32, floats(&[1.0]))]);
    let unpadded = Build { is_unpadded: true, ..unpadded };
    let sample = |name, file| ignoring_padding(sample_of(name, file), file);
    let samples = [
        with_metadata(sample("every type of a key", &plain))
            .tensor("h", DType::F16, &[4], [0; 8])
            .tensor("i", DType::I8, &[], [7])
            .floats("w", &[2, 4], &numbers)
            .aligned(32),
        sample("blocks", &blocks)
            .tensor("q", DType::F32, &[2, 32], bytes)
            .floats("w", &[2, 4], &numbers)
            .aligned(32),
        sample("version 2", &version_2).floats("w", &[2, 4], &numbers).metadata("gguf.file", "version", 2u32),
        sample("no padding", &unpadded).floats("v", &[1], &[1.0]).metadata("gguf.file", "unpadded", true),
    ];
    check(&Gguf, &samples);
}
