//! Reads the parameters of a graph from an opened checkpoint.

use super::numbers::Decoder;
use super::storage::Storage;
use ckpt_api::{
    Affine, Blocks, DType, Error, OpSpec, Operation, Placement, Quantization, Result, Rounding, Scalar,
    Scaling, Shape, Tensor, TensorId, text,
};
use ckpt_engine::formats::Formats;
use ckpt_engine::settings;
use ckpt_engine::source::Source;
use ckpt_forward::{Array, Parameters};
use std::collections::HashMap;

/// The tensors of an opened checkpoint, read when they are needed.
pub struct SourceParameters<'a> {
    source: &'a Source,
    ids: HashMap<&'a str, TensorId>,
    memory: u64,
    formats: Option<&'a Formats>,
    /// Integers with scales, described as the numbers that they stand for.
    numbers: HashMap<&'a str, Tensor>,
}

impl<'a> SourceParameters<'a> {
    /// Creates the parameters of `source`. A tensor that takes more than `memory` bytes is refused before it is read.
    pub fn new(source: &'a Source, memory: u64) -> Self {
        let described = |tensor: &'a Tensor| {
            tensor.quantization.as_ref()?.affine()?;
            Some((tensor.name.as_str(), tensor.clone().with_dtype(DType::F32).with_quantization(None)))
        };
        let numbers = source.checkpoint().tensors.iter().filter_map(described).collect();
        SourceParameters { source, ids: source.checkpoint().by_name(), memory, formats: None, numbers }
    }

    /// Adds the operators that the codecs of `registry` define.
    #[must_use]
    pub fn with_ops(self, formats: &'a Formats) -> Self {
        SourceParameters { formats: Some(formats), ..self }
    }

    /// Returns the names of all tensors.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.ids.keys().copied()
    }

    /// Returns a tensor and how it is stored.
    pub(crate) fn stored(&self, name: &str) -> Option<(&'a Tensor, Storage)> {
        let id = *self.ids.get(name)?;
        let contents = self.source.contents();
        let (tensor, placement) = (contents.checkpoint.tensors.get(id.0)?, contents.placements.get(id.0)?);
        let encoding = &placement.encoding;
        let own = tensor.scale().map(|scale| Scaling {
            scale,
            // The rounding that made the integers is unknown: assume the coarser one.
            rounding: Rounding::Truncate,
            limit: None,
            each_term: false,
        });
        let scaling = encoding.scaling().or(own);
        Some((
            tensor,
            Storage { dtype: encoding.dtype, blocks: blocks(placement), scaling, added: added(placement) },
        ))
    }
}

/// The blocks that a tensor's numbers are stored in.
fn blocks(placement: &Placement) -> Option<Blocks> {
    let computed = placement.extents.iter().filter_map(|extent| extent.computed());
    let encodings = computed.map(|computed| &computed.encoding).chain([&placement.encoding]);
    encodings.filter_map(|encoding| encoding.blocks()).next().cloned()
}

/// The number that stored numbers are more than the tensor's.
fn added(placement: &Placement) -> Option<Scalar> {
    let computed = placement.extents.iter().filter_map(|extent| extent.computed());
    computed.flat_map(|computed| &computed.operations).find_map(|operation| match operation {
        Operation::Add(term) => Scalar::new(-term.get()),
        _ => None,
    })
}

/// The numbers that integers stand for: each less its zero point, times its scale, in 32-bit floats.
#[expect(
    clippy::cast_possible_truncation,
    reason = "scales are rounded to 32 bits, as interpreters have them"
)]
fn scaled(elements: &Array, shape: &Shape, affine: &Affine) -> Array {
    let after: u64 = match affine.axis() {
        Some(axis) => shape.iter().skip(axis.saturating_add(1)).product(),
        None => shape.elements(),
    };
    let (scales, zero_points) = (affine.scales(), affine.zero_points());
    let number = |(at, element): (usize, f64)| {
        let index = (at as u64).checked_div(after).unwrap_or_default();
        let index = usize::try_from(index).unwrap_or_default().checked_rem(scales.len()).unwrap_or_default();
        let at = |all: &[f64]| all.get(index).copied().unwrap_or_default();
        (element - at(zero_points)) as f32 * at(scales) as f32
    };
    let numbers: Vec<f32> = match elements {
        Array::I32(integers) => {
            integers.iter().map(|integer| f64::from(*integer)).enumerate().map(number).collect()
        }
        Array::F32(floats) => floats.iter().map(|float| f64::from(*float)).enumerate().map(number).collect(),
        Array::F64(floats) => floats.iter().copied().enumerate().map(number).collect(),
    };
    Array::F32(numbers)
}

impl Parameters for SourceParameters<'_> {
    fn tensor(&self, name: &str) -> Option<&Tensor> {
        let stored = || self.ids.get(name).and_then(|id| self.source.checkpoint().tensors.get(id.0));
        self.numbers.get(name).or_else(stored)
    }

    fn load(&self, name: &str) -> Result<Array> {
        let tensor = self.source.tensor(name)?;
        let bytes = tensor.shape().elements().saturating_mul(8);
        if bytes > self.memory {
            return Err(Error::limit("a tensor needs more memory than the forward pass may use")
                .tensor(name)
                .found(format!("{bytes} bytes, counted as f64"))
                .expected(format!("at most {}", self.memory))
                .help(text!["allow more with ", settings::FORWARD_MEMORY]));
        }
        let located = |error: Error| error.tensor(name);
        let len = usize::try_from(tensor.shape().elements()).unwrap_or(usize::MAX);
        let mut decoder = Decoder::new(tensor.dtype(), len).map_err(located)?;
        for chunk in tensor.byte_chunks()? {
            decoder.push(&chunk?).map_err(located)?;
        }
        let elements = decoder.finish();
        match tensor.quantization().and_then(Quantization::affine) {
            Some(affine) => Ok(scaled(&elements, tensor.shape(), affine)),
            None => Ok(elements),
        }
    }

    fn op(&self, name: &str) -> Option<OpSpec> {
        self.formats?.op(name).copied()
    }
}
