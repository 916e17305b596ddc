//! Recurrent layers: the activations of their cells, and their results.

use crate::builder::{Builder, Reason, Tag};
use ckpt_api::{Attribute, Node};

/// An activation of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellActivation {
    /// ONNX's name.
    pub name: &'static str,
    /// The slope and the offset of a hard sigmoid.
    pub line: Option<(f64, f64)>,
}

impl CellActivation {
    /// Returns an activation without numbers.
    pub const fn plain(name: &'static str) -> Self {
        CellActivation { name, line: None }
    }
}

/// States the activations of a cell, unless they are ONNX's defaults.
#[must_use]
pub fn with_activations(node: Node, activations: &[CellActivation]) -> Node {
    let names: Vec<&str> = activations.iter().map(|activation| activation.name).collect();
    if matches!(names[..], ["Tanh"] | ["Sigmoid", "Tanh"] | ["Sigmoid", "Tanh", "Tanh"]) {
        return node;
    }
    let names = names.into_iter().map(str::to_owned).collect();
    let node = node.attribute("activations", Attribute::Texts(names));
    let (slopes, offsets): (Vec<f64>, Vec<f64>) =
        activations.iter().filter_map(|activation| activation.line).unzip();
    if slopes.is_empty() {
        return node;
    }
    let node = node.attribute("activation_alpha", Attribute::Floats(slopes));
    node.attribute("activation_beta", Attribute::Floats(offsets))
}

impl<K: Tag> Builder<K> {
    /// Adds a recurrent node. Returns the names of its results: all outputs `[steps, 1, batch, units]`, and each state
    /// `[1, batch, units]`.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn recurrent(
        &mut self,
        mut node: Node,
        inputs: Vec<String>,
        states: usize,
    ) -> Result<Vec<String>, Reason> {
        node.name = self.unique(&node.name);
        node.outputs = vec![node.name.clone()];
        for state in [":h", ":c"].iter().take(states) {
            let name = self.unique(&format!("{}{state}", node.name));
            node.outputs.push(name);
        }
        let outputs = node.outputs.clone();
        self.add(node, inputs)?;
        Ok(outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Op;

    const TANH: CellActivation = CellActivation::plain("Tanh");

    #[test]
    fn activations_that_are_the_defaults_are_not_stated() {
        let sigmoid = CellActivation::plain("Sigmoid");
        assert!(with_activations(Node::new("", Op::LSTM), &[sigmoid, TANH, TANH]).attributes.is_empty());
        let relu = with_activations(Node::new("", Op::RNN), &[CellActivation::plain("Relu")]);
        assert_eq!(relu.attributes.get("activations"), Some(&Attribute::Texts(vec!["Relu".into()])));
    }

    #[test]
    fn a_hard_sigmoid_states_its_line() {
        let hard = CellActivation { name: "HardSigmoid", line: Some((0.2, 0.5)) };
        let node = with_activations(Node::new("", Op::GRU), &[hard, TANH]);
        assert_eq!(node.attributes.get("activation_alpha"), Some(&Attribute::Floats(vec![0.2])));
        assert_eq!(node.attributes.get("activation_beta"), Some(&Attribute::Floats(vec![0.5])));
    }

    #[test]
    fn the_states_are_named_after_the_layer() {
        let mut builder = Builder::<()>::default();
        let names = builder.recurrent(Node::new("lstm", Op::LSTM), vec!["x".into()], 2).unwrap();
        assert_eq!(names, ["lstm", "lstm:h", "lstm:c"]);
        let names = builder.recurrent(Node::new("lstm", Op::GRU), vec!["x".into()], 1).unwrap();
        assert_eq!(names, ["lstm#2", "lstm#2:h"]);
    }
}
