//! Any chain of convolutions that CNN2 can hold comes back with the same weights, by its graph and by its names.

use crate::generate::Given;
use crate::round_trip::{permuted, round_trip};
use arbitrary::{Result, Unstructured};
use ckpt_api::{Attribute, Axis, DType, Graph, Node, Op, Shape, Tensor, Value};
use ckpt_cnn2::Cnn2;

const AXES: [Axis; 4] = [Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX];

pub(super) fn fuzz(data: &[u8]) {
    let _ = run(&mut Unstructured::new(data));
}

fn run(u: &mut Unstructured) -> Result<()> {
    let mut given = Given::default();
    let mut graph = Graph::default();
    let extra = u.int_in_range(0..=7u64)?;
    graph.inputs.push(image("fixed", 8));
    if extra > 0 {
        graph.inputs.push(image("more", extra));
    }
    let mut last = ("fixed".to_owned(), 0u64);
    for index in 0..u.int_in_range(1..=4usize)? {
        let joined = match index {
            0 => (extra > 0).then(|| ["fixed".to_owned(), "more".to_owned()]),
            _ => u.arbitrary::<bool>()?.then(|| [last.0.clone(), "fixed".to_owned()]),
        };
        let inputs = match index {
            0 => 8 + extra,
            _ => last.1 + if joined.is_some() { 8 } else { 0 },
        };
        if let Some(joined) = joined {
            let node = Node::new(format!("join{index}"), Op::Concat).attribute("axis", Attribute::Int(1));
            last.0 = add(&mut graph, node, joined.to_vec());
        }
        let (kernel, outputs) = (*u.choose(&[1u64, 3, 5])?, u.int_in_range(1..=8u64)?);
        let weight = weight(u, index, [outputs, inputs, kernel, kernel])?;
        let pads = Attribute::Ints(vec![kernel as i64 / 2; 4]);
        let node = Node::new(format!("layer{}", index + 1), Op::Conv).attribute("pads", pads);
        last = (add(&mut graph, node.parameter("weight", weight.name.as_str()), vec![last.0]), outputs);
        if u.arbitrary()? {
            let op = u.choose(&[Op::Relu, Op::Sigmoid, Op::Tanh])?.clone();
            last.0 = add(&mut graph, Node::new(format!("activation{index}"), op), vec![last.0]);
        }
        given.push(u, weight)?;
    }
    graph.outputs.push(image(&last.0, last.1));
    given.checkpoint.graph = u.arbitrary::<bool>()?.then_some(graph);
    for write in [&[][..], &[("version", "2"), ("mip", "3")], &[("version", "1"), ("pad", "none")]] {
        let back = round_trip(&Cnn2, &given, ["m.bin", "m.bin"], [write, &[]]);
        assert_eq!(weights(&back.given), weights(&given));
    }
    Ok(())
}

/// With its axes in any order.
fn weight(u: &mut Unstructured, index: usize, dims: [u64; 4]) -> Result<Tensor> {
    let mut order = [0, 1, 2, 3];
    for k in 0..3 {
        order.swap(k, u.int_in_range(k..=3)?);
    }
    let shape = Shape::new(dims).expect("a small shape").permuted(&order);
    let tensor = Tensor::new(format!("layer{}.weight", index + 1), DType::F16, shape);
    Ok(tensor.with_axes(order.map(|axis| AXES[axis])))
}

fn add(graph: &mut Graph, mut node: Node, inputs: Vec<String>) -> String {
    let name = node.name.clone();
    (node.inputs, node.outputs) = (inputs, vec![name.clone()]);
    graph.nodes.push(node);
    name
}

fn image(name: &str, channels: u64) -> Value {
    Value::new(name, vec![None, Some(channels), None, None])
}

/// Of each layer, by its name, the weights with their axes in the order of the format.
fn weights(given: &Given) -> Vec<(&str, Vec<u8>)> {
    let pairs = given.checkpoint.tensors.iter().zip(&given.values);
    let weights = pairs.map(|(tensor, values)| {
        let order = AXES.map(|axis| tensor.axis(axis).expect("every axis is named"));
        (tensor.name.as_str(), permuted(tensor, values, &order))
    });
    weights.collect()
}
