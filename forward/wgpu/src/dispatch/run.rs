//! One run of a shader, and what its buffers must be.

use crate::shader::{Shader, WORKGROUP};
use ckpt_forward::Element;

/// The most workgroups on one axis that every device has.
const MAX_GROUPS: u32 = 65535;

/// One run of a shader.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    /// What runs.
    pub shader: Shader,
    /// Threads that have something to do; 0 if nothing is to be run.
    pub threads: u32,
    /// The shader's `Params`.
    pub params: Vec<u32>,
    /// For each of the shader's operands what it needs; `None` for one that the kernel has not.
    pub operands: Vec<Option<Requirement>>,
    /// What the output must be.
    pub output: Requirement,
}

/// What a buffer must be for a kernel to stay within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// What its elements are.
    pub element: Element,
    /// The fewest elements.
    pub len: usize,
}

impl Dispatch {
    /// Puts the fields that all shaders have before `words`.
    pub(crate) fn assemble(
        shader: Shader,
        threads: u32,
        words: &[u32],
        operands: Vec<Option<Requirement>>,
        output: Requirement,
    ) -> Self {
        let row = groups(threads).0 * WORKGROUP;
        let mut params: Vec<u32> = [threads, row, 0].iter().chain(words).copied().collect();
        // A structure with vectors in it is as long as a multiple of them; Metal's structure of sizes fits, too.
        params.resize(params.len().next_multiple_of(8), 0);
        Dispatch { shader, threads, params, operands, output }
    }

    /// Workgroups on the two axes.
    pub fn groups(&self) -> (u32, u32) {
        groups(self.threads)
    }
}

/// A rectangle of workgroups for so many threads, with few too many.
fn groups(threads: u32) -> (u32, u32) {
    let groups = threads.div_ceil(WORKGROUP).max(1);
    let rows = groups.div_ceil(MAX_GROUPS);
    (groups.div_ceil(rows), rows)
}

/// A buffer of integers.
pub(super) fn integers(len: usize) -> Requirement {
    Requirement { element: Element::I32, len }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rectangle_of_workgroups_has_enough_threads_and_few_too_many() {
        for threads in [0, 1, 64, 65, 64 * 65535, 64 * 65535 + 1, 64 * 65535 * 3 + 17, u32::MAX / 4] {
            let (columns, rows) = groups(threads);
            assert!(columns <= MAX_GROUPS && rows <= MAX_GROUPS && columns > 0 && rows > 0);
            let all = u64::from(columns) * u64::from(rows) * u64::from(WORKGROUP);
            assert!(all >= u64::from(threads), "{threads}");
            assert!(all < u64::from(threads) + u64::from(WORKGROUP) * u64::from(rows + 1), "{threads}");
        }
    }
}
