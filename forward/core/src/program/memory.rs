//! The memory that values take on the device.

use super::lifetimes::Lifetimes;
use super::parts::{Control, Step};
use crate::lower::{Info, Task};
use ckpt_api::{Error, Graph, Result};

/// Fails if the graph's inputs alone exceed `memory`.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`].
pub(super) fn check_inputs(inputs: &[(String, Info)], memory: u64) -> Result<()> {
    let bytes = inputs.iter().fold(0u64, |sum, (_, info)| sum.saturating_add(bytes(info.len())));
    if bytes > memory {
        return Err(too_much(bytes, memory).field("inputs"));
    }
    Ok(())
}

/// Returns the most bytes that are on the device while any node runs.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`], naming the node, for more than `memory`.
pub(super) fn peak(
    graph: &Graph,
    steps: &[Step],
    values: &[(String, Info)],
    lifetimes: &Lifetimes,
    memory: u64,
) -> Result<u64> {
    let value = |id: &usize| values.get(*id).map_or(0, |(_, info)| bytes(info.len()));
    let mut held = (0..graph.inputs.len()).fold(0u64, |sum, id| sum.saturating_add(value(&id)));
    let mut peak = held;
    for (index, (node, step)) in graph.nodes.iter().zip(steps).enumerate() {
        held = step.outputs.iter().fold(held, |sum, id| sum.saturating_add(value(id)));
        let loads = step.lowered.loads.iter().map(|load| bytes(load.len()));
        let temporaries = step.lowered.temporaries.iter().map(|info| bytes(info.len()));
        let scratch = step.lowered.calls.iter().map(|call| match &call.task {
            Task::Kernel(_) => 0,
            Task::Reference(call) => bytes(call.scratch()),
        });
        let within = step.control.iter().map(Control::peak);
        let now = loads.chain(temporaries).chain(scratch).chain(within).fold(held, u64::saturating_add);
        if now > memory {
            return Err(too_much(now, memory).field(&node.name));
        }
        peak = peak.max(now);
        for id in lifetimes.ended(index, &step.inputs, &step.outputs) {
            held = held.saturating_sub(value(&id));
        }
    }
    Ok(peak)
}

impl Control<'_> {
    /// Returns the most bytes that the graphs take while the node runs, besides the node's inputs and outputs.
    fn peak(&self) -> u64 {
        match self {
            Control::If(branches) => branches.iter().map(|branch| branch.program.peak).max().unwrap_or(0),
            // What an iteration takes and what it makes.
            Control::Loop(repeated) => repeated.body.program.peak.saturating_mul(2),
        }
    }
}

/// Bytes of elements, counted as binary64.
fn bytes(elements: usize) -> u64 {
    (elements as u64).saturating_mul(8)
}

fn too_much(found: u64, memory: u64) -> Error {
    Error::limit("the forward pass needs more memory than allowed")
        .found(ckpt_api::count(found, "byte"))
        .expected(format!("at most {memory}"))
        .help("use fewer or smaller inputs at a time")
}
