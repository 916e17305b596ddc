//! The values of a checkpoint that are no tensors, and their pickles.

use super::keep::{is_from_directory, is_of};
use super::parts::Object;
use super::value;
use crate::format::ID;
use crate::format::keys::{DCP, KEY_INDEX, KEY_MODULES, KEY_OBJECTS};
use crate::write::nesting::{Entry, Nesting, entries};
use ckpt_api::{Checkpoint, Loss, LossKind, MetadataMap, MetadataValue};
use std::collections::HashSet;

/// The values of the checkpoint's metadata. One that has a tensor's name is a loss.
pub(super) fn all(checkpoint: &Checkpoint, nesting: &Nesting, losses: &mut Vec<Loss>) -> Vec<Object> {
    let names: HashSet<&str> = checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let kept = checkpoint.metadata.value(DCP, KEY_OBJECTS).and_then(MetadataValue::as_map);
    let own = checkpoint.metadata.namespace(ID).into_iter().flat_map(MetadataMap::iter);
    let mut objects = Vec::new();
    for (name, value) in own.filter(|(name, _)| ![KEY_MODULES, KEY_INDEX].contains(name)) {
        let steps = nesting.steps(name);
        // What a directory had as one value stays one.
        let entries = match is_from_directory(checkpoint) {
            true => vec![Entry { name: name.to_owned(), steps, value }],
            false => entries(name, steps, value),
        };
        for Entry { name, steps, value } in entries {
            if names.contains(name.as_str()) {
                losses.push(Loss::new(LossKind::MetadataDropped, name, "a tensor has its name"));
                continue;
            }
            let kept = kept.and_then(|kept| kept.get(&name)).and_then(MetadataValue::as_bytes);
            let again = kept.filter(|pickle| is_of(pickle, value)).map(<[u8]>::to_vec);
            objects.push(Object { name, pickle: again.unwrap_or_else(|| value::pickle(value)), steps });
        }
    }
    objects
}
