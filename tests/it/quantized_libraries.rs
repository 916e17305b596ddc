//! Weights as HQQ and torchao store them, by hand; `tests/interop/quantized_weights.py` compares with the libraries.

use crate::common::{open, workplace::Workplace};
use ckpt_api::Kind;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// A stored tensor: name, dtype, shape and bytes.
type Stored<'a> = (&'a str, &'a str, Vec<usize>, Vec<u8>);

/// Writes a directory of one safetensors file, with this metadata.
fn directory(place: &Workplace, metadata: &[(&str, Value)], tensors: &[Stored<'_>]) -> PathBuf {
    let path = place.path("model");
    std::fs::create_dir_all(&path).unwrap();
    let (mut header, mut data) = (Map::new(), Vec::new());
    if !metadata.is_empty() {
        let metadata: Map<String, Value> =
            metadata.iter().map(|(key, value)| ((*key).to_owned(), Value::from(value.to_string()))).collect();
        header.insert("__metadata__".to_owned(), metadata.into());
    }
    for (name, dtype, shape, bytes) in tensors {
        let start = data.len();
        data.extend(bytes);
        let entry = json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, data.len()] });
        header.insert((*name).to_owned(), entry);
    }
    let header = Value::from(header).to_string();
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
    std::fs::write(path.join("model.safetensors"), file).unwrap();
    path
}

fn floats(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn lens(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// A weight [2, 4] of HQQ in 4 bits, with a scale for each two elements of a row.
fn hqq() -> Vec<Stored<'static>> {
    vec![
        // Four groups of two elements: bytes have one of the first two groups above one of the last two.
        ("m.W_q", "U8", vec![2, 2], vec![0x15, 0x26, 0x37, 0x48]),
        ("m.scale", "F32", vec![4, 1], floats(&[0.5, 1.0, 2.0, 4.0])),
        ("m.zero", "F32", vec![4, 1], floats(&[0.0, 1.5, 5.0, 8.0])),
        ("m.shape", "I64", vec![2], lens(&[2, 4])),
        ("m.axis", "I32", vec![], vec![1, 0, 0, 0]),
        ("m.nbits", "I32", vec![], vec![4, 0, 0, 0]),
        ("m.packing", "U8", vec![7], b"4bit_u8".to_vec()),
        ("m.compute_dtype", "U8", vec![13], b"torch.float32".to_vec()),
        ("m.bias", "F32", vec![2], floats(&[1.0, 2.0])),
    ]
}

#[test]
fn a_weight_of_hqq_is_one_tensor_and_its_settings_are_parts_of_it() {
    let place = Workplace::new();
    let source = open(&directory(&place, &[], &hqq()), &[]);
    let names: Vec<&str> = source.checkpoint().tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["m.weight", "m.bias"]);
    let expected = [0.5, 1.0, 1.5, 2.5, 0.0, 2.0, -4.0, 0.0];
    assert_eq!(source.tensor("m.weight").unwrap().read::<f32>().unwrap(), expected);
}

#[test]
fn integers_of_hqq_may_be_stored_as_floats_of_the_same_bytes() {
    let place = Workplace::new();
    let mut tensors = hqq();
    (tensors[0].1, tensors[0].2) = ("F16", vec![2, 1]);
    let source = open(&directory(&place, &[], &tensors), &[]);
    let expected = [0.5, 1.0, 1.5, 2.5, 0.0, 2.0, -4.0, 0.0];
    assert_eq!(source.tensor("m.weight").unwrap().read::<f32>().unwrap(), expected);
}

#[test]
fn what_contradicts_a_weight_of_hqq_is_named() {
    let wrong = |at: usize, stored: Stored<'static>| {
        let place = Workplace::new();
        let mut tensors = hqq();
        tensors[at] = stored;
        let source = open(&directory(&place, &[], &tensors), &[]);
        source.grouped().unwrap().problem().expect("a problem").without_cause()
    };
    let packing = wrong(6, ("m.packing", "U8", vec![7], b"9bit_u8".to_vec()));
    assert_eq!(packing.kind(), Kind::Unsupported, "{packing}");
    assert!(packing.to_string().contains("'9bit_u8'"), "{packing}");
    for (at, stored, says) in [
        (1, ("m.scale", "F32", vec![2, 1], floats(&[0.5, 1.0])), "m.zero"),
        (3, ("m.shape", "I64", vec![2], lens(&[2, 5])), "m.scale"),
        (3, ("m.shape", "I64", vec![2], lens(&[3, 3])), "m.W_q"),
        (3, ("m.shape", "I64", vec![2], lens(&[2, -4])), "m.shape"),
        (4, ("m.axis", "I32", vec![], vec![2, 0, 0, 0]), "m.axis"),
        (6, ("other", "U8", vec![1], vec![0]), "m.packing"),
    ] {
        let error = wrong(at, stored);
        assert!(error.kind() == Kind::Corrupt && error.to_string().contains(says), "{error}");
    }
}

fn int8(attributes: Value) -> (Vec<(&'static str, Value)>, Vec<Stored<'static>>) {
    let tensors = vec![
        ("m._weight_qdata", "I8", vec![2, 4], vec![1, 2, 3, 4, 0xff, 0xfe, 0xfd, 0xfc]),
        ("m._weight_scale", "F32", vec![2, 2], floats(&[0.5, 1.0, 2.0, 4.0])),
        ("m._weight_zero_point", "I8", vec![2, 2], vec![0, 1, 0xff, 0]),
    ];
    (vec![("tensor_names", json!(["m.weight"])), ("m.weight", attributes)], tensors)
}

#[test]
fn a_tensor_of_torchao_is_the_weight_that_the_metadata_names() {
    let place = Workplace::new();
    let (metadata, tensors) = int8(json!({ "_type": "Int8Tensor", "_data": { "block_size": [1, 2] } }));
    let source = open(&directory(&place, &metadata, &tensors), &[]);
    assert_eq!(source.checkpoint().tensors.len(), 1);
    assert_eq!(source.grouped().unwrap().scheme("m.weight"), Some("torchao int8"));
    let expected = [0.5, 1.0, 2.0, 3.0, 0.0, -2.0, -12.0, -16.0];
    assert_eq!(source.tensor("m.weight").unwrap().read::<f32>().unwrap(), expected);
}

#[test]
fn floats_of_torchao_have_as_many_blocks_as_scales() {
    let place = Workplace::new();
    let metadata = [("m.weight", json!({ "_type": "Float8Tensor", "_data": {} }))];
    // 1, 2, −1 and −2 in e4m3.
    let tensors = [
        ("m._weight_qdata", "F8_E4M3", vec![2, 2], vec![0x38, 0x40, 0xb8, 0xc0]),
        ("m._weight_scale", "F32", vec![2, 1], floats(&[3.0, 5.0])),
    ];
    let source = open(&directory(&place, &metadata, &tensors), &[]);
    assert_eq!(source.tensor("m.weight").unwrap().read::<f32>().unwrap(), [3.0, 6.0, -5.0, -10.0]);
}

#[test]
fn what_torchao_stores_for_one_kernel_and_what_is_not_stated_is_refused_by_name() {
    let block = || json!([1, 2]);
    for (attributes, kind, says) in [
        (
            json!({ "_type": "Int4TilePackedTo4dTensor", "_data": {} }),
            Kind::Unsupported,
            "Int4TilePackedTo4dTensor",
        ),
        (
            json!({ "_type": "NVFP4Tensor", "_data": { "is_swizzled_scales": true } }),
            Kind::Unsupported,
            "is_swizzled_scales",
        ),
        (json!({ "_type": "Int8Tensor", "_data": { "block_size": [1, 3] } }), Kind::Corrupt, "[1,3]"),
        (json!({ "_type": "Int8Tensor", "_data": { "block_size": [0, 2] } }), Kind::Corrupt, "[0,2]"),
        (
            json!({ "_type": "Int8Tensor", "_data": { "block_size": [1, 4] } }),
            Kind::Corrupt,
            "m._weight_scale",
        ),
        (json!([block()]), Kind::Corrupt, "metadata"),
    ] {
        let place = Workplace::new();
        let (metadata, tensors) = int8(attributes);
        let source = open(&directory(&place, &metadata, &tensors), &[]);
        let error = source.grouped().unwrap().problem().expect("a problem").without_cause();
        assert!(error.kind() == kind && error.to_string().contains(says), "{error}");
    }
    let place = Workplace::new();
    let source = open(&directory(&place, &[], &int8(json!({})).1), &[]);
    let error = source.grouped().unwrap().problem().expect("a problem").without_cause();
    assert!(error.to_string().contains("m._weight_qdata"), "{error}");
}
