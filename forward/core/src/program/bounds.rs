//! What a forward pass may take, and how much arithmetic its steps do.

use super::control::Control;
use super::memory::DEFAULT_MEMORY;
use super::step::Step;
use crate::lower::Task;
use ckpt_api::{Limit, Limits, Result};

/// What one run of a program may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes that values and tensors take at a time, counted as binary64.
    pub memory: u64,
    /// Multiply-adds of a run; an element that is moved, loaded or computed by itself counts as one.
    pub operations: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { memory: DEFAULT_MEMORY, operations: Limit::Operations.default_value() }
    }
}

impl Bounds {
    /// Fails for more operations than allowed.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`], with the count.
    pub(super) fn check_operations(&self, found: u64) -> Result<()> {
        Limits::default().with(Limit::Operations, self.operations).check(Limit::Operations, found)
    }
}

impl Step<'_> {
    /// The operations of the node's kernels, without those of the graphs within it.
    pub(super) fn kernel_operations(&self) -> u64 {
        let infos = self.lowered.temporaries.iter().chain(&self.lowered.outputs);
        let elements = infos.map(|info| info.len()).chain(self.lowered.loads.iter().map(|load| load.len()));
        let calls = self.lowered.calls.iter().map(|call| match &call.task {
            Task::Kernel(kernel) => kernel.operations(),
            Task::Reference(call) => call.operations(),
        });
        elements.map(|len| len as u64).chain(calls).fold(0, u64::saturating_add)
    }

    /// The operations of the node. A loop that states no number of iterations counts as one iteration; the others count
    /// while they run.
    pub(super) fn operations(&self) -> u64 {
        let within = match &self.control {
            None => 0,
            Some(Control::If(branches)) => {
                branches.iter().map(|branch| branch.program.operations()).max().unwrap_or(0)
            }
            Some(Control::Loop(repeated)) => {
                let iterations = repeated.trips.unwrap_or(1) as u64;
                repeated.body.program.operations().saturating_mul(iterations)
            }
        };
        self.kernel_operations().saturating_add(within)
    }
}
