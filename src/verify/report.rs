//! What a verification found. Reports in JSON are this type; their schema is `schemas/verify.schema.json`.

use super::metrics::{Histogram, Metrics};
use crate::diff::Difference;
use ckpt_api::{DType, Shape};
use ckpt_forward::DeviceInfo;
use serde::Serialize;

/// Two checkpoints compared: by what they compute where both have a graph, else by their tensors.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Whether everything agrees as its rule demands.
    pub verdict: Verdict,
    /// The first checkpoint, which is the reference.
    pub a: Model,
    /// The second.
    pub b: Model,
    /// The mapping of `a`'s names to `b`'s: its file or name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mapping: Option<String>,
    /// What went into both graphs; empty where only tensors were compared.
    pub inputs: Vec<InputSummary>,
    /// One comparison for each device; empty where only tensors were compared.
    pub runs: Vec<Run>,
    /// The comparison of tensors, where not both have a graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensors: Option<TensorReport>,
    /// What else a reader should know.
    pub notes: Vec<String>,
}

/// Whether a rule was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It was.
    Pass,
    /// It was not.
    Fail,
    /// There was nothing to compare.
    NotCompared,
}

impl Verdict {
    /// [`Verdict::Pass`] where `passes`.
    pub fn of(passes: bool) -> Self {
        if passes { Verdict::Pass } else { Verdict::Fail }
    }

    /// Whether it is not [`Verdict::Fail`].
    pub fn passes(self) -> bool {
        self != Verdict::Fail
    }

    /// The name in JSON and on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::NotCompared => "not-compared",
        }
    }
}

/// One of the two checkpoints.
#[derive(Clone, Debug, Serialize)]
pub struct Model {
    /// Its path, as it was given.
    pub path: String,
    /// Its format's id.
    pub format: String,
    /// How many tensors it has.
    pub tensors: usize,
    /// How many nodes its graph has; `None` without a graph.
    pub nodes: Option<usize>,
}

/// One input of both graphs.
#[derive(Clone, Debug, Serialize)]
pub struct InputSummary {
    /// Its name in the first graph.
    pub name: String,
    /// Its shape, the batch included.
    pub shape: Vec<usize>,
    /// Where its values come from: `random, seed 1`, a file, chess positions.
    pub origin: String,
}

/// The second checkpoint's graph on one device, compared with the first one's on the CPU.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Where the reference ran, and how.
    pub reference: DeviceInfo,
    /// Where the second graph really ran, and how.
    pub device: DeviceInfo,
    /// What had to hold.
    pub rule: Rule,
    /// The graphs' outputs, end to end.
    pub outputs: Vec<OutputReport>,
    /// Every layer on the reference's own activations, in the first graph's order; empty where layers were not compared.
    pub layers: Vec<Layer>,
    /// Index in `layers` of the first that fails.
    pub first_divergence: Option<usize>,
    /// Whether all of it agrees.
    pub verdict: Verdict,
}

/// What must hold, and why that.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rule {
    /// Which rule.
    pub name: RuleName,
    /// Why this rule was chosen, in a sentence.
    pub reason: String,
    /// What it demands of each layer on the reference's activations, and how that is derived.
    pub layers: String,
    /// What it demands of the outputs, end to end, and how that is derived.
    pub outputs: String,
}

/// Which rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleName {
    /// Equal bits.
    Bits,
    /// Bounds derived from the arithmetic and from how weights are stored.
    Bound,
    /// `|a − b| ≤ atol + rtol·|a|`, as the user gave them.
    Given,
}

impl RuleName {
    /// The name in JSON and on the screen.
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
pub struct OutputReport {
    /// Its name in the first graph.
    pub a: String,
    /// Its name in the second.
    pub b: String,
    /// How they compare.
    pub comparison: Comparison,
    /// Whether the largest element of each row is the same one; `None` for images, and for rows of one element.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argmax: Option<Argmax>,
}

/// Two arrays, and what their rule says.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Their shape.
    pub shape: Vec<usize>,
    /// How far they are apart.
    pub metrics: Metrics,
    /// How the errors are distributed.
    pub histogram: Histogram,
    /// What the rule demands; all of it must hold.
    pub checks: Vec<Check>,
    /// Whether it does.
    pub verdict: Verdict,
}

/// One thing that a rule demands: `found ≤ limit`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// What is measured.
    pub name: String,
    /// What was found; `None` (null) where it is no number.
    pub found: Option<f64>,
    /// What is allowed.
    pub limit: f64,
}

impl Check {
    /// `found` of `name` may be `limit`.
    pub fn new(name: &str, found: f64, limit: f64) -> Self {
        Check { name: name.to_owned(), found: found.is_finite().then_some(found), limit }
    }

    /// Whether it holds.
    pub fn holds(&self) -> bool {
        self.found.is_some_and(|found| found <= self.limit)
    }
}

/// Whether the largest element of each row is the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Argmax {
    /// Rows.
    pub rows: usize,
    /// Those of which the largest element is the same one.
    pub agreeing: usize,
    /// Those in which the two largest of the reference are further apart than the allowed errors of both.
    pub decided: usize,
    /// Those of the decided ones that agree: all must.
    pub decided_agreeing: usize,
}

/// A node of the first graph, and the one of the second that computes the same.
#[derive(Clone, Debug, Serialize)]
pub struct Layer {
    /// The node's name in the first graph; `None` where only the second has it.
    pub a: Option<String>,
    /// The node's name in the second graph; `None` where only the first has it.
    pub b: Option<String>,
    /// The first one's operator (the second's, where only that has it).
    pub op: String,
    /// The value that it makes, of those that a node with several makes.
    pub value: String,
    /// Its tensors.
    pub tensors: Vec<TensorPair>,
    /// How its results compare on the same inputs; `None` where they could not be compared, as `blame` says.
    pub comparison: Option<Comparison>,
    /// Whether the rule was kept. [`Verdict::NotCompared`] where the graphs differ here and their outputs agree.
    pub verdict: Verdict,
    /// What is to blame, where it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blame: Option<Blame>,
}

/// A tensor of a layer, and what corresponds to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TensorPair {
    /// `weight`, `bias`, ….
    pub role: String,
    /// Name, dtype as stored and shape in the first checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<TensorSide>,
    /// Name, dtype as stored and shape in the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<TensorSide>,
    /// What of the mapping leads from the one to the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mapped_by: Option<String>,
}

/// One side of a [`TensorPair`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TensorSide {
    /// Its name.
    pub name: String,
    /// How its elements are stored.
    pub dtype: DType,
    /// Units per 1.0 of stored integers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Its shape.
    pub shape: Shape,
}

/// Why a layer fails, as far as it can be told.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Blame {
    /// In a sentence.
    pub reason: String,
    /// The tensors that differ by more than how they are stored explains.
    pub tensors: Vec<TensorBlame>,
}

/// A tensor that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TensorBlame {
    /// `weight`, `bias`, ….
    pub role: String,
    /// Its name in the first checkpoint.
    pub a: String,
    /// Its name in the second.
    pub b: String,
    /// Elements that differ by more than is allowed.
    pub differing: u64,
    /// Elements.
    pub elements: u64,
    /// The largest difference; `None` (null) where one is no number and the other is.
    pub max_absolute: Option<f64>,
    /// Index of the first such element, in the first checkpoint's shape.
    pub first: Vec<u64>,
    /// What is known of how they differ: that one is the other transposed, that it is what another layer has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub likeness: Option<String>,
    /// What of the mapping it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mapped_by: Option<String>,
}

/// The comparison of tensors by name.
#[derive(Clone, Debug, Serialize)]
pub struct TensorReport {
    /// Why no forward pass was compared.
    pub reason: String,
    /// What was found.
    pub difference: Difference,
}
