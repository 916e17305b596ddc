//! The kit's checks on one sample of every sort.

use crate::build::{Model, dense, external, field, floats, head, int, varint};
use ckpt_api::{Axis, DType};
use ckpt_conformance::{Sample, check};
use ckpt_onnx::Onnx;

const MATRIX: [f32; 6] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];

fn samples() -> Vec<Sample> {
    let dense_sample = Sample::new("a dense layer", "m.onnx", dense().files())
        .floats("w", &[2, 3], &MATRIX)
        .floats("b", &[3], &[0.5, -1.0, 2.0])
        .axes("w", [Axis::In, Axis::Out])
        .metadata("onnx", "producer_name", "by hand");
    let packed: Vec<u8> = [1i64, -2, 300].iter().flat_map(|value| varint(*value as u64)).collect();
    let typed = Model::new()
        .tensor([head("f", 1, &[2]), field(4, &floats(&[1.5, -2.5]))].concat())
        .tensor([head("i", 7, &[3]), field(7, &packed)].concat())
        .tensor([head("h", 10, &[2]), int(5, 0x3c00), int(5, 0xc000)].concat());
    let typed = Sample::new("typed fields", "m.onnx", typed.files())
        .floats("f", &[2], &[1.5, -2.5])
        .tensor("i", DType::I64, &[3], [1i64, -2, 300].map(i64::to_le_bytes).concat())
        .tensor("h", DType::F16, &[2], [0, 0x3c, 0, 0xc0])
        .rewritten("varints become bytes");
    let beside = Model::new()
        .node("MatMul", &["x", "w"], &["y"], &[])
        .tensor(external("w", &[2, 3], "m.onnx.data", 0, 24))
        .input("x", &[-1, 2])
        .output("y", &[-1, 3]);
    let mut files = beside.files();
    files.insert("m.onnx.data".to_owned(), floats(&MATRIX));
    let beside = Sample::new("external data", "m.onnx", files)
        .floats("w", &[2, 3], &MATRIX)
        .open_ended("m.onnx.data", "other tensors may follow");
    vec![dense_sample, typed, beside]
}

#[test]
fn the_codec_keeps_the_contract() {
    check(&Onnx, &samples());
}
