//! What a forward pass may take.

use ckpt_api::{Limit, Limits, Result};

/// Bytes that values and tensors may take at a time by default.
pub const DEFAULT_MEMORY: u64 = 4 << 30;

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
