//! The architecture file as written: `schemas/bullet.schema.json`.

use super::engine::Engine;
use super::entry::{Item, is_default};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// What [`Factoriser::Columns`] is called in the file.
const COLUMNS: &str = "columns";

/// The contents of an architecture file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Net {
    pub(crate) format: FormatTag,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    pub(crate) input: NetInput,
    pub(crate) layers: Vec<Layer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output_buckets: Option<OutputBuckets>,
    /// Whether weights `pst` connect the inputs to the output directly.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) psqt: bool,
    /// Weights that belong to no layer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tensors: Vec<ExtraTensor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) eval_scale: Option<NonZeroU32>,
    /// What quantised.bin consists of, in file order; raw.bin has the weights of it.
    pub(crate) saved: Vec<Item>,
    /// The engine's network file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) engine: Option<Engine>,
}

/// The value of the key `format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FormatTag {
    #[serde(rename = "bullet")]
    Bullet,
}

/// The input features and their buckets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NetInput {
    /// Features of one bucket.
    pub(crate) features: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) buckets: Option<InputBuckets>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) factoriser: Factoriser,
    /// The number of accumulators that the first layer's output concatenates: 2, or 1.
    #[serde(default = "two", skip_serializing_if = "is_two")]
    pub(crate) perspectives: u64,
}

/// Where files store the weights that all input buckets share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "serde_json::Value", into = "serde_json::Value")]
pub(crate) enum Factoriser {
    /// There are no such weights.
    #[default]
    None,
    /// In a tensor of their own, `l0f`.
    Own,
    /// In the first columns of `l0w` and `pst`, as `TrainerBuilder` stored them.
    Columns,
}

impl TryFrom<serde_json::Value> for Factoriser {
    type Error = &'static str;

    fn try_from(value: serde_json::Value) -> Result<Self, Self::Error> {
        match value {
            serde_json::Value::Bool(false) => Ok(Factoriser::None),
            serde_json::Value::Bool(true) => Ok(Factoriser::Own),
            serde_json::Value::String(text) if text == COLUMNS => Ok(Factoriser::Columns),
            _ => Err("expected true, false or \"columns\""),
        }
    }
}

impl From<Factoriser> for serde_json::Value {
    fn from(factoriser: Factoriser) -> Self {
        match factoriser {
            Factoriser::None => false.into(),
            Factoriser::Own => true.into(),
            Factoriser::Columns => COLUMNS.into(),
        }
    }
}

/// Sets of first-layer weights, of which the king's square selects one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InputBuckets {
    pub(crate) count: u64,
    /// The bucket of each king square: 64 of them, or 32 if mirrored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) layout: Vec<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) mirrored: bool,
}

/// One layer: an affine map, followed by an activation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layer {
    /// Outputs of the affine map, for one output bucket and one perspective.
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) activation: Activation,
    /// Whether the two halves of the activated output are multiplied; in the first layer, those of each perspective.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) pairwise: bool,
    /// Whether the activation, which must be CReLU, is applied to the concatenation of `x` and `x²`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) dual: bool,
    /// Whether each output bucket has its own weights; in the first layer, its own biases. The default is true for all
    /// layers except the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bucketed: Option<bool>,
}

/// An activation function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Activation {
    #[default]
    Identity,
    Relu,
    Crelu,
    Screlu,
    Sqrrelu,
}

/// Sets of weights of the later layers, of which each position selects one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutputBuckets {
    pub(crate) count: u64,
    #[serde(default)]
    pub(crate) kind: OutputBucketKind,
}

/// How a position selects its output bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutputBucketKind {
    /// `(pieces − 2) / ⌈32 / count⌉`.
    #[default]
    MaterialCount,
    /// Any other rule.
    Other,
}

/// A weight that belongs to no layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExtraTensor {
    pub(crate) id: String,
    pub(crate) rows: u64,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub(crate) columns: u64,
}

fn one() -> u64 {
    1
}

fn two() -> u64 {
    2
}

fn is_one(value: &u64) -> bool {
    *value == one()
}

fn is_two(value: &u64) -> bool {
    *value == two()
}
