//! One test for each rule, on models made field by field.

use ckpt_api::{Codec, Contents, Input, Kind, Limit, Limits, Options, Result};
use ckpt_containers::protobuf::{put_bytes, put_int};
use ckpt_coreml::CoreMl;

fn int(field: u64, value: i64) -> Vec<u8> {
    let mut out = Vec::new();
    put_int(&mut out, field, value);
    out
}

fn bytes(field: u64, value: impl AsRef<[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, field, value.as_ref());
    out
}

/// An entry of a map.
fn entry(field: u64, key: &str, value: &[u8]) -> Vec<u8> {
    bytes(field, [bytes(1, key), bytes(2, value)].concat())
}

/// The message `ValueType` of 32-bit floats.
fn floats(lens: &[i64]) -> Vec<u8> {
    let dims = lens.iter().map(|len| bytes(3, bytes(1, int(1, *len))));
    bytes(1, [int(1, 11), int(2, 1), dims.collect::<Vec<_>>().concat()].concat())
}

fn named(field: u64, name: &str, lens: &[i64]) -> Vec<u8> {
    bytes(field, [bytes(1, name), bytes(2, floats(lens))].concat())
}

fn value(numbers: &[f32]) -> Vec<u8> {
    let packed: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let immediate = bytes(3, bytes(1, bytes(1, bytes(1, packed))));
    [bytes(2, floats(&[numbers.len().try_into().unwrap()])), immediate].concat()
}

fn constant(name: &str, numbers: &[f32]) -> Vec<u8> {
    let len = numbers.len().try_into().unwrap();
    bytes(3, [bytes(1, "const"), named(3, name, &[len]), entry(5, "val", &value(numbers))].concat())
}

/// A function that takes `x`, two values of three channels, and returns `y`.
fn function(name: &str, operations: &[u8]) -> Vec<u8> {
    let block = [bytes(2, "y"), operations.to_vec()].concat();
    let own = [named(1, "x", &[2, 3]), bytes(2, "CoreML7"), entry(3, "CoreML7", &block)].concat();
    entry(2, name, &own)
}

fn model(kind: u64, own: &[u8]) -> Vec<u8> {
    [int(1, 8), bytes(2, named(1, "x", &[2, 3])), bytes(kind, own)].concat()
}

fn read(model: Vec<u8>, header_bytes: u64) -> Result<Contents> {
    let limits = Limits::default().with(Limit::HeaderBytes, header_bytes);
    let input = Input::memory("m.mlmodel", [("m.mlmodel".to_owned(), model)].into());
    CoreMl.read(&input, &Options::default(), &limits)
}

fn kind(contents: Result<Contents>) -> Option<Kind> {
    contents.err().map(|error| error.kind())
}

#[test]
fn names_that_begin_with_one_long_name_count_among_header_bytes() {
    let program = |len: usize| {
        let constants: Vec<u8> = (0..40).flat_map(|own| constant(&format!("w{own}"), &[1.0])).collect();
        let functions = ["a", "b"].map(|name| function(&name.repeat(len), &constants));
        model(502, &functions.concat())
    };
    assert_eq!(kind(read(program(1), 1 << 16)), None);
    assert_eq!(kind(read(program(1000), 1 << 16)), Some(Kind::Limit));
    let pipelines = |len: usize| {
        let models = bytes(1, model(501, &[])).repeat(100);
        let inner = model(202, &models);
        model(202, &[bytes(1, inner), bytes(2, "a".repeat(len))].concat())
    };
    assert_eq!(kind(read(pipelines(1), 1 << 16)), None);
    assert_eq!(kind(read(pipelines(1000), 1 << 16)), Some(Kind::Limit));
}

#[test]
fn many_directions_of_a_layer_take_linear_time() {
    let lstm = bytes(20, []).repeat(400_000);
    let layer = [bytes(1, "lstm"), bytes(430, lstm)].concat();
    assert!(read(model(500, &bytes(1, layer)), 1 << 26).unwrap().placements.is_empty());
}

#[test]
fn scales_that_pieces_repeat_count_among_header_bytes() {
    let outputs = 1 << 20;
    let scales = bytes(101, bytes(1, vec![0; 4 << 20]));
    let quantization = bytes(40, [int(1, 1), scales].concat());
    // One bit for each of 16 · 2^20 elements.
    let weights = bytes(90, [bytes(30, vec![0; 2 << 20]), quantization].concat());
    let fields = [int(1, outputs), int(2, 16), bytes(20, [1, 1]), int(60, 1), weights].concat();
    let layer = [bytes(1, "up"), bytes(100, fields)].concat();
    let file = model(500, &bytes(1, layer));
    assert_eq!(kind(read(file.clone(), 16 << 20)), Some(Kind::Limit));
    let contents = read(file, 40 << 20).unwrap();
    assert_eq!(contents.placements[0].extents.len(), 4);
}

#[test]
fn the_last_entry_of_a_name_counts_as_in_maps_of_protocol_buffers() {
    let twice = [entry(5, "val", &value(&[1.0])), entry(5, "val", &value(&[1.0, 2.0]))].concat();
    let constant = bytes(3, [bytes(1, "const"), named(3, "w", &[2]), twice].concat());
    let contents = read(model(502, &function("main", &constant)), 1 << 16).unwrap();
    assert_eq!(contents.checkpoint.tensors[0].shape[..], [2]);
}

#[test]
fn a_batch_normalization_may_lack_scale_and_offset() {
    let argument = |name: &str| bytes(1, bytes(1, name));
    let inputs = [("x", "x"), ("mean", "m"), ("variance", "v")];
    let inputs = inputs.map(|(own, name)| entry(2, own, &argument(name))).concat();
    let norm = bytes(3, [bytes(1, "batch_norm"), inputs, named(3, "y", &[2, 3])].concat());
    let operations = [constant("m", &[0.0; 3]), constant("v", &[1.0; 3]), norm].concat();
    let contents = read(model(502, &function("main", &operations)), 1 << 16).unwrap();
    let graph = contents.checkpoint.graph.unwrap_or_else(|| panic!("{:?}", contents.missing_graph));
    assert_eq!(graph.nodes[0].op.name(), "BatchNormalization");
    assert_eq!(graph.nodes[0].parameters.keys().collect::<Vec<_>>(), ["mean", "variance"]);
}
