//! The nodes of a graph as lines.

use super::Emitter;
use crate::refusal::refuse;
use ckpt_api::{Graph, Node, Op, Result};

impl<'g> Emitter<'g> {
    /// Writes the nodes of a graph, in their order.
    pub(super) fn nodes(&mut self, graph: &'g Graph) -> Result<()> {
        for node in &graph.nodes {
            match node.op {
                Op::If => self.choice(node)?,
                Op::Loop => self.repeated(node)?,
                _ => {
                    let made = self.expression(node)?;
                    self.assign(node, &made);
                }
            }
        }
        Ok(())
    }

    /// Assigns what a node makes; outputs that are left out get `_`.
    pub(super) fn assign(&mut self, node: &'g Node, made: &str) {
        let mut named =
            |output: &'g String| if output.is_empty() { "_".to_owned() } else { self.named(output) };
        let is_several = matches!(node.op, Op::Split | Op::TopK | Op::LSTM | Op::GRU | Op::RNN);
        let mut targets: Vec<String> = node.outputs.iter().map(&mut named).collect();
        let wanted = match node.op {
            Op::TopK => 2,
            Op::LSTM | Op::GRU | Op::RNN => 3,
            _ => targets.len(),
        };
        targets.resize(wanted.max(targets.len()), "_".to_owned());
        let target = match (&targets[..], is_several) {
            ([one], true) => format!("({one},)"),
            _ => targets.join(", "),
        };
        self.line(&format!("{target} = {made}"));
    }

    fn expression(&mut self, node: &Node) -> Result<String> {
        if let Some(made) = self.layer(node)? {
            return Ok(made);
        }
        if let Some(made) = self.moved(node)? {
            return Ok(made);
        }
        if let Some(made) = self.reduction(node)? {
            return Ok(made);
        }
        if matches!(node.op, Op::LSTM | Op::GRU | Op::RNN) {
            return self.recurrent(node);
        }
        self.elementwise(node)?.ok_or_else(|| refuse(node, "has no form in the generated code"))
    }
}
