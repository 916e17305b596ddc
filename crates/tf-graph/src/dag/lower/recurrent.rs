//! Lowers recurrent layers.

use super::super::super::chain::Context;
use super::super::super::no_chain::NoChain;
use super::super::reach::Edge;
use super::super::recurrent::{Cell, LoopResult, Recurrent};
use super::lowering::{Lowering, lost, refuse};
use super::values::{Maker, Val};
use crate::catalog::last;
use crate::proto::NodeDef;
use ckpt_api::{Attribute, Axis, Node, Op};
use ckpt_graph::cells::with_activations;
use ckpt_graph::{Dims, Layout, Length};

impl Lowering<'_> {
    /// Lowers a loop, and remembers its results: `inputs` are the sequence and the initial states that are not zeros.
    pub(super) fn recurrent(&mut self, op: &NodeDef, edge: Edge, inputs: &[Val]) -> Result<(), NoChain> {
        let loops = self.loops;
        let layer = loops.get(&edge.node).ok_or_else(lost)?;
        let [sequence, states @ ..] = inputs else { return Err(lost()) };
        let sequence = self.values.last(sequence)?;
        let [steps, batch, _] = sequence.dims[..] else {
            return Err(refuse(op, "takes a sequence that has not three axes"));
        };
        let hidden = *self.values.shape(&layer.recurrent)?.first().ok_or_else(lost)?;
        let hidden = i64::try_from(hidden).map_err(|_| lost())?;
        let mut names = vec![sequence.name.clone()];
        let mut states = states.iter();
        for state in &layer.states {
            names.push(match state {
                Some(_) => {
                    let state = states.next().ok_or_else(lost)?;
                    self.values.unsqueeze(state, &[0])?.name
                }
                None => String::new(),
            });
        }
        while names.last().is_some_and(String::is_empty) {
            names.pop();
        }
        let node = self.cell(layer, hidden)?;
        let outputs = self.values.recurrent(node, names, layer.states.len())?;
        let val = |at: usize, dims: Dims| {
            let name = outputs.get(at).cloned().ok_or_else(lost)?;
            Ok::<Val, NoChain>(Val { name, layout: Layout::Last, dims, tag: Maker::default() })
        };
        let (one, width) = (Length::Known(1), Length::Known(hidden));
        let kept = |at: usize| val(at, vec![one, batch, width]);
        for (output, result) in layer.results.iter().enumerate() {
            let own = Edge { node: edge.node, output };
            let made = match result {
                LoopResult::Other => continue,
                LoopResult::Sequence => {
                    let all = val(0, vec![steps, one, batch, width])?;
                    self.values.squeeze(&all, &[1])?
                }
                LoopResult::Last => kept(1)?,
                LoopResult::State(state) => self.values.squeeze(&kept(state + 1)?, &[0])?,
            };
            self.put(own, made);
        }
        match self.made.contains_key(&edge) {
            true => Ok(()),
            false => Err(refuse(op, "has a result that is not supported")),
        }
    }

    /// Returns the node of a recurrent layer, with its parameters.
    fn cell(&mut self, layer: &Recurrent, hidden: i64) -> Result<Node, NoChain> {
        let (op, gates) = match &layer.cell {
            Cell::Lstm(_) => ("LSTM", 4),
            Cell::Gru { .. } => ("GRU", 3),
            Cell::Simple => ("RNN", 1),
        };
        let name =
            layer_name(self.values.context, &layer.weight).unwrap_or_else(|| self.values.place.clone());
        let mut node = Node::new(name, Op::from(op.to_owned()))
            .attribute("hidden_size", Attribute::Int(hidden))
            .parameter("weight", layer.weight.as_str())
            .parameter("recurrent_weight", layer.recurrent.as_str());
        match &layer.cell {
            Cell::Lstm(order) => node = node.attribute("gates", Attribute::Text(order.clone())),
            Cell::Gru { linear_before_reset } => {
                let flag = Attribute::Int(i64::from(*linear_before_reset));
                node = node.attribute("linear_before_reset", flag);
            }
            Cell::Simple => {}
        }
        node = with_activations(node, &layer.activations);
        for key in [&layer.weight, &layer.recurrent] {
            let shape = self.values.shape(key)?;
            let columns = shape.get(1).copied().and_then(|len| i64::try_from(len).ok());
            if shape.rank() != 2 || columns != hidden.checked_mul(gates) {
                return Err(NoChain::unsupported(format!(
                    "'{key}' has shape {shape}, which does not fit the layer"
                )));
            }
            self.values.axes.insert(key.clone(), vec![Axis::In, Axis::Out]);
        }
        if let Some(key) = &layer.bias {
            if self.values.shape(key)?.rank() == 1 {
                self.values.axes.insert(key.clone(), vec![Axis::Out]);
            }
            node = node.parameter("bias", key.as_str());
        }
        Ok(node)
    }
}

/// Returns the name of the layer that a cell belongs to: what precedes `…_cell` in the name of its weight.
fn layer_name(context: &Context, key: &str) -> Option<String> {
    let name = context.shown(key);
    let (scope, _) = name.rsplit_once('/')?;
    let own = last(scope);
    let layer = match scope.rsplit_once('/') {
        Some((outer, _)) if own.contains("_cell") => last(outer),
        _ => own,
    };
    (layer.parse::<u64>().is_err() && !layer.is_empty()).then(|| layer.to_owned())
}
