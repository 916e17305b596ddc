//! Tensors with the numbers that another checkpoint stores for them.

use super::source::SourceParameters;
use ckpt_api::{Blocks, DType, OpSpec, Result, Tensor};
use ckpt_engine::transform::{cast, for_each_number};
use ckpt_forward::{Array, Parameters};
use std::collections::HashMap;

/// What numbers are rounded to.
#[derive(Clone, Debug)]
pub(crate) enum Rounded {
    Float(DType),
    Blocks(Blocks),
}

/// Parameters whose values are rounded to the floating-point types, or to what blocks hold, in which the second checkpoint stores them.
pub(crate) struct RoundedParameters<'a> {
    pub(crate) parameters: &'a SourceParameters<'a>,
    /// By name; a tensor that is absent keeps its numbers.
    pub(crate) kinds: &'a HashMap<String, Rounded>,
}

impl Parameters for RoundedParameters<'_> {
    fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.parameters.tensor(name)
    }

    fn load(&self, name: &str) -> Result<Array> {
        let array = self.parameters.load(name)?;
        let Some(to) = self.kinds.get(name).filter(|_| !matches!(array, Array::I32(_))) else {
            return Ok(array);
        };
        let values = array.to_f64();
        let to = match to {
            Rounded::Float(dtype) => dtype,
            Rounded::Blocks(blocks) => return in_blocks(blocks, &values),
        };
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

/// The numbers that blocks hold of these.
#[expect(clippy::cast_possible_truncation, reason = "blocks are made of numbers of 32 bits")]
fn in_blocks(blocks: &Blocks, values: &[f64]) -> Result<Array> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect();
    let (mut stored, mut decoded) = (Vec::new(), Vec::new());
    blocks.encode(0, &bytes, &mut stored)?;
    blocks.decode(&stored, &mut decoded)?;
    let numbers = decoded.as_chunks().0.iter().map(|bytes| f64::from(f32::from_le_bytes(*bytes)));
    Ok(Array::F64(numbers.collect()))
}
