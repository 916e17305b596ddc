//! The file `.metadata` of a distributed checkpoint: which tensors there are, and where their chunks lie.
//!
//! ```text
//! Metadata
//!   state_dict_metadata   name → TensorStorageMetadata { size, chunks: [{ offsets, sizes }] } | BytesStorageMetadata
//!   storage_data          { name, offset } → { relative_path, offset, length }
//! ```

use crate::pickle::{Id, Tree, Value};
use ckpt_api::{Error, Limit, Limits, Region, Result, Shape};
use std::collections::HashMap;

/// Module of the classes.
pub(super) const MODULE: &str = "torch.distributed.checkpoint.metadata";

/// What the file describes.
pub(crate) struct Metadata {
    /// In the order of the file.
    pub(crate) tensors: Vec<Sharded>,
    /// Values that are no tensors, by name, and where they lie.
    pub(crate) values: Vec<(String, Location)>,
}

/// A tensor that is stored in chunks.
pub(crate) struct Sharded {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    pub(crate) chunks: Vec<Chunk>,
}

/// A box of a tensor, stored as a file of its own within a shard.
pub(crate) struct Chunk {
    pub(crate) region: Region,
    pub(crate) at: Location,
}

/// Bytes of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// Path of the shard, relative to the directory.
    pub(crate) path: String,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// Finds what the values of the file describe.
pub(crate) fn parse(tree: &Tree, limits: &Limits) -> Result<Metadata> {
    let root = tree.root();
    if class(tree, root) != Some((MODULE, "Metadata")) {
        return Err(Error::corrupt("the file does not describe a distributed checkpoint")
            .expected(format!("an object of the class {MODULE}.Metadata")));
    }
    let stored = locations(tree, field(tree, root, "storage_data").ok_or_else(|| missing("storage_data"))?)?;
    let all = field(tree, root, "state_dict_metadata").ok_or_else(|| missing("state_dict_metadata"))?;
    let Value::Dict(entries) = tree.value(all) else { return Err(missing("state_dict_metadata")) };
    limits.check(Limit::Tensors, entries.len() as u64)?;
    let mut metadata = Metadata { tensors: Vec::new(), values: Vec::new() };
    for (name, value) in tree.entries(entries) {
        let name = tree.text(name).ok_or_else(|| missing("name of a tensor"))?;
        match class(tree, value) {
            Some((MODULE, "TensorStorageMetadata")) => {
                metadata
                    .tensors
                    .push(sharded(tree, name, value, &stored).map_err(|error| error.tensor(name))?);
            }
            Some((MODULE, "BytesStorageMetadata")) => {
                let at = stored.get(&(name, None)).ok_or_else(|| {
                    Error::corrupt("the metadata does not locate a value")
                        .field(name.escape_debug().to_string())
                })?;
                metadata.values.push((name.to_owned(), at.clone()));
            }
            found => {
                let found =
                    found.map_or("something else".to_owned(), |(module, name)| format!("{module}.{name}"));
                return Err(Error::unsupported("the metadata describes a value of an unknown kind")
                    .tensor(name)
                    .found(found)
                    .expected("TensorStorageMetadata or BytesStorageMetadata"));
            }
        }
    }
    Ok(metadata)
}

/// Where everything lies: by name and, for tensors, the first index of the chunk.
type Locations<'a> = HashMap<(&'a str, Option<Vec<u64>>), Location>;

fn locations(tree: &Tree, id: Id) -> Result<Locations<'_>> {
    let Value::Dict(entries) = tree.value(id) else { return Err(missing("storage_data")) };
    let mut all = HashMap::with_capacity(entries.len());
    for (key, value) in tree.entries(entries) {
        let name = field(tree, key, "fqn").and_then(|name| tree.text(name)).ok_or_else(|| missing("fqn"))?;
        let on_tensor = |error: Error| error.tensor(name);
        let offset = match field(tree, key, "offset") {
            None | Some(Id::NONE) => None,
            Some(offset) => Some(sizes(tree, offset).ok_or_else(|| on_tensor(missing("offset")))?),
        };
        let location = location(tree, value).map_err(on_tensor)?;
        if all.insert((name, offset), location).is_some() {
            return Err(on_tensor(Error::corrupt("the metadata locates a chunk twice")));
        }
    }
    Ok(all)
}

fn location(tree: &Tree, id: Id) -> Result<Location> {
    if field(tree, id, "transform_descriptors").is_some_and(|transforms| transforms != Id::NONE) {
        return Err(Error::unsupported("the chunks of the checkpoint are compressed or encrypted")
            .help("save it without transforms"));
    }
    let number = |name| {
        let number = field(tree, id, name).and_then(|number| tree.int(number));
        number.and_then(|number| u64::try_from(number).ok()).ok_or_else(|| missing(name))
    };
    let path = field(tree, id, "relative_path").and_then(|path| tree.text(path));
    let path = path.ok_or_else(|| missing("relative_path"))?.to_owned();
    Ok(Location { path, offset: number("offset")?, len: number("length")? })
}

fn sharded(tree: &Tree, name: &str, id: Id, stored: &Locations<'_>) -> Result<Sharded> {
    let dims = field(tree, id, "size").and_then(|size| sizes(tree, size)).ok_or_else(|| missing("size"))?;
    let shape = Shape::new(dims)?;
    let list = field(tree, id, "chunks").ok_or_else(|| missing("chunks"))?;
    let Value::List(list) = tree.value(list) else { return Err(missing("chunks")) };
    let mut chunks = Vec::with_capacity(list.len());
    for chunk in tree.items(list) {
        let part =
            |name| field(tree, chunk, name).and_then(|part| sizes(tree, part)).ok_or_else(|| missing(name));
        let start = part("offsets")?;
        let key = (name, Some(start));
        let at = stored.get(&key).cloned().ok_or_else(|| {
            Error::corrupt("the metadata does not locate a chunk of the tensor")
                .found(format!("no file for the chunk at {:?}", key.1.as_deref().unwrap_or_default()))
        })?;
        let region = Region { start: key.1.unwrap_or_default(), shape: Shape::new(part("sizes")?)? };
        chunks.push(Chunk { region, at });
    }
    check_elements(&shape, &chunks)?;
    Ok(Sharded { name: name.to_owned(), shape, chunks })
}

/// Chunks without elements that a tensor may have: one for each rank.
const EMPTY: usize = 1 << 16;

/// Checks that chunks have as many elements as their tensor, before any is opened: a list of chunks is short in a
/// pickle, however often it names one of them.
fn check_elements(shape: &Shape, chunks: &[Chunk]) -> Result<()> {
    let each = chunks.iter().map(|chunk| chunk.region.shape.elements());
    let found = each.fold(0, u64::saturating_add);
    let most = usize::try_from(shape.elements()).unwrap_or(usize::MAX);
    if chunks.is_empty() || (found == shape.elements() && chunks.len() <= most.saturating_add(EMPTY)) {
        return Ok(());
    }
    Err(Error::corrupt("the chunks do not cover the tensor exactly")
        .found(ckpt_api::count(found, "element"))
        .expected(format!("the {} of {shape}", ckpt_api::count(shape.elements(), "element"))))
}

/// Module and name of an object's class.
fn class(tree: &Tree, id: Id) -> Option<(&str, &str)> {
    tree.global(tree.object(id)?.callable)
}

/// An attribute of an object.
fn field(tree: &Tree, id: Id, name: &str) -> Option<Id> {
    tree.entry(tree.object(id)?.state?, name)
}

/// The numbers of a `torch.Size`.
fn sizes(tree: &Tree, id: Id) -> Option<Vec<u64>> {
    let id = match tree.object(id) {
        Some(object) if tree.global(object.callable) == Some(("torch", "Size")) => {
            let [sizes] = tree.tuple(object.arguments)?;
            sizes
        }
        Some(_) => return None,
        None => id,
    };
    let (Value::Tuple(list) | Value::List(list)) = tree.value(id) else { return None };
    tree.items(list).map(|size| tree.int(size).and_then(|size| u64::try_from(size).ok())).collect()
}

fn missing(field: &'static str) -> Error {
    Error::corrupt("the metadata of the distributed checkpoint lacks a field").field(field)
}
