//! Writes recurrent layers.

use super::builder::{Builder, Kind, Setting, Stored};
use super::layers::{len, roles};
use super::ops::{allow, ints};
use crate::format::gates::{self, Gates};
use ckpt_api::{Axis, Error, Node, Result};
use ckpt_graph::axes;

/// The input from which on a recurrent layer has weights that the graph computes.
const WEIGHT_INPUT: usize = 3;

impl Builder<'_> {
    /// A recurrent layer, stored with an axis of directions and its gates in ONNX's order.
    pub(super) fn recurrent(&mut self, node: &Node, op: &'static str) -> Result<()> {
        let standard = gates::standard(op).unwrap_or_default();
        let own = node.text("gates")?.unwrap_or(standard);
        let names =
            ["hidden_size", "layout", "linear_before_reset", "direction", "activations", "input_forget"];
        allow(node, &[&names[..], &["gates", "clip", "activation_alpha", "activation_beta"]].concat())?;
        let is_computed = node.inputs.len() > WEIGHT_INPUT;
        roles(node, if is_computed { &[] } else { &["weight", "recurrent_weight", "bias"] })?;
        let reordered = |elements: u64| Gates::of(own, standard, elements);
        if own != standard && reordered(1).is_none() {
            return Err(Error::corrupt("attribute 'gates' is not valid")
                .found(format!("'{own}'"))
                .expected(format!("the letters of {standard}, in any order")));
        }
        let mut inputs = vec![self.input(node)?.0];
        let mut hidden = 0;
        let mut directions = 1;
        for role in ["weight", "recurrent_weight"].into_iter().filter(|_| !is_computed) {
            let (id, tensor) = self.required(node, role)?;
            let has_directions = tensor.axis(Axis::Direction).is_some();
            let wanted: &[Axis] =
                if has_directions { &[Axis::Direction, Axis::Out, Axis::In] } else { &[Axis::Out, Axis::In] };
            let order = axes::order(tensor, wanted)?;
            let last = wanted.len() - 1;
            (hidden, directions) =
                (len(tensor, &order, last), if has_directions { len(tensor, &order, 0) } else { 1 });
            let units = len(tensor, &order, last - 1);
            let dims = vec![directions, units, hidden];
            let block = units.checked_div(standard.len().max(1) as u64).unwrap_or(0).saturating_mul(hidden);
            inputs.push(self.stored_as(id, Stored { order, dims, gates: reordered(block) })?);
        }
        let units = hidden.saturating_mul(standard.len().max(1) as u64);
        if is_computed {
            let computed = self.inputs(node)?.into_iter().skip(WEIGHT_INPUT).collect();
            inputs.extend(self.all_of(computed, Kind::Real));
            inputs.resize(4, String::new());
        } else {
            inputs.push(self.recurrent_bias(node, directions, units, reordered(hidden))?);
        }
        inputs.push(String::new());
        for state in node.inputs.iter().take(WEIGHT_INPUT).skip(1) {
            inputs.push(self.value(state)?);
        }
        while inputs.last().is_some_and(String::is_empty) {
            inputs.pop();
        }
        let mut settings = ints(node, &names)?;
        if !is_computed && !settings.iter().any(|(name, _)| *name == "hidden_size") {
            settings.push(("hidden_size", Setting::Int(i64::try_from(hidden).unwrap_or(i64::MAX))));
        }
        if node.attributes.contains_key("clip") {
            settings.push(("clip", Setting::Float(node.float("clip", 0.0)? as f32)));
        }
        for name in ["activation_alpha", "activation_beta"] {
            if let Some(values) = node.floats(name)? {
                settings
                    .push((name, Setting::Floats(values.into_iter().map(|value| value as f32).collect())));
            }
        }
        let outputs: Vec<String> = node.outputs.iter().map(|output| self.declare(output)).collect();
        self.push(op, inputs, outputs.clone(), settings);
        if own != standard {
            self.note(gates::PROPERTY, own.to_owned());
        }
        for (at, (own, output)) in node.outputs.iter().zip(outputs).enumerate() {
            self.define(own, output, Kind::Real, Some(if at == 0 { 4 } else { 3 }));
        }
        Ok(())
    }

    /// The biases of a recurrent layer: those of the inputs, then the recurrent ones, which are 0 if there are none.
    fn recurrent_bias(
        &mut self,
        node: &Node,
        directions: u64,
        units: u64,
        gates: Option<Gates>,
    ) -> Result<String> {
        let Some((id, tensor)) = self.parameter(node, "bias")? else { return Ok(String::new()) };
        let (elements, each) = (tensor.shape.elements(), directions.saturating_mul(units));
        let order = (0..tensor.shape.rank()).collect();
        let whole = |units: u64| vec![directions, units];
        let long = |dims: &[u64]| dims.iter().copied().filter(|len| *len != 1).collect::<Vec<_>>();
        if elements == each.saturating_mul(2) {
            let dims = whole(units.saturating_mul(2));
            // Both biases are two rows, or one.
            if long(&tensor.shape) == long(&dims) {
                return self.stored_as(id, Stored { order, dims, gates });
            }
            let own = self.stored_as(id, Stored { order, dims: tensor.shape.to_vec(), gates })?;
            let lens: Vec<i64> = dims.iter().map(|len| i64::try_from(*len).unwrap_or(i64::MAX)).collect();
            let shape = self.ints("bias", &lens);
            return Ok(self.step("Reshape", vec![own, shape], []));
        }
        if elements != each {
            return Err(Error::corrupt("a tensor does not fit the layer")
                .tensor(&tensor.name)
                .found(tensor.shape.to_string()));
        }
        let own = self.stored_as(id, Stored { order, dims: whole(units), gates })?;
        let more = i64::try_from(units).map_err(|_| Error::limit("a layer has too many units"))?;
        let pads = self.ints("recurrent_bias", &[0, 0, 0, more]);
        Ok(self.step("Pad", vec![own, pads], []))
    }
}
