//! What a program is made of. A node may have graphs of its own, and these are programs.

use super::bounds::Bounds;
use super::lifetimes::Lifetimes;
use crate::Kernel;
use crate::lower::{Info, Lowered, Operand, Task};
use crate::value::Parameters;
use ckpt_api::{Error, Graph, Node, Result};
use std::collections::HashMap;

/// A graph bound to its tensors, with all shapes known and checked, ready to run on any backend.
///
/// Values on the device are freed after their last use. Tensors are loaded for the node that uses them, and freed after
/// it.
pub struct Program<'a> {
    pub(super) graph: &'a Graph,
    pub(super) parameters: &'a dyn Parameters,
    /// All values by index; the graph's inputs come first.
    pub(super) values: Vec<(String, Info)>,
    pub(super) steps: Vec<Step<'a>>,
    /// The values that are the graph's outputs.
    pub(super) outputs: Vec<usize>,
    pub(super) lifetimes: Lifetimes,
    pub(super) peak: u64,
    pub(super) bounds: Bounds,
}

/// A node, lowered, with its inputs and outputs as indices of the program's values.
pub(super) struct Step<'a> {
    /// Of a node with graphs of its own, also the values that these take from around them.
    pub(super) inputs: Vec<Option<usize>>,
    pub(super) outputs: Vec<usize>,
    pub(super) lowered: Lowered,
    /// The graphs of a branch or a loop, which has no kernels.
    pub(super) control: Option<Control<'a>>,
}

/// A node that runs graphs of its own.
pub(super) enum Control<'a> {
    /// The graph for a truth value that holds, and the one for another.
    If(Box<[Body<'a>; 2]>),
    Loop(Box<Repeated<'a>>),
}

/// The body of a loop.
pub(super) struct Repeated<'a> {
    pub(super) body: Body<'a>,
    /// How many values an iteration hands to the next.
    pub(super) carried: usize,
    /// The number of iterations, if it is known.
    pub(super) trips: Option<usize>,
}

/// A graph within a node.
pub(super) struct Body<'a> {
    pub(super) program: Program<'a>,
    /// The values from around it, as places among the inputs of the node's step.
    pub(super) captured: Vec<usize>,
}

impl Step<'_> {
    /// Lowers a node, whose outputs are the values from `next` on.
    ///
    /// # Errors
    /// Those of `lower`; [`ckpt_api::Kind::Corrupt`] for another number of outputs than the operator has.
    pub(super) fn new(
        node: &Node,
        by_name: &HashMap<&str, usize>,
        next: usize,
        lower: impl FnOnce(&[Option<usize>]) -> Result<Lowered>,
    ) -> Result<Self> {
        // Graph::check has seen that all names are known; an empty name is an input that is left out.
        let inputs: Vec<Option<usize>> =
            node.inputs.iter().map(|name| by_name.get(name.as_str()).copied()).collect();
        let lowered = lower(&inputs)?;
        if lowered.outputs.len() != node.outputs.len() {
            return Err(Error::corrupt("the layer has a different number of outputs than its operator")
                .field(&node.name)
                .found(node.outputs.len().to_string())
                .expected(lowered.outputs.len().to_string()));
        }
        let outputs = (next..).take(node.outputs.len()).collect();
        Ok(Step { inputs, outputs, lowered, control: None })
    }

    /// Returns the input whose elements are the only output, in their order: of a reshape, for example. `info` describes
    /// a value.
    pub(super) fn repeats<'i>(&self, info: impl Fn(usize) -> Option<&'i Info>) -> Option<usize> {
        let [call] = &self.lowered.calls[..] else { return None };
        let Task::Kernel(Kernel::Copy(copy)) = &call.task else { return None };
        let ([operand], [output]) = (&call.operands[..], &self.lowered.outputs[..]) else { return None };
        let id = self.input(*operand)?;
        let is_whole = copy.shape == [output.len()] && info(id)?.len() == output.len();
        let is_in_order = copy.from == copy.to && copy.from.offset == 0 && copy.from.strides == [1];
        (is_whole && is_in_order && call.output == Operand::Output(0)).then_some(id)
    }

    /// Returns the value of a kernel's operand, if it is one of the node's inputs.
    pub(super) fn input(&self, operand: Operand) -> Option<usize> {
        match operand {
            Operand::Input(index) => self.inputs.get(index).copied().flatten(),
            _ => None,
        }
    }
}

/// The error for an index that is out of range.
pub(super) fn no_such(what: &str, index: usize) -> Error {
    Error::usage(format!("the program has no such {what}")).found(index.to_string())
}
