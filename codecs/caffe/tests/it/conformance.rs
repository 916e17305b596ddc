//! The kit's checks on one sample of every sort.

use crate::build::{blob, field, files, floats, int, layer, model, numbers, old_layer, old_shape, shape};
use ckpt_api::{Axis, DType};
use ckpt_caffe::Caffe;
use ckpt_conformance::{Sample, check};

const NAMES: &str =
    "names of networks, and what layers state beside their blobs, mean nothing without a .prototxt";

/// One layer each: a model that is cut behind a layer is one, too.
fn today() -> Sample {
    let layers = [layer("conv", "Convolution", &[blob(&[4, 2, 3, 3]), blob(&[4])])];
    Sample::new("layers of today", "m.caffemodel", files(model(&layers)))
        .floats("conv/0", &[4, 2, 3, 3], &numbers(72))
        .floats("conv/1", &[4], &numbers(4))
        .axes("conv/0", [Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX])
        .ignoring("m.caffemodel", .., NAMES)
}

fn of_2014() -> Sample {
    let blobs = [
        [old_shape([1, 1, 3, 5]), field(5, &floats(&numbers(15)))].concat(),
        [old_shape([1, 1, 1, 3]), field(5, &floats(&numbers(3)))].concat(),
    ];
    Sample::new("layers of 2014", "m.caffemodel", files(model(&[old_layer("fc", 14, &blobs)])))
        .floats("fc/0", &[1, 1, 3, 5], &numbers(15))
        .floats("fc/1", &[1, 1, 1, 3], &numbers(3))
        .axes("fc/0", [Axis::Unit, Axis::Unit, Axis::Out, Axis::In])
        .ignoring("m.caffemodel", .., NAMES)
}

/// Double numbers, and half and double ones as raw data.
fn precisions() -> Sample {
    let doubles: Vec<u8> = [1.5f64, -2.0].iter().flat_map(|number| number.to_le_bytes()).collect();
    let blobs = [
        [shape(&[2]), field(8, &doubles)].concat(),
        [shape(&[2]), int(10, 2), field(12, &[0, 0x3c, 0, 0xc0])].concat(),
        [shape(&[2]), int(10, 0), field(12, &doubles)].concat(),
    ];
    Sample::new("precisions", "m.caffemodel", files(model(&[layer("p", "Parameter", &blobs)])))
        .tensor("p/0", DType::F64, &[2], doubles.clone())
        .tensor("p/1", DType::F16, &[2], [0, 0x3c, 0, 0xc0])
        .tensor("p/2", DType::F64, &[2], doubles)
        .ignoring("m.caffemodel", .., NAMES)
}

#[test]
fn models_of_caffe_keep_the_contract() {
    check(&Caffe, &[today(), of_2014(), precisions()]);
}
