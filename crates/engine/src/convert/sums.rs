//! Tensors that are added to others where these are written.

use crate::map::Addend;
use ckpt_api::{Added, AddedAxis, Contents, DType, Error, Name, OutputLayout, Result, TensorId};
use std::collections::HashMap;

/// Adds the terms of sums to the placements of their targets: they are tensors of the checkpoint, and no tensors of the
/// output.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for a target that is not stored as 32-bit floats.
pub(super) fn add(contents: &mut Contents, placed: &mut OutputLayout, addends: Vec<Addend>) -> Result<()> {
    let ids: HashMap<Name, usize> = contents
        .checkpoint
        .tensors
        .iter()
        .enumerate()
        .map(|(id, tensor)| (tensor.name.clone(), id))
        .collect();
    let places: HashMap<usize, usize> =
        placed.placements.iter().enumerate().map(|(at, placement)| (placement.tensor.0, at)).collect();
    for Addend { target, mut tensor, mut placement } in addends {
        let Some(id) = ids.get(target.as_str()) else { continue };
        let is_plain = contents.checkpoint.tensors.get(*id).is_some_and(|sum| sum.dtype == DType::F32);
        let own = places.get(id).and_then(|at| placed.placements.get_mut(*at)).filter(|_| is_plain);
        let Some(own) = own else {
            return Err(Error::unsupported("a sum of tensors is stored as f32 only")
                .tensor(target)
                .help("convert to f32 first, and to another dtype then"));
        };
        let id = TensorId(contents.checkpoint.tensors.len());
        while ids.contains_key(&tensor.name) {
            tensor.name = format!("{}'", tensor.name).into();
        }
        placement.tensor = id;
        let axes = (0..tensor.shape.rank()).map(AddedAxis::Along).collect();
        own.push_added(Added { tensor: id, axes });
        contents.checkpoint.tensors.push(tensor);
        contents.placements.push(placement);
    }
    Ok(())
}
