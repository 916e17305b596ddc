//! Reads the nodes of a model as a graph of the contract.
//!
//! Operators of ONNX take constants as inputs that are attributes in the contract: such inputs, and the arithmetic on
//! shapes that leads to them, are computed here. A shape may depend on a free axis (the batch): what remains of it is
//! an entry −1 or 0.

mod composed;
mod computed;
mod control;
mod filled;
mod fold;
mod linear;
mod ops;
pub(crate) mod pieces;
mod recurrent;
mod scope;
mod shapes;
mod stretch;
mod types;
mod values;
mod windows;

use crate::format::message::{Attribute, Graph as Stored, Model, Node as StoredNode};
use crate::read::initializers::Ids;
use ckpt_api::{Error, File, Graph, Result, Tensor};
use std::collections::HashSet;
use values::Reader;

/// The domains of operators that are read.
const OWN: [&str; 4] = ["", "ai.onnx", "ai.onnx.ml", "com.microsoft"];
/// The oldest operator set that is read: before it, broadcasting was an attribute.
const OLDEST: i64 = 7;

/// Checks that every value is made once, before a node takes it.
pub(super) fn check_order(graph: &Stored) -> Result<()> {
    let mut made: HashSet<&str> = HashSet::new();
    for tensor in &graph.initializers {
        if !made.insert(&tensor.name) {
            return Err(Error::corrupt("two initializers have the same name").tensor(&tensor.name));
        }
    }
    made.extend(graph.sparse.iter().map(String::as_str));
    made.extend(graph.inputs.iter().map(|input| input.name.as_str()));
    for node in &graph.nodes {
        let wrong = |what: &str, name: &str| {
            Err(Error::corrupt(what).field(shown(node)).found(format!("'{}'", name.escape_debug())))
        };
        let missing = |name: &&String| !name.is_empty() && !made.contains(name.as_str());
        if let Some(name) = node.inputs.iter().find(missing) {
            return wrong("a node takes a value that no earlier node makes", name);
        }
        for name in node.outputs.iter().filter(|name| !name.is_empty()) {
            if !made.insert(name) {
                return wrong("a node makes a value that already exists", name);
            }
        }
    }
    match graph.outputs.iter().find(|output| !made.contains(output.name.as_str())) {
        Some(output) => Err(Error::corrupt("the graph outputs a value that no node makes")
            .found(format!("'{}'", output.name.escape_debug()))),
        None => Ok(()),
    }
}

/// Reads the graph, and names the axes of the weights that it takes. `reordered` has the first outputs of the recurrent
/// layers whose tensors are read with their gates in the order that the node states. `Err` says why the model has none that can be
/// read.
pub(super) fn read(
    model: &Model,
    graph: &Stored,
    file: &File,
    tensors: &mut [Tensor],
    reordered: &HashSet<&str>,
    ids: &Ids,
) -> std::result::Result<Graph, String> {
    let opset = model.opset().unwrap_or(0);
    let mut nodes = graph.levels().flat_map(|level| &level.nodes);
    if opset < OLDEST && nodes.any(|node| matches!(node.domain.as_str(), "" | "ai.onnx")) {
        return Err(format!("its operator set is {opset}, and those from {OLDEST} on are read"));
    }
    if let Some(reason) = &model.refusal {
        return Err(reason.clone());
    }
    let is_own = |node: &&StoredNode| OWN.contains(&node.domain.as_str());
    for node in graph.levels().flat_map(|level| &level.nodes).filter(is_own) {
        let is_long = |(_, attribute): &&(String, Attribute)| matches!(attribute, Attribute::Long { .. });
        if let Some((name, _)) = node.attributes.iter().find(is_long) {
            return Err(format!("the attribute '{}' of {} is too long", name.escape_debug(), shown(node)));
        }
    }
    let mut reader = Reader::new(graph, file, opset, tensors, reordered, ids)?;
    reader.all_nodes(graph)?;
    reader.finish()
}

/// What a node is called in messages.
fn shown(node: &StoredNode) -> String {
    let name = if node.name.is_empty() { node.outputs.first() } else { Some(&node.name) };
    match name {
        Some(name) => format!("node '{}'", name.escape_debug()),
        None => format!("a node {}", node.op),
    }
}
