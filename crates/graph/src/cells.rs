//! Recurrent layers: the gates and activations of their cells, and their results.

use crate::builder::{Builder, Reason, Tag};
use ckpt_api::{Attribute, Extent, Node};

/// What a cell has if its node does not state it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellDefaults {
    /// The order of its gates, a letter for each: input `i`, output `o`, forget `f` and cell `c` of an LSTM; update `z`,
    /// reset `r` and candidate `h` of a GRU.
    pub gates: &'static str,
    /// ONNX's names of its activations.
    pub activations: &'static [&'static str],
}

/// The order in which Keras and PyTorch have the gates of an LSTM.
pub const INPUT_FORGET_CELL_OUTPUT: &str = "ifco";

/// Returns the defaults of a recurrent operator; `None` for another one.
pub fn defaults(op: &str) -> Option<CellDefaults> {
    Some(match op {
        "LSTM" => CellDefaults { gates: "iofc", activations: &["Sigmoid", "Tanh", "Tanh"] },
        "GRU" => CellDefaults { gates: "zrh", activations: &["Sigmoid", "Tanh"] },
        "RNN" => CellDefaults { gates: "h", activations: &["Tanh"] },
        _ => return None,
    })
}

/// Returns the place of each wanted gate among the stored ones; `None` if these are not the same gates.
///
/// ```
/// use ckpt_graph::cells::gate_order;
/// assert_eq!(gate_order("iofc", "ifco"), Some(vec![0, 2, 3, 1]));
/// assert_eq!(gate_order("iifc", "ifco"), None);
/// ```
pub fn gate_order(stored: &str, wanted: &str) -> Option<Vec<usize>> {
    let order: Option<Vec<usize>> = wanted.chars().map(|gate| stored.find(gate)).collect();
    order.filter(|order| order.len() == stored.len())
}

/// Where blocks of elements of a tensor are stored: groups of one block for each gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gates {
    /// Place in the group of each of its blocks.
    places: Vec<u64>,
    /// Elements of a block.
    elements: u64,
}

impl Gates {
    /// The blocks of `elements` elements each of gates that are wanted in the order `own` and stored in the order `stored`;
    /// `None` if both are one, or are no orders of the same gates.
    ///
    /// ```
    /// use ckpt_api::{Extent, FileId};
    /// use ckpt_graph::cells::Gates;
    /// let gates = Gates::of("ifco", "iofc", 1).unwrap();
    /// let pieces = gates.pieces(&Extent::new(FileId(0), 0, 16), 4).unwrap();
    /// assert!(pieces.iter().map(|piece| piece.offset).eq([0, 8, 12, 4]));
    /// ```
    pub fn of(own: &str, stored: &str, elements: u64) -> Option<Self> {
        if own == stored || own.len() != stored.len() {
            return None;
        }
        let mut places = Vec::with_capacity(own.len());
        for gate in own.chars() {
            let place = stored.chars().position(|other| other == gate)? as u64;
            (!places.contains(&place)).then(|| places.push(place))?;
        }
        (elements > 0).then_some(Gates { places, elements })
    }

    /// The pieces of an extent that holds elements of so many bytes, in the order of the tensor; `None` if the blocks
    /// do not fill it.
    pub fn pieces(&self, whole: &Extent, element_bytes: u64) -> Option<Vec<Extent>> {
        let block = self.elements.checked_mul(element_bytes)?;
        let group = block.checked_mul(self.places.len() as u64)?;
        let groups = whole.len.checked_div(group).filter(|_| whole.len.is_multiple_of(group))?;
        let mut pieces = Vec::new();
        for number in 0..groups {
            let first = whole.offset.checked_add(number.checked_mul(group)?)?;
            for place in &self.places {
                pieces.push(Extent::new(whole.file, first.checked_add(place.checked_mul(block)?)?, block));
            }
        }
        Some(pieces)
    }
}

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
    if defaults(node.op.name()).is_some_and(|own| names == own.activations) {
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
    use ckpt_api::{FileId, Op};

    const TANH: CellActivation = CellActivation::plain("Tanh");

    #[test]
    fn activations_that_are_the_defaults_are_not_stated() {
        let sigmoid = CellActivation::plain("Sigmoid");
        assert!(with_activations(Node::new("", Op::LSTM), &[sigmoid, TANH, TANH]).attributes.is_empty());
        let relu = with_activations(Node::new("", Op::RNN), &[CellActivation::plain("Relu")]);
        assert_eq!(relu.attributes.get("activations"), Some(&Attribute::Texts(vec!["Relu".into()])));
    }

    #[test]
    fn a_gate_that_is_missing_or_doubled_has_no_order() {
        assert_eq!(gate_order("zrh", "rzh"), Some(vec![1, 0, 2]));
        assert_eq!(
            [gate_order("zr", "rzh"), gate_order("zrho", "rzh"), gate_order("zzrh", "rzh")],
            [None, None, None]
        );
        assert_eq!(defaults("Gemm"), None);
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

    #[test]
    fn the_blocks_of_each_group_go_to_the_places_of_their_gates() {
        let gates = Gates::of("ifco", "iofc", 3).unwrap();
        let pieces = gates.pieces(&Extent::new(FileId(0), 100, 96), 4).unwrap();
        let offsets: Vec<u64> = pieces.iter().map(|piece| piece.offset).collect();
        assert_eq!(offsets, [100, 124, 136, 112, 148, 172, 184, 160]);
        assert!(pieces.iter().all(|piece| piece.len == 12));
        assert_eq!(gates.pieces(&Extent::new(FileId(0), 0, 95), 4), None);
    }

    #[test]
    fn what_is_no_order_of_the_same_gates_is_none() {
        for own in ["iofc", "ifc", "iifc", "zrho", "ifcx"] {
            assert_eq!(Gates::of(own, "iofc", 1), None, "{own}");
        }
        assert_eq!(Gates::of("ifco", "iofc", 0), None);
    }
}
