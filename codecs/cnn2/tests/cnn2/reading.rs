//! Graphs and notes of what is read; limits and options.

use crate::build::{EXAMPLE, MIXED, Parts, input, pairs, read};
use ckpt_api::{Codec, Input, Kind, Limits, Op, Options, Side};
use ckpt_cnn2::Cnn2;

#[test]
fn the_worked_example_is_a_chain_behind_its_inputs() {
    let (contents, _) =
        read(&Parts::of(&EXAMPLE).bytes(), &[("activation", "none"), ("border", "zero")]).unwrap();
    let graph = contents.checkpoint.graph.unwrap();
    let nodes: Vec<(&str, Vec<&str>)> = graph
        .nodes
        .iter()
        .map(|node| (node.name.as_str(), node.inputs.iter().map(String::as_str).collect()))
        .collect();
    assert_eq!(
        nodes,
        [
            ("layer1/input", vec!["static_features", "features"]),
            ("layer1", vec!["layer1/input"]),
            ("layer2", vec!["layer1"]),
            ("layer3", vec!["layer2"]),
        ]
    );
    assert_eq!(graph.outputs[0].name, "layer3");
    assert_eq!(contents.repairs, []);
}

#[test]
fn activations_can_be_specified_as_for_any_source() {
    let (mut contents, _) = read(&Parts::of(&MIXED).bytes(), &[]).unwrap();
    contents.checkpoint.specify(["sigmoid", "linear", "tanh"]).unwrap();
    let graph = contents.checkpoint.graph.unwrap();
    graph.check().unwrap();
    assert_eq!(graph.nodes[1].op, Op::Sigmoid);
    assert_eq!(graph.unspecified(), Vec::<&str>::new());
}

#[test]
fn unstated_activations_and_border_are_noted() {
    let bytes = Parts::of(&EXAMPLE).bytes();
    let notes = |options| read(&bytes, options).unwrap().0.notes;
    assert_eq!(notes(&[]).len(), 1);
    assert!(notes(&[("border", "zero")])[0].contains("activations"));
    assert_eq!(notes(&[("border", "zero"), ("activation", "relu")]), Vec::<String>::new());
}

#[test]
fn a_directory_is_refused() {
    let error = Cnn2.read(&Input::memory("", Default::default()), &Options::default(), &Limits::default());
    assert_eq!(error.unwrap_err().kind(), Kind::Usage);
}

#[test]
fn more_layers_than_the_limit_are_refused() {
    let mut limits = Limits::default();
    limits.set_by_name("tensors", "2").unwrap();
    let options = Options::parse("cnn2", Cnn2.info().options, Side::Read, &pairs(&[])).unwrap();
    let error = Cnn2.read(&input(&Parts::of(&EXAMPLE).bytes()), &options, &limits).unwrap_err();
    assert_eq!(error.kind(), Kind::Limit);
}
