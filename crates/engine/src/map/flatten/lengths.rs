//! Lengths of axes, and the names of layers.

use ckpt_api::{Axis, Shape, Tensor};

/// The length of an axis, if the tensor has it.
pub(super) fn axis_len(tensor: &Tensor, axis: Axis) -> Option<u64> {
    let index = tensor.axes.as_ref()?.iter().position(|own| *own == axis)?;
    tensor.shape.get(index).copied()
}

/// The number of inputs of a layer: along the input axis of a matrix, or of a vector the whole.
pub(super) fn input_len(tensor: &Tensor) -> Option<u64> {
    axis_len(tensor, Axis::In)
        .or_else(|| Some(&tensor.shape).filter(|shape| shape.rank() == 1).map(Shape::elements))
}

/// The part of a tensor's name that names its layer.
pub(super) fn layer_of(name: &str) -> &str {
    let end = name.rfind(['/', '.']).or_else(|| name.rfind('_')).unwrap_or(0);
    name.get(..end).unwrap_or_default()
}
