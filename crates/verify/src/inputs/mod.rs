//! The inputs that both graphs run on.

mod candidates;
mod channels;
pub mod chess;
mod files;
mod idx;
mod values;

pub(crate) use candidates::no_shapes;
pub(crate) use channels::with_channels_last;
pub use files::{InputFile, read_array};
pub use values::Inputs;
