//! Builds models byte by byte, independently of the codec.

use std::collections::BTreeMap;

pub fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A field of bytes.
pub fn field(number: u64, value: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

/// A field of an integer.
pub fn int(number: u64, value: i64) -> Vec<u8> {
    [varint(number << 3), varint(value as u64)].concat()
}

pub fn text(number: u64, value: &str) -> Vec<u8> {
    field(number, value.as_bytes())
}

/// The lengths, data type and name of a tensor.
pub fn head(name: &str, data_type: i64, dims: &[i64]) -> Vec<u8> {
    let mut bytes: Vec<u8> = dims.iter().flat_map(|dim| int(1, *dim)).collect();
    bytes.extend(int(2, data_type));
    bytes.extend(text(8, name));
    bytes
}

pub fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A tensor of 32-bit floats in `raw_data`.
pub fn tensor(name: &str, dims: &[i64], values: &[f32]) -> Vec<u8> {
    [head(name, 1, dims), field(9, &floats(values))].concat()
}

/// A tensor in a file of external data.
pub fn external(name: &str, dims: &[i64], location: &str, offset: u64, len: u64) -> Vec<u8> {
    let pair = |key: &str, value: &str| field(13, &[text(1, key), text(2, value)].concat());
    let place =
        [pair("location", location), pair("offset", &offset.to_string()), pair("length", &len.to_string())];
    [head(name, 1, dims), place.concat(), int(14, 1)].concat()
}

/// An input or output of 32-bit floats; −1 is a free axis.
pub fn value(name: &str, shape: &[i64]) -> Vec<u8> {
    let dims: Vec<u8> =
        shape.iter().flat_map(|len| field(1, &if *len < 0 { Vec::new() } else { int(1, *len) })).collect();
    let tensor = [int(1, 1), field(2, &dims)].concat();
    [text(1, name), field(2, &field(1, &tensor))].concat()
}

pub fn node(op: &str, inputs: &[&str], outputs: &[&str], attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes: Vec<u8> = inputs.iter().flat_map(|name| text(1, name)).collect();
    bytes.extend(outputs.iter().flat_map(|name| text(2, name)));
    bytes.extend(text(3, outputs.first().unwrap_or(&"n")));
    bytes.extend(text(4, op));
    bytes.extend(attributes.iter().flat_map(|attribute| field(5, attribute)));
    bytes
}

pub fn int_attribute(name: &str, value: i64) -> Vec<u8> {
    [text(1, name), int(3, value), int(20, 2)].concat()
}

pub fn ints_attribute(name: &str, values: &[i64]) -> Vec<u8> {
    let values: Vec<u8> = values.iter().flat_map(|value| int(8, *value)).collect();
    [text(1, name), values, int(20, 7)].concat()
}

pub fn text_attribute(name: &str, value: &str) -> Vec<u8> {
    [text(1, name), text(4, value), int(20, 3)].concat()
}

/// An output of 32-bit floats whose shape is not stated.
pub fn shapeless(name: &str) -> Vec<u8> {
    [text(1, name), field(2, &field(1, &int(1, 1)))].concat()
}

/// A graph in the making.
#[derive(Clone, Default)]
pub struct Model {
    pub nodes: Vec<Vec<u8>>,
    pub tensors: Vec<Vec<u8>>,
    pub inputs: Vec<Vec<u8>>,
    pub outputs: Vec<Vec<u8>>,
    pub opset: i64,
}

impl Model {
    pub fn new() -> Self {
        Model { opset: 21, ..Model::default() }
    }

    pub fn node(mut self, op: &str, inputs: &[&str], outputs: &[&str], attributes: &[Vec<u8>]) -> Self {
        self.nodes.push(node(op, inputs, outputs, attributes));
        self
    }

    pub fn tensor(mut self, tensor: Vec<u8>) -> Self {
        self.tensors.push(tensor);
        self
    }

    pub fn input(mut self, name: &str, shape: &[i64]) -> Self {
        self.inputs.push(value(name, shape));
        self
    }

    pub fn output(mut self, name: &str, shape: &[i64]) -> Self {
        self.outputs.push(value(name, shape));
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let list = |number: u64, parts: &[Vec<u8>]| {
            parts.iter().flat_map(|part| field(number, part)).collect::<Vec<u8>>()
        };
        let graph = [
            list(1, &self.nodes),
            text(2, "g"),
            list(5, &self.tensors),
            list(11, &self.inputs),
            list(12, &self.outputs),
        ];
        let opset = int(2, self.opset);
        [int(1, 10), text(2, "by hand"), field(7, &graph.concat()), field(8, &opset)].concat()
    }

    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        [("m.onnx".to_owned(), self.bytes())].into()
    }
}

/// A dense layer with a bias, and relu.
pub fn dense() -> Model {
    Model::new()
        .node("Gemm", &["x", "w", "b"], &["h"], &[])
        .node("Relu", &["h"], &["y"], &[])
        .tensor(tensor("w", &[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]))
        .tensor(tensor("b", &[3], &[0.5, -1.0, 2.0]))
        .input("x", &[-1, 2])
        .output("y", &[-1, 3])
}
