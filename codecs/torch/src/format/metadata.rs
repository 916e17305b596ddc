//! The file `.metadata` of a distributed checkpoint: which tensors there are, and where their chunks are.
//!
//! ```text
//! Metadata
//!   state_dict_metadata   name → TensorStorageMetadata { size, chunks: [{ offsets, sizes }] } | BytesStorageMetadata
//!   storage_data          { name, offset } → { relative_path, offset, length }
//! ```

use crate::format::{Element, element_named};
use ckpt_api::{Error, Limit, Limits, Region, Result, Shape, check_cover, first_few};
use ckpt_containers::pickle::{Id, Tree, Value};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// The file's name.
pub(crate) const FILE: &str = ".metadata";
/// Module of most classes.
pub(crate) const MODULE: &str = "torch.distributed.checkpoint.metadata";
/// Module of the class of locations.
pub(crate) const STORAGE_MODULE: &str = "torch.distributed.checkpoint.filesystem";
/// Axes of a tensor, attributes of an object, and keys that lead to a value: more are not PyTorch's. Their lists may be
/// shared, so that a small file could describe any number.
const LONGEST: usize = 64;

/// Bytes of a name or path, for the same reason.
const LONGEST_TEXT: usize = 4096;

/// What the file describes.
pub(crate) struct Metadata {
    /// In the order of the file.
    pub(crate) tensors: Vec<Sharded>,
    /// Values that are no tensors, by name, and where they are.
    pub(crate) values: Vec<(String, Location)>,
    /// How many other things are located.
    pub(crate) others: usize,
}

/// Branches that an error lists.
const BRANCHES_SHOWN: usize = 8;

impl Metadata {
    /// What is below a branch, such as `model`, under names without it.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if no tensor is below it.
    pub(crate) fn branch(self, root: &str) -> Result<Self> {
        let below = |name: &str| Some(name.strip_prefix(root)?.strip_prefix('.')?.to_owned());
        let branches: BTreeSet<&str> =
            self.tensors.iter().filter_map(|tensor| Some(tensor.name.split_once('.')?.0)).collect();
        if !self.tensors.iter().any(|tensor| below(&tensor.name).is_some()) {
            let branches: Vec<&str> = branches.into_iter().collect();
            return Err(Error::usage("the checkpoint has no such branch")
                .field("root")
                .found(format!("'{}'", root.escape_debug()))
                .expected(match branches.is_empty() {
                    true => "none: no name has a dot".to_owned(),
                    false => format!("one of {}, or a branch of these", first_few(&branches, BRANCHES_SHOWN)),
                }));
        }
        let tensors = self
            .tensors
            .into_iter()
            .filter_map(|tensor| Some(Sharded { name: below(&tensor.name)?, ..tensor }));
        let values = self.values.into_iter().filter_map(|(name, at)| Some((below(&name)?, at)));
        Ok(Metadata { tensors: tensors.collect(), values: values.collect(), others: self.others })
    }
}

/// A tensor that is stored in chunks.
pub(crate) struct Sharded {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    /// `None` if the file states none that is known.
    pub(crate) element: Option<Element>,
    pub(crate) chunks: Vec<Chunk>,
    /// Chunks without elements, of a tensor that has some: those of ranks that have none.
    pub(crate) empty: Vec<Chunk>,
}

/// A box of a tensor, stored as a file of its own within a shard.
pub(crate) struct Chunk {
    pub(crate) region: Region,
    pub(crate) at: Location,
}

/// Bytes of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Location {
    /// Path of the shard, relative to the directory. Many chunks share one.
    pub(crate) path: Arc<str>,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// A key or an index that leads to a value within another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(u64),
}

/// Finds what the values of the file describe.
pub(crate) fn parse(tree: &Tree, limits: &Limits) -> Result<Metadata> {
    let root = tree.root();
    if class(tree, root) != Some((MODULE, "Metadata")) {
        return Err(Error::corrupt("the file does not describe a distributed checkpoint")
            .expected(format!("an object of the class {MODULE}.Metadata")));
    }
    let mut stored =
        locations(tree, field(tree, root, "storage_data").ok_or_else(|| missing("storage_data"))?)?;
    let all = field(tree, root, "state_dict_metadata").ok_or_else(|| missing("state_dict_metadata"))?;
    let Value::Dict(entries) = tree.value(all) else { return Err(missing("state_dict_metadata")) };
    limits.check(Limit::Tensors, entries.len() as u64)?;
    let mut metadata = Metadata { tensors: Vec::new(), values: Vec::new(), others: 0 };
    let mut names = HashSet::new();
    for (name, value) in tree.entries(entries) {
        let name = short(tree, name)?.ok_or_else(|| missing("name of a tensor"))?;
        if !names.insert(name) {
            return Err(Error::corrupt("the metadata describes a value twice").tensor(name));
        }
        match class(tree, value) {
            Some((MODULE, "TensorStorageMetadata")) => {
                metadata
                    .tensors
                    .push(sharded(tree, name, value, &mut stored).map_err(|error| error.tensor(name))?);
            }
            Some((MODULE, "BytesStorageMetadata")) => {
                let at = stored.all.remove(&(name, None)).ok_or_else(|| {
                    Error::corrupt("the metadata does not locate a value")
                        .field(name.escape_debug().to_string())
                })?;
                metadata.values.push((name.to_owned(), at));
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
    metadata.others = stored.all.len();
    Ok(metadata)
}

/// Where everything is.
struct Locations<'a> {
    /// By name and, for tensors, the first index of the chunk.
    all: HashMap<(&'a str, Option<Vec<u64>>), Location>,
    /// Chunks that may still be looked at: lists of them may be shared.
    left: u64,
}

impl Locations<'_> {
    fn take(&mut self) -> Result<()> {
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            Error::limit("lists of chunks are shared so often that reading them takes too long")
        })?;
        Ok(())
    }
}

fn locations(tree: &Tree, id: Id) -> Result<Locations<'_>> {
    let Value::Dict(entries) = tree.value(id) else { return Err(missing("storage_data")) };
    let mut all = HashMap::with_capacity(entries.len() / 2);
    let mut paths = HashMap::new();
    for (key, value) in tree.entries(entries) {
        let name = field(tree, key, "fqn").map_or(Ok(None), |name| short(tree, name))?;
        let name = name.ok_or_else(|| missing("fqn"))?;
        let on_tensor = |error: Error| error.tensor(name);
        let offset = match field(tree, key, "offset") {
            None | Some(Id::NONE) => None,
            Some(offset) => Some(sizes(tree, offset).ok_or_else(|| on_tensor(missing("offset")))?),
        };
        let location = location(tree, value, &mut paths).map_err(on_tensor)?;
        if all.insert((name, offset), location).is_some() {
            return Err(on_tensor(Error::corrupt("the metadata locates a chunk twice")));
        }
    }
    // Each chunk takes several bytes where it is first listed.
    Ok(Locations { all, left: tree.pickle_bytes() })
}

/// `paths` has those that were read before.
fn location<'a>(tree: &'a Tree, id: Id, paths: &mut HashMap<&'a str, Arc<str>>) -> Result<Location> {
    if field(tree, id, "transform_descriptors").is_some_and(|transforms| transforms != Id::NONE) {
        return Err(Error::unsupported("the chunks of the checkpoint are compressed or encrypted")
            .help("save it without transforms"));
    }
    let number = |name| {
        let number = field(tree, id, name).and_then(|number| tree.int(number));
        number.and_then(|number| u64::try_from(number).ok()).ok_or_else(|| missing(name))
    };
    let path = field(tree, id, "relative_path").map_or(Ok(None), |path| short(tree, path))?;
    let path = path.filter(|path| path.split('/').any(|part| !matches!(part, "" | ".")));
    let path = path.ok_or_else(|| missing("relative_path").expected("the name of a file"))?;
    let path = Arc::clone(paths.entry(path).or_insert_with(|| Arc::from(plain(path))));
    Ok(Location { path, offset: number("offset")?, len: number("length")? })
}

/// A path without the parts that stay in their directory: `./__0_0.distcp` is `__0_0.distcp`.
fn plain(path: &str) -> String {
    path.split('/').filter(|part| *part != ".").collect::<Vec<&str>>().join("/")
}

fn sharded<'a>(tree: &'a Tree, name: &'a str, id: Id, stored: &mut Locations<'a>) -> Result<Sharded> {
    let dims = field(tree, id, "size").and_then(|size| sizes(tree, size)).ok_or_else(|| missing("size"))?;
    let shape = Shape::new(dims)?;
    let list = field(tree, id, "chunks").ok_or_else(|| missing("chunks"))?;
    let Value::List(list) = tree.value(list) else { return Err(missing("chunks")) };
    let (mut chunks, mut empty) = (Vec::new(), Vec::new());
    let mut found = 0u64;
    for chunk in tree.items(list) {
        let part =
            |name| field(tree, chunk, name).and_then(|part| sizes(tree, part)).ok_or_else(|| missing(name));
        let (start, len) = (part("offsets")?, Shape::new(part("sizes")?)?);
        stored.take()?;
        let is_empty = len.elements() == 0 && (shape.elements() > 0 || !chunks.is_empty());
        let key = (name, Some(start));
        let Some(at) = stored.all.remove(&key) else {
            // Several ranks without elements store theirs at the same index.
            if is_empty {
                continue;
            }
            let start = key.1.as_deref().unwrap_or_default();
            return Err(Error::corrupt(
                "the metadata does not locate a chunk of the tensor, or lists it twice",
            )
            .found(format!("no file for the chunk at {start:?}")));
        };
        let chunk = Chunk { region: Region { start: key.1.unwrap_or_default(), shape: len }, at };
        if is_empty {
            empty.push(chunk);
            continue;
        }
        found = found.saturating_add(chunk.region.shape.elements());
        chunks.push(chunk);
    }
    if chunks.is_empty() {
        return Err(Error::corrupt("the tensor has no chunk").expected(format!("chunks that cover {shape}")));
    }
    if found != shape.elements() {
        return Err(Error::corrupt("the chunks do not cover the tensor exactly")
            .found(ckpt_api::count(found, "element"))
            .expected(format!("the {} of {shape}", ckpt_api::count(shape.elements(), "element"))));
    }
    let regions: Vec<&Region> = chunks.iter().map(|chunk| &chunk.region).collect();
    check_cover(&shape, &regions)?;
    Ok(Sharded { name: name.to_owned(), shape, element: element(tree, id), chunks, empty })
}

/// The type that a tensor's properties state first.
fn element(tree: &Tree, id: Id) -> Option<Element> {
    let properties = tree.object(field(tree, id, "properties")?)?;
    let Value::Tuple(list) = tree.value(properties.state?) else { return None };
    let (module, name) = tree.global(tree.items(list).next()?)?;
    element_named(name).filter(|_| module == "torch")
}

/// The keys and indexes that lead to each value, by its name; none if they share so much that they take far more memory
/// than the file.
pub(crate) fn paths(tree: &Tree) -> HashMap<String, Vec<Step>> {
    let entries = match field(tree, tree.root(), "planner_data").map(|id| tree.value(id)) {
        Some(Value::Dict(entries)) => entries,
        _ => return HashMap::new(),
    };
    let mut left = 8 * tree.pickle_bytes() + (1 << 16);
    let mut paths = HashMap::new();
    for (name, path) in tree.entries(entries) {
        let Some((name, steps)) = tree.text(name).zip(steps(tree, path)) else { continue };
        let bytes = steps.iter().map(|step| match step {
            Step::Key(key) => key.len() as u64,
            Step::Index(_) => 0,
        });
        let Some(rest) = left.checked_sub(name.len() as u64 + bytes.sum::<u64>()) else {
            return HashMap::new();
        };
        left = rest;
        paths.insert(name.to_owned(), steps);
    }
    paths
}

fn steps(tree: &Tree, path: Id) -> Option<Vec<Step>> {
    let Value::Tuple(list) = tree.value(path) else { return None };
    let step = |id: Id| match tree.value(id) {
        Value::Text(key) => Some(Step::Key(key.to_owned())),
        Value::Int(index) => u64::try_from(index).ok().map(Step::Index),
        _ => None,
    };
    (1..=LONGEST).contains(&list.len()).then(|| tree.items(list).map(step).collect())?
}

/// Module and name of an object's class.
fn class(tree: &Tree, id: Id) -> Option<(&str, &str)> {
    tree.global(tree.object(id)?.callable)
}

/// A name or path.
fn short(tree: &Tree, id: Id) -> Result<Option<&str>> {
    match tree.text(id) {
        Some(text) if text.len() > LONGEST_TEXT => {
            Err(Error::limit("a name or path in the metadata is too long")
                .found(ckpt_api::count(text.len(), "byte"))
                .expected(format!("at most {LONGEST_TEXT}")))
        }
        text => Ok(text),
    }
}

/// An attribute of an object.
fn field(tree: &Tree, id: Id, name: &str) -> Option<Id> {
    let state = tree.object(id)?.state?;
    match tree.value(state) {
        Value::Dict(entries) if entries.len() <= 2 * LONGEST => tree.entry(state, name),
        _ => None,
    }
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
    if list.len() > LONGEST {
        return None;
    }
    tree.items(list).map(|size| tree.int(size).and_then(|size| u64::try_from(size).ok())).collect()
}

fn missing(field: &'static str) -> Error {
    Error::corrupt("a field of the distributed checkpoint's metadata is missing, or makes no sense")
        .field(field)
}
