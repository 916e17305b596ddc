//! Graphs that compute attributes and conditions from lengths, made plain for the shapes of their inputs.

use super::support::*;
use ckpt_api::{Attribute, DType, Graph, Kind, Node, Op, Value as Named};
use ckpt_forward::{Arithmetic, Cpu, Program, Value, specialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

fn node(name: &str, op: Op, inputs: &[&str], output: &str) -> Node {
    let mut node = Node::new(name, op);
    node.inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
    node.outputs = vec![output.to_owned()];
    node
}

fn int(name: &str, value: i64) -> Node {
    node(name, Op::Constant, &[], name).attribute("value_int", Attribute::Int(value))
}

fn ints(name: &str, values: &[i64]) -> Node {
    node(name, Op::Constant, &[], name).attribute("value_ints", Attribute::Ints(values.to_vec()))
}

/// A graph of a real value `x` of two free axes.
fn graph(nodes: Vec<Node>) -> Graph {
    let output = nodes.last().unwrap().outputs[0].clone();
    Graph {
        inputs: vec![Named::new("x", [None, None]).of_type(DType::F64)],
        outputs: vec![Named::new(output, [])],
        nodes,
        ..Graph::default()
    }
}

fn branch(node: Node) -> Attribute {
    let outputs = vec![Named::new(node.outputs[0].clone(), [])];
    Attribute::Graph(Box::new(Graph { outputs, nodes: vec![node], ..Graph::default() }))
}

/// The plain graph for an input, and what it makes.
fn run(graph: &Graph, x: &Value) -> (Graph, Value) {
    let shapes = BTreeMap::from([("x".to_owned(), x.shape.clone())]);
    let mut plain = specialize(graph, &Tensors::default(), &shapes, &BTreeMap::new()).unwrap().into_owned();
    // The rank of the result is not stated above.
    let output = plain.outputs[0].name.clone();
    plain.check().unwrap();
    plain.outputs.clear();
    plain.nodes.push(node("result", Op::Flatten, &[&output], "result"));
    plain.nodes.last_mut().unwrap().attributes.insert("axis".to_owned(), Attribute::Int(0));
    plain.outputs.push(Named::new("result", [Some(1), None]));
    let tensors = Tensors::default();
    let program = Program::new(&plain, &tensors, &shapes).unwrap();
    let inputs = BTreeMap::from([("x".to_owned(), x.clone())]);
    let result =
        program.run(&mut Cpu::new(Arithmetic::F64), &inputs, &mut ()).unwrap().remove("result").unwrap();
    (plain.clone(), result)
}

/// The length of axis 1 of `x`, as a list of one number.
fn width() -> Vec<Node> {
    vec![
        node("lens", Op::Shape, &["x"], "lens"),
        ints("at", &[1]),
        node("width", Op::Gather, &["lens", "at"], "width"),
    ]
}

#[test]
fn a_shape_that_follows_from_lengths_is_an_attribute_and_its_arithmetic_is_left_out() {
    let mut nodes = width();
    nodes.extend([
        ints("rest", &[-1]),
        node("shape", Op::Concat, &["width", "rest"], "shape").attribute("axis", Attribute::Int(0)),
        node("y", Op::Reshape, &["x", "shape"], "y"),
    ]);
    let graph = graph(nodes);
    for lens in [[2, 3], [5, 1]] {
        let x = real(&lens, &vec![1.5; lens[0] * lens[1]]);
        let (plain, result) = run(&graph, &x);
        assert_eq!(plain.nodes[0].ints("shape").unwrap(), Some(&[lens[1] as i64, -1][..]));
        assert_eq!((plain.nodes.len(), result.array.len()), (2, x.array.len()));
    }
}

#[test]
fn a_choice_by_a_length_is_the_branch_that_is_taken() {
    let mut nodes = width();
    nodes.extend([
        int("three", 3),
        node("is_three", Op::Equal, &["width", "three"], "is_three"),
        node("y", Op::If, &["is_three"], "y")
            .attribute("then_branch", branch(node("same", Op::Neg, &["x"], "same")))
            .attribute("else_branch", branch(node("same", Op::Abs, &["x"], "same"))),
        node("z", Op::If, &["is_three"], "z")
            .attribute("then_branch", branch(node("same", Op::Abs, &["y"], "same")))
            .attribute("else_branch", branch(node("same", Op::Neg, &["y"], "same"))),
    ]);
    let graph = graph(nodes);
    let (plain, result) = run(&graph, &real(&[1, 3], &[1.0, -2.0, 3.0]));
    assert_eq!(result, real(&[1, 3], &[1.0, 2.0, 3.0]));
    let ops: Vec<&str> = plain.nodes.iter().map(|node| node.op.name()).collect();
    assert_eq!(ops, ["Neg", "Identity", "Abs", "Identity", "Flatten"]);
    let (_, result) = run(&graph, &real(&[1, 2], &[1.0, -2.0]));
    assert_eq!(result, real(&[1, 2], &[-1.0, -2.0]));
}

#[test]
fn a_range_of_real_numbers_up_to_a_length_has_its_first_number_and_its_step() {
    let mut nodes = width();
    nodes.extend([
        node("real", Op::Cast, &["width"], "real").attribute("to", Attribute::Text("float".to_owned())),
        node("first", Op::Constant, &[], "first").attribute("value_float", Attribute::Float(0.5)),
        node("step", Op::Constant, &[], "step").attribute("value_float", Attribute::Float(1.0)),
        node("y", Op::Range, &["first", "real", "step"], "y"),
    ]);
    let (_, result) = run(&graph(nodes), &real(&[1, 4], &[0.0; 4]));
    assert_eq!(result, real(&[1, 4], &[0.5, 1.5, 2.5, 3.5]));
}

#[test]
fn a_number_of_iterations_that_follows_from_a_length_is_an_attribute() {
    let body = Graph {
        inputs: ["i", "holds", "own"].map(|name| Named::new(name, [])).to_vec(),
        outputs: ["goes_on", "next", "part"].map(|name| Named::new(name, [])).to_vec(),
        nodes: vec![
            node("goes_on", Op::Identity, &["holds"], "goes_on"),
            node("next", Op::Add, &["own", "x"], "next"),
            node("part", Op::Identity, &["own"], "part"),
        ],
        ..Graph::default()
    };
    let mut nodes = width();
    let mut repeated = node("loop", Op::Loop, &["width", "", "x"], "last")
        .attribute("body", Attribute::Graph(Box::new(body)));
    repeated.outputs.push("y".to_owned());
    nodes.extend([repeated, node("z", Op::Identity, &["y"], "z")]);
    let (plain, result) = run(&graph(nodes), &real(&[1, 2], &[1.0, 2.0]));
    assert_eq!(plain.nodes[0].int("trip_count", 0).unwrap(), 2);
    assert_eq!(result, real(&[1, 4], &[1.0, 2.0, 2.0, 4.0]));
}

#[test]
fn a_shape_that_follows_from_the_elements_of_an_input_is_refused_by_name() {
    let graph = graph(vec![
        node("lens", Op::Cast, &["x"], "lens").attribute("to", Attribute::Text("int".to_owned())),
        node("y", Op::Reshape, &["x", "lens"], "y"),
    ]);
    let shapes = BTreeMap::from([("x".to_owned(), vec![1, 2])]);
    let error = specialize(&graph, &Tensors::default(), &shapes, &BTreeMap::new()).unwrap_err();
    assert_eq!((error.kind(), error.context().field), (Kind::Unsupported, Some("y")));
    assert!(error.context().found.unwrap().contains("'shape' of Reshape is the value 'lens'"), "{error}");
}

#[test]
fn a_shape_may_follow_from_an_input_that_is_one_known_number() {
    let mut graph = graph(vec![
        node("shape", Op::Unsqueeze, &["n"], "shape").attribute("axes", Attribute::Ints(vec![0])),
        node("y", Op::Reshape, &["x", "shape"], "y"),
    ]);
    graph.inputs.push(Named::new("n", []).of_type(DType::I32));
    let shapes = BTreeMap::from([("x".to_owned(), vec![2, 3]), ("n".to_owned(), vec![])]);
    let values = BTreeMap::from([("n".to_owned(), integer(&[], &[6]))]);
    let plain = specialize(&graph, &Tensors::default(), &shapes, &values).unwrap();
    assert_eq!(plain.nodes[0].ints("shape").unwrap(), Some(&[6][..]));
    assert!(specialize(&graph, &Tensors::default(), &shapes, &BTreeMap::new()).is_err());
}

#[test]
fn a_graph_that_computes_no_attributes_stays_as_it_is() {
    let graph = graph(vec![node("y", Op::Neg, &["x"], "y")]);
    let shapes = BTreeMap::from([("x".to_owned(), vec![2, 3])]);
    assert!(matches!(
        specialize(&graph, &Tensors::default(), &shapes, &BTreeMap::new()),
        Ok(Cow::Borrowed(_))
    ));
}
