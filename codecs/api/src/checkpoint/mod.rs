//! The intermediate that all codecs share.

mod advice;
mod model;
mod ties;

pub use model::Checkpoint;
pub use ties::Ties;
