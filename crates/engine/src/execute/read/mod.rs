//! Reads tensors: a part at a time, within a budget, every checksum verified.

mod add;
mod agreement;
mod ahead;
mod announce;
mod block_numbers;
mod checks;
mod computing;
mod elementwise;
mod files;
mod gather;
mod lockstep;
mod memory;
mod narrowing;
mod opened;
mod packed_words;
mod products;
mod reductions;
mod row_scales;
mod stream;
mod strided;
#[cfg(test)]
mod tests;

pub(crate) use ahead::Ahead;
pub(crate) use announce::{announce, announce_items};
pub use checks::{Checking, PartialSum, verify_assembled};
pub(crate) use files::Files;
pub(crate) use lockstep::in_lockstep;
pub use stream::TensorStream;
pub(crate) use stream::{Buffers, Piece};
