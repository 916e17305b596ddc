//! Recurrent layers whose tensors are read with their gates in another order than ONNX's, as a property of the node says.

use crate::format::gates::{Gates, PROPERTY, standard};
use crate::format::message::{Graph, Node};
use ckpt_api::{Contents, DType, Name, Placement, Shape, Tensor};
use std::collections::{HashMap, HashSet};

/// How many nodes are between a tensor and the layer at most: a cast, and one that gives a bias its shape.
const MOST_STEPS: usize = 2;

/// The order of the gates of a node's tensors, if it is not ONNX's.
pub(crate) fn stated(node: &Node) -> Option<&str> {
    let standard = standard(&node.op)?;
    let (_, own) = node.properties.iter().find(|(key, _)| key == PROPERTY)?;
    Gates::of(own, standard, 1).map(|_| own.as_str())
}

/// Reads the tensors of such nodes in the order of gates that the nodes state. Returns the nodes, by their first output.
/// A node with a tensor that others take, too, is left as it is stored.
pub(crate) fn reorder<'a>(graph: &'a Graph, contents: &mut Contents) -> HashSet<&'a str> {
    let mut read = HashSet::new();
    if !graph.nodes.iter().any(|node| stated(node).is_some()) {
        return read;
    }
    let mut uses: HashMap<&str, usize> = HashMap::new();
    let outputs = graph.outputs.iter().map(|output| &output.name);
    for name in graph.nodes.iter().flat_map(|node| &node.inputs).chain(outputs) {
        *uses.entry(name).or_default() += 1;
    }
    let passed: HashMap<&str, &str> =
        graph.nodes.iter().filter_map(|node| padding(node).or_else(|| widening(node))).collect();
    let ids: HashMap<Name, usize> = contents
        .checkpoint
        .tensors
        .iter()
        .enumerate()
        .map(|(id, tensor)| (tensor.name.clone(), id))
        .collect();
    for node in &graph.nodes {
        let (Some(own), Some(standard)) = (stated(node), standard(&node.op)) else { continue };
        let is_own = |name: &&str| uses.get(name) == Some(&1);
        let names = node.inputs.get(1..4.min(node.inputs.len())).unwrap_or_default();
        let names = names.iter().map(String::as_str).filter(|name| !name.is_empty());
        let tensors: Option<Vec<usize>> = names
            .map(|name| {
                let mut stored = name;
                for _ in 0..MOST_STEPS {
                    let Some(from) = passed.get(stored).copied().filter(|_| is_own(&stored)) else { break };
                    stored = from;
                }
                Some(stored).filter(is_own).and_then(|stored| ids.get(stored).copied())
            })
            .collect();
        let changes = tensors.and_then(|ids| changes(contents, &ids, (own, standard)));
        if let (Some(changes), Some(output)) = (changes, node.outputs.first()) {
            for (id, placement) in changes {
                if let Some(place) = contents.placements.get_mut(id) {
                    *place = placement;
                }
            }
            read.insert(output.as_str());
        }
    }
    read
}

/// A node that gives a bias the zeros of the recurrent one, or makes two rows of biases one: its output, and the tensor.
pub(crate) fn padding(node: &Node) -> Option<(&str, &str)> {
    let is_own = matches!(node.op.as_str(), "Pad" | "Reshape") && node.domain.is_empty();
    match (&node.inputs[..], &node.outputs[..]) {
        ([tensor, _], [output]) if is_own && node.attributes.is_empty() => Some((output, tensor)),
        _ => None,
    }
}

/// A node that gives a tensor another type: its output, and the tensor.
fn widening(node: &Node) -> Option<(&str, &str)> {
    match (&node.inputs[..], &node.outputs[..]) {
        ([tensor], [output]) if node.op == "Cast" && node.domain.is_empty() => Some((output, tensor)),
        _ => None,
    }
}

/// The places of the tensors of a node with their gates in another order: weight, recurrent weight, and biases.
fn changes(
    contents: &Contents,
    ids: &[usize],
    (own, standard): (&str, &str),
) -> Option<Vec<(usize, Placement)>> {
    let shape =
        |at: usize| -> Option<&Shape> { Some(&contents.checkpoint.tensors.get(*ids.get(at)?)?.shape) };
    let hidden = *shape(1)?.get(2)?;
    let mut changes = Vec::with_capacity(ids.len());
    for (at, id) in ids.iter().enumerate() {
        let tensor: &Tensor = contents.checkpoint.tensors.get(*id)?;
        let row = if at < 2 { *tensor.shape.get(2)? } else { 1 };
        let units = hidden.checked_mul(standard.len() as u64)?;
        tensor.shape.elements().is_multiple_of(units).then_some(())?;
        let gates = Gates::of(own, standard, hidden.checked_mul(row)?)?;
        let placement = contents.placements.get(*id)?;
        let [whole] = &placement.extents[..] else { return None };
        let bytes = tensor.dtype.bytes().filter(|_| tensor.dtype != DType::String)?;
        whole.compression().is_none().then_some(())?;
        let mut placement = placement.clone();
        placement.extents = gates.pieces(whole, bytes)?.into();
        changes.push((*id, placement));
    }
    Some(changes)
}
