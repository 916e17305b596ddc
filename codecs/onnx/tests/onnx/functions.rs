//! Functions that a model defines: their nodes are in the place of their calls.

use crate::build::{Model, field, int, int_attribute, node, shapeless, tensor, text};
use crate::graphs::{of, ops};
use ckpt_api::{Attribute, Codec, Contents, Graph, Input, Limits, Node, Options};
use ckpt_onnx::Onnx;

/// A function of the domain `my`.
struct Function {
    name: &'static str,
    inputs: &'static [&'static str],
    outputs: &'static [&'static str],
    nodes: Vec<Vec<u8>>,
    defaults: Vec<Vec<u8>>,
    opset: i64,
}

impl Function {
    fn new(name: &'static str, inputs: &'static [&'static str], outputs: &'static [&'static str]) -> Self {
        Function { name, inputs, outputs, nodes: Vec::new(), defaults: Vec::new(), opset: 21 }
    }

    fn node(mut self, node: Vec<u8>) -> Self {
        self.nodes.push(node);
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let texts =
            |number, texts: &[&str]| texts.iter().flat_map(|own| text(number, own)).collect::<Vec<u8>>();
        let list =
            |number, parts: &[Vec<u8>]| parts.iter().flat_map(|own| field(number, own)).collect::<Vec<u8>>();
        let function = [
            text(1, self.name),
            texts(4, self.inputs),
            texts(5, self.outputs),
            list(7, &self.nodes),
            field(9, &int(2, self.opset)),
            text(10, "my"),
            list(11, &self.defaults),
        ];
        field(25, &function.concat())
    }
}

/// A call of a function.
fn call(name: &str, inputs: &[&str], outputs: &[&str], attributes: &[Vec<u8>]) -> Vec<u8> {
    [node(name, inputs, outputs, attributes), text(7, "my")].concat()
}

/// An attribute that is the call's.
fn reference(name: &str, of: &str) -> Vec<u8> {
    [text(1, name), int(20, 2), text(21, of)].concat()
}

/// A model that takes `x`, calls functions, and returns `y`.
fn model(nodes: Vec<Vec<u8>>) -> Model {
    let model = of(&[-1, 2]).tensor(tensor("w", &[2, 2], &[0.5, 1.0, 2.0, 3.0])).output("y", &[-1, 2]);
    Model { nodes, ..model }
}

fn read(model: &Model, functions: &[Function]) -> Contents {
    let mut files = model.files();
    let bytes = files.get_mut("m.onnx").unwrap();
    functions.iter().for_each(|function| bytes.extend(function.bytes()));
    let contents =
        Onnx.read(&Input::memory("m.onnx", files), &Options::default(), &Limits::default()).unwrap();
    contents.check(&Limits::default()).unwrap();
    contents
}

fn graph(model: &Model, functions: &[Function]) -> Graph {
    let contents = read(model, functions);
    contents.checkpoint.graph.unwrap_or_else(|| panic!("{:?}", contents.missing_graph))
}

fn refusal(model: &Model, functions: &[Function]) -> String {
    read(model, functions).missing_graph.expect("a reason").reason.as_str().to_owned()
}

/// `relu(x w)`.
fn dense() -> Function {
    Function::new("dense", &["a", "k"], &["r"]).node(node("MatMul", &["a", "k"], &["p"], &[])).node(node(
        "Relu",
        &["p"],
        &["r"],
        &[],
    ))
}

fn named<'g>(graph: &'g Graph, name: &str) -> &'g Node {
    graph.nodes.iter().find(|node| node.name == name).unwrap_or_else(|| panic!("{name}: {:?}", graph.nodes))
}

#[test]
fn each_call_has_values_of_its_own() {
    let nodes = vec![call("dense", &["x", "w"], &["h"], &[]), call("dense", &["h", "w"], &["y"], &[])];
    let graph = graph(&model(nodes), &[dense()]);
    assert_eq!(ops(&graph), ["Gemm", "Relu", "Gemm", "Relu"]);
    let values: Vec<&str> = graph.nodes.iter().map(|node| node.outputs[0].as_str()).collect();
    assert_eq!(values, ["h/p", "h", "y/p", "y"]);
    assert_eq!(graph.nodes[2].inputs, ["h"]);
    assert_eq!(graph.nodes[2].parameters["weight"], "w");
}

#[test]
fn an_attribute_is_the_calls_or_the_functions_or_left_out() {
    let parts = |attributes: &[Vec<u8>], defaults: Vec<Vec<u8>>| {
        let made = node("Concat", &["a", "a"], &["r"], &[reference("axis", "along")]);
        let function = Function { defaults, ..Function::new("twice", &["a"], &["r"]) }.node(made);
        let graph = graph(&model(vec![call("twice", &["x"], &["y"], attributes)]), &[function]);
        graph.nodes[0].attributes.get("axis").cloned()
    };
    let stated = || vec![int_attribute("along", 1)];
    assert_eq!(parts(&[int_attribute("along", 0)], stated()), Some(Attribute::Int(0)));
    assert_eq!(parts(&[], stated()), Some(Attribute::Int(1)));
    let left_out = node("Softmax", &["a"], &["r"], &[reference("axis", "along")]);
    let function = Function::new("share", &["a"], &["r"]).node(left_out);
    let graph = graph(&model(vec![call("share", &["x"], &["y"], &[])]), &[function]);
    assert_eq!(graph.nodes[0].attributes.get("axis"), None);
}

#[test]
fn functions_call_functions() {
    let outer = Function::new("two", &["a", "k"], &["r"])
        .node(call("dense", &["a", "k"], &["m"], &[]))
        .node(call("dense", &["m", "k"], &["r"], &[]));
    let graph = graph(&model(vec![call("two", &["x", "w"], &["y"], &[])]), &[outer, dense()]);
    assert_eq!(ops(&graph), ["Gemm", "Relu", "Gemm", "Relu"]);
    assert_eq!(named(&graph, "y/m/p").outputs, ["y/m/p"]);
}

#[test]
fn a_graph_within_a_function_takes_its_values() {
    let branch = |name: &str, op: &str| {
        let made = node(op, &["p"], &["t"], &[]);
        let graph = [field(1, &made), text(2, "b"), field(12, &shapeless("t"))].concat();
        [text(1, name), field(6, &graph), int(20, 5)].concat()
    };
    let zero = [text(1, "value"), field(5, &tensor("", &[], &[0.0])), int(20, 4)].concat();
    let choice = Function::new("choice", &["a"], &["r"])
        .node(node("Abs", &["a"], &["p"], &[]))
        .node(node("ReduceSum", &["a"], &["s"], &[int_attribute("keepdims", 0)]))
        .node(node("Constant", &[], &["zero"], &[zero]))
        .node(node("Greater", &["s", "zero"], &["c"], &[]))
        .node(node("If", &["c"], &["r"], &[branch("then_branch", "Neg"), branch("else_branch", "Exp")]));
    let nodes = vec![call("choice", &["x"], &["h"], &[]), call("choice", &["h"], &["y"], &[])];
    let graph = graph(&model(nodes), &[choice]);
    let Some(Attribute::Graph(branch)) = named(&graph, "y/r").attributes.get("else_branch") else { panic!() };
    assert_eq!((branch.nodes[0].op.name(), &branch.nodes[0].inputs[..]), ("Exp", &["y/p".to_owned()][..]));
}

#[test]
fn an_output_may_be_an_input() {
    let both = Function::new("both", &["a"], &["r", "a"]).node(node("Relu", &["a"], &["r"], &[]));
    let nodes = vec![call("both", &["x"], &["h", "same"], &[]), node("Add", &["h", "same"], &["y"], &[])];
    let graph = graph(&model(nodes), &[both]);
    let sum = graph.nodes.last().unwrap();
    let of = graph.nodes.iter().find(|node| node.outputs[0] == sum.inputs[1]);
    assert!(sum.inputs[1] == "x" || of.unwrap().inputs == ["x"], "{:?}", graph.nodes);
}

#[test]
fn constants_of_a_function_are_tensors_once() {
    let value = [text(1, "value"), field(5, &tensor("", &[2], &[1.0, 2.0])), int(20, 4)].concat();
    let shifted = Function::new("shifted", &["a"], &["r"])
        .node(node("Constant", &[], &["by"], &[value]))
        .node(node("Add", &["a", "by"], &["r"], &[]));
    let nodes = vec![call("shifted", &["x"], &["h"], &[]), call("shifted", &["h"], &["y"], &[])];
    let contents = read(&model(nodes), &[shifted]);
    let names: Vec<&str> = contents.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["w", "h/by"]);
    assert_eq!(contents.checkpoint.graph.unwrap().tensors().filter(|name| *name == "h/by").count(), 2);
}

#[test]
fn what_calls_itself_is_refused() {
    let endless = Function::new("endless", &["a"], &["r"]).node(call("endless", &["a"], &["r"], &[]));
    let reason = refusal(&model(vec![call("endless", &["x"], &["y"], &[])]), &[endless]);
    assert!(reason.contains("call each other too deep") && reason.contains("endless"), "{reason}");
}

#[test]
fn calls_become_a_bounded_number_of_nodes() {
    const NAMES: [&str; 25] = [
        "f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f11", "f12", "f13", "f14", "f15",
        "f16", "f17", "f18", "f19", "f20", "f21", "f22", "f23", "f24",
    ];
    let doubled = NAMES.windows(2).map(|pair| {
        Function::new(pair[0], &["a"], &["r"]).node(call(pair[1], &["a"], &["m"], &[])).node(call(
            pair[1],
            &["m"],
            &["r"],
            &[],
        ))
    });
    let last = Function::new("f24", &["a"], &["r"]).node(node("Relu", &["a"], &["r"], &[]));
    let functions: Vec<Function> = doubled.chain([last]).collect();
    let reason = refusal(&model(vec![call("f0", &["x"], &["y"], &[])]), &functions);
    assert!(reason.contains("become more than"), "{reason}");
}

#[test]
fn what_a_function_does_not_state_is_refused_by_name() {
    let calls = || model(vec![call("dense", &["x", "w"], &["y"], &[])]);
    let other = Function { opset: 12, ..dense() };
    assert!(refusal(&calls(), &[other]).contains("function 'dense' has another operator set"));
    let unknown = Function::new("dense", &["a", "k"], &["r"]).node(node("Relu", &["z"], &["r"], &[]));
    assert!(refusal(&calls(), &[unknown]).contains("'dense' takes 'z'"));
    let empty = Function::new("dense", &["a", "k"], &["r"]);
    assert!(refusal(&calls(), &[empty]).contains("does not make 'r'"));
    // A function that is not called changes nothing.
    let unused = Function { opset: 12, ..Function::new("other", &[], &["r"]) };
    graph(&model(vec![node("Relu", &["x"], &["y"], &[])]), &[unused]);
}
