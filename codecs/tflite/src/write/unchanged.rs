//! Writes a model whose tensors are those that were read.

use crate::flat::Flat;
use crate::format::NAMESPACE;
use crate::read::Parsed;
use ckpt_api::{Checkpoint, Contents, File, Limit, Limits, OutputFile, OutputLayout, Role, Tensor, TensorId};
use ckpt_containers::structure::Structure;
use std::collections::HashMap;
use std::sync::Arc;

/// The layout of the model that the checkpoint was read from; `None` if there is none, or it is not the same any more.
pub(super) fn place(checkpoint: &Checkpoint, name: &str) -> Option<OutputLayout> {
    let structure = Arc::new(Structure::kept(&checkpoint.metadata, NAMESPACE)?);
    let before = read_back(&structure, name)?;
    (before.checkpoint.graph == checkpoint.graph).then_some(())?;
    let ids: HashMap<&str, usize> =
        checkpoint.tensors.iter().enumerate().map(|(id, tensor)| (tensor.name.as_str(), id)).collect();
    let mut placements = Vec::with_capacity(before.placements.len());
    for (tensor, placement) in before.checkpoint.tensors.iter().zip(&before.placements) {
        let id = *ids.get(tensor.name.as_str())?;
        checkpoint.tensors.get(id).filter(|own| is_same(own, tensor))?;
        placements.push(placement.clone().with_tensor(TensorId(id)));
    }
    // Weights that the model lacks need a new one.
    let weights = checkpoint.tensors.iter().filter(|tensor| tensor.role == Role::Weight).count();
    (weights == placements.len()).then_some(())?;
    let layout = OutputLayout::default()
        .with_files(vec![OutputFile::new(name, structure.file_len()?)])
        .with_placements(placements)
        .with_literals(structure.to_literals())
        .with_working_memory(structure.bytes.len() as u64);
    // Sparse tensors have no place of their own, and some tensors have bytes in common.
    layout.check(checkpoint).ok().map(|()| layout)
}

/// Reads a model that is to be written.
fn read_back(structure: &Arc<Structure>, name: &str) -> Option<Contents> {
    let file = File::new(structure.clone(), name).ok()?;
    let flat = Flat::new(&file);
    let unlimited = Limits::default().with(Limit::HeaderBytes, u64::MAX);
    let mut parsed = Parsed::of(&flat, &unlimited).ok()?;
    parsed.read_graph(&flat);
    Some(parsed.contents)
}

fn is_same(own: &Tensor, before: &Tensor) -> bool {
    own.dtype == before.dtype
        && own.shape == before.shape
        && own.axes == before.axes
        && own.quantization == before.quantization
        && own.slot.is_none()
}
