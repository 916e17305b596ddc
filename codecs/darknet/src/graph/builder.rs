//! Nodes, and the results of layers.

use super::{INPUT, shape};
use crate::format::Image;
use ckpt_api::{Attribute, Graph, Node, Op, Value};
use std::collections::HashMap;

/// The result of a layer.
#[derive(Clone)]
pub(super) struct Val {
    pub(super) name: String,
    pub(super) image: Image,
    /// The value has no sides: its shape is batch and channels.
    pub(super) is_flat: bool,
    /// The shape of the value, if it is no image.
    pub(super) other: Option<Vec<Option<u64>>>,
}

/// Builds the nodes of a graph.
pub(super) struct Builder {
    nodes: Vec<Node>,
    /// The name of the layer that is built.
    place: String,
    input: Val,
    /// The results of the layers so far, and whether another layer takes each.
    results: Vec<(Val, bool)>,
}

impl Builder {
    pub(super) fn new(image: Image) -> Self {
        let input = Val { name: INPUT.to_owned(), image, is_flat: false, other: None };
        Builder { nodes: Vec::new(), place: String::new(), input, results: Vec::new() }
    }

    pub(super) fn begin(&mut self, place: String) {
        self.place = place;
    }

    pub(super) fn is_taken(&self, layer: usize) -> bool {
        self.results.get(layer).is_some_and(|(_, is_taken)| *is_taken)
    }

    /// The result of an earlier layer, which is an image.
    pub(super) fn take(&mut self, layer: usize) -> Result<Val, String> {
        let (val, is_taken) = self.results.get_mut(layer).ok_or("takes a layer that does not exist")?;
        *is_taken = true;
        if val.other.is_some() {
            return Err("takes the result of a detection layer, which is not supported".to_owned());
        }
        Ok(val.clone())
    }

    /// The result of the layer before, or the input.
    pub(super) fn previous(&mut self) -> Result<Val, String> {
        match self.results.len().checked_sub(1) {
            Some(last) => self.take(last),
            None => Ok(self.input.clone()),
        }
    }

    /// The result of the layer that is built.
    pub(super) fn result(&mut self, val: Val) {
        self.results.push((val, false));
    }

    /// A node of the layer. The main node has no `suffix`.
    pub(super) fn node(&self, suffix: &str, op: impl Into<Op>, inputs: &[&str]) -> Node {
        let name = match suffix {
            "" => self.place.clone(),
            suffix => format!("{}.{suffix}", self.place),
        };
        let mut node = Node::new(name, op.into());
        node.inputs = inputs.iter().map(|input| (*input).to_owned()).collect();
        node.outputs = vec![node.name.clone()];
        node
    }

    /// Adds a node, and returns the name of its value.
    pub(super) fn add(&mut self, node: Node) -> String {
        let name = node.name.clone();
        self.nodes.push(node);
        name
    }

    /// Adds a node of the layer with attributes, and returns the name of its value.
    pub(super) fn push<const N: usize>(
        &mut self,
        suffix: &str,
        op: Op,
        inputs: &[&str],
        attributes: [(&str, Attribute); N],
    ) -> String {
        let node = self.node(suffix, op, inputs);
        self.add(attributes.into_iter().fold(node, |node, (name, value)| node.attribute(name, value)))
    }

    /// Adds numbers of a shape.
    pub(super) fn constant(
        &mut self,
        suffix: &str,
        shape: &[u64],
        values: Vec<f64>,
    ) -> Result<String, String> {
        let shape = ints(shape)?;
        let values = Attribute::Floats(values);
        Ok(self.push(suffix, Op::Constant, &[], [("value_floats", values), ("shape", shape)]))
    }

    /// The value as batch, channels, rows and columns.
    pub(super) fn image(&mut self, val: &Val, suffix: &str) -> Result<String, String> {
        if !val.is_flat {
            return Ok(val.name.clone());
        }
        let Image { channels, height, width } = val.image;
        let dims = ints(&[0, channels, height, width])?;
        Ok(self.push(&format!("{suffix}image"), Op::Reshape, &[&val.name], [("shape", dims)]))
    }

    /// The value as batch and numbers.
    pub(super) fn flat(&mut self, val: &Val) -> String {
        match val.is_flat {
            true => val.name.clone(),
            false => self.push("flatten", Op::Flatten, &[&val.name], []),
        }
    }

    /// The graph with these results of layers as its outputs, under these names.
    pub(super) fn finish(self, input: Value, outputs: &[(usize, String)]) -> Graph {
        let mut graph = Graph { inputs: vec![input], nodes: self.nodes, ..Graph::default() };
        let mut renamed = HashMap::new();
        for (layer, name) in outputs {
            let Some((val, _)) = self.results.get(*layer) else { continue };
            renamed.insert(val.name.as_str(), name.as_str());
            let dims = match &val.other {
                Some(dims) => dims.clone(),
                None if val.is_flat => vec![None, Some(val.image.channels)],
                None => shape(val.image),
            };
            graph.outputs.push(Value::new(name.clone(), dims));
        }
        for name in graph.nodes.iter_mut().flat_map(|node| node.inputs.iter_mut().chain(&mut node.outputs)) {
            if let Some(new) = renamed.get(name.as_str()) {
                (*new).clone_into(name);
            }
        }
        graph
    }
}

/// Numbers as an attribute.
pub(super) fn ints(numbers: &[u64]) -> Result<Attribute, String> {
    let numbers = numbers.iter().map(|number| i64::try_from(*number)).collect::<Result<Vec<_>, _>>();
    numbers.map(Attribute::Ints).map_err(|_| "has a size beyond 64 bits".to_owned())
}

/// A number as an attribute.
pub(super) fn int(number: u64) -> Result<Attribute, String> {
    i64::try_from(number).map(Attribute::Int).map_err(|_| "has a size beyond 64 bits".to_owned())
}
