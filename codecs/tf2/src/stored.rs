//! Namings that need no model: the keys that tensors had, or their names.

use crate::format::OBJECT_GRAPH;
use crate::naming::{Made, Named, Naming};
use crate::{names, object_graph};
use base64::prelude::{BASE64_STANDARD, Engine};
use ckpt_api::{Checkpoint, DType, Loss, LossKind, Shape, Tensor};
use serde_json::Value;
use std::collections::HashSet;

/// Names as keys, and no object graph.
pub(crate) fn plain(checkpoint: &Checkpoint) -> Naming {
    let mut naming = Naming::default();
    for tensor in &checkpoint.tensors {
        let key = key(tensor);
        if key == OBJECT_GRAPH.as_bytes() {
            let detail = "it says which object has which key, and names=plain gives other keys";
            naming.losses.push(Loss::new(LossKind::BookkeepingDropped, &tensor.name, detail));
            naming.tensors.push(None);
        } else {
            naming.tensors.push(Some(named(tensor, unescaped(tensor, &tensor.name))));
        }
    }
    naming
}

/// The keys that tensors had, for those that were not renamed since, with the object graph as far as it fits; else
/// names as keys.
pub(crate) fn stored(checkpoint: &Checkpoint) -> Naming {
    let keys: Vec<Vec<u8>> = checkpoint.tensors.iter().map(key).collect();
    let mut naming = Naming::default();
    let pairs = checkpoint.tensors.iter().zip(&keys);
    naming.tensors = pairs.map(|(tensor, key)| Some(named(tensor, key.clone()))).collect();
    keep_object_graph(checkpoint, &keys, &mut naming);
    naming
}

fn named(tensor: &Tensor, key: Vec<u8>) -> Named {
    Named { key, order: (0..tensor.shape.rank()).collect() }
}

/// The key that the tensor had, if it still has the name that went with it; else the name.
fn key(tensor: &Tensor) -> Vec<u8> {
    let text = |field| tensor.metadata.text("tf2", field);
    match (text("key"), text("name")) {
        (Some(key), Some(name)) if name == tensor.name => unescaped(tensor, key),
        _ => unescaped(tensor, &tensor.name),
    }
}

/// The bytes that `text` stands for: a key that is no UTF-8 was escaped, and its tensor says so.
fn unescaped(tensor: &Tensor, text: &str) -> Vec<u8> {
    let was_escaped = tensor.metadata.text("tf2", "escaped") == Some(text);
    let bytes = if was_escaped { names::unescape(text) } else { None };
    bytes.unwrap_or_else(|| text.as_bytes().to_vec())
}

/// The graph names keys. Those of tensors that were renamed or left out are not there any more.
fn keep_object_graph(checkpoint: &Checkpoint, keys: &[Vec<u8>], naming: &mut Naming) {
    let bytes =
        checkpoint.metadata.text("tf2", "object_graph").and_then(|text| BASE64_STANDARD.decode(text).ok());
    let unknown = checkpoint.metadata.value("tf2", "unknown_keys").and_then(Value::as_array);
    let unknown = unknown.into_iter().flatten().filter_map(Value::as_str).map(str::as_bytes);
    let known: HashSet<&[u8]> = keys.iter().map(Vec::as_slice).chain(unknown).collect();
    let pruned = bytes.and_then(|bytes| object_graph::prune(&bytes, |key| known.contains(key)));
    let Some(pruned) = pruned else { return };
    let position = keys.iter().position(|key| key == OBJECT_GRAPH.as_bytes());
    if pruned.dropped > 0 {
        let name = position.and_then(|at| checkpoint.tensors.get(at)).map_or(OBJECT_GRAPH, |t| &t.name);
        let detail = format!(
            "{} of the {} values that it names were renamed or left out, and it names them no more",
            pruned.dropped,
            pruned.dropped + pruned.kept
        );
        naming.losses.push(Loss::new(LossKind::BookkeepingDropped, name, detail));
        if let Some(stored) = position.and_then(|at| naming.tensors.get_mut(at)) {
            *stored = None;
        }
    } else if position.is_some() {
        return;
    }
    if pruned.kept > 0 || pruned.dropped == 0 {
        naming.made.push(Made {
            key: OBJECT_GRAPH.as_bytes().to_vec(),
            dtype: DType::String,
            shape: Shape::scalar(),
            value: pruned.bytes,
        });
    }
}
