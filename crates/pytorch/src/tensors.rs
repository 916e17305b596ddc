//! What a graph's layers know of their tensors.

use ckpt_api::{Axis, Shape, Tensor};
use std::collections::HashMap;

/// The tensors of a checkpoint, by their names.
pub(super) struct Tensors<'t>(HashMap<&'t str, &'t Tensor>);

impl<'t> Tensors<'t> {
    pub(super) fn new(tensors: &'t [Tensor]) -> Self {
        Tensors(tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&'t Tensor> {
        self.0.get(name).copied()
    }

    pub(super) fn shape(&self, name: &str) -> Option<&'t Shape> {
        self.get(name).map(|tensor| &tensor.shape)
    }
}

/// Where the axes of a kernel's window are, in the order of images.
pub(super) fn window_axes(tensor: &Tensor) -> Vec<usize> {
    [Axis::KernelZ, Axis::KernelY, Axis::KernelX].into_iter().filter_map(|axis| tensor.axis(axis)).collect()
}
