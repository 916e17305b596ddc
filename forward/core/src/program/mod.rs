//! Graphs whose shapes are known, lowered to kernels and ready to run.

mod bounds;
mod build;
mod control;
mod enclosed;
mod magnitude;
mod memory;
mod normalization;
mod propagate;
mod random_inputs;
mod recurrence;
mod run;
mod shapes;
mod step;

pub use bounds::Bounds;
pub use build::{NodeInfo, Program, ValueInfo};
pub use magnitude::Magnitude;
pub use memory::DEFAULT_MEMORY;
pub use run::Observer;
pub use shapes::{default_shapes, shapes_of_length};
