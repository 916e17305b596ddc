//! What the axes of tensors mean.

use serde::{Deserialize, Serialize};

/// What an axis means. A codec labels its axes, a target states which order it wants, and the planner derives
/// the permutation: nobody guesses from shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Axis {
    /// Summed over: input features or channels.
    In,
    /// Produced: output features or channels.
    Out,
    /// Kernel planes, of a three-dimensional window.
    KernelZ,
    /// Kernel rows.
    KernelY,
    /// Kernel columns.
    KernelX,
    /// One of several parameter sets chosen by the input.
    Bucket,
    /// Index into a table of rows (embeddings, sparse features).
    Feature,
    /// Outputs per input channel of a depthwise convolution.
    Multiplier,
    /// The directions of a recurrent layer: forwards, backwards.
    Direction,
    /// An axis of length 1 that a format writes and that means nothing.
    Unit,
}

impl Axis {
    /// The name used in JSON and shown to people.
    pub fn name(self) -> &'static str {
        match self {
            Axis::In => "in",
            Axis::Out => "out",
            Axis::KernelZ => "kernel_z",
            Axis::KernelY => "kernel_y",
            Axis::KernelX => "kernel_x",
            Axis::Bucket => "bucket",
            Axis::Feature => "feature",
            Axis::Multiplier => "multiplier",
            Axis::Direction => "direction",
            Axis::Unit => "unit",
        }
    }
}
