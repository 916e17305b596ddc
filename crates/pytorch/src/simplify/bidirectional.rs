//! Recurrent layers of two directions, of two layers, one of which takes the sequence backwards.

use super::Rewriter;
use crate::attributes::{int, ints};
use crate::recurrent::is_recurrent;
use crate::translate::BIDIRECTIONAL;
use ckpt_api::{Attribute, Node, Op};

impl Rewriter<'_> {
    /// Finds where the results of two directions are put side by side, and replaces that.
    pub(super) fn bidirectionals(&mut self) {
        for number in 0..self.graph.nodes.len() {
            let Some(made) = self.node(number).and_then(|node| self.directions(node)) else { continue };
            if let Some(node) = self.graph.nodes.get_mut(number) {
                *node = made;
            }
        }
    }

    fn directions(&self, joined: &Node) -> Option<Node> {
        if joined.op != Op::Concat || joined.inputs.len() != 2 {
            return None;
        }
        let sequences = self.sequences(joined);
        let is_all = sequences.is_some();
        let (forward, backward) = sequences.or_else(|| self.last_states(joined))?;
        let same = forward.op == backward.op && forward.attributes == backward.attributes;
        if !same || !is_recurrent(&forward.op) || forward.inputs.len() != 1 || backward.inputs.len() != 1 {
            return None;
        }
        let taken =
            |node: &Node| node.outputs.iter().filter_map(|output| self.taken.get(output)).sum::<usize>();
        if taken(forward) != 1
            || taken(backward) != 1
            || forward.parameters.keys().ne(backward.parameters.keys())
        {
            return None;
        }
        let x = self.sequence(forward, 0)?;
        let flipped = self.before(backward, 0).filter(|node| is_flip(node, 0))?;
        if self.sequence(flipped, 0)? != x {
            return None;
        }
        let mut made = Node::new(self.bidirectional_name(forward), Op::custom(BIDIRECTIONAL));
        made.attributes.clone_from(&forward.attributes);
        made = made
            .attribute("cell", Attribute::Text(forward.op.name().to_owned()))
            .attribute("sequences", Attribute::Int(i64::from(is_all)));
        made.parameters.clone_from(&forward.parameters);
        let backward = backward.parameters.iter();
        made.parameters.extend(backward.map(|(role, name)| (format!("reverse_{role}"), name.clone())));
        made.inputs = vec![x.to_owned()];
        made.outputs.clone_from(&joined.outputs);
        Some(made)
    }

    /// The two layers whose whole sequences are joined along the last axis.
    fn sequences(&self, joined: &Node) -> Option<(&Node, &Node)> {
        if !matches!(int(joined, "axis", 1), Ok(2 | -1)) {
            return None;
        }
        let back = self.before(joined, 1).filter(|node| is_flip(node, 1))?;
        let forward = self.batch_first(joined, 0)?;
        Some((forward, self.batch_first(back, 0)?))
    }

    /// The layer whose sequence an input is, with the batch first.
    fn batch_first(&self, node: &Node, input: usize) -> Option<&Node> {
        let turned = self.before(node, input).filter(|node| is_turned(node))?;
        let squeezed = self.before(turned, 0).filter(|node| node.op == Op::Squeeze)?;
        let layer = self.before(squeezed, 0)?;
        (layer.outputs.first() == squeezed.inputs.first() && is(squeezed, "axes", &[1])).then_some(layer)
    }

    /// The two layers whose last states are joined.
    fn last_states(&self, joined: &Node) -> Option<(&Node, &Node)> {
        if !matches!(int(joined, "axis", 1), Ok(1 | -1)) {
            return None;
        }
        Some((self.last_state(joined, 0)?, self.last_state(joined, 1)?))
    }

    fn last_state(&self, node: &Node, input: usize) -> Option<&Node> {
        let mut node = self.before(node, input)?;
        for _ in 0..2 {
            let is_of_one = (node.op == Op::Squeeze && is(node, "axes", &[0]))
                || (node.op == Op::Slice && is(node, "axes", &[0]));
            if !is_of_one {
                return None;
            }
            let layer = self.before(node, 0)?;
            if is_recurrent(&layer.op) {
                return (layer.outputs.get(1) == node.inputs.first()).then_some(layer);
            }
            node = layer;
        }
        None
    }

    /// The value, batch first, that a node takes with its time first.
    fn sequence(&self, node: &Node, input: usize) -> Option<&str> {
        let turned = self.before(node, input).filter(|node| is_turned(node))?;
        turned.inputs.first().map(String::as_str)
    }

    /// The name of the layer: what the names of its tensors have before that of the direction.
    fn bidirectional_name(&self, forward: &Node) -> String {
        let tensor = forward.parameters.get("weight").map_or("", String::as_str);
        let parts: Vec<&str> = tensor.split(['/', '.']).collect();
        let direction = parts.iter().position(|part| part.starts_with("forward_")).unwrap_or(0);
        let name = direction.checked_sub(1).and_then(|before| parts.get(before));
        name.map_or_else(|| forward.name.clone(), |name| (*name).to_owned())
    }
}

/// Whether a node exchanges the first two axes of three.
fn is_turned(node: &Node) -> bool {
    node.op == Op::Transpose && is(node, "perm", &[1, 0, 2])
}

fn is(node: &Node, attribute: &str, expected: &[i64]) -> bool {
    matches!(ints(node, attribute), Ok(Some(values)) if values == expected)
}

/// Whether a node takes an axis from its end to its beginning.
fn is_flip(node: &Node, axis: i64) -> bool {
    let is_from_end = is(node, "starts", &[-1]) && is(node, "steps", &[-1]) && is(node, "axes", &[axis]);
    let to_beginning = matches!(ints(node, "ends"), Ok(Some([end])) if *end < -i64::from(u32::MAX));
    node.op == Op::Slice && is_from_end && to_beginning
}
