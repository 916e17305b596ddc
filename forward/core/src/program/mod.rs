//! Graphs whose shapes are known, lowered to kernels and ready to run.

mod bounds;
mod build;
mod control;
mod device;
mod errors;
mod lifetimes;
mod memory;
mod operations;
mod parts;
mod random_inputs;
mod run;
mod shapes;
mod specialize;

pub use bounds::{Bounds, DEFAULT_MEMORY};
pub use build::{NodeInfo, ValueInfo};
pub use errors::Magnitude;
pub use parts::Program;
pub use run::Observer;
pub use shapes::{default_shapes, shapes_of_length};
pub use specialize::specialize;
