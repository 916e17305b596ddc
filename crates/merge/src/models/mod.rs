//! Merges of models with each other.

mod given;
mod merge;
mod method;
mod outputs;
mod parameters;
mod slices;
mod statistics;
mod sums;

pub use given::{Model, Settings, merge_models};
pub use method::Method;
pub(crate) use parameters::{Constant, Parameters, Placed, Setting};
pub(crate) use slices::{Input, Merge, Slice};
