//! A directory that was read and is written again as it was.
//!
//! Its file `.metadata` is kept in the metadata, if it names nothing but tensors and where they lie. It is written again
//! while the tensors have their names, dtypes and shapes, and the values their pickles.

use super::layout::{self, Laid, Part, Shard};
use super::metadata::Paths;
use super::{DCP, KEY_METADATA, KEY_OBJECTS, Parts, objects};
use crate::distributed::metadata::{self, Location, MODULE, Metadata, STORAGE_MODULE};
use crate::format::{ID, element_named};
use crate::pickle::{Feed, Tree, Value, parse};
use crate::read::values::{Budget, convert};
use crate::read::walk::Dropped;
use crate::write::kept::is_harmless;
use ckpt_api::{
    Checkpoint, File, Limits, Metadata as CheckpointMetadata, MetadataMap, MetadataValue, Result, check_cover,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of the largest `.metadata` that is kept: about 50,000 tensors.
const LARGEST: u64 = 16 << 20;

/// The description of a directory that was read.
pub(super) struct Kept<'a> {
    bytes: &'a [u8],
    metadata: Metadata,
    paths: Paths,
}

/// Keeps the file `.metadata` of a directory. `len` has the bytes of the file.
pub(crate) fn keep(tree: &Tree, len: u64, into: &mut CheckpointMetadata) {
    if len <= LARGEST && tree.end() == len && is_description(tree) {
        into.insert(DCP, KEY_METADATA, MetadataValue::Bytes(tree.pickle().to_vec()));
    }
}

/// Keeps the pickle of a value, if it does not follow from the value. `into` has those of other values, by name.
pub(crate) fn keep_object(tree: &Tree, name: &str, value: &MetadataValue, into: &mut MetadataMap) {
    if tree.pickle_bytes() <= LARGEST && is_plain(tree) && objects::pickle(value) != tree.pickle() {
        into.insert(name, MetadataValue::Bytes(tree.pickle().to_vec()));
    }
}

/// Sets the pickles of all values.
pub(crate) fn keep_objects(objects: MetadataMap, into: &mut CheckpointMetadata) {
    if !objects.is_empty() {
        into.insert(DCP, KEY_OBJECTS, objects);
    }
}

/// Whether a pickle that was kept makes this value.
pub(super) fn is_of(pickle: &[u8], value: &MetadataValue) -> bool {
    let Some(tree) = parsed(pickle).filter(is_plain) else { return false };
    let mut dropped = Dropped::default();
    let own = convert(&tree, tree.root(), "", &mut Budget::default(), &mut dropped);
    own.is_some_and(|own| own == *value) && dropped.count == 0
}

fn parsed(pickle: &[u8]) -> Option<Tree> {
    let limits = Limits::default();
    let file = File::new(Arc::new(pickle.to_vec()), ID).ok()?;
    let tree = parse(Feed::new(&file, 0, file.len(), &limits)).ok()?;
    (tree.end() == file.len()).then_some(tree)
}

impl<'a> Kept<'a> {
    /// Whether the checkpoint was read from a directory.
    pub(super) fn is_in(checkpoint: &Checkpoint) -> bool {
        checkpoint.metadata.namespace(DCP).is_some()
    }

    /// The description that the checkpoint has, if it is sound.
    pub(super) fn of(checkpoint: &'a Checkpoint) -> Option<Self> {
        let bytes = checkpoint.metadata.value(DCP, KEY_METADATA)?.as_bytes()?;
        let tree = parsed(bytes).filter(is_description)?;
        let metadata = metadata::parse(&tree, &Limits::default()).ok()?;
        Some(Kept { bytes, metadata, paths: metadata::paths(&tree) })
    }

    /// Where the values lie in the dicts and lists that were saved.
    pub(super) fn paths(&self) -> Paths {
        self.paths.clone()
    }

    /// Lays out the parts as they were; `None` if they are others, or if archives of theirs have other sizes.
    pub(super) fn lay_out(&self, parts: &Parts<'_>) -> Result<Option<(Laid, Vec<u8>)>> {
        let Some((shards, stated)) = self.shards(parts) else { return Ok(None) };
        let laid = layout::lay_out(parts, &shards)?;
        let is_same = laid.locations.iter().eq(stated);
        Ok(is_same.then(|| (laid, self.bytes.to_vec())))
    }

    /// The files, and where each of their parts is stated to lie.
    fn shards(&self, parts: &Parts<'_>) -> Option<(Vec<Shard>, Vec<&Location>)> {
        let Metadata { tensors, values, others } = &self.metadata;
        if *others > 0 || tensors.len() != parts.tensors.len() || values.len() != parts.objects.len() {
            return None;
        }
        let mut all: Vec<(&Location, Part)> = Vec::new();
        let own: HashMap<&str, usize> = parts
            .tensors
            .iter()
            .enumerate()
            .map(|(number, stored)| (stored.tensor.name.as_str(), number))
            .collect();
        for sharded in tensors {
            let number = *own.get(sharded.name.as_str())?;
            let stored = parts.tensors.get(number).filter(|stored| stored.storage == number)?;
            let regions: Vec<_> = sharded.chunks.iter().map(|chunk| &chunk.region).collect();
            let fits = stored.tensor.shape == sharded.shape && Some(stored.element) == sharded.element;
            check_cover(&sharded.shape, &regions).ok().filter(|()| fits && !regions.is_empty())?;
            let chunks = sharded.chunks.iter().chain(&sharded.empty);
            all.extend(chunks.map(|chunk| (&chunk.at, Part::Chunk(number, chunk.region.clone()))));
        }
        let own: HashMap<&str, usize> =
            parts.objects.iter().enumerate().map(|(number, object)| (object.name.as_str(), number)).collect();
        for (name, at) in values {
            all.push((at, Part::Object(*own.get(name.as_str())?)));
        }
        all.sort_by(|(a, _), (b, _)| (&a.path, a.offset).cmp(&(&b.path, b.offset)));
        let mut shards: Vec<Shard> = Vec::new();
        let mut stated = Vec::with_capacity(all.len());
        for (at, part) in all {
            match shards.last_mut().filter(|shard| shard.path == *at.path) {
                Some(shard) => shard.parts.push(part),
                None if is_name(&at.path) => {
                    shards.push(Shard { path: at.path.to_string(), parts: vec![part] });
                }
                None => return None,
            }
            stated.push(at);
        }
        Some((shards, stated))
    }
}

/// Whether a path is the name of a file that PyTorch writes.
fn is_name(path: &str) -> bool {
    let is_safe = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.');
    path.ends_with(".distcp") && path.len() < 256 && !path.starts_with('.') && path.chars().all(is_safe)
}

/// Whether a pickle makes a plain value, and is of the protocol that `torch.load` accepts with `weights_only=True`.
fn is_plain(tree: &Tree) -> bool {
    tree.pickle().starts_with(&[0x80, 2]) && is_harmless(tree) && !has_storages(tree)
}

fn has_storages(tree: &Tree) -> bool {
    tree.ids().any(|id| matches!(tree.value(id), Value::Persistent(_)))
}

/// Whether a pickle makes nothing but the description of a checkpoint.
fn is_description(tree: &Tree) -> bool {
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
