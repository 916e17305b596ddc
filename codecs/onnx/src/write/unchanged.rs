//! Writes a model whose tensors and graph are those that were read.

use super::locations::{external_name, renamed};
use super::read_back::read_back;
use crate::format::NAMESPACE;
use crate::read::Parsed;
use ckpt_api::{
    Checkpoint, Error, Extent, Loss, LossKind, OutputFile, OutputLayout, Placement, Result, Role, Tensor,
    TensorId, first_few,
};
use ckpt_containers::structure::Structure;
use std::collections::HashMap;
use std::sync::Arc;

/// Files that a loss names.
const SHOWN: usize = 3;
/// Bytes between tensors of external data at most: writers align the larger ones to so many.
const MOST_PADDING: u64 = 1 << 16;

/// The layout of the model that the checkpoint was read from; `None` if there is none, or it is not the same any more.
/// Files of external data get the names that follow from the output's.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for external data that is no tensor's.
pub(super) fn place(checkpoint: &Checkpoint, name: &str) -> Result<Option<OutputLayout>> {
    let Some(structure) = Structure::kept(&checkpoint.metadata, NAMESPACE).map(Arc::new) else {
        return Ok(None);
    };
    let Ok(read) = read_back(&structure, name) else { return Ok(None) };
    let Some(layout) = laid_out(checkpoint, &structure, &read, name) else { return Ok(None) };
    let Some(structure) = renamed(&structure, &read, name)?.map(Arc::new) else { return Ok(Some(layout)) };
    let read = read_back(&structure, name)?;
    let layout = laid_out(checkpoint, &structure, &read, name).ok_or_else(|| {
        Error::defect("the model is another one when its files of external data have other names")
    })?;
    let files: Vec<&str> = layout.files.iter().skip(1).map(|file| file.name.as_str()).collect();
    let detail = format!("files of external data are named after the output: {}", first_few(&files, SHOWN));
    Ok(Some(layout.with_losses(vec![Loss::new(LossKind::NamesDropped, "external data", detail)])))
}

fn laid_out(
    checkpoint: &Checkpoint,
    structure: &Structure,
    read: &Parsed,
    name: &str,
) -> Option<OutputLayout> {
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
    let files = files(structure, read.files.len(), &placements, name)?;
    Some(
        OutputLayout::default()
            .with_files(files)
            .with_placements(placements)
            .with_literals(structure.to_literals())
            // The structure, beside the metadata and the literals.
            .with_working_memory(structure.bytes.len() as u64),
    )
}

fn is_same(own: &Tensor, before: &Tensor) -> bool {
    own.dtype == before.dtype
        && own.shape == before.shape
        && own.axes == before.axes
        && own.quantization.is_none()
        && own.slot.is_none()
}

/// The model and the files of its external data; `None` if tensors share bytes, or are far apart.
fn files(
    structure: &Structure,
    count: usize,
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
    let mut files = vec![OutputFile::new(name, structure.file_len()?)];
    let mut ends = vec![(0u64, MOST_PADDING); count];
    for extent in extents {
        let (end, most) = ends.get_mut(extent.file.0)?;
        *end = extent.offset.checked_add(extent.len)?;
        *most = most.checked_add(extent.len)?.checked_add(MOST_PADDING)?;
    }
    for (number, (end, most)) in ends.into_iter().enumerate().skip(1) {
        (end <= most).then_some(())?;
        files.push(OutputFile::new(external_name(name, number), end));
    }
    Some(files)
}
