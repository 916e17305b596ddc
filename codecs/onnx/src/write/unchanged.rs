//! Writes a model whose tensors and graph are those that were read.

use super::read_back;
use crate::read::kept::Structure;
use ckpt_api::{
    Checkpoint, Extent, FileId, Literal, OutputFile, OutputLayout, Placement, Role, Tensor, TensorId,
};
use std::collections::HashMap;

/// The layout of the model that the checkpoint was read from; `None` if there is none, or it is not the same any more.
pub(super) fn place(checkpoint: &Checkpoint, name: &str) -> Option<OutputLayout> {
    let structure = Structure::kept(&checkpoint.metadata)?;
    let read = read_back(&structure, name).ok()?;
    let before = &read.contents.checkpoint;
    if before.graph != checkpoint.graph {
        return None;
    }
    let ids: HashMap<&str, usize> =
        checkpoint.tensors.iter().enumerate().map(|(id, tensor)| (tensor.name.as_str(), id)).collect();
    let mut placements = Vec::with_capacity(before.tensors.len());
    for (tensor, placement) in before.tensors.iter().zip(&read.contents.placements) {
        let id = *ids.get(tensor.name.as_str())?;
        checkpoint.tensors.get(id).filter(|own| is_same(own, tensor))?;
        placements.push(placement.clone().with_tensor(TensorId(id)));
    }
    // Weights that the model lacks need a new one.
    let weights = checkpoint.tensors.iter().filter(|tensor| tensor.role == Role::Weight).count();
    let own = placements.iter().filter(|placement| {
        checkpoint.tensors.get(placement.tensor.0).is_some_and(|tensor| tensor.role == Role::Weight)
    });
    (weights == own.count()).then_some(())?;
    let files = files(&structure, &read.files, &placements, name)?;
    Some(
        OutputLayout::default()
            .with_files(files)
            .with_placements(placements)
            .with_literals(literals(&structure)),
    )
}

/// The bytes of a model between those of its tensors.
pub(super) fn literals(structure: &Structure) -> Vec<Literal> {
    let literals = structure.literals();
    literals
        .into_iter()
        .map(|(offset, bytes)| Literal { file: FileId(0), offset, bytes: bytes.to_vec() })
        .collect()
}

fn is_same(own: &Tensor, before: &Tensor) -> bool {
    own.dtype == before.dtype
        && own.shape == before.shape
        && own.axes == before.axes
        && own.quantization.is_none()
        && own.slot.is_none()
}

/// The model and the files of its external data; `None` where tensors share bytes, or files have one name.
fn files(
    structure: &Structure,
    names: &[String],
    placements: &[Placement],
    name: &str,
) -> Option<Vec<OutputFile>> {
    let mut extents: Vec<&Extent> = placements.iter().flat_map(|placement| &placement.extents).collect();
    extents.sort_by_key(|extent| (extent.file, extent.offset));
    let is_apart = |pair: &[&Extent]| match pair {
        [a, b] => a.file != b.file || a.offset.checked_add(a.len).is_some_and(|end| end <= b.offset),
        _ => true,
    };
    extents.windows(2).all(is_apart).then_some(())?;
    let mut files = vec![OutputFile::new(name, structure.len()?)];
    for (number, file) in names.iter().enumerate().skip(1) {
        (file != name).then_some(())?;
        let own = extents.iter().filter(|extent| extent.file == FileId(number));
        let end = own.map(|extent| extent.offset.saturating_add(extent.len)).max().unwrap_or(0);
        files.push(OutputFile::new(file.as_str(), end));
    }
    Some(files)
}
