//! Options of a verification.

use super::inputs::Inputs;
use ckpt_api::{Limit, Limits, Result};
use ckpt_engine::diff::Tolerance;
use ckpt_engine::mapping::Mapping;
use ckpt_engine::source::Source;
use ckpt_forward::Bounds;

/// Bytes that values and tensors may take by default.
pub const DEFAULT_MEMORY: u64 = ckpt_forward::DEFAULT_MEMORY;

/// What to compare, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The inputs of both graphs.
    pub inputs: Inputs,
    /// The mapping from the first checkpoint's names to the second's.
    pub mapping: Option<NamedMapping>,
    /// The devices to run the second graph on, each compared with the first graph on the CPU.
    pub devices: Vec<String>,
    /// Whether the CPU may fuse products with the sums that they are added to ([`crate::devices::open_fast`]).
    pub fast: bool,
    /// Whether layers are compared and reported even where outputs agree.
    pub per_layer: bool,
    /// Replaces the rule that follows from what changed.
    pub tolerance: Option<Tolerance>,
    /// Bytes that values and tensors may take at a time.
    pub memory: u64,
    /// Limits for the mapping and the arithmetic.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            inputs: Inputs::default(),
            mapping: None,
            devices: vec!["cpu".to_owned()],
            fast: false,
            per_layer: false,
            tolerance: None,
            memory: DEFAULT_MEMORY,
            limits: Limits::default(),
        }
    }
}

impl Options {
    /// What one run of a graph may take.
    pub(super) fn bounds(&self) -> Bounds {
        Bounds { memory: self.memory, operations: self.limits.get(Limit::Operations) }
    }

    /// Gives the parameters of the mapping the values of the first checkpoint, or else of the second: both are one model.
    pub(super) fn with_parameters(&self, a: &Source, b: &Source) -> Result<Self> {
        let mut options = self.clone();
        if let Some(NamedMapping { mapping, .. }) = &mut options.mapping {
            let found = a.with_parameters(mapping).or_else(|_| b.with_parameters(mapping))?.into_owned();
            *mapping = found;
        }
        Ok(options)
    }
}

/// A mapping and its name.
#[derive(Clone, Debug)]
pub struct NamedMapping {
    /// Its file, or the name of a built-in mapping.
    pub name: String,
    /// The mapping.
    pub mapping: Mapping,
}
