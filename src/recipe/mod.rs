//! Recipes: how a target tensor is made of source tensors.
//!
//! A mapping assigns them. `rebuild` carries them out by rewriting placements; no byte is read. Every recipe has an inverse.

mod placed;
mod rebuild;
mod references;
mod step;
mod target;
#[cfg(test)]
mod tests;
mod transform;

pub(crate) use rebuild::rebuild;
pub use step::AxisStep;
pub(crate) use step::MAX_AXES;
pub use target::{Join, Recipe, Target};
pub use transform::Transform;
pub(crate) use transform::transform;
