//! Rewrites a graph so that its nodes are layers: products with constants become projections, and what several nodes
//! compute together becomes the one layer that it is.

mod attention;
mod bidirectional;
mod group_norm;
mod projections;

use super::layer_names::{model, split, without_model};
use super::shapes::Shapes;
use super::tensors::Tensors;
use super::translate::PROJECTION;
use ckpt_api::{Attribute, Axis, Graph, Node, Op};
use std::collections::{HashMap, HashSet};

/// A graph that is rewritten.
struct Rewriter<'t> {
    graph: Graph,
    tensors: &'t Tensors<'t>,
    shapes: &'t Shapes,
    /// The node that makes each value.
    makers: HashMap<String, usize>,
    /// How many nodes, and results of the graph, take each value.
    taken: HashMap<String, usize>,
    /// Nodes to add before a node.
    added: HashMap<usize, Vec<Node>>,
    /// The name that all tensors begin with.
    model: Option<String>,
}

/// Returns the graph with layers in place of what they are computed of. It has the same inputs and outputs.
pub(super) fn simplified(graph: &Graph, tensors: &Tensors<'_>, shapes: &Shapes) -> Graph {
    let used = graph.nodes.iter().flat_map(|node| node.parameters.values().map(String::as_str));
    let model = model(used).map(str::to_owned);
    let graph = graph.clone();
    let mut rewriter = Rewriter {
        graph,
        tensors,
        shapes,
        makers: HashMap::new(),
        taken: HashMap::new(),
        added: HashMap::new(),
        model,
    };
    rewriter.drop_unused();
    for step in [
        Rewriter::projections,
        Rewriter::biases,
        Rewriter::group_norms,
        Rewriter::attentions,
        Rewriter::bidirectionals,
    ] {
        rewriter.index();
        step(&mut rewriter);
        rewriter.add_nodes();
    }
    rewriter.drop_unused();
    rewriter.graph
}

impl Rewriter<'_> {
    fn index(&mut self) {
        self.makers.clear();
        self.taken.clear();
        for (number, node) in self.graph.nodes.iter().enumerate() {
            self.makers.extend(node.outputs.iter().map(|output| (output.clone(), number)));
            for input in &node.inputs {
                *self.taken.entry(input.clone()).or_default() += 1;
            }
        }
        for output in &self.graph.outputs {
            *self.taken.entry(output.name.clone()).or_default() += 1;
        }
    }

    fn add_nodes(&mut self) {
        if self.added.is_empty() {
            return;
        }
        let mut added = std::mem::take(&mut self.added);
        for (number, node) in std::mem::take(&mut self.graph.nodes).into_iter().enumerate() {
            self.graph.nodes.extend(added.remove(&number).into_iter().flatten());
            self.graph.nodes.push(node);
        }
    }

    /// Drops nodes whose results nothing takes.
    fn drop_unused(&mut self) {
        let mut wanted: HashSet<String> =
            self.graph.outputs.iter().map(|output| output.name.clone()).collect();
        let mut kept = Vec::with_capacity(self.graph.nodes.len());
        for node in std::mem::take(&mut self.graph.nodes).into_iter().rev() {
            if node.outputs.iter().any(|output| wanted.contains(output)) {
                wanted.extend(node.inputs.iter().cloned());
                kept.push(node);
            }
        }
        kept.reverse();
        self.graph.nodes = kept;
    }

    fn node(&self, number: usize) -> Option<&Node> {
        self.graph.nodes.get(number)
    }

    /// The node that makes an input of a node.
    fn before(&self, node: &Node, input: usize) -> Option<&Node> {
        self.node(*self.makers.get(node.inputs.get(input)?)?)
    }

    /// The node that makes an input of a node, if it has this operator and nothing else takes its result.
    fn only(&self, node: &Node, input: usize, op: &Op) -> Option<&Node> {
        let before = self.before(node, input).filter(|before| before.op == *op)?;
        (self.taken.get(node.inputs.get(input)?) == Some(&1)).then_some(before)
    }

    /// The tensor of a Constant, if that is what makes an input, but for axes that are joined, divided, added or
    /// removed.
    fn constant(&self, node: &Node, input: usize) -> Option<&str> {
        let mut node = self.before(node, input)?;
        for _ in 0..4 {
            match node.op {
                Op::Constant => return node.parameters.get("value").map(String::as_str),
                Op::Reshape | Op::Flatten | Op::Squeeze | Op::Unsqueeze => node = self.before(node, 0)?,
                _ => return None,
            }
        }
        None
    }

    /// The number of a Constant.
    fn number(&self, node: &Node, input: usize) -> Option<f64> {
        let constant = self.before(node, input).filter(|before| before.op == Op::Constant)?;
        match constant.attributes.get("value_float") {
            Some(Attribute::Float(value)) => Some(*value),
            _ => None,
        }
    }

    /// The inputs of a node of two inputs, the constant tensor second.
    fn with_constant<'n>(&'n self, node: &'n Node) -> Option<(usize, &'n str)> {
        [(0, 1), (1, 0)]
            .into_iter()
            .find_map(|(value, constant)| Some((value, self.constant(node, constant)?)))
    }

    /// The name of the layer of a tensor.
    fn layer(&self, tensor: &str) -> String {
        without_model(split(tensor).0, self.model.as_deref()).to_owned()
    }

    /// Constants that are added to what a layer makes that has no bias of its own.
    fn biases(&mut self) {
        for number in 0..self.graph.nodes.len() {
            let Some((layer, last, bias)) = self.node(number).and_then(|node| self.bias(node)) else {
                continue;
            };
            let Some(outputs) =
                self.graph.nodes.get_mut(number).map(|node| std::mem::take(&mut node.outputs))
            else {
                continue;
            };
            // The last node before the sum makes its result.
            if let Some((node, output)) = self.graph.nodes.get_mut(last).zip(outputs.into_iter().next()) {
                self.makers.insert(output.clone(), last);
                node.outputs = vec![output];
            }
            if let Some(layer) = self.graph.nodes.get_mut(layer) {
                layer.parameters.insert("bias".to_owned(), bias);
            }
        }
    }

    /// Of a sum: the layer whose bias it adds, the last node before the sum, and the bias.
    fn bias(&self, sum: &Node) -> Option<(usize, usize, String)> {
        if sum.op != Op::Add || sum.inputs.len() != 2 || sum.outputs.len() != 1 {
            return None;
        }
        let (value, tensor) = self.with_constant(sum)?;
        let shape = self.tensors.shape(tensor)?;
        let dims = self.shapes.get(sum.inputs.get(value)?)?;
        let added = self.shapes.get(sum.inputs.get(1 - value)?)?;
        let last = *self.makers.get(sum.inputs.get(value)?)?;
        // The last axes of the value are those of the bias, but for axes of length 1 before them.
        let own: Vec<Option<u64>> = added.iter().copied().skip_while(|len| *len == Some(1)).collect();
        if !dims.ends_with(&own) || own.iter().any(Option::is_none) {
            return None;
        }
        let mut at = last;
        // Where the outputs of the layer are: the last axes, which are joined or divided, or one axis.
        let mut path = Vec::new();
        for _ in 0..8 {
            let node = self.node(at)?;
            if self.taken.get(node.outputs.first()?) != Some(&1) {
                return None;
            }
            match &node.op {
                Op::Custom(name) if name == PROJECTION => {
                    let fits = path.iter().all(|node: &&Node| node.op == Op::Reshape);
                    let weight = self.tensors.get(node.parameters.get("weight")?)?;
                    let Some(Attribute::Int(summed)) = node.attributes.get("summed") else { return None };
                    let outputs: u64 = weight.shape.get(usize::try_from(*summed).ok()?..)?.iter().product();
                    let is_free = !node.parameters.contains_key("bias") && outputs == shape.elements();
                    return (fits && is_free).then(|| (at, last, tensor.to_owned()));
                }
                Op::Conv | Op::ConvTranspose => {
                    let weight = self.tensors.get(node.parameters.get("weight")?)?;
                    let outputs = weight.axis(Axis::Out).and_then(|axis| weight.shape.get(axis)).copied();
                    let is_free = !node.parameters.contains_key("bias") && outputs == Some(shape.elements());
                    let is_last = own.len() == 1 && channel_axis(&path)? + 1 == dims.len();
                    return (is_free && is_last).then(|| (at, last, tensor.to_owned()));
                }
                Op::Reshape | Op::Transpose | Op::Squeeze | Op::Unsqueeze => {
                    path.push(node);
                    at = *self.makers.get(node.inputs.first()?)?;
                }
                _ => return None,
            }
        }
        None
    }
}

/// Where the second axis of a value is after nodes that move axes, the last one first.
fn channel_axis(path: &[&Node]) -> Option<usize> {
    let mut axis = 1usize;
    for node in path.iter().rev() {
        let listed =
            super::attributes::ints(node, if node.op == Op::Transpose { "perm" } else { "axes" }).ok()??;
        let is_at = |other: &i64, at: usize| usize::try_from(*other) == Ok(at);
        match node.op {
            Op::Transpose => axis = listed.iter().position(|other| is_at(other, axis))?,
            Op::Squeeze => {
                let before = (0..axis).filter(|at| listed.iter().any(|other| is_at(other, *at))).count();
                axis = axis.checked_sub(before)?;
            }
            Op::Unsqueeze => {
                let mut sorted = listed.to_vec();
                sorted.sort_unstable();
                for new in sorted {
                    if usize::try_from(new).ok()? <= axis {
                        axis += 1;
                    }
                }
            }
            _ => return None,
        }
    }
    Some(axis)
}
