//! Tensors with the numbers that another checkpoint stores for them.

use super::source::SourceParameters;
use ckpt_api::{DType, OpSpec, Result, Tensor};
use ckpt_engine::transform::{cast, for_each_number};
use ckpt_forward::{Array, Parameters};
use std::collections::HashMap;

/// Parameters whose values are rounded to the floating-point types in which the second checkpoint stores them.
pub(crate) struct RoundedParameters<'a> {
    pub(crate) parameters: &'a SourceParameters<'a>,
    /// By name; a tensor that is absent keeps its numbers.
    pub(crate) dtypes: &'a HashMap<String, DType>,
}

impl Parameters for RoundedParameters<'_> {
    fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.parameters.tensor(name)
    }

    fn load(&self, name: &str) -> Result<Array> {
        let array = self.parameters.load(name)?;
        let Some(to) = self.dtypes.get(name).filter(|_| !matches!(array, Array::I32(_))) else {
            return Ok(array);
        };
        let values = array.to_f64();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut stored = Vec::new();
        cast(DType::F64, *to, 0, &bytes, &mut stored)?;
        let mut rounded = Vec::with_capacity(values.len());
        for_each_number(*to, &stored, |number| rounded.push(number));
        Ok(Array::F64(rounded))
    }

    fn op(&self, name: &str) -> Option<OpSpec> {
        self.parameters.op(name)
    }
}
