//! The files of a model that was read, if they can be written as they were.

use super::again::read_again;
use super::target::{Target, add_model, dtypes};
use crate::format::manifest::{self, Weight};
use crate::format::{FILES, KEY_LENS, KEY_MODEL, MANIFEST, MODEL};
use ckpt_api::{
    Checkpoint, DType, Encoding, Extent, FileId, Limits, MetadataValue, OutputFile, OutputLayout, Placement,
    Role, Tensor, TensorId,
};
use serde_json::Value;
use std::collections::HashSet;

/// Lays out the files as they were read: the same text of the model's file, and the same shards. `None` if the tensors are not
/// those of the manifest, if one is stored in another dtype or in several files, and if the output is a file.
pub(super) fn lay_out(checkpoint: &Checkpoint, name: &str) -> Option<OutputLayout> {
    let target = Target::new(name);
    let text = checkpoint.metadata.text(FILES, KEY_MODEL).filter(|_| target.stem.is_none())?;
    let lens = checkpoint.metadata.value(FILES, KEY_LENS)?.as_list()?;
    let value: Value = serde_json::from_str(text).ok()?;
    let groups = manifest::parse(value.get(MANIFEST)?, &Limits::default()).ok()?;
    let mut lens = lens.iter().map(MetadataValue::as_u64);
    let by_name = checkpoint.by_name();
    let (mut placed, mut names) = (OutputLayout::default(), HashSet::from([MODEL.to_owned()]));
    for group in &groups {
        let mut files = Vec::with_capacity(group.files.len());
        for path in &group.files {
            if !names.insert(path.clone()) {
                return None;
            }
            files.push((FileId(placed.files.len()), lens.next()??));
            placed.files.push(OutputFile::new(target.file(path), files.last()?.1));
        }
        let mut files = files.into_iter().peekable();
        let mut at = 0u64;
        for weight in &group.weights {
            let (id, tensor) = by_name.get(weight.name.as_str()).and_then(|id| {
                Some((*id, checkpoint.tensors.get(id.0)?)).filter(|(_, tensor)| is_same(tensor, weight))
            })?;
            let encoding = Encoding::row_major(tensor);
            let len = encoding.stored_len(tensor.shape.elements())?;
            while files.peek().is_some_and(|(_, own)| at == *own) {
                (at, _) = (0, files.next());
            }
            let extents = match len {
                0 => Vec::new(),
                _ => {
                    let (file, own) = files.peek()?;
                    let end = at.checked_add(len).filter(|end| end <= own)?;
                    vec![Extent::new(*file, std::mem::replace(&mut at, end), len)]
                }
            };
            placed.placements.push(Placement::new(id, weight.name.as_str(), extents, encoding));
        }
        // Bytes that belong to no weight would become zeros.
        if files.next().is_some_and(|(_, own)| own != at) || files.any(|(_, own)| own != 0) {
            return None;
        }
    }
    let is_whole = lens.next().is_none() && placed.placements.len() == checkpoint.tensors.len();
    if !is_whole || !comes_back(&placed, checkpoint, &value) {
        return None;
    }
    add_model(&mut placed, &target, text.to_owned());
    Some(placed)
}

/// The members of the model's file that was read, and its weights in their order, if the checkpoint still has these weights: their
/// layers or their graph are written again, whatever the shards are. `None` otherwise.
pub(super) fn members(checkpoint: &Checkpoint) -> Option<(Value, Vec<TensorId>)> {
    let text = checkpoint.metadata.text(FILES, KEY_MODEL)?;
    let value: Value = serde_json::from_str(text).ok().filter(Value::is_object)?;
    let groups = manifest::parse(value.get(MANIFEST)?, &Limits::default()).ok()?;
    let by_name = checkpoint.by_name();
    let mut ids = Vec::new();
    let mut placed = OutputLayout::default();
    for weight in groups.iter().flat_map(|group| &group.weights) {
        let id = *by_name.get(weight.name.as_str())?;
        let tensor = checkpoint.tensors.get(id.0)?;
        let is_same = weight.shape == tensor.shape
            && dtypes(tensor.dtype, false).is_some_and(|(dtype, _)| dtype == weight.dtype);
        if !is_same {
            return None;
        }
        let encoding = Encoding::row_major(tensor);
        placed.placements.push(Placement::new(id, weight.name.as_str(), Vec::new(), encoding));
        ids.push(id);
    }
    let is_whole = ids.len() == checkpoint.tensors.len() && comes_back(&placed, checkpoint, &value);
    is_whole.then_some((value, ids))
}

/// Whether the text states what the checkpoint has: a mapping or an architecture file may have changed that.
fn comes_back(placed: &OutputLayout, checkpoint: &Checkpoint, model: &Value) -> bool {
    let Ok(again) = read_again(placed, checkpoint, model) else { return false };
    let same = |(placement, again): (&Placement, &Tensor)| {
        let own = checkpoint.tensors.get(placement.tensor.0);
        own.is_some_and(|own| (&own.axes, own.role, &own.slot) == (&again.axes, again.role, &again.slot))
    };
    again.checkpoint.graph == checkpoint.graph
        && placed.placements.iter().zip(&again.checkpoint.tensors).all(same)
}

/// Whether a tensor is stored as the manifest states it.
fn is_same(tensor: &Tensor, weight: &Weight) -> bool {
    let is_state = matches!(tensor.role, Role::Optimizer | Role::Counter);
    weight.quantization.is_none()
        && weight.dtype == tensor.dtype
        && weight.shape == tensor.shape
        && weight.dtype != DType::String
        && (!weight.is_of_optimizer || is_state)
}
