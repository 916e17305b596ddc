//! Reads the parameters of a graph from an opened checkpoint.

use super::numbers::Decoder;
use super::storage::Storage;
use ckpt_api::{
    Blocks, Error, OpSpec, Operation, Placement, Result, Rounding, Scalar, Scaling, Tensor, TensorId, text,
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
}

impl<'a> SourceParameters<'a> {
    /// Creates the parameters of `source`. A tensor that takes more than `memory` bytes is refused before it is read.
    pub fn new(source: &'a Source, memory: u64) -> Self {
        SourceParameters { source, ids: source.checkpoint().by_name(), memory, formats: None }
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

impl Parameters for SourceParameters<'_> {
    fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.ids.get(name).and_then(|id| self.source.checkpoint().tensors.get(id.0))
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
        Ok(decoder.finish())
    }

    fn op(&self, name: &str) -> Option<OpSpec> {
        self.formats?.op(name).copied()
    }
}
