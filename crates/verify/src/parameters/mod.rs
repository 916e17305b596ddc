//! The tensors of a checkpoint as parameters of the forward pass.

mod error_bounds;
mod integers;
mod numbers;
mod rounded;
mod source;
mod storage;

pub(crate) use error_bounds::ErrorBounds;
pub(crate) use integers::StoredIntegers;
pub(crate) use rounded::{Rounded, RoundedParameters};
pub use source::SourceParameters;
pub(crate) use storage::{Storage, StorageError, UNIT};
