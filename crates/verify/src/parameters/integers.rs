//! Quantized tensors as the integers that are stored.

use super::source::SourceParameters;
use ckpt_api::{OpSpec, Quantization, Result, Tensor};
use ckpt_forward::{Array, Parameters};
use std::collections::HashMap;

/// The parameters of a checkpoint, quantized tensors as integers with their scales; all others as [`SourceParameters`]
/// has them.
pub(crate) struct StoredIntegers<'a> {
    parameters: &'a SourceParameters<'a>,
    quantized: HashMap<&'a str, Tensor>,
}

impl<'a> StoredIntegers<'a> {
    pub(crate) fn new(parameters: &'a SourceParameters<'a>) -> Self {
        let quantized = |name: &'a str| {
            let (tensor, storage) = parameters.stored(name)?;
            let quantization = Quantization::Units { scale: storage.scaling?.scale };
            Some((name, tensor.clone().with_dtype(storage.dtype).with_quantization(Some(quantization))))
        };
        StoredIntegers { quantized: parameters.names().filter_map(quantized).collect(), parameters }
    }
}

impl Parameters for StoredIntegers<'_> {
    fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.quantized.get(name).or_else(|| self.parameters.tensor(name))
    }

    fn load(&self, name: &str) -> Result<Array> {
        let loaded = self.parameters.load(name)?;
        match (loaded, self.quantized.get(name).and_then(Tensor::scale)) {
            (Array::F32(values), Some(scale)) => {
                let scale = f64::from(scale.get());
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "the value is an integer of at most 32 bits, divided by the scale"
                )]
                let integer = |value: f32| (f64::from(value) * scale).round() as i32;
                Ok(Array::I32(values.into_iter().map(integer).collect()))
            }
            (loaded, _) => Ok(loaded),
        }
    }

    fn op(&self, name: &str) -> Option<OpSpec> {
        self.parameters.op(name)
    }
}
