//! One test for each rule of the layers of a network.

use crate::build::Field::{Flag, Floats, Longs, Modules, Number};
use crate::build::{Layer, Writer, layer, read};
use ckpt_api::{Contents, Graph};

fn contents(network: &Layer<'_>) -> Contents {
    let mut writer = Writer::default();
    layer(&mut writer, network);
    read(writer.file()).unwrap().0
}

fn sequential(layers: Vec<Layer<'_>>) -> Layer<'_> {
    ("nn.Sequential", vec![("modules", Modules(layers))])
}

fn graph(layers: Vec<Layer<'_>>) -> Graph {
    let contents = contents(&sequential(layers));
    let missing = contents.missing_graph.clone();
    contents.checkpoint.graph.unwrap_or_else(|| panic!("{missing:?}"))
}

fn reason(layers: Vec<Layer<'_>>) -> String {
    contents(&sequential(layers)).missing_graph.expect("no graph").reason.as_str().to_owned()
}

fn ops(graph: &Graph) -> Vec<&str> {
    let ops = graph.nodes.iter().map(|node| node.op.name());
    ops.filter(|op| !matches!(*op, "Constant" | "Reshape")).collect()
}

fn shape(graph: &Graph) -> &[Option<u64>] {
    &graph.outputs[0].shape
}

fn linear<'a>(weight: &'a [u64; 2], bias: &'a [u64; 1]) -> Layer<'a> {
    ("nn.Linear", vec![("weight", Floats(weight)), ("bias", Floats(bias))])
}

fn convolution<'a>(class: &'a str, weight: &'a [u64]) -> Layer<'a> {
    let numbers =
        [("nInputPlane", 2.0), ("nOutputPlane", 3.0), ("kW", 3.0), ("kH", 3.0), ("dW", 1.0), ("dH", 1.0)];
    let numbers = numbers.map(|(name, number)| (name, Number(number)));
    (class, numbers.into_iter().chain([("weight", Floats(weight))]).collect())
}

#[test]
fn the_first_layer_that_states_it_gives_the_input() {
    let own = graph(vec![("nn.Identity", vec![]), linear(&[4, 3], &[4]), ("nn.Tanh", vec![])]);
    assert_eq!(own.inputs[0].shape, [None, Some(3)]);
    assert_eq!((ops(&own), shape(&own)), (vec!["Gemm", "Tanh"], &[None, Some(4)][..]));
    let own = graph(vec![convolution("cudnn.SpatialConvolution", &[3, 2, 3, 3])]);
    assert_eq!(own.inputs[0].shape, [None, Some(2), None, None]);
    assert!(reason(vec![("nn.Tanh", vec![])]).contains("no layer states what the network takes"));
}

#[test]
fn a_matrix_of_a_convolution_gets_its_kernel() {
    let own = graph(vec![convolution("nn.SpatialConvolutionMM", &[3, 18])]);
    assert_eq!(own.nodes.last().unwrap().inputs.len(), 2);
    let why = reason(vec![convolution("nn.SpatialConvolutionMM", &[3, 17])]);
    assert!(
        why.contains("layer 'modules.1' (SpatialConvolutionMM) needs a weight of shape [3, 2, 3, 3]"),
        "{why}"
    );
}

#[test]
fn tables_are_combined_and_joined() {
    let both = |kind: &'static str, more: Vec<(&'static str, crate::build::Field<'static>)>| {
        let layers = vec![linear(&[4, 3], &[4]), linear(&[4, 3], &[4])];
        (kind, [vec![("modules", Modules(layers))], more].concat_fields())
    };
    let own = graph(vec![both("nn.ConcatTable", vec![]), ("nn.CAddTable", vec![])]);
    assert_eq!((ops(&own), shape(&own)), (vec!["Gemm", "Gemm", "Add"], &[None, Some(4)][..]));
    let own = graph(vec![both("nn.Concat", vec![("dimension", Number(2.0))])]);
    assert_eq!((ops(&own), shape(&own)), (vec!["Gemm", "Gemm", "Concat"], &[None, Some(8)][..]));
    let join = |fields| ("nn.JoinTable", fields);
    let dimensions = vec![("dimension", Number(1.0)), ("nInputDims", Number(1.0))];
    let own = graph(vec![both("nn.ConcatTable", vec![]), join(dimensions)]);
    assert_eq!(shape(&own), [None, Some(8)]);
    let nested = vec![both("nn.ConcatTable", vec![])];
    let why = reason(vec![
        linear(&[3, 3], &[3]),
        ("nn.ConcatTable", vec![("modules", Modules(vec![sequential(nested)]))]),
    ]);
    assert!(why.contains("tables of tables"), "{why}");
}

trait ConcatFields<'a> {
    fn concat_fields(self) -> Vec<(&'a str, crate::build::Field<'a>)>;
}

impl<'a> ConcatFields<'a> for [Vec<(&'a str, crate::build::Field<'a>)>; 2] {
    fn concat_fields(self) -> Vec<(&'a str, crate::build::Field<'a>)> {
        self.into_iter().flatten().collect()
    }
}

#[test]
fn shapes_keep_the_batch() {
    let make = |kind: &'static str,
                size: &'static [i64],
                more: Vec<(&'static str, crate::build::Field<'static>)>| {
        let own = [vec![("size", Longs(size))], more].concat_fields();
        vec![linear(&[12, 3], &[12]), (kind, own)]
    };
    assert_eq!(shape(&graph(make("nn.Reshape", &[3, 4], vec![]))), [None, Some(3), Some(4)]);
    assert_eq!(shape(&graph(make("nn.View", &[3, 4], vec![]))), [None, Some(3), Some(4)]);
    assert_eq!(shape(&graph(make("nn.View", &[-1, 4], vec![]))), [None, Some(4)]);
    let axes = || vec![("numInputDims", Number(1.0))];
    assert_eq!(shape(&graph(make("nn.View", &[-1], axes()))), [None, None]);
    assert!(reason(make("nn.View", &[-1], vec![])).contains("setNumInputDims"));
    let flat = vec![("batchMode", Flag(false))];
    assert_eq!(shape(&graph(make("nn.Reshape", &[2, 6], flat))), [None, Some(6)]);
}

#[test]
fn dropout_of_the_first_version_scales() {
    let own = |more: Vec<(&'static str, crate::build::Field<'static>)>| {
        let fields = [vec![("p", Number(0.25))], more].concat_fields();
        graph(vec![linear(&[4, 3], &[4]), ("nn.Dropout", fields)])
    };
    assert_eq!(ops(&own(vec![("v2", Flag(true))])), ["Gemm", "Identity"]);
    assert_eq!(ops(&own(vec![])), ["Gemm", "Mul"]);
}

#[test]
fn an_unknown_layer_is_the_reason_for_no_graph() {
    let why = reason(vec![linear(&[4, 3], &[4]), ("nn.VolumetricConvolution", vec![])]);
    assert!(why.contains("layer 'modules.2' (VolumetricConvolution) is not supported"), "{why}");
    let why = reason(vec![linear(&[4, 3], &[4]), linear(&[4, 3], &[4])]);
    assert!(why.contains("takes 4 numbers, and needs 3"), "{why}");
}

#[test]
fn a_network_within_a_table_is_found_if_it_is_the_only_one() {
    let mut writer = Writer::default();
    writer.table(2);
    for name in ["a", "b"] {
        writer.text(name);
        layer(&mut writer, &sequential(vec![linear(&[4, 3], &[4])]));
    }
    let missing = read(writer.file()).unwrap().0.missing_graph.expect("no graph");
    assert!(missing.reason.as_str().contains("several networks"));
    let mut writer = Writer::default();
    writer.table(1);
    writer.text("model");
    layer(&mut writer, &sequential(vec![linear(&[4, 3], &[4])]));
    let graph = read(writer.file()).unwrap().0.checkpoint.graph.unwrap();
    assert_eq!(graph.nodes[0].parameters["weight"], "model.modules.1.weight");
}

#[test]
fn a_network_that_has_itself_is_the_reason_for_no_graph() {
    let mut writer = Writer::default();
    let number = writer.object("nn.Sequential");
    writer.table(1);
    writer.text("modules").table(2);
    writer.number(1.0);
    layer(&mut writer, &linear(&[3, 3], &[3]));
    writer.number(2.0).again(4, number);
    let missing = read(writer.file()).unwrap().0.missing_graph.expect("no graph");
    assert!(missing.reason.as_str().contains("too often"), "{missing:?}");
}
