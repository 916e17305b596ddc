//! Recipes: how a target tensor is made of source tensors. Every step of a recipe has an inverse.
//!
//! A mapping assigns recipes; the map stage carries them out.

mod dequantize;
mod limits;
mod reshape;
mod step;
mod target;
mod transform;

pub use dequantize::{Dequantize, ScaledFormat};
pub(crate) use limits::MAX_AXES;
pub use reshape::{Length, Reshape};
pub use step::{AxisStep, Factor, FlattenedImage};
pub use target::{Division, Join, PartOf, Parts, Piece, Place, Recipe, Target};
pub use transform::Transform;
pub(crate) use transform::as_usage;
