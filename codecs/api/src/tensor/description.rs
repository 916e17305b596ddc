//! Tensors: a name, a dtype, a shape, and what each axis means.

use crate::{Axis, Blocks, DType, Metadata, Name, Quantization, Role, Shape};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// One named tensor of a checkpoint. Where its bytes are is a [`crate::Placement`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tensor {
    /// Unique within the checkpoint.
    pub name: Name,
    /// Type of the elements.
    pub dtype: DType,
    /// Length of each logical axis.
    pub shape: Shape,
    /// What each axis means, where the format or its convention states it; as many as the shape has axes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub axes: Option<Box<[Axis]>>,
    /// What the tensor is for: decides whether losing it changes what the model computes.
    #[serde(default)]
    pub role: Role,
    /// For dtypes whose elements have a length each (string, variant): the bytes of each element, row-major.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lengths: Option<Box<[u64]>>,
    /// How integers stand for real numbers, if the format states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantization: Option<Quantization>,
    /// The blocks in which the source stores the elements, row-major: a target that has them stores them as they are.
    /// For [`crate::Codec::place`]; the engine fills it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Box<Blocks>>,
    /// Which tensor it is an optimizer's slot of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    // Boxed, for few tensors have one and there can be many thousand.
    pub slot: Option<Box<Slot>>,
    /// What formats record of this tensor alone (its key in another format). Here and not in the checkpoint's metadata,
    /// so that it follows the tensor when a mapping renames it, and goes when the tensor does.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl Tensor {
    /// A weight without axis names.
    pub fn new(name: impl Into<Name>, dtype: DType, shape: Shape) -> Self {
        Tensor {
            name: name.into(),
            dtype,
            shape,
            axes: None,
            role: Role::Weight,
            lengths: None,
            quantization: None,
            blocks: None,
            slot: None,
            metadata: Metadata::default(),
        }
    }

    /// The same tensor with its axes named.
    #[must_use]
    pub fn with_axes(mut self, axes: impl Into<Box<[Axis]>>) -> Self {
        self.axes = Some(axes.into());
        self
    }

    /// The same tensor with another role.
    #[must_use]
    pub fn with_role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Bytes of the values: elements times bytes each, or the sum of the lengths.
    pub fn value_bytes(&self) -> u64 {
        match (self.dtype.bytes(), &self.lengths) {
            (Some(bytes), _) => self.shape.elements() * bytes,
            (None, Some(lengths)) => lengths.iter().fold(0, |sum, len| sum.saturating_add(*len)),
            (None, None) => 0,
        }
    }

    /// The integer that stands for 1.0, if the tensor has [units](Quantization::Units).
    pub fn scale(&self) -> Option<NonZeroU32> {
        match self.quantization {
            Some(Quantization::Units { scale }) => Some(scale),
            _ => None,
        }
    }

    /// Where the axis with this meaning is in the shape.
    pub fn axis(&self, axis: Axis) -> Option<usize> {
        self.axes.as_ref()?.iter().position(|a| *a == axis)
    }

    /// The same tensor under another name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<Name>) -> Self {
        self.name = name.into();
        self
    }

    /// The same tensor with another dtype.
    #[must_use]
    pub fn with_dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }

    /// The same tensor with another shape.
    #[must_use]
    pub fn with_shape(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }

    /// The same tensor with the bytes of each element.
    #[must_use]
    pub fn with_lengths(mut self, lengths: impl Into<Option<Vec<u64>>>) -> Self {
        self.lengths = lengths.into().map(Vec::into_boxed_slice);
        self
    }

    /// The same tensor with what its integers stand for.
    #[must_use]
    pub fn with_quantization(mut self, quantization: impl Into<Option<Quantization>>) -> Self {
        self.quantization = quantization.into();
        self
    }

    /// The same tensor as an optimizer's slot.
    #[must_use]
    pub fn with_slot(mut self, slot: impl Into<Option<Slot>>) -> Self {
        self.slot = slot.into().map(Box::new);
        self
    }

    /// The same tensor with other metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }
}

/// What an optimizer keeps for one tensor that it trains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slot {
    /// Name of the tensor that is trained.
    pub variable: Name,
    /// What is kept, by one name in all formats: Adam's first and second moment are `m` and `v` (and the greatest
    /// second moment `vhat`), gradient descent's velocity is `momentum`; others as their format names them.
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_bytes_of_strings_are_the_sum_of_their_lengths() {
        let mut tensor = Tensor::new("s", DType::String, Shape::new(vec![2]).unwrap());
        tensor.lengths = Some([3, 4].into());
        assert_eq!(tensor.value_bytes(), 7);
    }
}
