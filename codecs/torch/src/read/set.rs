//! Reads a set of files by its index.

use super::file;
use crate::format::ID;
use crate::format::keys::ZIP;
use ckpt_api::{
    Contents, Error, File, FileId, Input, Limit, Limits, MetadataMap, MetadataValue, PartSet, Placement,
    Result, Rules, Tensor, TensorId, add_parts, add_unlisted, first_few,
};
use std::collections::{BTreeMap, BTreeSet};

/// Names that a message lists.
const SHOWN: usize = 8;

/// The content of an index.
pub(crate) struct Index {
    /// Files by the names of their tensors.
    files: BTreeMap<String, String>,
    metadata: Option<MetadataMap>,
}

impl Index {
    /// Reads an index.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for anything else.
    pub(crate) fn read(file: &File, limits: &Limits) -> Result<Self> {
        let wrong = |what: &str| {
            Error::corrupt(format!("the index {what}"))
                .file(file.name())
                .expected("a JSON object with a weight_map from names to files")
        };
        limits.check(Limit::TextBytes, file.len()).map_err(|error| error.file(file.name()))?;
        let text = file.bytes(0, file.len())?;
        let value: MetadataValue = serde_json::from_slice(&text)
            .map_err(|error| wrong("is no valid JSON").found(error.to_string()).caused_by(error))?;
        let map = value.as_map().ok_or_else(|| wrong("is no object"))?;
        let weights = map.get("weight_map").and_then(MetadataValue::as_map);
        let weights = weights.ok_or_else(|| wrong("has no weight_map"))?;
        let pairs = weights.iter().map(|(name, file)| Some((name.to_owned(), file.as_text()?.to_owned())));
        let files = pairs.collect::<Option<BTreeMap<_, _>>>();
        let files =
            files.ok_or_else(|| wrong("has something else than the names of files in its weight_map"))?;
        Ok(Index { files, metadata: map.get("metadata").and_then(MetadataValue::as_map).cloned() })
    }

    /// Whether the set's files are PyTorch's by their names.
    pub(crate) fn is_ours(&self) -> bool {
        !self.files.is_empty() && self.files.values().all(|file| !file.ends_with(".safetensors"))
    }
}

/// Reads all files of a set.
pub(crate) fn read(input: &Input, name: &str, rules: &mut Rules, limits: &Limits) -> Result<Contents> {
    let index_file = input.file(name)?;
    let index = Index::read(&index_file, limits)?;
    let shards: BTreeSet<&String> = index.files.values().collect();
    limits.check(Limit::Files, shards.len() as u64)?;
    input.will_open(&shards.iter().collect::<Vec<_>>());
    let (mut all, mut unlisted) = (Contents::default(), Vec::new());
    for shard in shards {
        let file =
            input.file(shard).map_err(|error| error.help("the index names it: copy all files of the set"))?;
        let contents = file::read(&file, None, rules, limits).map_err(|error| error.file(file.name()))?;
        unlisted.extend(add(&mut all, Some(&index), shard, contents));
    }
    // transformers reads what each file has, and not where the index places a tensor.
    let tensors = all.checkpoint.tensors.iter().chain(unlisted.iter().map(|(tensor, _)| tensor));
    let found: BTreeSet<&str> = tensors.map(|tensor| tensor.name.as_str()).collect();
    let missing: Vec<&String> = index.files.keys().filter(|name| !found.contains(name.as_str())).collect();
    if !missing.is_empty() {
        return Err(Error::corrupt("the index names tensors that no file holds")
            .file(index_file.name())
            .found(first_few(&missing, SHOWN))
            .help("the files are of different checkpoints: copy all of them again"));
    }
    add_unlisted(input, &mut all, unlisted, |name| index.files.contains_key(name))?;
    // Sorted, and each once.
    all.notes.sort();
    all.notes.dedup();
    if let Some(metadata) = index.metadata {
        all.checkpoint.metadata.insert(ID, "index", MetadataValue::Map(metadata));
    }
    Ok(all)
}

/// Reads the files of a set that has no index, by their names.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for two tensors of one name; those of reading the files.
pub(crate) fn read_parts(
    input: &Input,
    names: &[String],
    rules: &mut Rules,
    limits: &Limits,
) -> Result<Contents> {
    limits.check(Limit::Files, names.len() as u64)?;
    input.will_open(names);
    let (mut all, mut tensors) = (Contents::default(), Vec::new());
    for name in names {
        let file = input.file(name)?;
        let contents = file::read(&file, None, rules, limits).map_err(|error| error.file(file.name()))?;
        tensors.extend(add(&mut all, None, name, contents));
    }
    add_parts(input, &mut all, tensors)?;
    all.notes.sort();
    all.notes.dedup();
    all.losses.extend(PartSet::of(names).and_then(|set| set.loss(&input.display(""))));
    Ok(all)
}

/// Adds a file, and the tensors that the index places in it; returns the file's other tensors: without an index, all.
fn add(
    all: &mut Contents,
    index: Option<&Index>,
    shard: &str,
    mut contents: Contents,
) -> Vec<(Tensor, Placement)> {
    let file = FileId(all.files.len());
    all.files.push(shard.to_owned());
    all.notes.extend(contents.notes);
    all.losses.extend(contents.losses);
    // What one file was written with says nothing of a set.
    contents.checkpoint.metadata.remove(ZIP);
    for (namespace, values) in contents.checkpoint.metadata.iter() {
        for (key, value) in values.iter() {
            if all.checkpoint.metadata.value(namespace, key).is_none() {
                all.checkpoint.metadata.insert(namespace, key, value.clone());
            }
        }
    }
    let mut unlisted = Vec::new();
    for (tensor, mut placement) in contents.checkpoint.tensors.into_iter().zip(contents.placements) {
        for extent in &mut placement.extents {
            extent.file = file;
        }
        let is_listed = |index: &Index| index.files.get(tensor.name.as_str()).is_some_and(|own| own == shard);
        if !index.is_some_and(is_listed) {
            unlisted.push((tensor, placement));
            continue;
        }
        placement.tensor = TensorId(all.checkpoint.tensors.len());
        all.checkpoint.tensors.push(tensor);
        all.placements.push(placement);
    }
    unlisted
}
