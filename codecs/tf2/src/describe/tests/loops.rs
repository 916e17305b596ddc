//! Loops: recurrent layers, and others that are read step by step.

use super::super::*;
use super::build::{constant, float, function, op, with};
use super::graphs::{described, node, ops};
use super::why;
use crate::proto::NameAttrList;
use crate::proto::attr_value::Value;
use ckpt_api::Attribute;

/// A loop over a sequence that computes an LSTM, and runs `steps` times.
fn lstm(steps: i32) -> Description {
    activated(steps, "Sigmoid", "Tanh")
}

/// The same with these activations of the gates, and of the rest.
fn activated(steps: i32, gate: &str, other: &str) -> Description {
    let list = |name: &str, inputs: &[&str]| op(name, "TensorListFromTensor", inputs);
    let arguments = ["i", "list", "time", "out", "h", "c", "k", "r", "bias"];
    let part = |at: usize| format!("z:output:{at}");
    let body = vec![
        op("item", "TensorListGetItem", &["list", "time", "shape:output:0"]),
        constant("shape", &[-1, 4]),
        op("mx", "MatMul", &["item:item:0", "k"]),
        op("mh", "MatMul", &["h", "r"]),
        op("sum", "AddV2", &["mx:product:0", "mh:product:0"]),
        op("pre", "BiasAdd", &["sum:z:0", "bias"]),
        constant("axis", &[1]),
        with(op("z", "Split", &["axis:output:0", "pre:output:0"]), "num_split", Value::I(4)),
        op("si", gate, &[&part(0)]),
        op("sf", gate, &[&part(1)]),
        op("tc", other, &[&part(2)]),
        op("so", gate, &[&part(3)]),
        op("keep", "Mul", &["sf:y:0", "c"]),
        op("new", "Mul", &["si:y:0", "tc:y:0"]),
        op("c2", "AddV2", &["keep:z:0", "new:z:0"]),
        op("th", other, &["c2:z:0"]),
        op("h2", "Mul", &["so:y:0", "th:y:0"]),
        op("set", "TensorListSetItem", &["out", "time", "h2:z:0"]),
        constant("one", &[1]),
        op("next", "AddV2", &["time", "one:output:0"]),
        op("count", "AddV2", &["i", "one:output:0"]),
    ];
    let mut body = function("body", &arguments, "", body);
    let results =
        ["count:z:0", "list", "next:z:0", "set:output_handle:0", "h2:z:0", "c2:z:0", "k", "r", "bias"];
    let signature = body.signature.as_mut().unwrap();
    signature.output_arg = signature.input_arg.clone();
    body.ret =
        arguments.iter().zip(results).map(|(name, result)| ((*name).to_owned(), result.to_owned())).collect();
    let test = vec![constant("max", &[steps]), op("less", "Less", &["time", "max:output:0"])];
    let test = function("test", &arguments, "less:z:0", test);
    let of = |name: &str| Value::Func(NameAttrList { name: name.to_owned() });
    let inputs = [
        "zero:output:0",
        "in:output_handle:0",
        "zero:output:0",
        "reserved:handle:0",
        "h0:output:0",
        "h0:output:0",
        "lk:value:0",
        "lr:value:0",
        "lb:value:0",
    ];
    let repeated = with(op("loop", "While", &inputs), "body", of("body"));
    described(
        &[6, -1, 4],
        vec![
            constant("zero", &[0]),
            list("in", &["x", "shape:output:0"]),
            constant("shape", &[-1, 4]),
            op("reserved", "TensorListReserve", &["shape:output:0", "six:output:0"]),
            constant("six", &[6]),
            float("nothing", 0.0),
            constant("state", &[2, 3]),
            op("h0", "Fill", &["state:output:0", "nothing:output:0"]),
            with(repeated, "cond", of("test")),
            op("all", "TensorListStack", &["loop:output:3", "shape:output:0"]),
        ],
        vec![body, test],
    )
}

#[test]
fn a_loop_that_computes_an_lstm_is_one_layer() {
    let description = lstm(6);
    assert_eq!(ops(&description), ["LSTM", "Squeeze"]);
    let layer = node(&description, "LSTM");
    assert_eq!(layer.attributes["gates"], Attribute::Text("ifco".into()));
    assert_eq!(
        (layer.parameters["weight"].as_str(), layer.parameters["recurrent_weight"].as_str()),
        ("lk", "lr")
    );
    assert_eq!(layer.inputs, ["input"], "the initial states are zeros");
    assert_eq!(description.graph.as_ref().unwrap().outputs[0].shape, [Some(6), None, Some(3)]);
}

#[test]
fn a_loop_that_leaves_items_out_is_refused_by_its_list() {
    let reason = lstm(5);
    let expected = "the operation TensorListStack ('all') takes a list of which items are not known";
    assert!(why(&reason).contains(expected), "{}", why(&reason));
}

#[test]
fn a_loop_of_too_many_steps_is_refused_by_its_name() {
    let reason = lstm(1 << 20);
    let expected = "the operation While ('loop') is a loop that is not recognized as a recurrent layer";
    assert!(why(&reason).contains(expected), "{}", why(&reason));
}

#[test]
fn other_activations_of_a_cell_are_stated() {
    let description = activated(6, "Sigmoid", "Relu");
    let names = |names: [&str; 3]| Attribute::Texts(names.map(str::to_owned).into());
    let layer = node(&description, "LSTM");
    assert_eq!(layer.attributes["activations"], names(["Sigmoid", "Relu", "Relu"]));
    assert_eq!(layer.attributes["gates"], Attribute::Text("ifco".into()));
    let same = activated(6, "Softsign", "Softsign");
    let layer = node(&same, "LSTM");
    assert_eq!(layer.attributes["activations"], names(["Softsign"; 3]));
    assert_eq!(layer.attributes["gates"], Attribute::Text("ifco".into()));
    assert!(!node(&lstm(6), "LSTM").attributes.contains_key("activations"), "ONNX's own");
}

#[test]
fn a_loop_that_is_no_recurrent_layer_is_read_step_by_step() {
    let description = activated(6, "Exp", "Tanh");
    let found = ops(&description);
    let count = |kind: &str| found.iter().filter(|op| **op == kind).count();
    assert_eq!((count("LSTM"), count("Slice"), count("Concat")), (0, 6, 1));
    assert_eq!((count("Exp"), count("Tanh")), (18, 12));
    let graph = description.graph.as_ref().unwrap();
    assert_eq!(graph.outputs[0].shape, [Some(6), Some(2), Some(3)]);
    graph.check().unwrap();
}
