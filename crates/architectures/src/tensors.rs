//! The tensors that a template describes.

use super::value::Value;
use ckpt_api::{Error, Result, Tensor, nearest};
use std::collections::HashMap;

/// Most tensors that are counted: a template may count in every step.
const MAX_COUNT: i64 = 1 << 16;

/// The tensors of a checkpoint, by name.
pub(super) struct Tensors<'a>(HashMap<&'a str, &'a Tensor>);

impl<'a> Tensors<'a> {
    pub(super) fn new(tensors: &'a [Tensor]) -> Self {
        Tensors(tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a Tensor> {
        self.0.get(name).copied()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.0.keys().copied()
    }

    /// A tensor that must exist.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`], naming the nearest tensor.
    pub(super) fn required(&self, name: &str) -> Result<&'a Tensor> {
        self.get(name).ok_or_else(|| {
            Error::usage("the architecture needs a tensor that the checkpoint does not have")
                .tensor(name)
                .help(nearest(name, self.names()))
        })
    }

    pub(super) fn length(&self, name: &str, axis: i64) -> Result<Value> {
        let tensor = self.required(name)?;
        let length = usize::try_from(axis).ok().and_then(|axis| tensor.shape.get(axis));
        let length = length.and_then(|length| i64::try_from(*length).ok());
        length.map(Value::Int).ok_or_else(|| {
            Error::usage("the architecture refers to an axis that the tensor does not have")
                .tensor(name)
                .found(format!("shape {}", tensor.shape))
                .expected(format!("an axis {axis}"))
        })
    }

    pub(super) fn rank(&self, name: &str) -> Result<Value> {
        Ok(Value::Int(i64::try_from(self.required(name)?.shape.rank()).unwrap_or(i64::MAX)))
    }

    pub(super) fn count(&self, pattern: &str) -> Result<Value> {
        if !pattern.contains("{}") {
            let error = Error::usage("a name to count has no place for the number");
            return Err(error.found(format!("'{pattern}'")).expected("{} in its place"));
        }
        let exists = |number: &i64| self.get(&pattern.replace("{}", &number.to_string())).is_some();
        Ok(Value::Int((0..MAX_COUNT).find(|number| !exists(number)).unwrap_or(MAX_COUNT)))
    }
}
