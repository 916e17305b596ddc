//! The files of `data/families`.

use crate::family::{Family, Key};
use ckpt_api::{Error, Result};
use serde::Deserialize;

/// Includes files by name.
macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../data/families/", $name, ".toml")))),*]
    };
}

const FILES: &[(&str, &str)] = files![
    "bert",
    "deepseek2",
    "deepseek3",
    "falcon_mamba",
    "gemma",
    "gemma2",
    "gemma3",
    "glm4",
    "glm4moe",
    "gpt-oss",
    "gptneox",
    "granite",
    "llama",
    "llama4",
    "mamba",
    "mamba2",
    "mistral3",
    "mixtral",
    "modern-bert",
    "nomic-bert",
    "olmo2",
    "phi2",
    "phi3",
    "qwen2",
    "qwen2moe",
    "qwen3",
    "qwen3moe",
    "smollm3",
    "stablelm",
    "starcoder2",
    "t5",
    "t5encoder",
];

const COMMON: &str = include_str!("../data/families/common.toml");

/// The keys that most architectures have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Common {
    #[serde(rename = "key")]
    keys: Vec<Key>,
}

/// The keys that most architectures have, in order.
///
/// # Errors
/// [`ckpt_api::Kind::Defect`]: a test reads the file.
pub(crate) fn common() -> Result<Vec<Key>> {
    toml::from_str::<Common>(COMMON).map(|common| common.keys).map_err(|error| invalid("common", &error))
}

/// The family whose models a class loads.
///
/// # Errors
/// [`ckpt_api::Kind::Defect`]: a test reads the files.
pub(crate) fn of_class(class: &str) -> Result<Option<Family>> {
    find(|family| family.classes.iter().any(|own| own == class))
}

/// The family of a GGUF file: of several with the architecture, the one that a key or a tensor of the file tells from the
/// others.
///
/// # Errors
/// [`ckpt_api::Kind::Defect`]: a test reads the files.
pub(crate) fn of_architecture(
    architecture: &str,
    has_key: impl Fn(&str) -> bool,
    has_tensor: impl Fn(&str) -> bool,
) -> Result<Option<Family>> {
    let is_told = |family: &Family| {
        let key = family.told_by.as_ref().map(|key| format!("{architecture}.{key}"));
        let tensor = family.told_by_tensor.as_deref();
        key.is_some_and(|key| has_key(&key)) || tensor.is_some_and(&has_tensor)
    };
    let told = find(|family| family.architecture == architecture && is_told(family))?;
    match told {
        Some(family) => Ok(Some(family)),
        None => find(|family| {
            let needs_sign = family.told_by.is_some() || family.told_by_tensor.is_some();
            family.architecture == architecture && !needs_sign
        }),
    }
}

fn find(is_wanted: impl Fn(&Family) -> bool) -> Result<Option<Family>> {
    for (name, text) in FILES {
        let family: Family = toml::from_str(text).map_err(|error| invalid(name, &error))?;
        if is_wanted(&family) {
            return Ok(Some(family));
        }
    }
    Ok(None)
}

fn invalid(name: &str, error: &toml::de::Error) -> Error {
    Error::defect("the file of a family is not valid")
        .file(format!("data/families/{name}.toml"))
        .found(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_file_describes_a_family_and_no_class_has_two() {
        let mut classes = HashSet::new();
        for (name, text) in FILES {
            let family: Family = toml::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            for class in family.classes {
                assert!(classes.insert(class.clone()), "{name}: {class}");
            }
        }
        assert!(classes.len() >= FILES.len());
        assert!(common().unwrap().len() > 10);
    }

    #[test]
    fn every_file_of_the_folder_is_included() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data/families");
        let mut found: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().file_name().to_string_lossy().trim_end_matches(".toml").to_owned())
            .filter(|name| name != "common")
            .collect();
        found.sort();
        assert_eq!(found, FILES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }
}
