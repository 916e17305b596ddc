//! Reads recurrent layers.

use super::values::{Attributes, Read, Reader};
use crate::format::message::Node;
use crate::read::gates;
use ckpt_api::{Attribute, Axis, Node as Layer, Op};
use ckpt_graph::Length;

/// Attributes that are integers, and numbers.
const INTS: [&str; 3] = ["hidden_size", "layout", "linear_before_reset"];

impl<'a> Reader<'a> {
    /// `LSTM`, `GRU` or `RNN`: x, weights, recurrent weights, biases, lengths, and first states.
    pub(super) fn recurrent(&mut self, node: &'a Node) -> Read<()> {
        if node.input(4).is_some() {
            return Err("has a length for each example".to_owned());
        }
        if node.input(7).is_some() || node.int("input_forget").unwrap_or(0) != 0 {
            return Err("has peepholes or coupled gates".to_owned());
        }
        let mut layer = Layer::new(String::new(), Op::from(node.op.clone()));
        for (at, role) in [(1, "weight"), (2, "recurrent_weight")] {
            let name = node.input(at).ok_or_else(|| format!("lacks its {role}"))?;
            if self.shape(name).is_some_and(|shape| shape.len() != 3) {
                return Err(format!("has a {role} of other axes"));
            }
        }
        let tensors = self.recurrent_tensors(node);
        let is_computed = tensors.is_none();
        layer.parameters.extend(tensors.into_iter().flatten());
        layer.attributes = recurrent_attributes(node).0;
        if let Some(gates) = gates::stated(node)
            .filter(|_| node.outputs.first().is_some_and(|output| self.reordered.contains(output.as_str())))
        {
            layer = layer.attribute("gates", Attribute::Text(gates.to_owned()));
        }
        let states = [node.input(0), node.input(5), node.input(6)];
        let mut inputs = Vec::new();
        for state in states {
            inputs.push(match state {
                // A first state is 0 if there is none.
                Some(name) if !self.is_zero(name) => self.operand(name)?,
                _ => String::new(),
            });
        }
        if is_computed {
            if node.input(3).is_some_and(|bias| self.padded.contains_key(bias)) {
                return Err("has weights that the graph computes, and a bias that it pads".to_owned());
            }
            for at in 1..=3 {
                inputs.push(node.input(at).map(|name| self.operand(name)).transpose()?.unwrap_or_default());
            }
        }
        while inputs.last().is_some_and(String::is_empty) {
            inputs.pop();
        }
        layer.inputs = inputs;
        layer.outputs = self.recurrent_outputs(node)?;
        self.push(node.layer(), layer);
        self.recurrent_shapes(node);
        Ok(())
    }

    /// The tensors of a recurrent layer by role. `None` if the graph computes one, or another operator takes it with other
    /// axes: then all are inputs.
    fn recurrent_tensors(&mut self, node: &Node) -> Option<Vec<(String, String)>> {
        let mut tensors = Vec::with_capacity(3);
        if let Some(bias) = node.input(3) {
            let id = self.padded.get(bias).copied().or_else(|| Some(self.tensor(bias)?.0));
            tensors.push(("bias".to_owned(), self.tensors.get(id?)?.name.to_string()));
        }
        for (at, role) in [(1, "weight"), (2, "recurrent_weight")] {
            let (id, tensor) = self.tensor(node.input(at)?)?;
            tensors.push((role.to_owned(), tensor.name.to_string()));
            self.claim(id, &[Axis::Direction, Axis::Out, Axis::In]).then_some(())?;
        }
        Some(tensors)
    }

    /// Whether a node pads the bias of a recurrent layer, which alone takes it, with the zeros of the recurrent bias, or
    /// makes its rows one.
    pub(super) fn is_bias(&mut self, node: &'a Node) -> bool {
        let Some((output, tensor)) = gates::padding(node) else { return false };
        let Some((id, bias)) = self.tensor(tensor) else { return false };
        let units = bias.shape.last().and_then(|units| i64::try_from(*units).ok()).unwrap_or(-1);
        let given = node.input(1).and_then(|list| self.ints(list)).map(|list| list.values);
        let is_view = given.is_some_and(|given| match node.op.as_str() {
            "Pad" => bias.shape.rank() == 2 && given == [0, 0, 0, units].map(Length::Known),
            _ => given.len() == 2,
        });
        let is_bias = is_view && self.uses(output) == 1 && self.biases.contains(output);
        if is_bias {
            self.padded.insert(output, id);
        }
        is_bias
    }

    /// Notes the shapes of all states, and of the last ones.
    fn recurrent_shapes(&mut self, node: &'a Node) {
        let known = |name: Option<&str>| name.and_then(|name| self.shape(name));
        let (Some(x), Some(recurrent)) = (known(node.input(0)), known(node.input(2))) else { return };
        let (&[first, second, _], &[directions, _, hidden]) = (&x[..], &recurrent[..]) else { return };
        let (all, last) = match node.int("layout").unwrap_or(0) {
            0 => (vec![first, directions, second, hidden], vec![directions, second, hidden]),
            _ => (vec![first, second, directions, hidden], vec![first, directions, hidden]),
        };
        for (output, shape) in node.outputs.iter().zip([all, last.clone(), last]) {
            self.set_shape(output, Some(shape));
        }
    }

    /// Every output has a name, but for those at the end that are left out.
    fn recurrent_outputs(&mut self, node: &'a Node) -> Read<Vec<String>> {
        let mut outputs = Vec::with_capacity(node.outputs.len());
        for output in &node.outputs {
            outputs.push(match output.is_empty() {
                true => self.fresh_value(&format!("{}/unused", node.layer())),
                false => output.clone(),
            });
        }
        Ok(outputs)
    }
}

fn recurrent_attributes(node: &Node) -> Attributes {
    let mut attributes = Attributes::new();
    for name in INTS {
        if let Some(value) = node.int(name) {
            attributes = attributes.int(name, value);
        }
    }
    if let Some(clip) = node.float("clip").filter(|clip| *clip != 0.0) {
        attributes = attributes.with("clip", Attribute::Float(clip.into()));
    }
    if let Some(direction) = node.text("direction") {
        attributes = attributes.with("direction", Attribute::Text(direction.to_owned()));
    }
    if let Some(names) = node.texts("activations") {
        attributes = attributes.with("activations", Attribute::Texts(names));
    }
    for name in ["activation_alpha", "activation_beta"] {
        if let Some(values) = node.floats(name) {
            let values = values.iter().copied().map(f64::from).collect();
            attributes = attributes.with(name, Attribute::Floats(values));
        }
    }
    attributes
}
