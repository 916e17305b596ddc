//! The comparison of one layer, and the diagnosis of one that diverges.

use super::comparison::{Comparison, Verdict};
use ckpt_api::{DType, Shape};
use serde::Serialize;

/// A node of the first graph and its counterpart in the second, compared on the same inputs.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Layer {
    /// Name of the node in the first graph; `None` if only the second graph has it.
    pub a: Option<String>,
    /// Name of the node in the second graph; `None` if only the first graph has it.
    pub b: Option<String>,
    /// Operator of the first graph's node, or of the second's where only that exists.
    pub op: String,
    /// The output compared, of a node that may have several.
    pub value: String,
    /// The node's tensors.
    pub tensors: Vec<TensorPair>,
    /// Comparison of the results; `None` if they cannot be compared, for the reason that `diagnosis` states.
    pub comparison: Option<Comparison>,
    /// Whether the rule holds; [`Verdict::NotCompared`] where the graphs differ here although their outputs agree.
    pub verdict: Verdict,
    /// Why the layer fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<Diagnosis>,
}

/// A tensor of a layer and its counterpart.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TensorPair {
    /// `weight`, `bias`, ….
    pub role: String,
    /// The tensor in the first checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<TensorSide>,
    /// The tensor in the second checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<TensorSide>,
    /// The mapping's rule that names the counterpart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mapped_by: Option<String>,
}

/// One side of a [`TensorPair`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TensorSide {
    /// Name.
    pub name: String,
    /// Its names in the checkpoint, and what is done with them, where a mapping gives it the name of an architecture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_as: Option<String>,
    /// Stored dtype.
    pub dtype: DType,
    /// Units per 1.0 of stored integers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Shape.
    pub shape: Shape,
}

/// Why a layer diverges, as far as can be determined.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The reason, in a sentence.
    pub reason: String,
    /// The tensors that differ by more than their storage explains.
    pub tensors: Vec<TensorDiagnosis>,
}

/// A tensor that differs by more than its storage explains.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TensorDiagnosis {
    /// `weight`, `bias`, ….
    pub role: String,
    /// Name in the first checkpoint.
    pub a: String,
    /// Name in the second checkpoint.
    pub b: String,
    /// Elements that differ by more than is allowed.
    pub differing: u64,
    /// Number of elements.
    pub elements: u64,
    /// Largest difference; `None` (null) where only one side is a finite number.
    pub max_absolute: Option<f64>,
    /// Index of the first element that differs, in the first checkpoint's shape.
    pub first: Vec<u64>,
    /// The pattern of the differences, if one is recognized: a transposed tensor, another layer's tensor, a flipped
    /// bit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The mapping's rule that the tensor comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mapped_by: Option<String>,
}
