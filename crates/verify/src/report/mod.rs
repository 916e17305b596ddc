//! What a verification found: plain data, and a page that shows it.
//!
//! Reports in JSON are [`Report`]; their schema is `schemas/verify.schema.json`.

mod comparison;
pub mod html;
mod layer;

pub use comparison::{Argmax, Check, Comparison, Decade, Histogram, Metrics, Verdict, WorstElement};
pub use layer::{Diagnosis, Layer, TensorDiagnosis, TensorPair, TensorSide};

use ckpt_api::Text;
use ckpt_engine::diff::Difference;
use ckpt_forward::DeviceInfo;
use serde::Serialize;

/// The comparison of two checkpoints: of what they compute where both have a graph, else of their tensors.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Whether everything agrees.
    pub verdict: Verdict,
    /// The first checkpoint, which is the reference.
    pub a: Model,
    /// The second checkpoint.
    pub b: Model,
    /// The mapping from `a`'s names to `b`'s: a file, or the name of a built-in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mapping: Option<String>,
    /// The inputs of both graphs; empty if only tensors were compared.
    pub inputs: Vec<InputSummary>,
    /// One comparison for each device; empty if only tensors were compared.
    pub runs: Vec<Run>,
    /// The comparison of tensors, where a graph is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensors: Option<TensorReport>,
    /// Remarks.
    pub notes: Vec<Text>,
}

/// One of the two checkpoints.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Model {
    /// Path as the user gave it.
    pub path: String,
    /// Id of the format.
    pub format: String,
    /// Number of tensors.
    pub tensors: usize,
    /// Number of nodes of the graph; `None` without a graph.
    pub nodes: Option<usize>,
}

/// One input of both graphs.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct InputSummary {
    /// Name in the first graph.
    pub name: String,
    /// Shape, the batch included.
    pub shape: Vec<usize>,
    /// Source of the values: `random, seed 1`, a file, chess positions.
    pub origin: String,
}

/// The second graph on one device, compared with the first graph on the CPU.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Run {
    /// The device that computed the reference.
    pub reference: DeviceInfo,
    /// The device that computed the second graph.
    pub device: DeviceInfo,
    /// The rule that must hold.
    pub rule: Rule,
    /// The graphs' outputs, end to end.
    pub outputs: Vec<OutputReport>,
    /// Every layer on the reference's own activations, in the first graph's order; empty if layers were not
    /// compared.
    pub layers: Vec<Layer>,
    /// Index in `layers` of the first that fails.
    pub first_divergence: Option<usize>,
    /// Whether all outputs and layers agree.
    pub verdict: Verdict,
}

/// What must hold, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Rule {
    /// Which rule it is.
    pub name: RuleName,
    /// Why this rule applies, in a sentence.
    pub reason: Text,
    /// What it demands of each layer on the reference's activations, with its derivation.
    pub layers: String,
    /// What it demands of the outputs, end to end, with its derivation.
    pub outputs: String,
}

/// The kinds of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RuleName {
    /// Equal bits.
    Bits,
    /// Bounds derived from the arithmetic and from the storage of weights.
    Bound,
    /// The user's [`Tolerance`](ckpt_engine::diff::Tolerance).
    Given,
}

impl RuleName {
    /// Returns the name in JSON and on the screen.
    pub fn name(self) -> &'static str {
        match self {
            RuleName::Bits => "bits",
            RuleName::Bound => "bound",
            RuleName::Given => "given",
        }
    }
}

/// One output of the graphs.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct OutputReport {
    /// Name in the first graph.
    pub a: String,
    /// Name in the second graph.
    pub b: String,
    /// The comparison of the values.
    pub comparison: Comparison,
    /// Agreement on the largest element of each row; `None` for images and for rows of one element.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argmax: Option<Argmax>,
}

/// The comparison of tensors by name.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TensorReport {
    /// Why the graphs were not run.
    pub reason: String,
    /// The differences.
    pub difference: Difference,
}
