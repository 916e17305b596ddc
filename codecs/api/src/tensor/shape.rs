//! The lengths of a tensor's axes.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

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
            .try_fold(1u64, |product, dim| product_of(product, *dim))
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

/// `a * b` if it fits. Most lengths are short: then a processor without products of 128 bits, such as WebAssembly's, is spared one.
fn product_of(a: u64, b: u64) -> Option<u64> {
    match (a | b) >> 32 {
        0 => Some(a.wrapping_mul(b)),
        _ => a.checked_mul(b),
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
}
