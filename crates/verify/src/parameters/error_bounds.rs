//! Bounds on the errors of tensors, in place of their values.

use super::source::SourceParameters;
use super::storage::StorageError;
use ckpt_api::{OpSpec, Result, Tensor};
use ckpt_forward::{Array, Parameters};
use std::collections::HashMap;

/// Parameters whose values are the bounds on their storage errors, `Δw`.
///
/// A sum of products of `|x|` with these bounds the error that storage causes in the result.
pub(crate) struct ErrorBounds<'a> {
    pub(crate) parameters: &'a SourceParameters<'a>,
    /// By name; a tensor that is absent is exact.
    pub(crate) errors: &'a HashMap<String, StorageError>,
}

impl Parameters for ErrorBounds<'_> {
    fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.parameters.tensor(name)
    }

    fn load(&self, name: &str) -> Result<Array> {
        let error = self.errors.get(name).copied().unwrap_or_default();
        match self.parameters.load(name)? {
            // Integers are stored exactly; the scale that divides them is no part of the tensor.
            Array::I32(values) => Ok(Array::I32(vec![0; values.len()])),
            values => {
                let bound = |value: f64| if error == StorageError::default() { 0.0 } else { error.of(value) };
                Ok(Array::F64(values.to_f64().into_iter().map(bound).collect()))
            }
        }
    }

    fn op(&self, name: &str) -> Option<OpSpec> {
        self.parameters.op(name)
    }
}
