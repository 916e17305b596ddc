//! The index of weights that are stored in several files.

use ckpt_api::{Error, File, Limit, Limits, MetadataValue, Result};
use std::collections::{BTreeMap, BTreeSet};

/// The content of an index.
#[derive(Debug)]
pub(crate) struct Index {
    /// For each file, the groups whose datasets it has.
    pub(crate) groups: BTreeMap<String, BTreeSet<String>>,
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
                .expected("a JSON object with a weight_map from groups to lists of files")
        };
        limits.check(Limit::TextBytes, file.len()).map_err(|error| error.file(file.name()))?;
        let text = file.bytes(0, file.len())?;
        let value: MetadataValue = serde_json::from_slice(&text)
            .map_err(|error| wrong("is no valid JSON").found(error.to_string()).caused_by(error))?;
        let weights = value.as_map().and_then(|map| map.get("weight_map")).and_then(MetadataValue::as_map);
        let weights = weights.ok_or_else(|| wrong("has no weight_map"))?;
        let mut groups: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (group, files) in weights.iter() {
            let files = files.as_list().ok_or_else(|| wrong("names no list of files").field(group))?;
            for file in files {
                let file = file.as_text().ok_or_else(|| wrong("names no file").field(group))?;
                let group = group.trim_start_matches('/').to_owned();
                groups.entry(file.to_owned()).or_default().insert(group);
            }
        }
        match groups.is_empty() {
            true => Err(wrong("names no files")),
            false => Ok(Index { groups }),
        }
    }
}
