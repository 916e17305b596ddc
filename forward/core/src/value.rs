//! Values between nodes, and the source of the tensors that nodes are bound to.

use crate::{Arithmetic, Array, Element};
use ckpt_api::{Error, OpSpec, Result, Tensor};

/// Row-major numbers with a shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Length of each axis.
    pub shape: Vec<usize>,
    /// The elements; as many as the shape has.
    pub array: Array,
}

impl Value {
    /// Creates a value.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if the array has another number of elements than the shape.
    pub fn new(shape: impl Into<Vec<usize>>, array: Array) -> Result<Self> {
        let shape = shape.into();
        if count(&shape) != Some(array.len()) {
            return Err(Error::usage("a value has a different number of elements than its shape")
                .found(array.len().to_string())
                .expected(format!("the elements of {shape:?}")));
        }
        Ok(Value { shape, array })
    }
}

/// The kind of a value's elements, independent of a backend's types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Numbers {
    /// Real numbers, in a backend's [`Arithmetic`].
    Real,
    /// Integers: indices, or results of quantized arithmetic.
    Integer,
}

impl Numbers {
    /// Returns the type of such an element in a buffer.
    pub fn element(self, arithmetic: Arithmetic) -> Element {
        match self {
            Numbers::Real => arithmetic.element(),
            Numbers::Integer => Element::I32,
        }
    }
}

/// The source of what a program's nodes are bound to: tensors, and definitions of operators.
pub trait Parameters {
    /// Returns the description of a tensor.
    fn tensor(&self, name: &str) -> Option<&Tensor>;

    /// Reads a tensor's elements, row-major in [`Tensor::shape`]: [`Array::F64`] or [`Array::F32`] for floating-point
    /// types, [`Array::I32`] for integers of up to 32 bits, as stored (not divided by a scale).
    ///
    /// # Errors
    /// Whatever keeps the tensor from being read.
    fn load(&self, name: &str) -> Result<Array>;

    /// Returns the definition of an operator that a codec registers. By default, there are none.
    fn op(&self, name: &str) -> Option<OpSpec> {
        let _ = name;
        None
    }
}

/// Returns the number of elements of a shape; `None` if its nonempty axes alone have more than 2⁴⁸ (2²⁸ where addresses
/// have 32 bits), so that strides never overflow.
pub(crate) fn count(shape: &[usize]) -> Option<usize> {
    const MAX: usize = 1 << if usize::BITS < 64 { 28 } else { 48 };
    let product = shape
        .iter()
        .filter(|len| **len != 0)
        .try_fold(1usize, |product, len| product.checked_mul(*len).filter(|product| *product <= MAX))?;
    Some(if shape.contains(&0) { 0 } else { product })
}
