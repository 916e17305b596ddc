//! The lifetime of values on the device, and the memory that they take.

use super::control::Control;
use super::step::Step;
use crate::lower::{Info, Task};
use ckpt_api::{Error, Graph, Result};
use std::collections::HashSet;

/// Bytes that values and tensors may take at a time by default.
pub const DEFAULT_MEMORY: u64 = 4 << 30;

/// When each value of a program is freed.
pub(super) struct Lifetimes(Vec<LastUse>);

/// The last use of a value.
#[derive(Clone, Copy, PartialEq)]
enum LastUse {
    /// Nothing uses it: it is freed as soon as it is computed.
    None,
    /// The step at this index.
    Step(usize),
    /// It is an output of the graph, and is never freed.
    Output,
}

impl Lifetimes {
    /// Finds the last use of each of `values` values.
    pub(super) fn new(steps: &[Step], outputs: &[usize], values: usize) -> Self {
        let mut last = vec![LastUse::None; values];
        let steps = steps.iter().enumerate();
        let used = steps.flat_map(|(index, step)| {
            step.inputs.iter().flatten().map(move |id| (*id, LastUse::Step(index)))
        });
        for (id, at) in used.chain(outputs.iter().map(|id| (*id, LastUse::Output))) {
            if let Some(slot) = last.get_mut(id) {
                *slot = at;
            }
        }
        Lifetimes(last)
    }

    /// Returns the values to free after `step`, which has this index.
    pub(super) fn ended<'s>(&'s self, index: usize, step: &'s Step) -> impl Iterator<Item = usize> + 's {
        let is = move |id: &usize, last| self.0.get(*id) == Some(&last);
        let used = step.inputs.iter().flatten().filter(move |id| is(id, LastUse::Step(index)));
        let unused = step.outputs.iter().filter(move |id| is(id, LastUse::None));
        let mut seen = HashSet::new();
        used.chain(unused).copied().filter(move |id| seen.insert(*id))
    }
}

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
        for id in lifetimes.ended(index, step) {
            held = held.saturating_sub(value(&id));
        }
    }
    Ok(peak)
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
