//! How much arithmetic a program does.

use super::parts::{Control, Program, Step};
use crate::lower::Task;

impl Program<'_> {
    /// Returns the number of multiply-adds of a run, for the longest branches; a loop that states no number of iterations
    /// counts as one iteration.
    pub fn operations(&self) -> u64 {
        self.steps.iter().map(Step::operations).fold(0, u64::saturating_add)
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
