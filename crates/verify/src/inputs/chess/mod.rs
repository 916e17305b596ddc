//! Chess positions as inputs of NNUE networks.

mod features;
mod position;

pub use features::{Indices, inputs};
pub use position::Position;
