//! The kit's checks, on models made byte by byte.

use ckpt_api::{Axis, DType, Role};
use ckpt_conformance::{Sample, check};
use ckpt_tfjs::Tfjs;
use std::collections::BTreeMap;

fn files(model: &str, shards: &[(&str, &[u8])]) -> BTreeMap<String, Vec<u8>> {
    let shards = shards.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec()));
    shards.chain([("model.json".to_owned(), model.as_bytes().to_vec())]).collect()
}

fn floats(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Numbers and truth values of every dtype, of which one is in no shard.
fn every_dtype() -> Sample {
    let model = r#"{"format": "graph-model", "modelTopology": {"node": []}, "weightsManifest": [{"paths": ["w.bin"], "weights": [
        {"name": "f", "shape": [2], "dtype": "float32"}, {"name": "i", "shape": [], "dtype": "int32"},
        {"name": "b", "shape": [3], "dtype": "bool"}, {"name": "c", "shape": [1], "dtype": "complex64"},
        {"name": "none", "shape": [0, 4], "dtype": "float32"}]}]}"#;
    let bytes = [&floats(&[1.5, -2.0])[..], &7i32.to_le_bytes(), &[1, 0, 1], &floats(&[0.5, -1.0])].concat();
    Sample::new("every dtype", "", files(model, &[("w.bin", &bytes)]))
        .floats("f", &[2], &[1.5, -2.0])
        .tensor("i", DType::I32, &[], 7i32.to_le_bytes())
        .tensor("b", DType::Bool, &[3], [1, 0, 1])
        .tensor("c", DType::C64, &[1], floats(&[0.5, -1.0]))
        .floats("none", &[0, 4], &[])
        .metadata("tfjs", "format", "graph-model")
        .written_as("")
        .ignoring("model.json", .., "other members of the file mean nothing")
}

/// Texts between numbers, cut within a text and within a length.
fn texts() -> Sample {
    let model = r#"{"weightsManifest": [{"paths": ["a", "b", "c"], "weights": [
        {"name": "f", "shape": [1], "dtype": "float32"}, {"name": "s", "shape": [3], "dtype": "string"},
        {"name": "g", "shape": [1], "dtype": "float32"}]}], "modelTopology": {"node": []}}"#;
    let bytes = [&floats(&[3.0])[..], b"\x02\0\0\0ab\0\0\0\0\x03\0\0\0cde", &floats(&[4.0])].concat();
    let shards = [("a", &bytes[..9]), ("b", &bytes[9..16]), ("c", &bytes[16..])];
    Sample::new("texts", "", files(model, &shards))
        .floats("f", &[1], &[3.0])
        .tensor("s", DType::String, &[3], *b"abcde")
        .floats("g", &[1], &[4.0])
        .written_as("")
        .rewritten("shards are cut elsewhere")
        .ignoring("model.json", .., "other members of the file mean nothing")
}

/// Integers of one and two bytes that stand for numbers, and 16-bit floats; a number begins in one shard and ends in the next.
fn quantized() -> Sample {
    let model = r#"{"weightsManifest": [{"paths": ["a", "b"], "weights": [
        {"name": "u8", "shape": [3], "dtype": "float32", "quantization": {"dtype": "uint8", "scale": 0.5, "min": -1}},
        {"name": "u16", "shape": [2], "dtype": "float32", "quantization": {"dtype": "uint16", "scale": 0.25, "min": 1}},
        {"name": "i", "shape": [2], "dtype": "int32", "quantization": {"dtype": "uint8", "scale": 0.5, "min": -1}},
        {"name": "h", "shape": [1], "dtype": "float32", "quantization": {"dtype": "float16"}}]}],
        "modelTopology": {"node": []}}"#;
    let bytes = [0u8, 1, 255, 4, 0, 0, 1, 1, 4, 0, 0x3c];
    Sample::new("quantized", "", files(model, &[("a", &bytes[..6]), ("b", &bytes[6..])]))
        .floats("u8", &[3], &[-1.0, -0.5, 126.5])
        .floats("u16", &[2], &[2.0, 65.0])
        .tensor("i", DType::I32, &[2], [0i32, 1].map(i32::to_le_bytes).concat())
        .floats("h", &[1], &[1.0])
        .written_as("")
        .rewritten("numbers are stored as they are")
        .ignoring("model.json", .., "other members of the file mean nothing")
}

/// Two layers, in the form of TensorFlow.js, and the state of an optimizer.
fn layers() -> Sample {
    let model = r#"{"modelTopology": {"class_name": "Sequential", "config": {"name": "s", "layers": [
        {"class_name": "Dense", "config": {"name": "fc", "units": 2, "activation": "relu", "use_bias": true,
         "batch_input_shape": [null, 3], "dtype": "float32"}},
        {"class_name": "Dense", "config": {"name": "head", "units": 1, "activation": "linear", "use_bias": false}}]},
        "keras_version": "tfjs-layers 4.22.0", "backend": "tensor_flow.js"}, "format": "layers-model",
        "weightsManifest": [{"paths": ["./weights.bin"], "weights": [
          {"name": "fc/kernel", "shape": [3, 2], "dtype": "float32"}, {"name": "fc/bias", "shape": [2], "dtype": "float32"},
          {"name": "head/kernel", "shape": [2, 1], "dtype": "float32"},
          {"name": "iter", "shape": [], "dtype": "int32", "group": "optimizer"},
          {"name": "fc/bias/m", "shape": [2], "dtype": "float32", "group": "optimizer"}]}]}"#;
    let numbers: Vec<f32> = (0..10u8).map(f32::from).collect();
    let bytes = [&floats(&numbers)[..], &3i32.to_le_bytes(), &floats(&[0.5, 0.25])].concat();
    Sample::new("layers", "", files(model, &[("weights.bin", &bytes)]))
        .floats("fc/kernel", &[3, 2], &numbers[..6])
        .floats("fc/bias", &[2], &numbers[6..8])
        .floats("head/kernel", &[2, 1], &numbers[8..])
        .tensor("iter", DType::I32, &[], 3i32.to_le_bytes())
        .floats("fc/bias/m", &[2], &[0.5, 0.25])
        .axes("fc/kernel", [Axis::In, Axis::Out])
        .role("iter", Role::Counter)
        .role("fc/bias/m", Role::Optimizer)
        .written_as("")
        .ignoring("model.json", .., "other members of the file mean nothing")
}

#[test]
fn models_of_tensorflow_js_keep_the_contract() {
    check(&Tfjs, &[every_dtype(), texts(), quantized(), layers()]);
}
