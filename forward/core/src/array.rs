//! Arrays in host memory.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Element {
    /// binary32.
    F32,
    /// binary64.
    F64,
    /// 32-bit integer: an index, or a quantized number.
    I32,
}

/// Row-major elements of one type.
#[derive(Clone, Debug, PartialEq)]
pub enum Array {
    /// binary32.
    F32(Vec<f32>),
    /// binary64.
    F64(Vec<f64>),
    /// 32-bit integers.
    I32(Vec<i32>),
}

impl Array {
    /// Creates an array of zeros.
    pub fn zeros(element: Element, len: usize) -> Self {
        match element {
            Element::F32 => Array::F32(vec![0.0; len]),
            Element::F64 => Array::F64(vec![0.0; len]),
            Element::I32 => Array::I32(vec![0; len]),
        }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        match self {
            Array::F32(values) => values.len(),
            Array::F64(values) => values.len(),
            Array::I32(values) => values.len(),
        }
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the type of the elements.
    pub fn element(&self) -> Element {
        match self {
            Array::F32(_) => Element::F32,
            Array::F64(_) => Element::F64,
            Array::I32(_) => Element::I32,
        }
    }

    /// Converts all elements to binary64, which holds them exactly.
    pub fn to_f64(&self) -> Vec<f64> {
        self.as_f64().into_owned()
    }

    /// Returns all elements in binary64, without a copy if they are stored so.
    pub(crate) fn as_f64(&self) -> Cow<'_, [f64]> {
        match self {
            Array::F32(values) => values.iter().map(|value| f64::from(*value)).collect(),
            Array::F64(values) => Cow::Borrowed(values),
            Array::I32(values) => values.iter().map(|value| f64::from(*value)).collect(),
        }
    }

    /// Converts real numbers to `element`; binary64 is rounded to nearest even. Integers stay integers.
    #[must_use]
    pub fn into_real(self, element: Element) -> Self {
        match (self, element) {
            (Array::F32(values), Element::F64) => Array::F64(values.into_iter().map(f64::from).collect()),
            #[expect(clippy::cast_possible_truncation, reason = "the caller asks for rounding to binary32")]
            (Array::F64(values), Element::F32) => {
                Array::F32(values.into_iter().map(|value| value as f32).collect())
            }
            (array, _) => array,
        }
    }
}
