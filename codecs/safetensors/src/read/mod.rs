//! Reads a file, or a sharded set by its index.

mod parts;
mod tensor;

use crate::carried::{self, Carried};
use crate::format::{EXTENSION, Entry, Header, INDEX_EXTENSION, INDEX_NAMESPACE, Index, NAMESPACE};
use ckpt_api::{
    Contents, Error, File, FileId, Input, Kind, Limit, Limits, Match, MetadataValue, Name, PartSet,
    Placement, Result, Tensor, TensorId, add_unlisted, first_few, weights_left_elsewhere,
};
use parts::SHOWN;
use std::collections::{BTreeSet, HashMap, HashSet};
use tensor::describe;

/// See [`ckpt_api::Codec::probe`].
pub fn probe(input: &Input) -> Result<Match> {
    let limits = input.limits();
    let (name, outcome) = match locate(input)? {
        Located::Nothing => return Ok(Match::No),
        Located::Several(names) => {
            return Ok(Match::Possible(format!(
                "the directory contains several: {}",
                first_few(&names, SHOWN)
            )));
        }
        Located::Index(name) => {
            let why = probe_index(&input.file(&name)?, limits);
            (name, why)
        }
        Located::Parts(mut names) => {
            let name = names.swap_remove(0);
            let why = probe_file(input, &input.file(&name)?);
            (name, why)
        }
        Located::File(name) => {
            if !input.has_file(&name) {
                return Ok(Match::No);
            }
            let why = probe_file(input, &input.file(&name)?);
            (name, why)
        }
    };
    match outcome {
        Ok(why) => Ok(Match::Certain(why)),
        Err(error) if error.kind() == Kind::Io => Err(error),
        Err(error) if name.ends_with(EXTENSION) || name.ends_with(INDEX_EXTENSION) => {
            Ok(Match::Possible(format!("it is named like one, but {error}")))
        }
        Err(_) => Ok(Match::No),
    }
}

fn probe_file(input: &Input, file: &File) -> Result<String> {
    let before = file.identity();
    let found = Header::read(file, input.limits())?;
    let why = format!("a valid header that describes {}", ckpt_api::count(found.0.tensors.len(), "tensor"));
    input.keep(file, before, found);
    Ok(why)
}

fn probe_index(file: &File, limits: &Limits) -> Result<String> {
    let index = read_index(file, limits)?;
    match index.weight_map.0.values().find(|shard| !shard.ends_with(EXTENSION)) {
        Some(shard) => {
            Err(Error::corrupt("the index names a file of another kind").found(format!("'{shard}'")))
        }
        None => Ok("an index whose weight_map names .safetensors files".to_owned()),
    }
}

/// See [`ckpt_api::Codec::read`].
pub fn read(input: &Input, limits: &Limits) -> Result<Contents> {
    match locate(input)? {
        Located::File(name) => read_file(input, name, limits),
        Located::Parts(names) => parts::read(input, &names, limits),
        Located::Index(name) => read_set(input, &name, limits),
        Located::Several(names) => Err(parts::several(input, &names)),
        Located::Nothing => Err(Error::usage("the directory contains no safetensors file")
            .file(input.display(""))
            .expected(format!("one file *{EXTENSION} or one index *{INDEX_EXTENSION}"))),
    }
}

enum Located {
    File(String),
    /// Files of one set, without an index.
    Parts(Vec<String>),
    Index(String),
    Several(Vec<String>),
    Nothing,
}

fn locate(input: &Input) -> Result<Located> {
    if !input.is_directory() {
        let name = input.entry().to_owned();
        let is_index = name.ends_with(".json") && input.is_file();
        return Ok(if is_index { Located::Index(name) } else { Located::File(name) });
    }
    let names = input.list("")?;
    let ending = |ending: &str| -> Vec<String> {
        names.iter().filter(|name| name.ends_with(ending)).cloned().collect()
    };
    let (mut indexes, mut files) = (ending(INDEX_EXTENSION), ending(EXTENSION));
    Ok(match (indexes.len(), files.len()) {
        (0, 0) => Located::Nothing,
        (1, _) => Located::Index(indexes.remove(0)),
        (0, 1) => Located::File(files.remove(0)),
        (0, _) => match PartSet::of(&files) {
            Some(set) => Located::Parts(set.names.into_values().collect()),
            None if files.iter().all(|name| is_of_ranks(name)) => Located::Parts(files),
            None => Located::Several(files),
        },
        _ => Located::Several(indexes),
    })
}

/// Whether a file is named as those of the ranks that saved parts of tensors: `shard-00001-model-00001-of-00001`. Reading
/// shows whether it is one.
fn is_of_ranks(name: &str) -> bool {
    let number = name.strip_prefix("shard-").and_then(|rest| rest.split_once('-'));
    number.is_some_and(|(number, _)| number.len() >= 5 && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn read_index(file: &File, limits: &Limits) -> Result<Index> {
    let named = |error: Error| error.file(file.name());
    limits.check(Limit::HeaderBytes, file.len()).map_err(named)?;
    Index::parse(&file.bytes(0, file.len())?).map_err(named)
}

fn read_file(input: &Input, name: String, limits: &Limits) -> Result<Contents> {
    let file = input.file(&name)?;
    let known = input.take::<(Header, u64)>(&file).filter(|_| limits == input.limits());
    let (header, start) = known.map_or_else(|| Header::read(&file, limits), Ok)?;
    let losses = parts::losses(&name, &header);
    let mut pairs = header.pairs.unwrap_or_default();
    let carried = pairs.get(carried::KEY).and_then(|text| Carried::parse(text));
    let mut contents = Contents::default().with_losses(losses);
    if carried.is_some() {
        pairs.remove(carried::KEY);
    } else if pairs.contains_key(carried::KEY) {
        contents.notes.push(format!(
            "the text under '{}' in the header is from another program or a later version: it is kept unchanged",
            carried::KEY
        ).into());
    }
    for (key, value) in pairs {
        contents.checkpoint.metadata.insert(NAMESPACE, &key, value);
    }
    add_tensors(&mut contents, FileId(0), start, header.tensors).map_err(|error| error.file(file.name()))?;
    contents.files.push(name);
    if carried.is_none() && contents.checkpoint.metadata.value(NAMESPACE, "format").is_some() {
        contents.losses.extend(weights_left_elsewhere(&contents.checkpoint.tensors));
    }
    restore(&mut contents, carried);
    Ok(contents)
}

fn add_tensors(contents: &mut Contents, file: FileId, start: u64, tensors: Vec<(Name, Entry)>) -> Result<()> {
    contents.checkpoint.tensors.reserve_exact(tensors.len());
    contents.placements.reserve_exact(tensors.len());
    for (name, entry) in tensors {
        let id = TensorId(contents.checkpoint.tensors.len());
        let (tensor, placement) = describe(id, file, start, name, entry)?;
        contents.checkpoint.tensors.push(tensor);
        contents.placements.push(placement);
    }
    Ok(())
}

fn restore(contents: &mut Contents, carried: Option<Carried>) {
    if let Some(carried) = carried {
        let mut notes = Vec::new();
        carried.restore(&mut contents.checkpoint, &mut contents.placements, &mut notes);
        contents.add_notes(notes);
    }
}

fn read_set(input: &Input, name: &str, limits: &Limits) -> Result<Contents> {
    let shown = input.display(name);
    let index = read_index(&input.file(name)?, limits)?;
    let weight_map = &index.weight_map.0;
    limits.check(Limit::Tensors, weight_map.len() as u64).map_err(|error| error.file(&shown))?;
    let shards: BTreeSet<&str> = weight_map.values().map(String::as_str).collect();
    limits.check(Limit::Files, shards.len() as u64).map_err(|error| error.file(&shown))?;

    input.will_open(&shards.iter().collect::<Vec<_>>());
    let mut contents = Contents::default();
    let mut listed: HashMap<&str, &str> =
        weight_map.iter().map(|(tensor, shard)| (tensor.as_str(), shard.as_str())).collect();
    let mut unlisted = Vec::new();
    for shard in shards {
        unlisted.extend(
            read_shard(input, shard, &mut listed, &mut contents, limits)
                .map_err(|error| error.file(&shown))?,
        );
    }
    // transformers reads the header of each shard, and not where the index places a tensor.
    let mut misplaced = HashSet::new();
    for (tensor, _) in &unlisted {
        if listed.remove(tensor.name.as_str()).is_some() {
            misplaced.insert(tensor.name.clone());
        }
    }
    if let Some((tensor, shard)) = listed.into_iter().min() {
        return Err(Error::corrupt("the index names a tensor that no shard holds")
            .file(shown)
            .field("weight_map")
            .tensor(tensor)
            .expected(format!("it in '{shard}'"))
            .help("the index or the shard belongs to another checkpoint: copy both again"));
    }
    add_unlisted(input, &mut contents, unlisted, |name| misplaced.contains(name))?;
    limits.check(Limit::Tensors, contents.placements.len() as u64).map_err(|error| error.file(&shown))?;
    let carried = read_index_metadata(index, &mut contents);
    restore(&mut contents, carried);
    Ok(contents)
}

/// Adds the tensors that the index places in a shard, and removes them from `listed`. Returns the shard's other tensors.
fn read_shard(
    input: &Input,
    shard: &str,
    listed: &mut HashMap<&str, &str>,
    contents: &mut Contents,
    limits: &Limits,
) -> Result<Vec<(Tensor, Placement)>> {
    let file = input.file(shard).map_err(|error| {
        error
            .field("weight_map")
            .help("the index names this shard: it must lie beside the index, under this name")
    })?;
    let (header, start) = Header::read(&file, limits)?;
    let is_own = |(tensor, _): &(Name, Entry)| listed.get(tensor.as_str()) == Some(&shard);
    let (own, others): (Vec<_>, Vec<_>) = header.tensors.into_iter().partition(is_own);
    for (tensor, _) in &own {
        listed.remove(tensor.as_str());
    }
    let metadata = &mut contents.checkpoint.metadata;
    for (key, value) in header.pairs.unwrap_or_default() {
        match metadata.text(NAMESPACE, &key) {
            Some(first) if first != value => contents.notes.push(format!(
                "shard '{shard}' has a different value for the metadata key '{key}' than an earlier shard: the later \
                 value is left out"
            ).into()),
            _ => metadata.insert(NAMESPACE, &key, value),
        }
    }
    let id = FileId(contents.files.len());
    contents.files.push(shard.to_owned());
    add_tensors(contents, id, start, own).map_err(|error| error.file(file.name()))?;
    let place = |(name, entry)| describe(TensorId(0), id, start, name, entry);
    others.into_iter().map(place).collect::<Result<_>>().map_err(|error| error.file(file.name()))
}

fn read_index_metadata(index: Index, contents: &mut Contents) -> Option<Carried> {
    let mut carried = None;
    for (key, value) in index.metadata.unwrap_or_default() {
        match (key.as_str(), value.as_text()) {
            ("total_size", _) => check_total(&value, contents),
            (carried::KEY, Some(text)) => match Carried::parse(text) {
                Some(parsed) => carried = Some(parsed),
                None => {
                    contents.notes.push(format!(
                        "the text under '{key}' in the index is from another program or a later version: it is kept \
                         unchanged"
                    ).into());
                    contents.checkpoint.metadata.insert(INDEX_NAMESPACE, &key, value);
                }
            },
            _ => contents.checkpoint.metadata.insert(INDEX_NAMESPACE, &key, value),
        }
    }
    carried
}

/// Notes a `total_size` that differs from the tensors' size. Writers round it or count differently, so this is not an
/// error.
fn check_total(stated: &MetadataValue, contents: &mut Contents) {
    let extents = contents.placements.iter().flat_map(|placement| &placement.extents);
    let total = extents.fold(0u64, |sum, extent| sum.saturating_add(extent.len));
    if stated.as_u64() != Some(total) {
        contents.notes.push(
            format!("the index states a total_size of {stated}; the size of the tensors is {total}").into(),
        );
    }
}
