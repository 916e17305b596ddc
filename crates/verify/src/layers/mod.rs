//! Compares every layer of two graphs on the same inputs: the first graph's own activations.

mod activations;
mod batch_norm;
mod bounds;
mod comparison;
mod pairing;
mod wiring;

pub(crate) use activations::ReferenceRun;
pub(crate) use comparison::{LayerComparison, LayerResults};
pub(crate) use pairing::{Pair, pair_nodes};
