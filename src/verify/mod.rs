//! Whether two checkpoints compute the same.

pub mod chess;
mod metrics;
mod report;

pub use metrics::{Decade, Histogram, Measure, Metrics, Place, Precision};
pub use report::{
    Argmax, Blame, Check, Comparison, InputSummary, Layer, Model, OutputReport, Report, Rule, RuleName, Run,
    TensorBlame, TensorPair, TensorReport, TensorSide, Verdict,
};
