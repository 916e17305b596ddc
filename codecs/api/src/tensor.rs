//! Tensors: a name, a dtype, a shape, and what each axis means.

use crate::{Blocks, DType, Error, Metadata, Name, Quantization, Result};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::borrow::Borrow;
use std::fmt;
use std::num::NonZeroU32;
use std::ops::Deref;

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
    /// How integers stand for real numbers, where the format states it.
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

    /// The integer that stands for 1.0, where the tensor has [units](Quantization::Units).
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

/// A shape whose element count is known to fit: at most 2⁵⁹ elements, counted without its empty axes.
///
/// ```
/// use ckpt_api::Shape;
/// let shape = Shape::new(vec![2, 3])?;
/// assert_eq!((shape.rank(), shape.elements()), (2, 6));
/// assert!(Shape::new(vec![1 << 40, 1 << 40]).is_err());
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<u64>", into = "Vec<u64>")]
pub struct Shape(SmallVec<[u64; 2]>);

impl Shape {
    const MAX_ELEMENTS: u64 = 1 << 59;

    /// Checks that the element count cannot overflow, whatever the dtype.
    pub fn new(dims: impl IntoIterator<Item: Borrow<u64>>) -> Result<Self> {
        let dims: SmallVec<[u64; 2]> = dims.into_iter().map(|dim| *dim.borrow()).collect();
        dims.iter()
            .filter(|dim| **dim != 0)
            .try_fold(1u64, |product, dim| product.checked_mul(*dim))
            .filter(|product| *product <= Self::MAX_ELEMENTS)
            .ok_or_else(|| {
                Error::corrupt("the shape has too many elements")
                    .found(format!("{dims:?}"))
                    .expected("at most 2^59 elements")
            })?;
        Ok(Shape(dims))
    }

    /// The shape of one element.
    pub fn scalar() -> Self {
        Shape(SmallVec::new())
    }

    /// Product of the axes; 1 for a scalar.
    pub fn elements(&self) -> u64 {
        self.0.iter().product()
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// This shape with its axes reordered: axis `k` of the result is axis `order[k]` of this one.
    ///
    /// `order` must be a permutation of `0..rank`.
    #[must_use]
    pub fn permuted(&self, order: &[usize]) -> Shape {
        Shape(order.iter().map(|axis| self.0[*axis]).collect())
    }
}

impl Deref for Shape {
    type Target = [u64];
    fn deref(&self) -> &[u64] {
        &self.0
    }
}

impl TryFrom<Vec<u64>> for Shape {
    type Error = Error;
    fn try_from(dims: Vec<u64>) -> Result<Self> {
        Shape::new(dims)
    }
}

impl From<Shape> for Vec<u64> {
    fn from(shape: Shape) -> Self {
        shape.0.into_vec()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.width().is_some() {
            return f.pad(&format!("{:?}", &self[..]));
        }
        f.write_str("[")?;
        for (axis, dim) in self.iter().enumerate() {
            f.write_str(if axis == 0 { "" } else { ", " })?;
            dim.fmt(f)?;
        }
        f.write_str("]")
    }
}

/// What an axis means. A codec labels its axes, a target states which order it wants, and the planner derives
/// the permutation: nobody guesses from shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Axis {
    /// Summed over: input features or channels.
    In,
    /// Produced: output features or channels.
    Out,
    /// Kernel planes, of a three-dimensional window.
    KernelZ,
    /// Kernel rows.
    KernelY,
    /// Kernel columns.
    KernelX,
    /// One of several parameter sets chosen by the input.
    Bucket,
    /// Index into a table of rows (embeddings, sparse features).
    Feature,
    /// Outputs per input channel of a depthwise convolution.
    Multiplier,
    /// The directions of a recurrent layer: forwards, backwards.
    Direction,
    /// An axis of length 1 that a format writes and that means nothing.
    Unit,
}

impl Axis {
    /// The name used in JSON and shown to people.
    pub fn name(self) -> &'static str {
        match self {
            Axis::In => "in",
            Axis::Out => "out",
            Axis::KernelZ => "kernel_z",
            Axis::KernelY => "kernel_y",
            Axis::KernelX => "kernel_x",
            Axis::Bucket => "bucket",
            Axis::Feature => "feature",
            Axis::Multiplier => "multiplier",
            Axis::Direction => "direction",
            Axis::Unit => "unit",
        }
    }
}

/// What a tensor is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// Takes part in the forward pass: losing it changes what the model computes.
    #[default]
    Weight,
    /// An optimizer's slot or hyper-parameter.
    Optimizer,
    /// A step, epoch or save counter.
    Counter,
    /// The format's own bookkeeping (an object graph).
    Bookkeeping,
    /// The same values stored a second time under another name, as Keras 3's export does.
    Duplicate,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 5] =
        [Role::Weight, Role::Optimizer, Role::Counter, Role::Bookkeeping, Role::Duplicate];

    /// The name used in JSON, in mappings and shown to people.
    pub fn name(self) -> &'static str {
        match self {
            Role::Weight => "weight",
            Role::Optimizer => "optimizer",
            Role::Counter => "counter",
            Role::Bookkeeping => "bookkeeping",
            Role::Duplicate => "duplicate",
        }
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
    fn a_shape_that_could_overflow_is_refused_even_behind_an_empty_axis() {
        assert!(Shape::new(vec![0, 1 << 62, 4]).is_err());
        assert_eq!(Shape::new(vec![0, 1618]).unwrap().elements(), 0);
        assert_eq!(Shape::scalar().elements(), 1);
    }

    #[test]
    fn a_shape_from_json_is_checked() {
        assert!(serde_json::from_str::<Shape>("[4294967296, 4294967296]").is_err());
    }

    #[test]
    fn a_role_has_one_name_everywhere() {
        for role in Role::ALL {
            assert_eq!(serde_json::to_string(&role).unwrap(), format!("\"{}\"", role.name()));
        }
    }

    #[test]
    fn value_bytes_of_strings_are_the_sum_of_their_lengths() {
        let mut tensor = Tensor::new("s", DType::String, Shape::new(vec![2]).unwrap());
        tensor.lengths = Some([3, 4].into());
        assert_eq!(tensor.value_bytes(), 7);
    }
}
