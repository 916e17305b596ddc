//! Names the nodes of a graph that is a chain of dense layers and convolutions, as all sources of chains name them.
//!
//! The same model has the same names, whether its functions, its configuration or its objects describe it.

use ckpt_api::{Attribute, Axis, Graph, Node, Op};
use std::collections::{BTreeMap, HashSet};

/// Returns the graph with the names of a chain if it is one; otherwise as it is.
pub(super) fn named(graph: Graph, axes: &BTreeMap<String, Vec<Axis>>) -> Graph {
    if !is_chain(&graph, axes) {
        return graph;
    }
    let shape = |values: Vec<ckpt_api::Value>| values.into_iter().next().map(|value| value.shape);
    let (input, output) = (shape(graph.inputs).unwrap_or_default(), shape(graph.outputs).unwrap_or_default());
    let mut layer = String::new();
    let mut seen = HashSet::new();
    let name = |(at, node): (usize, Node)| {
        let name = match &node.op {
            Op::Gemm | Op::Conv | Op::BatchNormalization => {
                layer = own_name(&node.name, &seen).to_owned();
                seen.insert(layer.clone());
                layer.clone()
            }
            Op::MaxPool | Op::AveragePool | Op::GlobalAveragePool => format!("pool{at}"),
            Op::Flatten => format!("flatten{at}"),
            Op::Transpose if turns(&node, TO_LAST) => "to_channels_last".to_owned(),
            Op::Transpose => "to_channels_first".to_owned(),
            _ if layer.is_empty() => format!("activation{at}"),
            _ => format!("{layer}/activation"),
        };
        Node { name, ..node }
    };
    let nodes = graph.nodes.into_iter().enumerate().map(name).collect();
    Graph::sequential(graph.name, input, output, nodes)
}

const TO_FIRST: [i64; 4] = [0, 3, 1, 2];
const TO_LAST: [i64; 4] = [0, 2, 3, 1];

fn turns(node: &Node, perm: [i64; 4]) -> bool {
    matches!(node.attributes.get("perm"), Some(Attribute::Ints(own)) if *own == perm)
}

/// Returns the name without the number that a layer has when it is applied again.
fn own_name<'n>(name: &'n str, seen: &HashSet<String>) -> &'n str {
    match name.rsplit_once('#') {
        Some((own, number)) if number.parse::<u64>().is_ok() && seen.contains(own) => own,
        _ => name,
    }
}

/// Whether the layers of a graph are applied one after the other, to features or to images.
fn is_chain(graph: &Graph, axes: &BTreeMap<String, Vec<Axis>>) -> bool {
    let ([input], [output]) = (&graph.inputs[..], &graph.outputs[..]) else { return false };
    let mut value = input.name.as_str();
    let mut rank = input.shape.len();
    let mut has_layer = false;
    for node in &graph.nodes {
        let [own] = &node.outputs[..] else { return false };
        if node.inputs.len() != 1 || node.inputs.first().is_none_or(|input| input != value) {
            return false;
        }
        let fits = match &node.op {
            Op::Gemm => rank == 2,
            Op::Conv => rank == 4 && !is_depthwise(node, axes),
            Op::MaxPool | Op::AveragePool | Op::GlobalAveragePool => rank == 4,
            Op::Transpose => turns(node, TO_FIRST) || turns(node, TO_LAST),
            Op::Flatten | Op::BatchNormalization => true,
            Op::Clip => node.attributes.get("min") == Some(&Attribute::Float(0.0)),
            Op::Relu | Op::Sigmoid | Op::Tanh | Op::Softmax | Op::LogSoftmax | Op::Elu | Op::Gelu => true,
            Op::Softplus | Op::LeakyRelu => true,
            _ => false,
        };
        if !fits {
            return false;
        }
        has_layer |= matches!(node.op, Op::Gemm | Op::Conv);
        if node.op == Op::Flatten {
            rank = 2;
        }
        value = own;
    }
    has_layer && matches!(input.shape.len(), 2 | 4) && value == output.name
}

fn is_depthwise(node: &Node, axes: &BTreeMap<String, Vec<Axis>>) -> bool {
    let weight = node.parameters.get("weight").and_then(|key| axes.get(key));
    weight.is_none_or(|axes| axes.contains(&Axis::Multiplier))
}
