//! Nodes of a graph whose images have their channels first, as ONNX's operators take them.
//!
//! A program that has the same order needs none of what [`Builder`](crate::Builder) does: [`Nodes`] names nodes after the
//! layer that they belong to, and adds them.

use crate::builder::{Reason, ints};
use crate::names::Names;
use ckpt_api::{Attribute, Node, Op};

/// Builds the nodes of a graph, layer by layer.
///
/// ```
/// use ckpt_api::Op;
/// use ckpt_graph::Nodes;
/// let mut nodes = Nodes::default();
/// nodes.place = "fc1".to_owned();
/// let sum = nodes.push("", Op::Relu, &["x"], []);
/// let half = nodes.scalar("half", 0.5);
/// nodes.push("scaled", Op::Mul, &[&sum, &half], []);
/// let names: Vec<&str> = nodes.list.iter().map(|node| node.name.as_str()).collect();
/// assert_eq!(names, ["fc1", "fc1/half", "fc1/scaled"]);
/// ```
#[derive(Debug, Default)]
pub struct Nodes {
    /// The nodes, in an order in which they can run.
    pub list: Vec<Node>,
    /// The name of the layer that is built.
    pub place: String,
    names: Names,
}

impl Nodes {
    /// Returns a name that no value has yet: the wanted one, or it with a number.
    pub fn unique(&mut self, wanted: &str) -> String {
        self.names.unused(if wanted.is_empty() { "layer" } else { wanted })
    }

    /// Returns a node of the layer, whose one result has its name: that of the layer, or `LAYER/SUFFIX`.
    pub fn node(&mut self, suffix: &str, op: Op, inputs: &[&str]) -> Node {
        let wanted = match suffix {
            "" => self.place.clone(),
            suffix => format!("{}/{suffix}", self.place),
        };
        let mut node = Node::new(self.unique(&wanted), op);
        node.inputs = inputs.iter().map(|input| (*input).to_owned()).collect();
        node.outputs = vec![node.name.clone()];
        node
    }

    /// Adds a node, and returns its name.
    pub fn add(&mut self, node: Node) -> String {
        let name = node.name.clone();
        self.list.push(node);
        name
    }

    /// Adds a node of the layer with attributes, and returns the name of its result.
    pub fn push<const N: usize>(
        &mut self,
        suffix: &str,
        op: Op,
        inputs: &[&str],
        attributes: [(&str, Attribute); N],
    ) -> String {
        let node = self.node(suffix, op, inputs);
        self.add(attributes.into_iter().fold(node, |node, (name, value)| node.attribute(name, value)))
    }

    /// Adds a number.
    pub fn scalar(&mut self, suffix: &str, value: f64) -> String {
        self.push(suffix, Op::Constant, &[], [("value_float", Attribute::Float(value))])
    }

    /// Adds numbers of a shape.
    ///
    /// # Errors
    /// For a length that an attribute cannot have.
    pub fn floats(&mut self, suffix: &str, shape: &[u64], values: Vec<f64>) -> Result<String, Reason> {
        let shape = ints(shape)?;
        let values = Attribute::Floats(values);
        Ok(self.push(suffix, Op::Constant, &[], [("value_floats", values), ("shape", shape)]))
    }

    /// Adds the numbers of a tensor of the checkpoint in this shape.
    ///
    /// # Errors
    /// As [`Nodes::floats`].
    pub fn tensor(&mut self, suffix: &str, tensor: &str, shape: &[u64]) -> Result<String, Reason> {
        let node = self.node(suffix, Op::Constant, &[]).parameter("value", tensor);
        let value = self.add(node);
        self.reshaped(&format!("{suffix}_shape"), &value, shape)
    }

    /// Adds the same numbers in another shape; a length of 0 stays as it is.
    ///
    /// # Errors
    /// As [`Nodes::floats`].
    pub fn reshaped(&mut self, suffix: &str, value: &str, shape: &[u64]) -> Result<String, Reason> {
        Ok(self.push(suffix, Op::Reshape, &[value], [("shape", ints(shape)?)]))
    }
}
