//! What a source knows of the parameters of mappings.

use super::Source;
use crate::mapping::{KEY_SEPARATOR, Mapping, Parameter};
use crate::pattern::Pattern;
use crate::template::Configuration;
use ckpt_api::{Limits, Metadata, Result};
use std::borrow::Cow;

/// Files beside a checkpoint that describe its model: of Hugging Face, and of Meta.
const CONFIGURATIONS: [&str; 2] = ["config.json", "params.json"];

impl Source {
    /// Returns the mapping with a value for each parameter: that of the `config.json` or `params.json` beside the
    /// checkpoint, of its metadata, or the default.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] for a parameter without a value; whatever keeps the file from being read.
    pub(crate) fn with_parameters<'m>(&self, mapping: &'m Mapping) -> Result<Cow<'m, Mapping>> {
        if mapping.parameters().next().is_none() {
            return Ok(Cow::Borrowed(mapping));
        }
        let limits = &self.options.limits;
        let configuration = Configuration::beside(&self.input, &CONFIGURATIONS.map(str::to_owned), limits)?;
        let find = |parameter: &Parameter| {
            let config = configuration
                .iter()
                .find_map(|config| parameter.config.iter().find_map(|key| config.number(key)));
            match config {
                Some(value) => Ok(Some(value)),
                None => in_metadata(&self.checkpoint().metadata, &parameter.metadata, limits),
            }
        };
        mapping.with_parameters_of(find).map(Cow::Owned)
    }
}

/// Returns the number at the first key that one of the patterns matches.
fn in_metadata(metadata: &Metadata, patterns: &[String], limits: &Limits) -> Result<Option<u64>> {
    for pattern in patterns {
        let pattern = Pattern::selecting(pattern, limits)?;
        let mut entries = metadata.iter().flat_map(|(_, entries)| entries.iter());
        let found = entries.find(|(key, _)| pattern.matches(key, KEY_SEPARATOR).is_some());
        if let Some(number) = found.and_then(|(_, value)| value.as_u64()) {
            return Ok(Some(number));
        }
    }
    Ok(None)
}
