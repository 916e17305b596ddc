//! Compressed arrays become what the same arrays become that are not compressed.

use crate::common::{convert, open};
use ckpt::recipe::Transform;
use ckpt::{Conversion, Resources};
use ckpt_api::{Checksum, ChecksumAlgorithm, DType};
use flate2::write::DeflateEncoder;
use std::io::Write as _;
use std::path::Path;

/// An archive of arrays, some of which are larger than what is kept decompressed.
fn archive(deflated: bool) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    let little: fn(f32) -> Vec<u8> = |number| number.to_le_bytes().to_vec();
    let big: fn(f32) -> Vec<u8> = |number| number.to_be_bytes().to_vec();
    let wide: fn(f32) -> Vec<u8> = |number| f64::from(number).to_be_bytes().to_vec();
    let arrays = [
        ("little.npy", "<f4", "(400, 700)", 280_000, little),
        ("big.npy", ">f4", "(700, 400)", 280_000, big),
        ("long.npy", ">f8", "(150000,)", 150_000, wide),
        ("small.npy", ">f4", "(3,)", 3, big),
        ("none.npy", ">f4", "(0, 3)", 0, big),
    ];
    for (name, descr, shape, count, bytes) in arrays {
        let dict = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
        let mut data = [&b"\x93NUMPY\x01\0\x76\0"[..], format!("{dict:<117}\n").as_bytes()].concat();
        data.extend((0..count).flat_map(|k: u32| bytes((k * 7919 % 2003) as f32 / 8.0)));
        let at = out.len() as u32;
        let member = member(name, &data, deflated, &mut out);
        directory.extend(b"PK\x01\x02\x14\0".iter().chain(&member).chain(&[0; 10]));
        directory.extend(at.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (start, size) = (out.len() as u32, directory.len() as u32);
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0\x05\0\x05\0");
    out.extend([size, start].iter().flat_map(|number| number.to_le_bytes()));
    out.extend([0, 0]);
    out
}

/// Appends one member, and returns what the directory repeats of its header.
fn member(name: &str, data: &[u8], deflated: bool, out: &mut Vec<u8>) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    let stored = if deflated { encoder.finish().unwrap() } else { data.to_vec() };
    let mut crc = Checksum { algorithm: ChecksumAlgorithm::Crc32, seed: 0, value: None }.start();
    crc.update(data);
    let mut head = vec![20, 0, 0, 0, if deflated { 8 } else { 0 }, 0, 0, 0, 33, 0];
    for number in [crc.finish(), stored.len() as u32, data.len() as u32, name.len() as u32] {
        head.extend(number.to_le_bytes());
    }
    out.extend(b"PK\x03\x04".iter().chain(&head).chain(name.as_bytes()).chain(&stored));
    head
}

/// What a conversion makes of the arrays as they are, and of the same arrays deflated.
fn both(work: &Path, conversion: &Conversion) -> [Vec<u8>; 2] {
    let (input, output) = (work.join("in.npz"), work.join("out.safetensors"));
    [false, true].map(|deflated| {
        std::fs::write(&input, archive(deflated)).unwrap();
        convert(open(&input, &[]), &output, conversion);
        std::fs::read(&output).unwrap()
    })
}

fn conversion() -> Conversion {
    Conversion::new().to("safetensors").overwrite(true)
}

#[test]
fn deflated_arrays_are_cast_and_swapped_as_stored_ones_are_whatever_the_size_of_items() {
    let work = tempfile::tempdir().unwrap();
    let (f16, bf16) = (Some(DType::F16), Some(DType::Bf16));
    let mut of_f16 = Vec::new();
    for (dtype, item_size) in [(None, 0), (bf16, 0), (f16, 0), (f16, 5000), (f16, u64::MAX)] {
        let mut conversion = conversion().resources(Resources::new().item_size(item_size));
        conversion.dtype = dtype;
        let [stored, deflated] = both(work.path(), &conversion);
        assert!(stored == deflated, "{dtype:?}, {item_size}");
        of_f16.extend((dtype == f16).then_some(stored));
    }
    assert!(of_f16.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn deflated_arrays_are_transposed_as_stored_ones_are() {
    let work = tempfile::tempdir().unwrap();
    let mut conversion = conversion().resources(Resources::new().max_memory(16 << 20));
    for name in ["little", "big"] {
        conversion.transforms.push(Transform::parse(&format!("{name}: transpose")).unwrap());
    }
    let [stored, deflated] = both(work.path(), &conversion);
    assert!(stored == deflated);
}
