//! What is kept of a directory that is read, so that it can be written again as it was.
//!
//! Its file `.metadata` is kept in the metadata, if it names nothing but tensors and where they are.

use super::value;
use crate::format::keys::{DCP, KEY_METADATA, KEY_OBJECTS};
use crate::format::metadata::{MODULE, STORAGE_MODULE};
use crate::format::{ID, element_named};
use crate::object::dropped::Dropped;
use crate::object::values::{Budget, convert};
use crate::write::kept::is_harmless;
use ckpt_api::{Checkpoint, File, Limits, Metadata, MetadataMap, MetadataValue};
use ckpt_containers::pickle::{Feed, Tree, Value, parse};
use std::sync::Arc;

/// Bytes of the largest `.metadata` that is kept: about 50,000 tensors.
const LARGEST: u64 = 16 << 20;

/// Keeps the file `.metadata` of a directory. `len` has the bytes of the file.
pub(crate) fn keep(tree: &Tree, len: u64, into: &mut Metadata) {
    if len <= LARGEST && tree.end() == len && is_description(tree) {
        into.insert(DCP, KEY_METADATA, MetadataValue::Bytes(tree.pickle().to_vec()));
    }
}

/// Keeps the pickle of a value, if it does not follow from the value. `into` has those of other values, by name.
pub(crate) fn keep_object(tree: &Tree, name: &str, value: &MetadataValue, into: &mut MetadataMap) {
    if tree.pickle_bytes() <= LARGEST && is_plain(tree) && value::pickle(value) != tree.pickle() {
        into.insert(name, MetadataValue::Bytes(tree.pickle().to_vec()));
    }
}

/// Sets the pickles of all values.
pub(crate) fn keep_objects(objects: MetadataMap, into: &mut Metadata) {
    if !objects.is_empty() {
        into.insert(DCP, KEY_OBJECTS, objects);
    }
}

/// Whether the checkpoint was read from a directory.
pub(super) fn is_from_directory(checkpoint: &Checkpoint) -> bool {
    checkpoint.metadata.namespace(DCP).is_some()
}

/// Whether a pickle that was kept makes this value.
pub(super) fn is_of(pickle: &[u8], value: &MetadataValue) -> bool {
    let Some(tree) = parsed(pickle).filter(is_plain) else { return false };
    let mut dropped = Dropped::default();
    let own = convert(&tree, tree.root(), "", &mut Budget::default(), &mut dropped);
    own.is_some_and(|own| own == *value) && dropped.count == 0
}

pub(super) fn parsed(pickle: &[u8]) -> Option<Tree> {
    let limits = Limits::default();
    let file = File::new(Arc::new(pickle.to_vec()), ID).ok()?;
    let tree = parse(Feed::new(&file, 0, file.len(), &limits)).ok()?;
    (tree.end() == file.len()).then_some(tree)
}

/// Whether a pickle makes a plain value, and is of the protocol that `torch.load` accepts with `weights_only=True`.
fn is_plain(tree: &Tree) -> bool {
    tree.pickle().starts_with(&[0x80, 2]) && is_harmless(tree) && !has_storages(tree)
}

fn has_storages(tree: &Tree) -> bool {
    tree.ids().any(|id| matches!(tree.value(id), Value::Persistent(_)))
}

/// Whether a pickle makes nothing but the description of a checkpoint.
pub(super) fn is_description(tree: &Tree) -> bool {
    tree.ids().all(|id| match tree.value(id) {
        Value::Global(module, name) => is_described(module, name),
        Value::Buffer | Value::Persistent(_) => false,
        _ => true,
    })
}

/// Whether a class or function is one that describes a checkpoint.
pub(crate) fn is_described(module: &str, name: &str) -> bool {
    match module {
        MODULE => matches!(
            name,
            "Metadata"
                | "TensorStorageMetadata"
                | "BytesStorageMetadata"
                | "ChunkStorageMetadata"
                | "TensorProperties"
                | "MetadataIndex"
                | "StorageMeta"
                | "_MEM_FORMAT_ENCODING"
        ),
        STORAGE_MODULE => name == "_StorageInfo",
        "torch.serialization" => name == "_get_layout",
        "torch" => name == "Size" || element_named(name).is_some(),
        "pathlib" => matches!(name, "PosixPath" | "PurePosixPath"),
        "collections" => name == "OrderedDict",
        _ => false,
    }
}
