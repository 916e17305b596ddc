//! Values that flow between nodes, and the tensors that nodes are bound to.

use crate::{Arithmetic, Array, Element};
use ckpt_api::{Error, Result, Tensor};

/// Numbers with a shape, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Length of each axis.
    pub shape: Vec<usize>,
    /// As many elements as the shape has.
    pub array: Array,
}

impl Value {
    /// A value whose array has as many elements as its shape says.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] where it has not.
    pub fn new(shape: impl Into<Vec<usize>>, array: Array) -> Result<Self> {
        let shape = shape.into();
        if count(&shape) != Some(array.len()) {
            return Err(Error::usage("a value has not as many elements as its shape says")
                .found(array.len().to_string())
                .expected(format!("the elements of {shape:?}")));
        }
        Ok(Value { shape, array })
    }
}

/// What a value's elements are, whatever a backend holds them in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Numbers {
    /// Real numbers, in a backend's [`Arithmetic`].
    Real,
    /// Integers: indices, or what quantized arithmetic computes.
    Integer,
}

impl Numbers {
    /// What one is in a buffer.
    pub fn element(self, arithmetic: Arithmetic) -> Element {
        match self {
            Numbers::Real => arithmetic.element(),
            Numbers::Integer => Element::I32,
        }
    }
}

/// Where a program finds the tensors that its nodes are bound to.
pub trait Parameters {
    /// What the checkpoint says of the tensor with this name.
    fn tensor(&self, name: &str) -> Option<&Tensor>;

    /// Its elements, row-major in [`Tensor::shape`]: [`Array::F64`] or [`Array::F32`] for floating-point types,
    /// [`Array::I32`] for integers of up to 32 bits (as they are stored: not divided by a scale).
    ///
    /// # Errors
    /// What reading them reports.
    fn load(&self, name: &str) -> Result<Array>;
}

/// Elements of a shape, where they can be counted without its empty axes: then no stride overflows.
pub(crate) fn count(shape: &[usize]) -> Option<usize> {
    const MOST: usize = 1 << 48;
    let product = shape
        .iter()
        .filter(|len| **len != 0)
        .try_fold(1usize, |product, len| product.checked_mul(*len).filter(|product| *product <= MOST))?;
    Some(if shape.contains(&0) { 0 } else { product })
}
