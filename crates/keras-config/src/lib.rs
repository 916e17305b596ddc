//! The configuration of a model: layers, how they are connected, and their options.
//!
//! [`Model::parse`] reads the JSON of Keras 3, of Keras 2 and `tf_keras`, and of Keras 1 if it has the same form.
//! [`Model::variables`] lists the variables in the order of the layers, and [`Model::graph`] lowers the layers to
//! operators.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod calls;
mod einsum;
pub mod json;
mod kernels;
mod layer;
mod lower;
mod model;
mod naming;
mod optimizer;
mod parse;
mod policies;
mod quantized;
#[cfg(test)]
mod tests;
mod training;
mod variables;
mod write;

pub use calls::TensorRef;
pub use lower::NoGraph;
pub use model::{Generation, Layer, Model, Optimizer, Structure};
pub use optimizer::OptimizerVariable;
pub use quantized::Quantized;
pub use training::training_only;
pub use variables::{Variable, Variables};
pub use write::{Described, DescribedVariable};
