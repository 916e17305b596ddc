//! Reads one item: its tree, and where its arrays are.

use super::locate::{has_old_tree, processes};
use crate::format::json::Json;
use crate::format::{ARRAY_METADATA, MANIFEST, NAMESPACE, OLD_TREE, STRINGS, TREE, check_path, join};
use crate::msgpack::{FlaxArray, Tree};
use crate::ocdbt::{Database, Files, StoredValue, Value};
use crate::tree::metadata::TreeFile;
use crate::tree::{Content, Leaf, old, path_metadata};
use crate::zarr::{self, ARRAY_2, ARRAY_3, Array, FindChunk};
use ckpt_api::{
    Encoding, Error, Extent, FileId, Input, Limit, Limits, MetadataMap, MetadataValue, Placement, Result,
    Tensor, TensorId, Text, count, first_few,
};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// What an item holds.
#[derive(Debug, Default)]
pub(crate) struct ItemContents {
    pub(crate) tensors: Vec<(Tensor, Placement)>,
    /// Texts, values and empty containers, by kind and by name.
    pub(crate) others: Others,
    pub(crate) custom: Option<MetadataValue>,
    pub(crate) notes: Vec<Text>,
}

/// Leaves that are no arrays.
#[derive(Debug, Default)]
pub(crate) struct Others {
    pub(crate) strings: Vec<(String, MetadataValue)>,
    pub(crate) values: Vec<(String, MetadataValue)>,
    pub(crate) empty: Vec<(String, MetadataValue)>,
    /// The keys of those whose names do not tell them.
    pub(crate) paths: Vec<(String, MetadataValue)>,
}

/// What the notes of a process call the kind of a random key.
const RANDOM_KEY: &str = "random_key_impl";

/// Names that a note lists.
const SHOWN: usize = 12;

/// Where arrays are looked up.
enum Arrays {
    Database(Database),
    /// Folders below the item's.
    Folders,
}

/// Reads the item in a folder.
///
/// # Errors
/// Those of reading, [`ckpt_api::Kind::Corrupt`], [`ckpt_api::Kind::Unsupported`], [`ckpt_api::Kind::Limit`].
pub(crate) fn read(folder: &str, files: &mut Files<'_>, limits: &Limits) -> Result<ItemContents> {
    let mut contents = ItemContents::default();
    prefetch(folder, files.input(), limits);
    let tree = tree(folder, files, limits)?;
    let mut leaves = tree.leaves;
    contents.custom = tree.custom;
    let (arrays, note) = arrays(folder, &leaves, tree.uses_database, files, limits)?;
    contents.notes.extend(note);
    if !tree.is_known {
        leaves = listed(&arrays, folder, files)?;
        contents.notes.push(
            "the tree is missing: the arrays are read under the names that they are stored with".into(),
        );
    }
    check_names(&leaves)?;
    announce(&leaves, &arrays, folder, files);
    let strings = strings(folder, &leaves, files, limits)?;
    let keys = random_keys(folder, files, limits);
    let known = KnownArrays::default();
    let mut reader = ItemReader { folder, arrays: &arrays, old_tree: tree.old_tree, limits, read: 0, known };
    for leaf in &leaves {
        let tensor = reader.tensor(leaf, files).map_err(|error| reader.locate(error, leaf, files))?;
        match tensor {
            None => contents.others.add(leaf, &strings)?,
            Some((mut tensor, placement)) => {
                if let Some(path) = &leaf.path {
                    tensor.metadata.insert(NAMESPACE, "path", path_metadata(path));
                }
                if let Some(kind) = keys.get(&leaf.name) {
                    tensor.metadata.insert(NAMESPACE, "random_key", kind.as_str());
                }
                contents.tensors.push((tensor, placement));
            }
        }
    }
    contents.notes.extend(unlisted(&arrays, &leaves));
    Ok(contents)
}

/// Asks a store far away for all of the tree and for the file with the root of the database, both at once.
fn prefetch(folder: &str, input: &Input, limits: &Limits) {
    let tree = join(folder, TREE);
    // What cannot be read fails when it is.
    if input.has_file(&tree)
        && let Ok(file) = input.file(&tree)
        && limits.check(Limit::HeaderBytes, file.len()).is_ok()
    {
        file.will_read(std::slice::from_ref(&(0..file.len())));
    }
    if input.has_file(&join(folder, MANIFEST)) {
        Database::announce(folder, input, limits);
    }
}

fn no_text(name: &str) -> Error {
    Error::corrupt("a text of the tree is missing")
        .field(name.escape_debug().to_string())
        .expected(format!("its text in {STRINGS}"))
        .help("copy all files of the checkpoint")
}

/// The leaves of an item, from the files that state them.
struct ItemTree {
    leaves: Vec<Leaf>,
    /// Whether a file states the leaves.
    is_known: bool,
    uses_database: Option<bool>,
    custom: Option<MetadataValue>,
    /// The file in msgpack, if there is one.
    old_tree: Option<FileId>,
}

fn tree(folder: &str, files: &mut Files<'_>, limits: &Limits) -> Result<ItemTree> {
    let input = files.input();
    let mut old_leaves = None;
    let mut old_tree = None;
    if has_old_tree(input, folder)? {
        let number = files.number(&join(folder, OLD_TREE));
        let file = files.open(number)?;
        let tree = Tree::parse(&file, limits)?;
        old_leaves = Some(old::leaves(&tree).map_err(|error| error.file(file.name()))?);
        old_tree = Some(number);
    }
    let name = join(folder, TREE);
    if !input.has_file(&name) {
        let is_known = old_leaves.is_some();
        let leaves = old_leaves.unwrap_or_default();
        return Ok(ItemTree { leaves, is_known, uses_database: None, custom: None, old_tree });
    }
    let file = input.file(&name)?;
    limits.check(Limit::HeaderBytes, file.len()).map_err(|error| error.file(file.name()))?;
    let bytes = file.bytes(0, file.len())?;
    let TreeFile { mut leaves, uses_database, custom } =
        TreeFile::parse(&bytes).map_err(|error| error.file(file.name()))?;
    // What the tree in msgpack holds itself is nowhere else.
    let old: HashMap<String, Content> =
        old_leaves.unwrap_or_default().into_iter().map(|leaf| (leaf.name, leaf.content)).collect();
    for leaf in leaves.iter_mut().filter(|leaf| leaf.content == Content::Array) {
        if let Some(content @ (Content::Within(_) | Content::Value(_))) = old.get(&leaf.name) {
            leaf.content = content.clone();
        }
    }
    let custom = custom.map(|custom| custom.metadata());
    Ok(ItemTree { leaves, is_known: true, uses_database, custom, old_tree })
}

/// Whether a leaf is an array that is stored outside of the tree.
fn is_stored(leaf: &Leaf) -> bool {
    matches!(leaf.content, Content::Array | Content::Named(_))
}

fn stored_name(leaf: &Leaf) -> &str {
    match &leaf.content {
        Content::Named(name) => name,
        _ => &leaf.name,
    }
}

/// Finds where the arrays are, and what to say of it.
fn arrays(
    folder: &str,
    leaves: &[Leaf],
    uses_database: Option<bool>,
    files: &mut Files<'_>,
    limits: &Limits,
) -> Result<(Arrays, Option<Text>)> {
    let input = files.input();
    if uses_database != Some(false) && input.has_file(&join(folder, MANIFEST)) {
        return Ok((Arrays::Database(Database::read(folder, files, limits)?), None));
    }
    let first = leaves.iter().find(|leaf| is_stored(leaf));
    let is_folder = first.is_some_and(|leaf| {
        let below = join(folder, stored_name(leaf));
        [ARRAY_2, ARRAY_3].iter().any(|name| input.has_file(&join(&below, name)))
    });
    if uses_database == Some(false) || is_folder {
        return Ok((Arrays::Folders, None));
    }
    let processes = processes(input, folder)?;
    if !processes.is_empty() {
        let databases = processes.iter().map(|folder| Database::read(folder, files, limits));
        let databases = databases.collect::<Result<Vec<_>>>()?;
        let note = format!(
            "the databases of {} were never merged, so that Orbax cannot restore them: their union is read",
            count(processes.len() as u64, "process")
        );
        return Ok((Arrays::Database(Database::union(databases, files)?), Some(note.into())));
    }
    match uses_database == Some(true) && first.is_some() {
        false => Ok((Arrays::Folders, None)),
        true => Err(Error::corrupt("the database of the arrays is missing")
            .file(input.display(&join(folder, MANIFEST)))
            .expected(format!("{MANIFEST}, or folders with the databases of processes"))
            .help("copy all files of the checkpoint; a save that did not finish lacks them, too")),
    }
}

/// The leaves of an item without a tree: its arrays.
fn listed(arrays: &Arrays, folder: &str, files: &Files<'_>) -> Result<Vec<Leaf>> {
    let array = |name: &str| Leaf { name: name.to_owned(), path: None, content: Content::Array };
    match arrays {
        Arrays::Database(database) => array_names(database)
            .map(|name| {
                let name = str::from_utf8(name)
                    .map_err(|_| Error::unsupported("the name of an array is not UTF-8"))?;
                Ok(array(name))
            })
            .collect(),
        Arrays::Folders => Err(Error::corrupt("the tree of the checkpoint is missing")
            .file(files.input().display(&join(folder, TREE)))
            .help("copy all files of the checkpoint")),
    }
}

/// The names of the arrays in a database.
fn array_names(database: &Database) -> impl Iterator<Item = &[u8]> {
    database.keys().filter_map(|key| {
        let [rest] = [ARRAY_2, ARRAY_3]
            .iter()
            .filter_map(|name| key.strip_suffix(name.as_bytes()))
            .collect::<Vec<_>>()[..]
        else {
            return None;
        };
        if rest.is_empty() { Some(rest) } else { rest.strip_suffix(b"/") }
    })
}

/// Refuses two arrays under one name: Orbax has stored one of them, and lost the other.
fn check_names(leaves: &[Leaf]) -> Result<()> {
    let mut seen = HashSet::new();
    let stored = leaves.iter().filter(|leaf| !matches!(leaf.content, Content::Empty(_)));
    match stored.map(|leaf| leaf.name.as_str()).find(|name| !seen.insert(*name)) {
        None => Ok(()),
        Some(name) => Err(Error::corrupt(
            "two leaves of the tree have one name, so that one of them was lost when it was saved",
        )
        .tensor(name.escape_debug().to_string())
        .found("keys such as 'a.b' beside 'a' that holds 'b'")
        .help("save the checkpoint again with keys without dots")),
    }
}

/// The note on arrays that no leaf refers to.
fn unlisted(arrays: &Arrays, leaves: &[Leaf]) -> Option<Text> {
    let Arrays::Database(database) = arrays else { return None };
    let known: HashSet<&[u8]> = leaves.iter().map(|leaf| stored_name(leaf).as_bytes()).collect();
    let unlisted: Vec<String> = array_names(database)
        .filter(|name| !known.contains(name))
        .map(|name| String::from_utf8_lossy(name).escape_debug().to_string())
        .collect();
    let number = count(unlisted.len() as u64, "array");
    let text =
        || format!("{number} that the tree does not list left out: {}", first_few(&unlisted, SHOWN)).into();
    (!unlisted.is_empty()).then(text)
}

/// Announces the files that describe arrays in folders of their own.
fn announce(leaves: &[Leaf], arrays: &Arrays, folder: &str, files: &Files<'_>) {
    if let Arrays::Folders = arrays {
        let stored = leaves.iter().filter(|leaf| is_stored(leaf));
        let below = stored.map(|leaf| join(folder, stored_name(leaf)));
        let names: Vec<String> =
            below.flat_map(|below| [ARRAY_2, ARRAY_3].map(|name| join(&below, name))).collect();
        files.input().will_open(&names);
    }
}

/// The texts of an item, by name.
fn strings(
    folder: &str,
    leaves: &[Leaf],
    files: &Files<'_>,
    limits: &Limits,
) -> Result<HashMap<String, MetadataValue>> {
    if !leaves.iter().any(|leaf| leaf.content == Content::Text) {
        return Ok(HashMap::new());
    }
    let file = files.input().file(&join(folder, STRINGS))?;
    let named = |error: Error| error.file(file.name());
    limits.check(Limit::TextBytes, file.len()).map_err(named)?;
    let json = Json::parse(&file.bytes(0, file.len())?).map_err(named)?;
    let entries = json.entries().ok_or_else(|| named(Error::corrupt("the texts are no JSON object")))?;
    Ok(entries.iter().map(|(name, text)| (name.clone(), text.metadata())).collect())
}

/// Which arrays are random keys, and of which kind. The file is of no use otherwise, and one that cannot be read is as none.
fn random_keys(folder: &str, files: &Files<'_>, limits: &Limits) -> HashMap<String, String> {
    let name = join(folder, ARRAY_METADATA);
    let read = || {
        let file = files.input().has_file(&name).then(|| files.input().file(&name))?.ok()?;
        limits.check(Limit::TextBytes, file.len()).ok()?;
        let bytes = file.bytes(0, file.len()).ok()?;
        // The file describes every array, and few checkpoints have random keys: looking for the word takes a hundredth of the time.
        let has_keys = str::from_utf8(&bytes).is_ok_and(|text| text.contains(RANDOM_KEY));
        has_keys.then(|| Json::parse(&bytes))?.ok()
    };
    let json = read().unwrap_or(Json::Null);
    let entries = json.get("array_metadatas").and_then(Json::list).unwrap_or_default();
    let key = |entry: &Json| {
        let own = entry.get("array_metadata")?;
        let kind = own.get("ext_metadata")?.get(RANDOM_KEY)?.text()?;
        Some((own.get("param_name")?.text()?.to_owned(), kind.to_owned()))
    };
    entries.iter().filter_map(key).collect()
}

struct ItemReader<'a> {
    folder: &'a str,
    arrays: &'a Arrays,
    old_tree: Option<FileId>,
    limits: &'a Limits,
    /// Bytes of the descriptions of arrays so far.
    read: u64,
    known: KnownArrays,
}

/// Arrays by the texts that describe them: many arrays of a checkpoint have one text.
#[derive(Default)]
struct KnownArrays(HashMap<(&'static str, Vec<u8>), Rc<Array>>);

impl KnownArrays {
    /// Texts that are kept, at most.
    const MOST: usize = 1024;

    fn parse(&mut self, bytes: Vec<u8>, name: &'static str) -> Result<Rc<Array>> {
        let key = (name, bytes);
        if let Some(array) = self.0.get(&key) {
            return Ok(array.clone());
        }
        let array = Rc::new(zarr::parse(&key.1, name)?);
        if self.0.len() < Self::MOST {
            self.0.insert(key, array.clone());
        }
        Ok(array)
    }
}

impl ItemReader<'_> {
    /// The tensor that a leaf is; `None` for one that is no array.
    fn tensor(&mut self, leaf: &Leaf, files: &mut Files<'_>) -> Result<Option<(Tensor, Placement)>> {
        match &leaf.content {
            Content::Array => self.array(leaf, &leaf.name, files).map(Some),
            Content::Named(name) => self.array(leaf, name, files).map(Some),
            Content::Within(array) => self.within(leaf, array).map(Some),
            Content::Text | Content::Value(_) | Content::Empty(_) => Ok(None),
        }
    }

    /// Locates an error of a leaf: where nothing more is known, at the file of which its array is missing.
    fn locate(&self, error: Error, leaf: &Leaf, files: &Files<'_>) -> Error {
        let place = match self.arrays {
            Arrays::Database(_) => join(self.folder, MANIFEST),
            Arrays::Folders => join(self.folder, stored_name(leaf)),
        };
        error.tensor(leaf.name.escape_debug().to_string()).file(files.input().display(&place))
    }

    /// An array that is stored under a name.
    fn array(&mut self, leaf: &Leaf, name: &str, files: &mut Files<'_>) -> Result<(Tensor, Placement)> {
        if let Arrays::Folders = self.arrays
            && !name.is_empty()
        {
            check_path(name)?;
        }
        let find: Box<FindChunk<'_>> = match self.arrays {
            Arrays::Database(database) => Box::new(|_, key| Ok(database.get(&join(name, key)).cloned())),
            Arrays::Folders => {
                let below = join(self.folder, name);
                Box::new(move |files, key| in_folder(&join(&below, key), files))
            }
        };
        let (array, file) = metadata(&find, files, self.limits, &mut self.read, &mut self.known)?;
        let placed = zarr::placed(&array, &find, files, self.limits).map_err(|error| match file {
            Some(file) => error.file(files.input().display(&file)),
            None => error,
        })?;
        let tensor = Tensor::new(leaf.name.as_str(), array.stored.dtype, array.shape.clone());
        let placement = Placement::new(TensorId(0), name, placed.extents, placed.encoding);
        Ok((tensor, placement.with_window(placed.window)))
    }

    /// An array that the tree in msgpack holds.
    fn within(&self, leaf: &Leaf, array: &FlaxArray) -> Result<(Tensor, Placement)> {
        let file = self.old_tree.ok_or_else(|| Error::defect("an array within no file"))?;
        Ok(within_file(&leaf.name, array, file))
    }
}

/// Reads what describes an array, and says in which file that is. `read` counts the bytes of all descriptions.
fn metadata(
    find: &FindChunk<'_>,
    files: &mut Files<'_>,
    limits: &Limits,
    read: &mut u64,
    known: &mut KnownArrays,
) -> Result<(Rc<Array>, Option<String>)> {
    for name in [ARRAY_2, ARRAY_3] {
        let Some(value) = find(files, name)? else { continue };
        *read = read.saturating_add(value.len());
        limits.check(Limit::HeaderBytes, *read)?;
        let bytes = value.read_all(files, limits)?;
        let file = match &value {
            Value::Stored(stored) => files.names.get(stored.file.0).cloned(),
            Value::Inline { .. } => None,
        };
        let array = known.parse(bytes, name).map_err(|error| match &file {
            Some(file) => error.file(files.input().display(file)),
            None => error,
        })?;
        return Ok((array, file));
    }
    Err(Error::corrupt("the array is missing")
        .expected(format!("{ARRAY_2} or {ARRAY_3} of the array"))
        .help("copy all files of the checkpoint, or use another step"))
}

/// A tensor whose bytes are pieces of a file.
pub(crate) fn within_file(name: &str, array: &FlaxArray, file: FileId) -> (Tensor, Placement) {
    let tensor = Tensor::new(name, array.stored.dtype, array.shape.clone());
    let pieces = array.pieces.iter().filter(|(_, len)| *len > 0);
    let extents: Vec<Extent> = pieces.map(|(offset, len)| Extent::new(file, *offset, *len)).collect();
    let placement = Placement::new(TensorId(0), name, extents, Encoding::row_major(&tensor));
    (tensor, placement)
}

/// A file as the value of a key.
fn in_folder(path: &str, files: &mut Files<'_>) -> Result<Option<Value>> {
    if !files.input().has_file(path) {
        return Ok(None);
    }
    let file = files.number(path);
    let len = files.open(file)?.len();
    Ok(Some(Value::Stored(StoredValue { file, offset: 0, len })))
}

impl Others {
    /// Adds a leaf that is no array.
    fn add(&mut self, leaf: &Leaf, strings: &HashMap<String, MetadataValue>) -> Result<()> {
        if let (Content::Text | Content::Empty(_), Some(path)) = (&leaf.content, &leaf.path) {
            self.paths.push((leaf.name.clone(), path_metadata(path)));
        }
        let name = leaf.name.clone();
        match &leaf.content {
            Content::Text => {
                let text = strings.get(&name).cloned().ok_or_else(|| no_text(&name))?;
                self.strings.push((name, text));
            }
            Content::Value(value) => self.values.push((name, value.clone())),
            Content::Empty(kind) => self.empty.push((name, kind.as_str().into())),
            Content::Array | Content::Named(_) | Content::Within(_) => {}
        }
        Ok(())
    }

    /// Adds the leaves of an item to metadata, under names that begin with its own.
    pub(crate) fn add_to(self, metadata: &mut HashMap<&'static str, MetadataMap>, prefix: &str) {
        // Paths begin at the item: they are those of names without it.
        let paths = if prefix.is_empty() { self.paths } else { Vec::new() };
        let kinds =
            [("strings", self.strings), ("values", self.values), ("empty", self.empty), ("paths", paths)];
        for (key, entries) in kinds {
            let map = metadata.entry(key).or_default();
            for (name, value) in entries {
                map.insert(format!("{prefix}{name}"), value);
            }
        }
    }
}
