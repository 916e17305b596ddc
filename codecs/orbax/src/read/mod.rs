//! Recognizes and reads a checkpoint of Orbax.

mod item;
pub(crate) mod locate;
mod steps;

pub(crate) use item::within_file;

use crate::format::json::Json;
use crate::format::{MANIFEST, NAMESPACE, TREE, join};
use crate::ocdbt::{Files, MANIFEST_MAGIC};
use crate::roles;
use ckpt_api::{Contents, Error, Input, Kind, Limit, Limits, Match, MetadataMap, Options, Result, TensorId};
use item::ItemContents;
use locate::{Item, locate};
use std::collections::HashMap;

/// Memory that keys, values and trees take for each tensor.
const EACH_BYTES: u64 = 1024;

/// The file of an item that is JSON.
const JSON_ITEM: &str = "metadata";

/// See [`ckpt_api::Codec::probe`].
pub(crate) fn probe(input: &Input) -> Result<Match> {
    let located = match locate(input, None) {
        Ok(Some(located)) => located,
        Ok(None) => return Ok(Match::No),
        Err(error) if error.kind() == Kind::Corrupt => {
            return Ok(Match::Certain("a folder of a save of Orbax that did not finish".to_owned()));
        }
        Err(error) => return Err(error),
    };
    let what = match (located.step, &located.items[..]) {
        (Some(step), _) => format!("a folder of steps, of which the newest is {step}"),
        (None, [Item { name, .. }]) if name.is_empty() => {
            "a folder with a tree or a database of Orbax".to_owned()
        }
        (None, items) => format!("a folder with {} of Orbax", ckpt_api::count(items.len() as u64, "item")),
    };
    for item in &located.items {
        if has_sign(input, &item.folder)? {
            return Ok(Match::Certain(what));
        }
    }
    Ok(Match::Possible(format!("named like {what}")))
}

/// Whether a file of an item begins as one of Orbax does.
fn has_sign(input: &Input, folder: &str) -> Result<bool> {
    /// Bytes of a text that are looked at.
    const HEAD: u64 = 512;
    let head = |name: &str| {
        let name = join(folder, name);
        match input.has_file(&name) {
            true => input.file(&name).and_then(|file| file.bytes(0, file.len().min(HEAD))),
            false => Ok(Vec::new()),
        }
    };
    let word = b"\"tree_metadata\"";
    Ok(head(MANIFEST)?.starts_with(&MANIFEST_MAGIC.to_be_bytes())
        || head(TREE)?.windows(word.len()).any(|part| part == word)
        || locate::has_old_tree(input, folder)?
        || !locate::processes(input, folder)?.is_empty())
}

/// See [`ckpt_api::Codec::read`].
pub(crate) fn read(input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
    let step = options.text("step").map(|text| {
        text.parse().map_err(|_| Error::usage("the step is no number").field("step").found(text.to_owned()))
    });
    let located = locate(input, step.transpose()?)?.ok_or_else(|| nothing(input))?;
    let mut files = Files::new(input);
    let mut items = Vec::new();
    for Item { name, folder } in &located.items {
        let contents = item::read(folder, &mut files, limits).map_err(|error| match name.is_empty() {
            true => error,
            false => error.field(format!("item {}", name.escape_debug())),
        })?;
        items.push((name.as_str(), contents));
    }
    let mut contents = joined(items);
    contents.files = files.names;
    contents.notes.splice(0..0, located.notes);
    let metadata = &mut contents.checkpoint.metadata;
    let json = json_items(input, &located.others, limits);
    if !json.is_empty() {
        metadata.insert(NAMESPACE, "json", json);
    }
    roles::assign(&mut contents.checkpoint.tensors);
    let bytes = EACH_BYTES.saturating_mul(contents.placements.len() as u64);
    Ok(contents.with_working_memory(bytes))
}

fn nothing(input: &Input) -> Error {
    Error::corrupt("the folder holds nothing of a checkpoint of Orbax")
        .file(input.display(""))
        .expected("_METADATA, manifest.ocdbt, or folders of items or steps that have them")
}

/// All items as one checkpoint: the names of tensors begin with their item's if several hold tensors.
fn joined(items: Vec<(&str, ItemContents)>) -> Contents {
    let with_tensors = items.iter().filter(|(_, item)| !item.tensors.is_empty()).count();
    let mut contents = Contents::default();
    let mut others: HashMap<&'static str, MetadataMap> = HashMap::new();
    let mut custom = MetadataMap::new();
    for (name, item) in items {
        let prefix = if with_tensors > 1 && !name.is_empty() { format!("{name}.") } else { String::new() };
        for (mut tensor, placement) in item.tensors {
            if !prefix.is_empty() {
                tensor.name = match tensor.name.is_empty() {
                    true => name.into(),
                    false => format!("{prefix}{}", tensor.name).into(),
                };
                tensor.metadata.insert(NAMESPACE, "item", name);
            }
            contents.placements.push(placement.with_tensor(TensorId(contents.placements.len())));
            contents.checkpoint.tensors.push(tensor);
        }
        item.others.add_to(&mut others, &prefix);
        if let Some(own) = item.custom {
            custom.insert(name, own);
        }
        contents.notes.extend(item.notes);
    }
    let metadata = &mut contents.checkpoint.metadata;
    let mut sorted: Vec<_> = others.into_iter().filter(|(_, map)| !map.is_empty()).collect();
    sorted.sort_by_key(|(key, _)| *key);
    for (key, map) in sorted {
        metadata.insert(NAMESPACE, key, map);
    }
    if !custom.is_empty() {
        metadata.insert(NAMESPACE, "custom_metadata", custom);
    }
    contents
}

/// The items that are JSON; what cannot be read is none.
fn json_items(input: &Input, others: &[Item], limits: &Limits) -> MetadataMap {
    let mut map = MetadataMap::new();
    for Item { name, folder } in others {
        let file = join(folder, JSON_ITEM);
        let read = || {
            let file = input.has_file(&file).then(|| input.file(&file))?.ok()?;
            limits.check(Limit::TextBytes, file.len()).ok()?;
            Json::parse(&file.bytes(0, file.len()).ok()?).ok()
        };
        if let Some(json) = read() {
            map.insert(name.as_str(), json.metadata());
        }
    }
    map
}
