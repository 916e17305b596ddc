//! Graphs of programs that coremltools wrote: those of the corpus.

use ckpt_api::{Attribute, Axis, Checkpoint, DType, Graph, Input, Shape, Tensor};
use ckpt_coreml::CoreMl;
use std::path::Path;

fn read(name: &str) -> (Graph, Vec<Tensor>, Vec<String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/coreml/accept").join(name);
    let (contents, _) = ckpt_conformance::read(&CoreMl, &Input::open(path).unwrap(), &[]).unwrap();
    let notes = contents.graph_notes.iter().map(|note| note.as_str().to_owned()).collect();
    (contents.checkpoint.graph.expect("it has a graph"), contents.checkpoint.tensors, notes)
}

fn ops(graph: &Graph) -> Vec<&str> {
    graph.nodes.iter().map(|node| node.op.name()).collect()
}

#[test]
fn a_program_is_a_graph_of_onnx_operators() {
    let (graph, tensors, notes) = read("outside_program");
    assert_eq!(ops(&graph), ["Conv", "ReduceMean", "Gemm"]);
    assert_eq!((graph.inputs[0].name.as_str(), graph.outputs[0].name.as_str()), ("x", "y"));
    assert_eq!(graph.nodes[0].attributes.get("strides"), Some(&Attribute::Ints(vec![1, 1])));
    let axes = |name: &str| tensors.iter().find(|tensor| tensor.name == name).unwrap().axes.clone().unwrap();
    assert_eq!(axes("kernel")[..], [Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX]);
    assert_eq!(axes("weight")[..], [Axis::Out, Axis::In]);
    assert!(notes.is_empty(), "{notes:?}");
}

#[test]
fn compressed_weights_are_those_of_layers_and_casts_between_floats_are_none() {
    let (graph, _, notes) = read("outside_palette");
    assert_eq!(ops(&graph), ["Conv", "ReduceMean", "Gemm"]);
    assert_eq!(graph.nodes[0].parameters["weight"], "kernel_to_fp16_palettized");
    assert_eq!(notes, ["the model computes with 16-bit floats, and the graph with those of 32 bits"]);
}

#[test]
fn a_package_of_tensors_alone_has_no_graph() {
    let tensor = Tensor::new("conv.weight", DType::F32, Shape::new([2]).unwrap());
    let checkpoint = Checkpoint { tensors: vec![tensor], ..Checkpoint::default() };
    let files = ckpt_conformance::write(&CoreMl, &checkpoint, &[vec![1; 8]], "", &[]).unwrap();
    let (contents, values) = ckpt_conformance::read(&CoreMl, &Input::memory("", files), &[]).unwrap();
    assert!(contents.checkpoint.graph.is_none() && contents.missing_graph.is_some());
    assert_eq!((contents.checkpoint.tensors[0].name.as_str(), &values[0][..]), ("conv.weight", &[1; 8][..]));
}
