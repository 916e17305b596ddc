//! Namings that look at each tensor alone: its original key (`names=stored`) or its name (`names=plain`).

use crate::format::OBJECT_GRAPH;
use crate::key::Key;
use crate::naming::{Assignment, ExtraEntry, Naming};
use crate::{key_text, object_graph};
use ckpt_api::{AxisOrder, Checkpoint, DType, Loss, LossKind, MetadataValue, Shape, Tensor};
use std::collections::HashSet;

/// Stores each tensor under its name, without an object graph.
pub(crate) fn plain(checkpoint: &Checkpoint) -> Naming {
    let mut naming = Naming::default();
    for tensor in &checkpoint.tensors {
        let key = key(tensor);
        if key == *OBJECT_GRAPH {
            let detail = "it maps objects to keys, and names=plain changes the keys";
            naming.losses.push(Loss::new(LossKind::BookkeepingDropped, &tensor.name, detail));
            naming.tensors.push(None);
        } else {
            naming.tensors.push(Some(assign(tensor, own_name(tensor))));
        }
    }
    naming
}

/// Stores each tensor under the key that it was read with, or under its name if it was renamed since. The object graph
/// keeps the values whose tensors keep their keys.
pub(crate) fn stored(checkpoint: &Checkpoint) -> Naming {
    let tensors = checkpoint.tensors.iter().map(|tensor| Some(assign(tensor, key(tensor)))).collect();
    let mut naming = Naming { tensors, ..Naming::default() };
    keep_object_graph(checkpoint, &mut naming);
    naming
}

fn assign(tensor: &Tensor, key: Key) -> Assignment {
    Assignment { key, order: AxisOrder::row_major(tensor.shape.rank()) }
}

/// Returns the key that the tensor was read with if it still has the name that it was given then, or else its name.
pub(super) fn key(tensor: &Tensor) -> Key {
    let text = |field| tensor.metadata.text("tf2", field);
    match (text("key"), text("name")) {
        (Some(key), Some(name)) if name == tensor.name => {
            unescaped(tensor, key).unwrap_or_else(|| key.into())
        }
        _ => own_name(tensor),
    }
}

/// Returns the tensor's name as a key.
fn own_name(tensor: &Tensor) -> Key {
    unescaped(tensor, &tensor.name).unwrap_or_else(|| (&tensor.name).into())
}

/// Returns the key that `text` was escaped from, if the metadata records that it was.
fn unescaped(tensor: &Tensor, text: &str) -> Option<Key> {
    let was_escaped = tensor.metadata.text("tf2", "escaped") == Some(text);
    was_escaped.then(|| key_text::unescape(text))?.map(Key::from)
}

/// Adds the recorded object graph, without the values whose tensors were renamed or removed.
fn keep_object_graph(checkpoint: &Checkpoint, naming: &mut Naming) {
    let Some(bytes) = object_graph::recorded(checkpoint) else { return };
    let keys = naming.tensors.iter().flatten().map(|assignment| &assignment.key[..]);
    let unknown = checkpoint.metadata.value("tf2", "unknown_keys").and_then(MetadataValue::as_list);
    let unknown = unknown.into_iter().flatten().filter_map(MetadataValue::as_text).map(str::as_bytes);
    let position = keys.clone().position(|key| key == OBJECT_GRAPH.as_bytes());
    let known: HashSet<&[u8]> = keys.chain(unknown).collect();
    let Some(pruned) = object_graph::prune(&bytes, |key| known.contains(key)) else { return };
    if pruned.dropped > 0 {
        let name = position.and_then(|at| checkpoint.tensors.get(at)).map_or(OBJECT_GRAPH, |t| &t.name);
        let detail = format!(
            "it no longer names {} of its {} values, whose tensors were renamed or removed",
            pruned.dropped,
            pruned.dropped + pruned.kept
        );
        naming.losses.push(Loss::new(LossKind::BookkeepingDropped, name, detail));
        if let Some(assignment) = position.and_then(|at| naming.tensors.get_mut(at)) {
            *assignment = None;
        }
    } else if position.is_some() {
        return;
    }
    if pruned.kept > 0 || pruned.dropped == 0 {
        naming.extra.push(ExtraEntry {
            key: OBJECT_GRAPH.into(),
            dtype: DType::String,
            shape: Shape::scalar(),
            value: pruned.bytes,
        });
    }
}
