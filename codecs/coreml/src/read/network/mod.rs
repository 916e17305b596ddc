//! Neural networks: layers with their weights, in the model's file.

mod layers;
mod parse;
mod weights;

pub(super) use parse::parse;
pub(super) use weights::locate;

use std::collections::BTreeMap;
use std::ops::Range;

/// A network.
#[derive(Clone, Debug, Default)]
pub(crate) struct Network {
    pub(crate) layers: Vec<Layer>,
}

/// A layer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layer {
    pub(crate) name: String,
    /// The number of the field that says what it computes.
    pub(crate) kind: u64,
    /// Integers of its fields, by their numbers.
    pub(crate) integers: BTreeMap<u64, Vec<i64>>,
    pub(crate) weights: Vec<Weights>,
}

/// Weights of a layer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Weights {
    /// The name within the layer.
    pub(crate) name: String,
    /// 32-bit floats: bytes of the tag before each, and where they are.
    pub(crate) floats: Option<(u8, Range<u64>)>,
    pub(crate) halves: Option<Range<u64>>,
    pub(crate) raw: Option<Range<u64>>,
    /// Signed integers of 8 bits.
    pub(crate) signed: Option<Range<u64>>,
    pub(crate) quantization: Option<Quantization>,
    /// Offset in the model's file.
    pub(crate) at: u64,
}

/// What integers stand for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quantization {
    pub(crate) bits: u64,
    pub(crate) scales: Vec<f32>,
    pub(crate) biases: Vec<f32>,
    pub(crate) table: Option<Vec<f32>>,
}
