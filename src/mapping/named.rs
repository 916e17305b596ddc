//! Mappings as a person names them: a file or a built-in mapping, with values for its parameters.

use super::definition::Mapping;
use crate::text_file::read_text;
use ckpt_api::{Error, Limit, Limits, Result, nearest};
use std::path::Path;

impl Mapping {
    /// Returns the mapping that `given` names: a file, or the built-in mapping of this name if no such file exists.
    /// Values for its parameters may follow: `llama-hf-to-gguf,heads=32,kv_heads=8`. After `keras-to-torch`,
    /// `names=sequential` chooses names as [`Mapping::with_names`] does.
    ///
    /// ```
    /// use ckpt::mapping::Mapping;
    /// let llama = Mapping::named("llama-hf-to-gguf,heads=32", &Default::default())?;
    /// assert_eq!(llama.parameters().collect::<Vec<_>>(), ["kv_heads"]);
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a name that is neither a file nor a built-in mapping, and for a parameter without
    /// a number; those of [`Mapping::with_parameter`], [`Mapping::with_names`] and [`Mapping::from_toml_within`];
    /// [`ckpt_api::Kind::Io`].
    pub fn named(given: &str, limits: &Limits) -> Result<Self> {
        let (name, parameters) = match given.split_once(',') {
            Some((name, parameters)) if !Path::new(given).exists() => (name, Some(parameters)),
            _ => (given, None),
        };
        let mut mapping = file_or_builtin(name, limits)?;
        for parameter in parameters.iter().flat_map(|parameters| parameters.split(',')) {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            if key == "names" && mapping.is_generated() {
                mapping = mapping.with_names(value)?;
                continue;
            }
            let value = value.parse().map_err(|_| {
                Error::usage("the parameter of a mapping has no value")
                    .found(format!("'{parameter}'"))
                    .expected("a whole number, such as heads=32")
            })?;
            mapping = mapping.with_parameter(key, value)?;
        }
        Ok(mapping)
    }
}

/// Reads a mapping file, or the built-in mapping of this name if no such file exists.
fn file_or_builtin(name: &str, limits: &Limits) -> Result<Mapping> {
    let path = Path::new(name);
    let looks_like_a_file = path.extension().is_some() || path.components().count() > 1;
    match Mapping::builtin(name) {
        Some(mapping) if !path.exists() => Ok(mapping),
        None if !path.exists() && !looks_like_a_file => Err(unknown_mapping(name)),
        _ => Mapping::from_toml_within(&read_text(path, limits, Limit::TextBytes)?, name, limits),
    }
}

/// The error for a name that neither a file nor a built-in mapping has.
pub(crate) fn unknown_mapping(name: &str) -> Error {
    Error::usage("no mapping file and no built-in mapping has this name")
        .found(format!("'{name}'"))
        .help(nearest(name, Mapping::builtin_names()))
}
