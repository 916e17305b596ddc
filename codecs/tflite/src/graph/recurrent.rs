//! Recurrent layers.

use super::known::Val;
use super::lowering::{Lowering, Read};
use super::step::Operation;
use ckpt_api::{Attribute, Op};
use ckpt_graph::{Layout, Length};

/// Inputs of a layer by number: matrices of the gates i, f, c, o for its input and for its state, and their biases.
const INPUT: [usize; 4] = [1, 2, 3, 4];
const STATE: [usize; 4] = [5, 6, 7, 8];
const BIAS: [usize; 4] = [12, 13, 14, 15];
/// Inputs that a plain layer lacks: peepholes, projection, normalization of the gates.
const OTHERS: [usize; 9] = [9, 10, 11, 16, 17, 20, 21, 22, 23];
/// States that the layer begins with.
const STATES: [usize; 2] = [18, 19];
/// The gates in ONNX's order, `iofc`, as places among `ifco`.
const ORDER: [usize; 4] = [0, 3, 1, 2];
/// The activation of a plain layer.
const TANH: u8 = 4;

impl Lowering<'_> {
    /// A long short-term memory, whose gates have tensors of their own.
    pub(super) fn lstm(&mut self, operation: &Operation<'_>) -> Read<Vec<Val>> {
        if OTHERS.iter().any(|index| operation.input(*index).is_some()) {
            return Err("has peepholes, a projection or normalized gates, which are not supported".to_owned());
        }
        if operation.code(0)? != TANH {
            return Err("has another activation than tanh".to_owned());
        }
        let clip = operation.float(1, 0.0)?;
        if clip > 0.0 {
            let place = &self.builder.place;
            self.notes.push(format!(
                "the cell state of '{place}' is assumed to stay within {clip}, at which the model clips it"
            ));
        }
        for index in STATES {
            let state = operation.required(index)?;
            if !self.table(state)?.is_variable || self.weight(state).is_some() {
                return Err("begins with a state of its own".to_owned());
            }
        }
        let x = self.take(operation, 0)?;
        let x = self.builder.last(&x)?;
        let is_time_first = operation.flag(3)?;
        let [first, second, _] = x.dims[..] else {
            return Err("takes a value that is no sequence".to_owned());
        };
        let weight = self.gates(operation, INPUT)?;
        let state = self.gates(operation, STATE)?;
        let bias = self.gates(operation, BIAS)?;
        let Some(units) = state.len(1).known().map(|gates| gates / 4) else {
            return Err("has gates whose size is not known".to_owned());
        };
        // ONNX has a second bias, of the state.
        let none = self.builder.scalar(0.0)?;
        let zeros = self.builder.apply(Op::Mul, &[&bias, &none])?;
        let both = self.builder.join(1, &[bias, zeros])?;
        let mut node = self.builder.node(Op::LSTM).attribute("hidden_size", Attribute::Int(units));
        if !is_time_first {
            node = node.attribute("layout", Attribute::Int(1));
        }
        let absent = String::new();
        let inputs = vec![x.name, absent.clone(), absent, weight.name, state.name, both.name];
        let outputs = self.builder.recurrent(node, inputs, 0)?;
        let name = outputs.into_iter().next().ok_or("makes nothing")?;
        let (one, units) = (Length::Known(1), Length::Known(units));
        let (dims, axis) = match is_time_first {
            true => (vec![first, one, second, units], 1),
            false => (vec![first, second, one, units], 2),
        };
        let all = self.builder.val(name, Layout::Last, dims, ());
        self.builder.squeeze(&all, &[axis]).map(|made| vec![made])
    }

    /// The tensors of the gates one after the other, in ONNX's order, with an axis for the direction.
    fn gates(&mut self, operation: &Operation<'_>, inputs: [usize; 4]) -> Read<Val> {
        let mut gates = Vec::with_capacity(inputs.len());
        for place in ORDER {
            let input = inputs.get(place).copied().unwrap_or_default();
            gates.push(self.take(operation, input)?);
        }
        let joined = self.builder.join(0, &gates)?;
        self.builder.unsqueeze(&joined, &[0])
    }
}
