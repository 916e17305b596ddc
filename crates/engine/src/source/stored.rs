//! Quantized weights of a source: numbers, or the tensors that are stored for them.

use super::{Grouped, OpenOptions, Source};
use crate::formats::{Formats, Quantized};
use ckpt_api::{Contents, DType, Error, Result};
use std::sync::Arc;

impl Source {
    /// How the quantized weights are stored; `None` if there are none, or if their stored tensors are read.
    ///
    /// Their tensors of this source are numbers; [`Source::stored`] has the stored ones.
    pub fn grouped(&self) -> Option<&Grouped> {
        self.grouped.as_deref()
    }

    /// The same checkpoint with the tensors that are stored for its quantized weights.
    #[must_use]
    pub fn stored(&self) -> Source {
        match &self.grouped {
            Some(grouped) => {
                let contents = Arc::clone(grouped.stored());
                let options = OpenOptions { parts: true, ..self.options.clone() };
                Source { contents, options, index: Arc::default(), grouped: None, ..self.clone() }
            }
            None => self.clone(),
        }
    }

    /// The same checkpoint with quantized weights as their libraries round them on the way to `dtype`.
    pub(crate) fn rounded_to(&self, dtype: Option<DType>) -> Source {
        let Some((grouped, dtype)) = self.grouped.as_deref().zip(dtype) else { return self.clone() };
        let mut contents = Contents::clone(&self.contents);
        for (tensor, placement) in contents.checkpoint.tensors.iter().zip(&mut contents.placements) {
            if let Some(rounded) = grouped.rounded(&tensor.name, dtype) {
                *placement = rounded.clone().with_tensor(placement.tensor);
            }
        }
        self.with_contents(contents)
    }

    /// The same checkpoint with the tensors that a scheme stores for its weights.
    ///
    /// # Errors
    /// Those of [`TensorGroups::quantize`](crate::formats::TensorGroups::quantize).
    pub(crate) fn quantized_by(&self, formats: &Formats, scheme: &str) -> Result<Source> {
        let groups =
            formats.groups().ok_or_else(|| Error::usage("no scheme of quantized weights is known"))?;
        let mut contents = Contents::clone(&self.contents);
        let quantized = groups.quantize(scheme, &mut contents, &self.input, &self.options.limits)?;
        contents.check(&self.options.limits)?;
        Ok(Source { quantized: Some(Arc::new(quantized)), ..self.with_contents(contents) })
    }

    /// What a scheme made of the weights on the way to the output; `None` if they stay.
    pub fn quantized(&self) -> Option<&Quantized> {
        self.quantized.as_deref()
    }
}
