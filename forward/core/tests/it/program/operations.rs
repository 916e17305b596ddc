//! How much arithmetic a run may take.

use super::support::*;
use ckpt_api::{Attribute, DType, Graph, Kind, Node, Op, Value as Named};
use ckpt_forward::{Arithmetic, Bounds, Cpu, Program, Value};
use std::collections::BTreeMap;

fn node(name: &str, op: Op, inputs: &[&str], outputs: &[&str]) -> Node {
    let mut node = Node::new(name, op);
    node.inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
    node.outputs = outputs.iter().map(|name| (*name).to_owned()).collect();
    node
}

/// A graph of `x`, whose output is `y`.
fn graph(x: &[usize], nodes: Vec<Node>) -> Graph {
    let shape: Vec<_> = x.iter().map(|len| Some(*len as u64)).collect();
    let inputs = vec![Named::new("x", shape).of_type(DType::F64)];
    Graph { name: String::new(), inputs, outputs: vec![Named::new("y", vec![None; x.len()])], nodes }
}

/// `y = x·x·…`, with so many products.
fn powers(count: usize) -> Vec<Node> {
    let name = |number: usize| match number {
        0 => "x".to_owned(),
        number if number == count => "y".to_owned(),
        number => format!("x{number}"),
    };
    (0..count)
        .map(|number| {
            node(&format!("product {number}"), Op::MatMul, &[&name(number), "x"], &[&name(number + 1)])
        })
        .collect()
}

fn shapes(x: &[usize]) -> BTreeMap<String, Vec<usize>> {
    BTreeMap::from([("x".to_owned(), x.to_vec())])
}

#[test]
fn a_graph_of_more_operations_than_allowed_is_refused_with_the_count_before_it_runs() {
    // Each product has 10¹² multiply-adds.
    let (square, tensors) = ([10_000, 10_000], Tensors::default());
    let twenty = graph(&square, powers(20));
    let error = Program::new(&twenty, &tensors, &shapes(&square)).err().unwrap();
    let told = error.to_string();
    assert_eq!(error.kind(), Kind::Limit);
    // 20 products, and the elements of what they make.
    assert!(told.contains("'operations'") && told.contains("20002000000000"), "{told}");
    let few = graph(&square, powers(4));
    assert!(Program::new(&few, &tensors, &shapes(&square)).is_ok());
    let raised = Bounds { operations: 1 << 50, ..Bounds::default() };
    assert!(Program::within(&twenty, &tensors, &shapes(&square), raised).is_ok());
}

#[test]
fn a_loop_counts_each_of_its_iterations() {
    let body = |names: [&str; 3]| {
        let inputs = names.iter().map(|name| Named::new(*name, [])).collect();
        let outputs = ["again", "after"].iter().map(|name| Named::new(*name, [])).collect();
        let nodes = vec![
            node("again", Op::Identity, &["c"], &["again"]),
            node("product", Op::MatMul, &["before", "x"], &["after"]),
        ];
        Attribute::Graph(Box::new(Graph { name: String::new(), inputs, outputs, nodes }))
    };
    let endless =
        node("loop", Op::Loop, &["", "", "x"], &["y"]).attribute("body", body(["i", "c", "before"]));
    let stated = endless.clone().attribute("trip_count", Attribute::Int(1000));
    let bounds = Bounds { operations: 100_000, ..Bounds::default() };
    let tensors = Tensors::default();
    // 1000 iterations of 8³ multiply-adds are counted from the shapes.
    let of_stated = graph(&[8, 8], vec![stated]);
    let error = Program::within(&of_stated, &tensors, &shapes(&[8, 8]), bounds).err().unwrap();
    assert!(error.kind() == Kind::Limit && error.to_string().contains("operations"), "{error}");
    // How many there are is not known here: they are counted as they run.
    let of_endless = graph(&[8, 8], vec![endless]);
    let program = Program::within(&of_endless, &tensors, &shapes(&[8, 8]), bounds).unwrap();
    let x: Value = real(&[8, 8], &[0.0; 64]);
    let given = BTreeMap::from([("x".to_owned(), x)]);
    let error = program.run(&mut Cpu::new(Arithmetic::F64), &given, &mut ()).unwrap_err();
    assert!(error.kind() == Kind::Limit && error.to_string().contains("operations"), "{error}");
}

#[test]
fn a_window_takes_the_time_of_the_places_that_it_covers_however_large_it_is() {
    let (kernel, pads) = (Attribute::Ints(vec![30_000; 2]), Attribute::Ints(vec![29_999; 4]));
    let x = real(&[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]);
    for op in [Op::MaxPool, Op::AveragePool] {
        let pool = Node::new("pool", op.clone())
            .attribute("kernel_shape", kernel.clone())
            .attribute("pads", pads.clone())
            .attribute("strides", Attribute::Ints(vec![15_000; 2]));
        let y = run(pool, std::slice::from_ref(&x), &Tensors::default()).unwrap();
        // Windows begin at −29,999, −14,999 and 1: the first ends with the first row and column, the last begins behind them.
        let all = if op == Op::MaxPool { 4.0 } else { 2.5 };
        let values = y.array.to_f64();
        assert_eq!([values[0], values[4], values[8]], [1.0, all, 4.0]);
    }
}
