//! The architecture file: what a checkpoint's own format does not record about its graph.
//!
//! A file that describes a chain of layers is an [`Architecture`]; its JSON Schema is
//! `schemas/architecture.schema.json`. A file whose `format` names a format is that codec's own
//! ([`Options::architecture`](crate::Options::architecture)).

mod bind;
mod fields;
mod file;
mod json_tokens;
mod layers;
mod syntax;
#[cfg(test)]
mod tests;

pub use file::ArchitectureFile;
pub use layers::{Architecture, ArchitectureLayer, ConvolutionWindow, Padding, WeightedLayer};
