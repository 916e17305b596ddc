//! Writes a file whose arrays are those that were read.

use crate::format::NAMESPACE;
use crate::read::parse;
use ckpt_api::{Checkpoint, File, Limit, Limits, OutputFile, OutputLayout, TensorId};
use ckpt_containers::structure::Structure;
use std::sync::Arc;

/// The layout of the file that the checkpoint was read from; `None` if there is none, or it is not the same any more.
pub(super) fn place(checkpoint: &Checkpoint, name: &str) -> Option<OutputLayout> {
    let structure = Arc::new(Structure::kept(&checkpoint.metadata, NAMESPACE)?);
    let file = File::new(structure.clone(), name).ok()?;
    let unlimited = Limits::default().with(Limit::HeaderBytes, u64::MAX).with(Limit::Tensors, u64::MAX);
    let before = parse(&file, &unlimited).ok()?.contents;
    let ids = checkpoint.by_name();
    let mut placements = Vec::with_capacity(before.placements.len());
    for (tensor, placement) in before.checkpoint.tensors.iter().zip(&before.placements) {
        let id = *ids.get(tensor.name.as_str())?;
        let own = checkpoint.tensors.get(id.0)?;
        (own.dtype == tensor.dtype && own.shape == tensor.shape).then_some(())?;
        placements.push(placement.clone().with_tensor(TensorId(id.0)));
    }
    // Further tensors need a new file.
    (checkpoint.tensors.len() == placements.len()).then_some(())?;
    let layout = OutputLayout::default()
        .with_files(vec![OutputFile::new(name, structure.file_len()?)])
        .with_placements(placements)
        .with_literals(structure.to_literals())
        .with_working_memory(structure.bytes.len() as u64);
    layout.check(checkpoint).ok().map(|()| layout)
}
