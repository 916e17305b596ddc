//! Messages made byte by byte.

use ckpt_api::Input;
use std::collections::BTreeMap;

pub fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap());
    bytes
}

pub fn int(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

pub fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

/// A shape as blobs of today have it.
pub fn shape(dims: &[u64]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|dim| varint(*dim)).collect();
    field(7, &field(1, &dims))
}

/// The four axes of blobs of 2014.
pub fn old_shape(dims: [u64; 4]) -> Vec<u8> {
    (1..).zip(dims).flat_map(|(number, dim)| int(number, dim)).collect()
}

pub fn floats(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// So many numbers: 0.5, 1.5, 2.5, …
pub fn numbers(count: u16) -> Vec<f32> {
    (0..count).map(|number| f32::from(number) + 0.5).collect()
}

/// A blob of this shape, with the numbers of [`numbers`].
pub fn blob(dims: &[u64]) -> Vec<u8> {
    let count = dims.iter().product::<u64>();
    [shape(dims), field(5, &floats(&numbers(u16::try_from(count).unwrap())))].concat()
}

/// A blob of one number.
pub fn single(number: f32) -> Vec<u8> {
    [shape(&[1]), field(5, &number.to_le_bytes())].concat()
}

pub fn layer(name: &str, kind: &str, blobs: &[Vec<u8>]) -> Vec<u8> {
    let blobs: Vec<u8> = blobs.iter().flat_map(|blob| field(7, blob)).collect();
    field(100, &[field(1, name.as_bytes()), field(2, kind.as_bytes()), blobs].concat())
}

pub fn old_layer(name: &str, kind: u64, blobs: &[Vec<u8>]) -> Vec<u8> {
    let blobs: Vec<u8> = blobs.iter().flat_map(|blob| field(6, blob)).collect();
    field(2, &[field(4, name.as_bytes()), int(5, kind), blobs].concat())
}

/// A model of a name and layers.
pub fn model(layers: &[Vec<u8>]) -> Vec<u8> {
    [field(1, b"net"), layers.concat()].concat()
}

pub fn files(model: Vec<u8>) -> BTreeMap<String, Vec<u8>> {
    [("m.caffemodel".to_owned(), model)].into()
}

/// A model with a `.prototxt`.
pub fn input(model: Vec<u8>, text: &str) -> Input {
    let mut files = files(model);
    files.insert("m.prototxt".to_owned(), text.into());
    Input::memory("m.caffemodel", files)
}
