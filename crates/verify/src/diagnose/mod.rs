//! Finds the tensor, attribute or mapping rule behind a layer that diverges.

mod causes;
mod elements;
mod layer;
mod names;
mod other_layer;
mod tensors;

pub(crate) use layer::diagnose;
pub(crate) use names::MappedNames;
pub(crate) use other_layer::LayerTensors;
pub(crate) use tensors::Checkpoints;
