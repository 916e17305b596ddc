//! The images that a graph flattens.

use super::kernels::Channels;
use super::lengths::axis_len;
use ckpt_api::{Attribute, Axis, Graph, Node, Op, Tensor};
use std::collections::{BTreeSet, HashMap};

/// A Flatten, and what its order of elements matters to.
pub(super) struct Flattened {
    pub(super) node: usize,
    /// The Transpose before it that moves the channels to the end.
    pub(super) transpose: Option<usize>,
    /// Tensors that have the flattened elements along an axis.
    pub(super) tensors: Vec<String>,
    /// Layers that take the elements, and are not understood.
    pub(super) others: Vec<String>,
}

impl Flattened {
    /// Where the images have their channels when they are flattened.
    pub(super) fn channels(&self) -> Channels {
        if self.transpose.is_some() { Channels::Last } else { Channels::First }
    }
}

/// Returns every Flatten, in the graph's order.
pub(super) fn flattened(graph: &Graph) -> Vec<Flattened> {
    let mut found: Vec<Flattened> = Vec::new();
    let mut makers: HashMap<&str, usize> = HashMap::new();
    // The Flatten whose elements a value has, in its order.
    let mut carried: HashMap<&str, usize> = HashMap::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        let from: Vec<usize> =
            node.inputs.iter().filter_map(|input| carried.get(input.as_str()).copied()).collect();
        let carrier = from.first().copied();
        let alike = from.len() == node.inputs.len() && from.iter().all(|other| Some(*other) == carrier);
        let mut result = None;
        if node.op == Op::Flatten && carrier.is_none() {
            let before = node.inputs.first().and_then(|input| makers.get(input.as_str()).copied());
            let transpose = before.filter(|before| graph.nodes.get(*before).is_some_and(moves_channels_last));
            result = Some(found.len());
            found.push(Flattened { node: index, transpose, tensors: Vec::new(), others: Vec::new() });
        } else if let Some(flattened) = carrier.filter(|_| alike).and_then(|carrier| found.get_mut(carrier)) {
            match node.op {
                Op::Gemm => flattened.tensors.extend(node.parameters.get("weight").cloned()),
                Op::BatchNormalization | Op::LayerNormalization => {
                    flattened.tensors.extend(node.parameters.values().cloned());
                    result = carrier;
                }
                _ if keeps_order(&node.op) && node.parameters.is_empty() => result = carrier,
                _ => flattened.others.push(node.name.clone()),
            }
        } else {
            for flattened in BTreeSet::from_iter(from) {
                if let Some(flattened) = found.get_mut(flattened) {
                    flattened.others.push(node.name.clone());
                }
            }
        }
        for output in &node.outputs {
            makers.insert(output, index);
            carried.extend(result.map(|result| (output.as_str(), result)));
        }
    }
    for output in &graph.outputs {
        if let Some(flattened) = carried.get(output.name.as_str()).and_then(|index| found.get_mut(*index)) {
            flattened.others.push(output.name.clone());
        }
    }
    found
}

/// Whether every element of the result comes from the element at its place, whatever the order.
fn keeps_order(op: &Op) -> bool {
    op.is_activation()
        || matches!(op, Op::Clip | Op::Identity | Op::Flatten | Op::Add | Op::Mul | Op::Unspecified)
}

fn moves_channels_last(node: &Node) -> bool {
    let Some(Attribute::Ints(perm)) = node.attributes.get("perm") else { return false };
    node.op == Op::Transpose && perm.len() > 2 && *perm == channels_last(perm.len())
}

/// The order of axes that moves axis 1 to the end: `0, 2, 3, 1`.
pub(super) fn channels_last(rank: usize) -> Vec<i64> {
    let axis = |axis: usize| i64::try_from(axis).unwrap_or(i64::MAX);
    [0].into_iter().chain((2..rank).map(axis)).chain([1]).collect()
}

/// The images that a convolution makes.
#[derive(Clone, Copy)]
pub(super) struct Image {
    pub(super) channels: u64,
    /// The number of axes, with that of the batch.
    pub(super) rank: usize,
}

/// For each Flatten, by its index, its images: those of the convolution before, if only layers that keep their channels
/// are between.
pub(super) fn images(graph: &Graph, tensors: &HashMap<&str, &Tensor>) -> HashMap<usize, Image> {
    let mut of_values: HashMap<&str, Image> = HashMap::new();
    let mut found = HashMap::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        let before = node.inputs.first().and_then(|input| of_values.get(input.as_str()).copied());
        let keeps = matches!(node.op, Op::MaxPool | Op::AveragePool | Op::BatchNormalization | Op::Pad);
        let image = match node.op {
            Op::Conv => made_by(node, tensors),
            Op::Flatten => {
                found.extend(before.map(|image| (index, image)));
                None
            }
            _ if keeps || keeps_order(&node.op) || moves_channels_last(node) => before,
            _ => None,
        };
        if let Some(image) = image {
            of_values.extend(node.outputs.iter().map(|output| (output.as_str(), image)));
        }
    }
    found
}

fn made_by(convolution: &Node, tensors: &HashMap<&str, &Tensor>) -> Option<Image> {
    let weight = tensors.get(convolution.parameters.get("weight")?.as_str())?;
    Some(Image { channels: axis_len(weight, Axis::Out)?, rank: weight.shape.rank() })
}
