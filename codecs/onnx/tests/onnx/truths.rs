//! How truth values, which are integers in graphs, are written where ONNX's operators take none.

use ckpt_api::{Attribute, Checkpoint, Codec, DType, Graph, Input, Limits, Node, Op, Options, Value};
use ckpt_onnx::Onnx;
use std::collections::BTreeMap;

/// The operators of the model that is written for `x > 0`, of which a node of this operator is the output.
fn written(op: Op, attributes: &[(&str, Attribute)]) -> Vec<String> {
    let node = |name: &str, op: Op, inputs: &[&str]| {
        let mut node = Node::new(name, op);
        node.inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
        node.outputs = vec![name.to_owned()];
        node
    };
    let mut last = node("y", op, &["is_above"]);
    last.attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let zero = node("zero", Op::Constant, &[]).attribute("value_float", Attribute::Float(0.0));
    let graph = Graph {
        inputs: vec![Value { dtype: Some(DType::F32), ..Value::new("x", vec![None, Some(3)]) }],
        outputs: vec![Value::new("y", vec![None, Some(3)])],
        nodes: vec![zero, node("is_above", Op::Greater, &["x", "zero"]), last],
        ..Graph::default()
    };
    let checkpoint = Checkpoint { graph: Some(graph), ..Checkpoint::default() };
    let layout = Onnx.place(&checkpoint, "m.onnx", &Options::default()).unwrap();
    let mut bytes = vec![0; usize::try_from(layout.files[0].len.unwrap()).unwrap()];
    for literal in &layout.literals {
        let at = usize::try_from(literal.offset).unwrap();
        bytes[at..at + literal.bytes.len()].copy_from_slice(&literal.bytes);
    }
    let input = Input::memory("m.onnx", BTreeMap::from([("m.onnx".to_owned(), bytes)]));
    let read = Onnx.read(&input, &Options::default(), &Limits::default()).unwrap();
    let nodes = read.checkpoint.graph.unwrap_or_else(|| panic!("{:?}", read.missing_graph)).nodes;
    nodes.iter().map(|node| node.op.name().to_owned()).filter(|op| op != "Constant").collect()
}

#[test]
fn truth_values_are_cast_to_integers_where_they_are_computed_with() {
    let axes = ("axes", Attribute::Ints(vec![1]));
    let cases = [
        (Op::ReduceSum, vec![axes.clone()]),
        (Op::ReduceMax, vec![axes]),
        (Op::CumSum, vec![("axis", Attribute::Int(1))]),
        (Op::Neg, vec![]),
        (Op::ArgMax, vec![("axis", Attribute::Int(1))]),
        (Op::Clip, vec![("max", Attribute::Float(0.0))]),
    ];
    for (op, attributes) in cases {
        let name = op.name().to_owned();
        assert_eq!(written(op, &attributes)[..3], ["Greater".to_owned(), "Cast".to_owned(), name]);
    }
    assert_eq!(written(Op::Identity, &[])[..2], ["Greater".to_owned(), "Identity".to_owned()]);
}
