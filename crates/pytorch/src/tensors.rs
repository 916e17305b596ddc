//! What a graph's layers know of their tensors.

use ckpt_api::{Axis, Node, Shape, Tensor};
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

    /// The length of an axis of the tensor that has this role in a node.
    pub(super) fn axis(&self, node: &Node, role: &str, axis: Axis) -> Option<u64> {
        let tensor = self.get(node.parameters.get(role)?)?;
        tensor.shape.get(tensor.axis(axis)?).copied()
    }

    /// The lengths of a node's kernel, in the order of images: planes, rows, columns.
    pub(super) fn window(&self, node: &Node) -> Option<Vec<u64>> {
        let tensor = self.get(node.parameters.get("weight")?)?;
        let sides = window_axes(tensor);
        let lens = sides.into_iter().map(|axis| tensor.shape.get(axis).copied());
        lens.collect()
    }
}

/// Where the axes of a kernel's window are, in the order of images.
pub(super) fn window_axes(tensor: &Tensor) -> Vec<usize> {
    [Axis::KernelZ, Axis::KernelY, Axis::KernelX].into_iter().filter_map(|axis| tensor.axis(axis)).collect()
}
