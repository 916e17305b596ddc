//! Byte-pair encoding over bytes.

use super::source::{Found, Source};
use super::{special, vocabulary};
use crate::files::{Merge, Model, Normalizer, name};
use crate::{SpacePrefix, key, pre};
use ckpt_api::{Error, Limit, MetadataMap, Result};

/// Returns the keys of `tokenizer.json`.
pub(super) fn keys(source: &mut Source) -> Result<Found> {
    let Some(json) = source.json.as_ref().filter(|_| source.model_of("BPE").is_some()) else {
        return Ok(None);
    };
    let pre = pre::name(&json.value, source.request).map_err(|error| source.in_json(error))?;
    let mut notes = pre.notes;
    notes.extend(json.value.normalizer.as_ref().and_then(unapplied));
    let Some(mut model) = source.take_model() else { return Ok(None) };
    let merges = merges(source, &mut model)?;
    let tokens = vocabulary::of_json(source, model.vocab).map_err(|error| source.in_json(error))?;
    let mut pairs = MetadataMap::new();
    space_prefix(source, &mut pairs);
    pairs.insert(key::MODEL, key::model::BPE);
    pairs.insert(key::PRE, pre.name);
    vocabulary::write(&mut pairs, tokens, false);
    pairs.insert(key::MERGES, merges);
    special::write(source, None, &mut pairs, &mut notes)?;
    Ok(Some((pairs, notes)))
}

/// Returns a note on what a normalizer does to texts and llama.cpp does not. Lowercase and accents have keys.
fn unapplied(normalizer: &Normalizer) -> Option<String> {
    let mut kinds = Vec::new();
    let mut left = vec![normalizer];
    while let Some(normalizer) = left.pop() {
        match normalizer.kind.as_str() {
            "Sequence" => left.extend(normalizer.parts().iter().rev()),
            "Lowercase" | "StripAccents" => {}
            other => kinds.push(other.escape_debug().to_string()),
        }
    }
    let kinds = (!kinds.is_empty()).then(|| ckpt_api::first_few(kinds, 5))?;
    Some(format!("tokenizer.json normalizes each text ({kinds}), and llama.cpp does not"))
}

/// Appends the key that the Llama family writes first.
pub(super) fn space_prefix(source: &Source, pairs: &mut MetadataMap) {
    let stated = source.config.as_ref().and_then(|config| config.value.adds_prefix_space());
    if let (SpacePrefix::Stated, Some(adds)) = (source.request.space_prefix, stated) {
        pairs.insert(key::ADD_SPACE_PREFIX, adds);
    }
}

/// Returns the merges of `tokenizer.json`, or if it has none, those of `merges.txt`.
fn merges(source: &Source, model: &mut Model) -> Result<Vec<String>> {
    let merges = std::mem::take(&mut model.merges);
    if !merges.is_empty() {
        vocabulary::check_merges(model, &merges).map_err(|error| source.in_json(error))?;
        return Ok(merges.into_iter().map(Merge::into_text).collect());
    }
    if !source.directory.has_file(name::MERGES) {
        let error = Error::corrupt("the tokenizer has no merges")
            .field("model.merges")
            .expected("merges there, or in merges.txt: llama.cpp does not load the model without");
        return Err(source.in_json(error));
    }
    let file = source.directory.file(name::MERGES)?;
    let named = |error: Error| error.file(file.name());
    source.limits.check(Limit::HeaderBytes, file.len()).map_err(named)?;
    let bytes = file.bytes(0, file.len())?;
    let text = str::from_utf8(&bytes).map_err(|_| named(Error::corrupt("the file is not UTF-8")))?;
    let merges = lines(text, source).map_err(named)?;
    vocabulary::check_merges(model, &merges).map_err(named)?;
    Ok(merges.into_iter().map(Merge::into_text).collect())
}

/// Parses `merges.txt`: a merge a line, after a line that states the version.
fn lines(text: &str, source: &Source) -> Result<Vec<Merge>> {
    let mut merges = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || (index == 0 && line.starts_with('#')) {
            continue;
        }
        source.limits.check(Limit::MetadataEntries, merges.len() as u64 + 1)?;
        merges.push(Merge::parse(line).ok_or_else(|| {
            Error::corrupt("a line does not have two tokens")
                .field(format!("line {}", index + 1))
                .expected("two tokens with one space in between")
        })?);
    }
    Ok(merges)
}
