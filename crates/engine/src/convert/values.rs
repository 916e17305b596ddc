//! The values of mapped tensors, for codecs that need them before they place tensors.

use crate::execute::TensorStream;
use crate::layout::{TargetLayout, compile};
use crate::plan::too_little_memory;
use crate::resources::Budget;
use crate::source::Source;
use ckpt_api::{Contents, DType, Encoding, Input, Result, TensorId, Values};

/// Tensors as a mapping made them, and the source that has their bytes.
pub(super) struct SourceValues<'a> {
    pub(super) source: &'a Source,
    pub(super) contents: &'a Contents,
    pub(super) max_memory: u64,
}

impl Values for SourceValues<'_> {
    fn input(&self) -> &Input {
        &self.source.input
    }

    fn numbers(&self, tensor: TensorId, each: &mut dyn FnMut(&[f32])) -> Result<()> {
        let budget =
            Budget::of(self.max_memory).ok_or_else(|| too_little_memory(self.max_memory, Budget::LEAST))?;
        let (tensor, placement) = self.contents.tensor_at(tensor)?;
        let floats = Encoding::row_major(tensor).with_dtype(DType::F32);
        let route = compile(tensor, placement, &TargetLayout::read(&floats), &[])?;
        let transfer = route.into_transfer(tensor, placement, &floats);
        let mut stream = TensorStream::whole(self.source.files(), transfer, budget)?;
        let mut numbers = Vec::new();
        while let Some(bytes) = stream.read_next()? {
            numbers.clear();
            numbers.extend(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
            each(&numbers);
        }
        Ok(())
    }
}
