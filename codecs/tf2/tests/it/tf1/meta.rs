//! The graph that `tf.train.Saver` writes beside a checkpoint.

use super::build::{attribute, field, node, number, placeholder};
use ckpt_api::{Checkpoint, Codec, Contents, DType, Input, Limits, Options, Shape, Side, Tensor};
use ckpt_tf2::Tf2;
use std::collections::BTreeMap;

/// A product with a variable, its activation, and what trains and saves it.
fn graph(more: &[Vec<u8>]) -> Vec<u8> {
    let inputs =
        |names: &[&str]| -> Vec<u8> { names.iter().flat_map(|name| field(3, name.as_bytes())).collect() };
    let variable = attribute("dtype", &number(6, 1));
    let nodes = [
        placeholder("x", &[2, 4]),
        placeholder("labels", &[2, 3]),
        node("kernel", "VariableV2", &variable),
        node("kernel/read", "Identity", &inputs(&["kernel"])),
        node("product", "MatMul", &inputs(&["x", "kernel/read"])),
        node("probs", "Softmax", &inputs(&["product"])),
        node("save/control", "Identity", &inputs(&["kernel"])),
        node("init", "NoOp", &inputs(&["^kernel"])),
    ];
    field(2, &[nodes.concat(), more.concat()].concat())
}

/// Reads a checkpoint of one variable with this file beside it, named by the file.
fn read(meta: Vec<u8>, options: &[(&str, &str)]) -> Contents {
    read_by("m.meta", meta, options)
}

fn read_by(entry: &str, meta: Vec<u8>, options: &[(&str, &str)]) -> Contents {
    let shape = Shape::new([4, 3]).unwrap();
    let tensors = vec![Tensor::new("kernel", DType::F32, shape)];
    let checkpoint = Checkpoint { tensors, ..Checkpoint::default() };
    let plain = [("names".to_owned(), "plain".to_owned())];
    let written = ckpt_conformance::write(&Tf2, &checkpoint, &[vec![0; 48]], "m.index", &plain).unwrap();
    let mut files: BTreeMap<String, Vec<u8>> = written.into_iter().collect();
    files.insert("m.meta".to_owned(), meta);
    let pairs: Vec<_> =
        options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let options = Options::parse("tf2", Tf2.info().options, Side::Read, &pairs).unwrap();
    Tf2.read(&Input::memory(entry, files), &options, &Limits::default()).unwrap()
}

#[test]
fn a_graph_with_one_end_is_that_of_the_checkpoint() {
    let contents = read(graph(&[]), &[]);
    let graph = contents.checkpoint.graph.unwrap();
    assert_eq!(graph.nodes.iter().map(|node| node.op.name()).collect::<Vec<_>>(), ["Gemm", "Softmax"]);
    assert_eq!(graph.inputs.len(), 1, "labels are not the model's input");
    assert!(graph.nodes[0].parameters.values().any(|name| name == "kernel"));
}

#[test]
fn a_graph_with_several_ends_states_none_unless_the_user_names_one() {
    let inputs = [field(3, b"product"), field(3, b"labels")].concat();
    let loss = node("loss", "Sub", &inputs);
    let contents = read(graph(std::slice::from_ref(&loss)), &[]);
    let reason = contents.missing_graph.unwrap().reason.to_string();
    assert!(reason.contains("2 ends (probs, loss)") && reason.contains("outputs=NAME"), "{reason}");
    let named = read(graph(&[loss]), &[("outputs", "probs")]);
    assert_eq!(named.checkpoint.graph.unwrap().nodes.len(), 2);
}

#[test]
fn an_end_that_does_not_exist_and_a_damaged_graph_leave_the_tensors() {
    for (meta, option, why) in
        [(graph(&[]), "outputs", "no operation"), (vec![0xff; 9], "keys", "cannot be parsed")]
    {
        let value = if option == "keys" { "true" } else { "other" };
        let contents = read_by("m.index", meta, &[(option, value)]);
        assert_eq!(contents.checkpoint.tensors.len(), 1);
        let reason = contents.missing_graph.unwrap().reason.to_string();
        assert!(reason.contains(why), "{reason}");
    }
}
