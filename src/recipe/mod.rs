//! Recipes: how a target tensor is made of source tensors. Every step of a recipe has an inverse.
//!
//! A mapping assigns recipes; the map stage carries them out.

mod dequantize;
mod reshape;
mod step;
mod target;
mod transform;

pub use dequantize::{Dequantize, ScaledFormat};
pub use reshape::{Length, Reshape};
pub(crate) use step::MAX_AXES;
pub use step::{AxisStep, Factor, FlattenedImage};
pub use target::{Join, PartOf, Parts, Recipe, Target};
pub use transform::Transform;
pub(crate) use transform::as_usage;
