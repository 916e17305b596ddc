//! One test for each rule, on models made field by field.

use ckpt_api::{Attribute, Codec, Contents, Graph, Input, Kind, Limit, Limits, Options, Result};
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

/// The message of a list with one text.
fn text(text: &str) -> Vec<u8> {
    let immediate = bytes(3, bytes(1, bytes(4, bytes(1, text))));
    [bytes(2, bytes(1, int(1, 2))), immediate].concat()
}

/// A constant of 32-bit integers.
fn integers(name: &str, numbers: &[i64]) -> Vec<u8> {
    let len = bytes(3, bytes(1, int(1, numbers.len().try_into().unwrap())));
    let ty = bytes(2, bytes(1, [int(1, 23), int(2, 1), len].concat()));
    let values: Vec<u8> = numbers.iter().flat_map(|number| int(1, *number)).collect();
    let value = [ty.clone(), bytes(3, bytes(1, bytes(2, values)))].concat();
    bytes(3, [bytes(1, "const"), bytes(3, [bytes(1, name), ty].concat()), entry(5, "val", &value)].concat())
}

/// An operation that makes a value of this name and shape of others.
fn operation(op: &str, inputs: &[(&str, &str)], result: &str, lens: &[i64]) -> Vec<u8> {
    let input = |(own, name): &(&str, &str)| entry(2, own, &bytes(1, bytes(1, name)));
    let inputs: Vec<u8> = inputs.iter().flat_map(input).collect();
    bytes(3, [bytes(1, op), inputs, named(3, result, lens)].concat())
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

fn graph(operations: &[Vec<u8>]) -> Graph {
    let contents = read(model(502, &function("main", &operations.concat())), 1 << 16).unwrap();
    contents.checkpoint.graph.unwrap_or_else(|| panic!("{:?}", contents.missing_graph))
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
    let norm = operation("batch_norm", &[("x", "x"), ("mean", "m"), ("variance", "v")], "y", &[2, 3]);
    let graph = graph(&[constant("m", &[0.0; 3]), constant("v", &[1.0; 3]), norm]);
    assert_eq!(graph.nodes[0].op.name(), "BatchNormalization");
    assert_eq!(graph.nodes[0].parameters.keys().collect::<Vec<_>>(), ["mean", "variance"]);
}

#[test]
fn a_cell_has_the_activations_of_its_gates_its_cell_gate_and_its_output() {
    let zeros = |name: &str, lens: [i64; 2]| {
        let count = usize::try_from(lens[0] * lens[1]).unwrap();
        let value = [bytes(2, floats(&lens)), bytes(3, bytes(1, bytes(1, bytes(1, vec![0; count * 4]))))];
        bytes(3, [bytes(1, "const"), named(3, name, &lens), entry(5, "val", &value.concat())].concat())
    };
    let relu = {
        let output = bytes(3, [bytes(1, "relu"), bytes(2, bytes(1, int(1, 2)))].concat());
        bytes(3, [bytes(1, "const"), output, entry(5, "val", &text("relu"))].concat())
    };
    let inputs =
        [("x", "s"), ("initial_h", "h"), ("initial_c", "h"), ("weight_ih", "wi"), ("weight_hh", "wh")];
    let inputs = [&inputs[..], &[("cell_activation", "relu")]].concat();
    let graph = graph(&[
        integers("zero", &[0]),
        zeros("h", [2, 1]),
        zeros("wi", [4, 3]),
        zeros("wh", [4, 1]),
        relu,
        operation("expand_dims", &[("x", "x"), ("axes", "zero")], "s", &[1, 2, 3]),
        operation("lstm", &inputs, "y", &[2, 1]),
    ]);
    let node = graph.nodes.iter().find(|node| node.op.name() == "LSTM").unwrap();
    let names = ["Sigmoid", "Relu", "Tanh"].map(str::to_owned).to_vec();
    assert_eq!(node.attributes.get("activations"), Some(&Attribute::Texts(names)));
}

#[test]
fn a_reduction_removes_its_axes_unless_it_says_otherwise() {
    let operation = operation("reduce_sum", &[("x", "x"), ("axes", "one")], "y", &[2]);
    let graph = graph(&[integers("one", &[1]), operation]);
    assert_eq!(graph.outputs[0].shape, [Some(2)]);
}

#[test]
fn quotients_are_rounded_down_and_remainders_have_the_sign_of_the_divisor() {
    let ops = |op: &str| {
        let graph = graph(&[operation(op, &[("x", "x"), ("y", "x")], "y", &[2, 3])]);
        graph.nodes.iter().map(|node| node.op.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ops("floor_div"), ["Div", "Floor"]);
    assert_eq!((ops("mod").first().unwrap().as_str(), ops("mod").last().unwrap().as_str()), ("Mod", "Where"));
    let whole = bytes(2, bytes(1, [int(1, 23), int(2, 1), bytes(3, bytes(1, int(1, 2)))].concat()));
    let inputs = ["x", "y"].map(|own| entry(2, own, &bytes(1, bytes(1, "w")))).concat();
    let output = bytes(3, [bytes(1, "y"), whole].concat());
    let division = bytes(3, [bytes(1, "floor_div"), inputs, output].concat());
    let graph = graph(&[integers("w", &[-7, 2]), division]);
    let ops: Vec<&str> = graph.nodes.iter().map(|node| node.op.name()).collect();
    assert_eq!(ops, ["Constant", "Mod", "Sub", "Div"]);
}

#[test]
fn a_slice_by_size_may_begin_below_zero_and_reach_the_end() {
    let ends = |begin: [i64; 2], size: [i64; 2]| {
        let slice = operation("slice_by_size", &[("x", "x"), ("begin", "b"), ("size", "s")], "y", &[1, 2]);
        let graph = graph(&[integers("b", &begin), integers("s", &size), slice]);
        (graph.outputs[0].shape.clone(), graph.nodes[0].ints("starts").unwrap().unwrap().to_vec())
    };
    let part = (vec![Some(1), Some(2)], vec![-1, -2]);
    assert_eq!(ends([-1, -2], [1, 2]), part);
    assert_eq!(ends([-1, -2], [-1, -1]), part);
    assert_eq!(ends([0, -3], [1, 2]), (vec![Some(1), Some(2)], vec![0, -3]));
}
