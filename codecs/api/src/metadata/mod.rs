//! Metadata: what a checkpoint records beside its graph and tensors.

mod json;
mod key;
mod namespaces;
mod size;
#[cfg(test)]
mod tests;
mod value;

pub use namespaces::{KEY_WEIGHTS, Metadata};
pub(crate) use size::Size as MetadataSize;
pub use value::{MetadataMap, MetadataValue};
