//! What a file lacks of its model, and what of it is not read.

use crate::container::Saved;
use crate::object::walk::Found;
use crate::tensor::call::is_tensor;
use crate::tensor::view::Distributed;
use ckpt_api::{Loss, LossKind, Tensor, count};
use ckpt_containers::pickle::Tree;
use std::collections::HashMap;

/// The losses of reading one file; `meta` has the names of tensors without data.
pub(super) fn of(saved: &Saved, found: &Found, tensors: &[Tensor], meta: Vec<String>) -> Vec<Loss> {
    // Where nothing else is left, what is left out are the weights.
    let left_out = if tensors.is_empty() { LossKind::WeightDropped } else { LossKind::MetadataDropped };
    let attribute = |name: &String| {
        Loss::new(
            left_out,
            name,
            "tensors that are neither parameters nor buffers: no part of the state dict",
        )
    };
    let without_data = |name| Loss::new(LossKind::Partial, name, "stored without data (device meta)");
    let mut losses: Vec<Loss> = found.attributes.iter().map(attribute).collect();
    let constants = saved.constants.as_ref().map_or(0, tensors_in);
    if constants > 0 {
        let constants = count(constants, "tensor");
        losses.push(Loss::new(
            left_out,
            "constants.pkl",
            format!("{constants} among the constants of the code not read"),
        ));
    }
    losses.extend(meta.into_iter().map(without_data));
    losses
}

/// How many tensors a pickle makes.
fn tensors_in(tree: &Tree) -> usize {
    tree.ids().filter_map(|id| tree.object(id)).filter(|object| is_tensor(tree, *object)).count()
}

/// The losses of distributed tensors of which a file has a part.
pub(super) fn of_parts(tensors: &[Tensor], parts: &HashMap<String, Distributed>) -> Vec<Loss> {
    let loss = |tensor: &Tensor| {
        let Distributed { whole, placements, .. } = parts.get(tensor.name.as_str())?;
        let detail = format!(
            "the part {} of a DTensor of shape {whole}, {placements}; name the directory with the files of all ranks, \
             model_world_size_N_rank_R.pt",
            tensor.shape
        );
        Some(Loss::new(LossKind::Partial, &tensor.name, detail))
    };
    tensors.iter().filter_map(loss).collect()
}
