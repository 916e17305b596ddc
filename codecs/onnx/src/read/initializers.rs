//! Which tensors of a model are tensors of the checkpoint.

use super::graph::pieces::has_numbers;
use crate::format::message::{Attribute, Chunk, Graph, Tensor as Stored};
use crate::format::{LEARNED, dtype};
use ckpt_graph::Names;
use std::collections::{HashMap, HashSet};

/// Elements of a `Constant` node's tensor from which on it counts as a weight.
pub(super) const WEIGHT_ELEMENTS: u64 = 17;

/// Operators that can have tensors as parameters, and `Transpose`: a weight that a model stores in another order reaches
/// its operator through one, and stays a tensor of the checkpoint however small it is.
const BINDING: [&str; 15] = [
    "BatchNormalization",
    "Conv",
    "ConvTranspose",
    "GRU",
    "Gather",
    "Gemm",
    "GroupNormalization",
    "InstanceNormalization",
    "LSTM",
    "LayerNormalization",
    "MatMul",
    "PRelu",
    "RMSNormalization",
    "RNN",
    "Transpose",
];

/// The number of each tensor among those of the checkpoint, by the offset of its message.
pub(super) type Ids = HashMap<u64, usize>;

/// The tensors of a model: its initializers, and the weights in nodes; then those of graphs within nodes, under names
/// that no other tensor has. A few numbers there that are mere operands are constants of their graph instead. Last come the
/// floats of trees and regressions, which are attributes.
pub(super) fn tensors(graph: &Graph) -> Vec<(&Stored, String)> {
    let mut names = Names::default();
    let mut tensors = Vec::new();
    // Each call of a function has its constants again.
    let mut seen = HashSet::new();
    for (depth, level) in graph.levels().enumerate() {
        let own = initializers(level).filter(|(stored, _)| seen.insert(stored.span.start));
        let own = own.map(|(stored, name)| (stored, name.to_owned()));
        if depth == 0 {
            tensors.extend(own.inspect(|(_, name)| names.take(name)));
        } else {
            // The bytes of others would not be as they are.
            let plain = own.filter(|(stored, _)| stored.typed.iter().all(Chunk::is_plain));
            let weights = weight_operands(level);
            let kept = plain.filter(|(stored, name)| weights.contains(name.as_str()) || !is_constant(stored));
            tensors.extend(kept.map(|(stored, name)| (stored, names.unused(&name))));
        }
    }
    for node in graph.levels().flat_map(|level| &level.nodes).filter(|node| node.domain == LEARNED) {
        for stored in node.lists.iter().filter(|stored| seen.insert(stored.span.start)) {
            let place = if node.name.is_empty() { node.outputs.first() } else { Some(&node.name) };
            let name = format!("{}.{}", place.map_or("", String::as_str), stored.name);
            tensors.push((stored, names.unused(&name)));
        }
    }
    tensors
}

/// What the operators of a graph take that can be bound to tensors.
fn weight_operands(graph: &Graph) -> HashSet<&str> {
    let bound = graph.nodes.iter().filter(|node| BINDING.contains(&node.op.as_str()));
    bound.flat_map(|node| node.inputs.iter().map(String::as_str)).collect()
}

/// Whether the reader of graphs takes the numbers of a tensor as a constant.
fn is_constant(stored: &Stored) -> bool {
    let is_known = dtype(stored.data_type).is_some_and(has_numbers);
    is_known && elements(stored) < WEIGHT_ELEMENTS && !stored.is_external()
}

/// The tensors of one graph, and their names there.
fn initializers(graph: &Graph) -> impl Iterator<Item = (&Stored, &str)> {
    let initializers = graph.initializers.iter().map(|stored| (stored, stored.name.as_str()));
    let constants = graph.nodes.iter().filter_map(|node| {
        let (_, Attribute::Tensor(stored)) = node.attributes.iter().find(|(name, _)| name == "value")? else {
            return None;
        };
        let is_weight = node.op == "Constant" && node.domain.is_empty() && is_weight(stored);
        Some((&**stored, node.outputs.first()?.as_str())).filter(|_| is_weight)
    });
    initializers.chain(constants)
}

/// Whether the tensor of a `Constant` node is a weight, and not a number that an operator takes: it has many elements, or
/// is stored beside the model. Its bytes are as they are then.
fn is_weight(stored: &Stored) -> bool {
    let Some(dtype) = dtype(stored.data_type) else { return false };
    let is_plain = stored.typed.iter().all(Chunk::is_plain);
    let is_large = elements(stored) >= WEIGHT_ELEMENTS || (dtype.is_float() && !stored.dims.is_empty());
    is_plain && (is_large || stored.is_external())
}

/// The number of elements.
pub(super) fn elements(stored: &Stored) -> u64 {
    let lens = stored.dims.iter().map(|dim| u64::try_from(*dim).unwrap_or(1));
    lens.fold(1u64, u64::saturating_mul)
}
