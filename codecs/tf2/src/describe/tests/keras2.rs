//! Chains from Keras 2's layer configuration.

use super::super::*;
use super::build::{Objects, describe_with, typed};
use super::why;
use crate::describe::catalog::last;
use crate::proto::SavedMetadata;
use crate::proto::saved_metadata::SavedObject;
use ckpt_api::{Attribute, Op};
use prost::Message;
use serde_json::{Value, json};

const SHAPES: &[(&str, &[u64])] = &[("a/kernel", &[4, 3]), ("a/bias", &[3]), ("b/kernel", &[3, 2])];

fn describe_model(model: Value) -> Description {
    let mut objects = Objects::default();
    let mut nodes = vec![node("root", model)];
    for (number, name) in ["a", "b"].into_iter().enumerate() {
        let place = format!("layer_with_weights-{number}");
        let layer = objects.child(0, &place);
        for (key, _) in SHAPES.iter().filter(|(key, _)| key.starts_with(name)) {
            objects.variable(layer, last(key), key, key);
        }
        nodes.push(node(&format!("root.{place}"), json!({"config": {"name": name}})));
    }
    let bytes = SavedMetadata { nodes }.encode_to_vec();
    describe_with(&typed(SHAPES), Some(&objects.bytes()), None, Some(&bytes))
}

fn node(path: &str, metadata: Value) -> SavedObject {
    SavedObject { node_path: path.to_owned(), metadata: metadata.to_string(), ..SavedObject::default() }
}

fn dense(name: &str, activation: &str, use_bias: bool) -> Value {
    json!({"class_name": "Dense", "name": name,
        "config": {"name": name, "activation": activation, "use_bias": use_bias}})
}

fn sequential(layers: Value) -> Description {
    describe_model(json!({"class_name": "Sequential", "config": {"name": "mlp", "layers": layers}}))
}

#[test]
fn layers_and_activations_come_from_the_configuration() {
    let input = json!({"class_name": "InputLayer",
        "config": {"name": "in", "batch_input_shape": {"class_name": "__tuple__", "items": [null, 2, 2]}}});
    let flatten = json!({"class_name": "Flatten", "config": {"name": "f", "data_format": "channels_last"}});
    let dropout = json!({"class_name": "Dropout", "config": {"name": "d"}});
    let layers = json!([input, flatten, dense("a", "relu", true), dropout, dense("b", "linear", false)]);
    let graph = sequential(layers).graph.unwrap();
    let ops: Vec<&str> = graph.chain().unwrap().iter().map(|node| node.op.name()).collect();
    assert_eq!(ops, ["Flatten", "Gemm", "Relu", "Gemm"]);
    assert_eq!((graph.name.as_str(), &graph.inputs[0].shape), ("mlp", &vec![None, Some(2), Some(2)]));
    assert_eq!(graph.nodes[1].parameters["bias"], "a/bias");
    assert!(!graph.nodes[3].parameters.contains_key("bias"));
}

#[test]
fn a_layer_that_computes_in_16_bits_is_noted() {
    let policy = |name: &str| json!({"class_name": "Policy", "config": {"name": name}});
    for (dtype, is_half) in [
        (policy("mixed_bfloat16"), true),
        (policy("mixed_float16"), true),
        (json!("float16"), true),
        (json!("float32"), false),
        (policy("float32"), false),
    ] {
        let mut layer = dense("a", "relu", true);
        layer["config"]["dtype"] = dtype.clone();
        let notes = sequential(json!([layer, dense("b", "linear", false)])).graph_notes;
        assert_eq!(notes.iter().any(|note| note.contains("16 bits")), is_half, "{dtype}: {notes:?}");
    }
}

#[test]
fn an_activation_layer_keeps_its_settings() {
    let leaky = json!({"class_name": "LeakyReLU", "config": {"name": "l", "alpha": 0.1}});
    let graph = sequential(json!([dense("a", "linear", true), leaky])).graph.unwrap();
    assert_eq!(graph.nodes[1].attributes["alpha"], Attribute::Float(0.1));
}

#[test]
fn an_unknown_class_or_activation_is_no_chain_and_the_note_names_it() {
    let lstm = json!({"class_name": "LSTM", "config": {"name": "l"}});
    let description = sequential(json!([dense("a", "relu", true), lstm]));
    assert!(description.graph.is_none() && why(&description).contains("LSTM"), "{}", why(&description));
    let description = sequential(json!([dense("a", "swish", true)]));
    assert!(description.graph.is_none() && why(&description).contains("swish"), "{}", why(&description));
    let relu6 = json!({"class_name": "ReLU", "config": {"name": "r", "max_value": 6.0}});
    assert!(sequential(json!([dense("a", "linear", true), relu6])).graph.is_none());
}

fn functional(inbound_b: Value) -> Description {
    let input = json!({"class_name": "InputLayer", "name": "in", "inbound_nodes": [],
        "config": {"name": "in", "batch_input_shape": [null, 4]}});
    let mut a = dense("a", "relu", true);
    a["inbound_nodes"] = json!([[["in", 0, 0, {}]]]);
    let mut b = dense("b", "softmax", false);
    b["inbound_nodes"] = inbound_b;
    let config = json!({"name": "m", "layers": [b, input, a], "output_layers": [["b", 0, 0]]});
    describe_model(json!({"class_name": "Functional", "config": config}))
}

#[test]
fn a_functional_model_is_read_from_its_output() {
    let graph = functional(json!([[["a", 0, 0, {}]]])).graph.unwrap();
    let ops: Vec<&Op> = graph.chain().unwrap().iter().map(|node| &node.op).collect();
    assert_eq!(ops, [&Op::Gemm, &Op::Relu, &Op::Gemm, &Op::Softmax]);
}

#[test]
fn a_functional_model_that_is_no_chain_is_refused_with_the_reason() {
    for (inbound, reason) in [
        (
            json!([[["a", 0, 0, {}], ["in", 0, 0, {}]]]),
            "the layers branch: layer 'b' (Dense) takes more than the result of one layer",
        ),
        (json!([[["b", 0, 0, {}]]]), "layer 'b' is an input to itself"),
        (json!([[["c", 0, 0, {}]]]), "layer 'c' does not exist"),
        (
            json!([[["a", 0, 0, {}]], [["in", 0, 0, {}]]]),
            "the layers branch: layer 'b' (Dense) is used more than once",
        ),
        (Value::Null, "the inputs of layer 'b' (Dense) are not listed"),
        (json!([{ "args": [] }]), "the inputs of layer 'b' (Dense) are not listed"),
        (
            json!([[["in", 0, 0, {}]]]),
            "the layers branch: layer 'a' (Dense) is not on the path to the output",
        ),
    ] {
        let description = functional(inbound);
        assert!(description.graph.is_none());
        assert_eq!(why(&description), format!("in keras_metadata.pb: {reason}"));
    }
}

/// A dense layer with a batch normalization behind it, which states its momentum or does not.
fn normalized(momentum: Option<f64>, records_layers: bool) -> f64 {
    const VARIABLES: [&str; 4] = ["gamma", "beta", "moving_mean", "moving_variance"];
    let mut objects = Objects::default();
    let mut shapes: Vec<(&str, &[u64])> = vec![("a/kernel", &[4, 3])];
    let layer = objects.child(0, "layer_with_weights-0");
    objects.variable(layer, "kernel", "a/kernel", "a/kernel");
    let layer = objects.child(0, "layer_with_weights-1");
    for (name, key) in VARIABLES.into_iter().zip(["b/g", "b/b", "b/m", "b/v"]) {
        objects.variable(layer, name, key, key);
        shapes.push((key, &[3]));
    }
    let mut norm = json!({"class_name": "BatchNormalization", "name": "b",
        "config": {"name": "b", "axis": [1], "epsilon": 0.001, "scale": true, "center": true}});
    if let Some(momentum) = momentum {
        norm["config"]["momentum"] = json!(momentum);
    }
    let layers = json!([dense("a", "linear", false), norm.clone()]);
    let model = json!({"class_name": "Sequential", "config": {"name": "m", "layers": layers}});
    let own = if records_layers { norm } else { json!({"config": {"name": "b"}}) };
    let named = json!({"config": {"name": "a"}});
    let nodes = vec![
        node("root", model),
        node("root.layer_with_weights-0", named),
        node("root.layer_with_weights-1", own),
    ];
    let bytes = SavedMetadata { nodes }.encode_to_vec();
    let description = describe_with(&typed(&shapes), Some(&objects.bytes()), None, Some(&bytes));
    let graph = description.graph.unwrap();
    let norm = graph.nodes.iter().find(|node| node.op == Op::BatchNormalization).unwrap();
    norm.float("momentum", f64::NAN).unwrap()
}

#[test]
fn a_batch_normalization_has_the_momentum_that_keras_recorded_or_keras_default() {
    assert_eq!(normalized(Some(0.9), true), 0.9);
    assert_eq!(normalized(None, true), 0.99);
    assert_eq!(normalized(None, false), 0.99);
}
