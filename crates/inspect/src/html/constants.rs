//! Takes constants out of a graph: the layers that use them show their values or names instead.

use super::parts::{Tensors, lens};
use super::scopes::common;
use ckpt_api::{Attribute, Graph, Node, Op};
use ckpt_html::number;
use std::collections::{HashMap, HashSet};

/// Most constants that a box lists.
const LISTED: usize = 3;
/// Most elements of a constant whose values are shown.
const SHOWN: usize = 4;

/// A graph without the constants that its layers use.
#[derive(Clone, Debug, Default)]
pub(super) struct Layers {
    pub(super) graph: Graph,
    /// The constants of each layer, in the order of its inputs.
    pub(super) constants: Vec<Constants>,
}

/// The constants that a layer uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Constants {
    /// Name, and value or shape, of the first ones.
    pub(super) listed: Vec<(String, String)>,
    pub(super) count: usize,
    /// The node of the first constant that is a tensor with several elements.
    pub(super) weight: Option<String>,
}

/// Separates the layers of a graph from the constants they use. A constant that nothing uses, or that is an output of the
/// graph, remains a layer.
pub(super) fn separate(graph: &Graph, tensors: &Tensors) -> Layers {
    let sources = sources(graph);
    let of = |value: &String| sources.get(value.as_str()).copied();
    let is_constant =
        |node: &Node| node.outputs.first().is_some_and(|output| sources.contains_key(output.as_str()));
    let layers = graph.nodes.iter().filter(|node| !is_constant(node));
    let used: HashSet<usize> = layers.flat_map(|node| &node.inputs).filter_map(of).collect();
    let outputs: HashSet<usize> = graph.outputs.iter().filter_map(|output| of(&output.name)).collect();
    let taken =
        |value: &String| of(value).filter(|source| used.contains(source) && !outputs.contains(source));
    let mut layers = Layers::default();
    layers.graph.name.clone_from(&graph.name);
    layers.graph.inputs.clone_from(&graph.inputs);
    layers.graph.outputs.clone_from(&graph.outputs);
    for node in &graph.nodes {
        if is_constant(node) && node.outputs.first().and_then(taken).is_some() {
            continue;
        }
        let mut constants = Constants::default();
        let mut seen = HashSet::new();
        for source in node.inputs.iter().filter_map(taken).filter(|source| seen.insert(*source)) {
            constants.add(node, &graph.nodes[source], tensors);
        }
        let mut node = node.clone();
        node.inputs.retain(|value| taken(value).is_none());
        layers.graph.nodes.push(node);
        layers.constants.push(constants);
    }
    layers
}

/// Returns the node that holds each constant value: itself, or the one that another shape, dtype or order is made of.
fn sources(graph: &Graph) -> HashMap<&str, usize> {
    let mut sources: HashMap<&str, usize> = HashMap::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        let held = match node.inputs.first() {
            None if node.op == Op::Constant => Some(index),
            None if keeps_values(&node.op) && !node.parameters.is_empty() => Some(index),
            Some(first) if keeps_values(&node.op) && node.parameters.is_empty() => {
                let is_constant = node.inputs.iter().all(|input| sources.contains_key(input.as_str()));
                sources.get(first.as_str()).copied().filter(|_| is_constant)
            }
            _ => None,
        };
        if let Some(held) = held {
            sources.extend(node.outputs.iter().map(|output| (output.as_str(), held)));
        }
    }
    sources
}

/// Whether the result of an operator is its first input in another shape, dtype or order.
fn keeps_values(op: &Op) -> bool {
    match op {
        Op::Identity | Op::Cast | Op::Reshape | Op::Transpose => true,
        Op::Squeeze | Op::Unsqueeze | Op::Expand | Op::Flatten => true,
        op => op.name() == "DequantizeLinear",
    }
}

impl Constants {
    fn add(&mut self, user: &Node, constant: &Node, tensors: &Tensors) {
        self.count += 1;
        let tensor = constant.parameters.values().find_map(|name| tensors.get(name.as_str()));
        if self.weight.is_none() && tensor.is_some_and(|tensor| tensor.shape.elements() > 1) {
            self.weight = Some(constant.name.clone());
        }
        if self.listed.len() < LISTED {
            let value = value(constant, tensors);
            self.listed.push((short(&user.name, &constant.name).to_owned(), value));
        }
    }

    /// One line for each constant that is listed, and one that counts the others.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.listed.iter().map(|(name, value)| format!("{name} {value}").trim().to_owned()).collect();
        if self.count > lines.len() {
            lines.push(format!("and {} more", self.count - lines.len()));
        }
        lines
    }
}

/// A constant's name without what it has in common with its user's; `constant` for names that exporters make up.
fn short<'a>(user: &str, constant: &'a str) -> &'a str {
    let name = &constant[common(user, constant)..];
    let last = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    let is_made_up = ["constant", "val_", "onnx::", "_val_"].iter().any(|start| last.starts_with(start));
    if is_made_up { "constant" } else { name }
}

/// The values of a small constant, or the shape.
fn value(constant: &Node, tensors: &Tensors) -> String {
    let list = |values: Vec<String>| match values.len() {
        0..=SHOWN => format!("[{}]", values.join(", ")),
        len => len.to_string(),
    };
    let attribute = |key: &str| constant.attributes.get(key);
    match attribute("value_float").or(attribute("value_int")) {
        Some(Attribute::Float(value)) => return number(*value),
        Some(Attribute::Int(value)) => return value.to_string(),
        _ => {}
    }
    match attribute("value_floats").or(attribute("value_ints")) {
        Some(Attribute::Floats(values)) => return list(values.iter().map(|value| number(*value)).collect()),
        Some(Attribute::Ints(values)) => return list(values.iter().map(ToString::to_string).collect()),
        _ => {}
    }
    let tensor = constant.parameters.values().find_map(|name| tensors.get(name.as_str()));
    let Some(tensor) = tensor else { return String::new() };
    let first = tensor.preview.as_ref().map_or(&[][..], |preview| &preview.first);
    match (tensor.shape.elements(), first) {
        (1, [value, ..]) => number(*value),
        (len, first) if len > 1 && len <= SHOWN as u64 && first.len() as u64 == len => {
            list(first.iter().map(|value| number(*value)).collect())
        }
        _ => lens(tensor),
    }
}
