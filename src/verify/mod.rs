//! Whether two checkpoints compute the same.

pub mod chess;
pub mod devices;
mod idx;
mod metrics;
mod pairing;
mod report;

pub use metrics::{Decade, Histogram, Measure, Metrics, Place, Precision};
pub use report::{
    Argmax, Blame, Check, Comparison, InputSummary, Layer, Model, OutputReport, Report, Rule, RuleName, Run,
    TensorBlame, TensorPair, TensorReport, TensorSide, Verdict,
};
