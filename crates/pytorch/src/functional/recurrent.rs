//! Recurrent layers, step by step.

use super::Emitter;
use super::attributes::truth;
use crate::attributes::{float, int, text};
use crate::names::number;
use crate::refusal::refuse;
use ckpt_api::{Axis, Node, Op, Result};

impl Emitter<'_> {
    pub(super) fn recurrent(&mut self, node: &Node) -> Result<String> {
        let kind = node.op.name();
        let own = ckpt_graph::cells::defaults(kind).ok_or_else(|| refuse(node, "is no recurrent layer"))?;
        if let Some(names) = node.texts("activations")?
            && names.iter().zip(own.activations.iter().cycle()).any(|(own, default)| own != default)
        {
            return Err(refuse(node, "has other activations than PyTorch's layer"));
        }
        let gates = text(node, "gates", own.gates)?.to_owned();
        if !gates.chars().all(|gate| gate.is_ascii_lowercase()) {
            return Err(refuse(node, "has an order of gates that is not known"));
        }
        let count = gates.len();
        let weights = match node.parameters.contains_key("weight") {
            true => self.stored_weights(node, count)?,
            false => self.computed_weights(node, count)?,
        };
        let state = |at: usize| self.variable(node.inputs.get(at).map_or("", String::as_str));
        let states =
            format!("({}, {})", state(1)?, if node.op == Op::LSTM { state(2)? } else { "None".to_owned() });
        let direction = match text(node, "direction", "forward")? {
            known @ ("forward" | "reverse" | "bidirectional") => format!("\"{known}\""),
            _ => return Err(refuse(node, "has a direction that is not known")),
        };
        let batch_first = truth(int(node, "layout", 0)? != 0);
        let is_linear = truth(int(node, "linear_before_reset", 0)? != 0);
        let clip = number(float(node, "clip", 0.0)?);
        let arguments = [
            format!("\"{kind}\""),
            self.input(node, 0)?,
            weights,
            states,
            direction,
            format!("\"{gates}\""),
            batch_first,
            is_linear,
            clip,
        ];
        Ok(self.call("recurrent", &arguments))
    }

    /// Weights that are tensors, as the helper takes them.
    fn stored_weights(&mut self, node: &Node, gates: usize) -> Result<String> {
        let mut made = Vec::with_capacity(4);
        let mut directions = 1;
        for role in ["weight", "recurrent_weight"] {
            let tensor = self.tensor(node, role)?.ok_or_else(|| refuse(node, &format!("has no {role}")))?;
            let order: Option<Vec<usize>> =
                [Axis::Out, Axis::In].iter().map(|axis| tensor.axis(*axis)).collect();
            let mut order = order.ok_or_else(|| refuse(node, &format!("has a {role} of other axes")))?;
            if let Some(direction) = tensor.axis(Axis::Direction) {
                directions = tensor.shape.get(direction).copied().unwrap_or(1);
                order.insert(0, direction);
            }
            let inputs = tensor.axis(Axis::In).and_then(|axis| tensor.shape.get(axis)).copied().unwrap_or(1);
            let order: Vec<String> = order.iter().map(usize::to_string).collect();
            let read = self.read(tensor)?;
            made.push(format!(
                "{read}.permute({}).reshape({directions}, {gates}, -1, {inputs})",
                order.join(", ")
            ));
        }
        let zeros =
            format!("{}.new_zeros({directions}, {gates}, 1)", made.first().cloned().unwrap_or_default());
        let recurrent = self.tensor(node, "recurrent_weight")?;
        let units = recurrent.and_then(|own| own.shape.get(own.axis(Axis::In)?).copied());
        let one = recurrent.map_or(0, |own| own.shape.elements() / units.unwrap_or(1).max(1));
        let bias = self.tensor(node, "bias")?.map(|tensor| (tensor.shape.elements(), tensor));
        match bias {
            None => made.push(zeros.clone()),
            Some((len, tensor)) => {
                let read = self.read(tensor)?;
                let is_both = len == one.saturating_mul(2) && !node.parameters.contains_key("recurrent_bias");
                let parts = if is_both { 2 } else { 1 };
                let both = format!("{read}.reshape({directions}, {parts}, {gates}, -1)");
                made.push(format!("{both}[:, 0]"));
                if is_both {
                    made.push(format!("{both}[:, 1]"));
                }
            }
        }
        if made.len() < 4 {
            made.push(match self.tensor(node, "recurrent_bias")? {
                Some(tensor) => format!("{}.reshape({directions}, {gates}, -1)", self.read(tensor)?),
                None => zeros,
            });
        }
        Ok(format!("({})", made.join(", ")))
    }

    /// Weights that the graph computes, with ONNX's axes.
    fn computed_weights(&mut self, node: &Node, gates: usize) -> Result<String> {
        let (w, r) = (self.input(node, 3)?, self.input(node, 4)?);
        let shaped =
            |value: &str| format!("{value}.reshape({value}.shape[0], {gates}, -1, {value}.shape[-1])");
        let zeros = format!("{w}.new_zeros({w}.shape[0], {gates}, 1)");
        let biases = match node.inputs.get(5).filter(|name| !name.is_empty()) {
            Some(name) => {
                let b = self.variable(name)?;
                let both = format!("{b}.reshape({b}.shape[0], 2, {gates}, -1)");
                format!("{both}[:, 0], {both}[:, 1]")
            }
            None => format!("{zeros}, {zeros}"),
        };
        Ok(format!("({}, {}, {biases})", shaped(&w), shaped(&r)))
    }
}
