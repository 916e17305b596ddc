//! The elements of values as integers.

use crate::Array;
use crate::value::Value;

/// Returns the elements as integers; none for real numbers.
pub(super) fn integers(value: &Value) -> Vec<i64> {
    match &value.array {
        Array::I32(values) => values.iter().copied().map(i64::from).collect(),
        _ => Vec::new(),
    }
}
