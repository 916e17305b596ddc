//! Recurrent layers.

use super::{Lowering, Read, Val};
use crate::read::Operation;
use ckpt_api::{Attribute, Axis, Node, Op};
use ckpt_graph::cells::{CellActivation, with_activations};
use ckpt_graph::{Layout, Length, int};

/// The order of an LSTM's gates in a program: input, forget, output, cell.
const LSTM_GATES: &str = "ifoc";

impl Lowering<'_, '_> {
    /// A long short-term memory in one direction: all outputs, the last one, and the last cell state.
    pub(super) fn lstm(&mut self, operation: &Operation) -> Read<Vec<Val>> {
        let direction = match self.text(operation, "direction").as_str() {
            "forward" | "" => "forward",
            "reverse" => "reverse",
            other => return Err(format!("has the direction '{other}', which is not supported")),
        };
        if operation.argument("peephole").is_some() {
            return Err("has peepholes, which are not supported".to_owned());
        }
        let activations =
            [("recurrent_activation", "Sigmoid"), ("cell_activation", "Tanh"), ("activation", "Tanh")];
        let activations = activations.map(|(name, default)| self.cell_activation(operation, name, default));
        let [gates, cell, output] = activations;
        let node = with_activations(self.builder.node(Op::LSTM), &[gates?, cell?, output?]);
        let node = node.attribute("gates", Attribute::Text(LSTM_GATES.to_owned()));
        let clip = self.float_or(operation, "clip", 0.0)?;
        let node = if clip > 0.0 { node.attribute("clip", Attribute::Float(clip)) } else { node };
        let node = match direction {
            "reverse" => node.attribute("direction", Attribute::Text("reverse".into())),
            _ => node,
        };
        self.cell(operation, node, &["initial_h", "initial_c"])
    }

    fn cell_activation(
        &self,
        operation: &Operation,
        name: &str,
        default: &'static str,
    ) -> Read<CellActivation> {
        Ok(CellActivation::plain(match self.text(operation, name).as_str() {
            "" => default,
            "sigmoid" => "Sigmoid",
            "tanh" => "Tanh",
            "relu" => "Relu",
            other => return Err(format!("has the activation '{other}' in its cell")),
        }))
    }

    fn cell(&mut self, operation: &Operation, node: Node, states: &[&str]) -> Read<Vec<Val>> {
        let x = self.take(operation, "x")?;
        let [steps, batch, _] = x.dims[..] else {
            return Err("takes a value that is no sequence".to_owned());
        };
        let (weight, _) = self.claim(operation, "weight_ih", &[Axis::Out, Axis::In])?;
        let (recurrent, shape) = self.claim(operation, "weight_hh", &[Axis::Out, Axis::In])?;
        let units = shape.get(1).copied().ok_or("has no recurrent weights")?;
        let mut node = node
            .attribute("hidden_size", Attribute::Int(int(units)?))
            .parameter("weight", weight)
            .parameter("recurrent_weight", recurrent);
        if operation.argument("bias").is_some() {
            let (bias, _) = self.claim(operation, "bias", &[Axis::Out])?;
            node = node.parameter("bias", bias);
        }
        let mut inputs = vec![x.name.clone()];
        for state in states {
            let state = self.take(operation, state)?;
            inputs.push(self.builder.unsqueeze(&state, &[0])?.name);
        }
        let names = self.builder.recurrent(node, inputs, states.len())?;
        let (one, units) = (Length::Known(1), Length::from(units));
        let mut made = Vec::with_capacity(names.len());
        for (at, name) in names.into_iter().enumerate() {
            let dims = if at == 0 { vec![steps, one, batch, units] } else { vec![one, batch, units] };
            let val = self.builder.val(name, Layout::Last, dims, ());
            made.push(val);
        }
        let is_sequence = self.flag(operation, "output_sequence", false)?;
        let [all, last, ..] = &made[..] else { return Err("makes nothing".to_owned()) };
        let first = if is_sequence { self.builder.squeeze(&all.clone(), &[1])? } else { last.clone() };
        let mut results = vec![first];
        for state in made.iter().skip(1) {
            results.push(self.builder.squeeze(&state.clone(), &[0])?);
        }
        Ok(results)
    }
}
