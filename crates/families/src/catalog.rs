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

    const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/family.schema.json");
    const LEAST: &str = "title = 't'\nclasses = ['C']\narchitecture = 'a'\nmodel_type = 'm'\nmapping = 'x'\n";

    fn schema() -> jsonschema::Validator {
        let schema = serde_json::from_str(&std::fs::read_to_string(SCHEMA).unwrap()).unwrap();
        jsonschema::draft202012::new(&schema).unwrap()
    }

    #[test]
    fn the_schema_of_families_accepts_what_the_program_accepts() {
        let tokenizer = "[tokenizer]\nkinds = ['bpe']\n";
        let texts = [
            (LEAST, "", true),
            (LEAST, "told = 'k'", false),
            (LEAST, "told_by = 1", false),
            (LEAST, "common = 'yes'", false),
            (LEAST, "constants = ['llama3-frequencies', 'long-factors']", true),
            (LEAST, "constants = ['llama4-frequencies']", false),
            (LEAST, "defaults = { a = 1, b = { like = 'c' } }", true),
            (LEAST, "flags = { a = 't', b = { tensor = 't', present = 1, absent = 'x' } }", true),
            (LEAST, "flags = { a = { tensor = 't', present = 1 } }", false),
            (LEAST, "flags = { a = true }", false),
            (LEAST, "names = { a = 1 }", false),
            (LEAST, "scores = { config = 'c', default = 1, wide_layers = 2 }", true),
            (LEAST, "scores = { config = 'c' }", false),
            (LEAST, "[[variant]]\ntensors = ['t']\nmapping = 'x'\nclass = 'D'", true),
            (LEAST, "[[variant]]\nmapping = 'x'", false),
            (LEAST, "[[implied]]\nkey = 'k'\nvalue = 1\nconfig = { a = false }", true),
            (LEAST, "[[implied]]\nkey = 'k'\nvalue = -1\nconfig = {}", false),
            (LEAST, "[[key]]\nname = 'k'\ntype = 'f32'\nconfig = ['a.b']\ntimes = 0.5\nplus = ['c']", true),
            (LEAST, "[[key]]\nname = 'k'\ncompute = 'rope'\nnullable = true\nonly_true = true", true),
            (LEAST, "[[key]]\nname = 'k'\ncompute = 'ropes'", false),
            (LEAST, "[[key]]\nname = 'k'\ntype = 'u64'", false),
            (LEAST, "[[key]]\nname = 'k'\nconfig = 'a'", false),
            (LEAST, "[[key]]\nconfig = ['a']", false),
            ("title = 't'\nclasses = ['C']\narchitecture = 'a'\nmodel_type = 'm'\n", "", false),
        ];
        let texts = texts.map(|(least, more, is_valid)| {
            let more = more
                .strip_prefix("[[")
                .map_or_else(|| format!("{more}\n{tokenizer}"), |table| format!("{tokenizer}[[{table}"));
            (format!("{least}{more}"), is_valid)
        });
        let tokenizers = [
            (
                "kinds = ['sentencepiece', 'wordpiece']\npre = 'p'\nspace_prefix = 'none'\ncounts_types = true",
                true,
            ),
            ("kinds = ['bpe']\ntokens = [['eot', '<end>']]\nvocab_multiple = 8", true),
            ("kinds = ['bpe']\n[[tokenizer.key]]\nname = 'k'\nvalue = 7\nvocab_size = 9\nfirst = true", true),
            ("kinds = ['bpe']\n[[tokenizer.key]]\nname = 'k'\nvalue = 'text'", false),
            ("kinds = ['bpe']\ntokens = [['eot']]", false),
            ("kinds = ['bpe']\nspace_prefix = true", false),
            ("kinds = ['pairs']", false),
            ("pre = 'p'", false),
        ];
        let tokenizers = tokenizers.map(|(more, is_valid)| (format!("{LEAST}[tokenizer]\n{more}"), is_valid));
        let built_in = FILES.iter().map(|(_, text)| ((*text).to_owned(), true));
        let schema = schema();
        for (text, is_valid) in texts.into_iter().chain(tokenizers).chain(built_in) {
            let value: serde_json::Value =
                toml::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(toml::from_str::<Family>(&text).is_ok(), is_valid, "the program: {text}");
            let errors: Vec<String> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
            assert_eq!(errors.is_empty(), is_valid, "the schema: {text}: {errors:?}");
        }
    }

    #[test]
    fn the_schema_of_families_refuses_a_default_of_another_type_than_its_key() {
        let schema = schema();
        let keys = [
            ("default = 1", true),
            ("default = -1", false),
            ("default = 'x'", false),
            ("type = 'f32'\ndefault = 1", true),
            ("type = 'f32'\ndefault = true", false),
            ("type = 'bool'\ndefault = false", true),
            ("type = 'bool'\ndefault = 1", false),
            ("type = 'text'\ndefault = 'x'", true),
            ("type = 'text'\ndefault = 1", false),
        ];
        for (key, is_valid) in keys {
            let text = format!("{LEAST}[tokenizer]\nkinds = ['bpe']\n[[key]]\nname = 'k'\n{key}");
            let value: serde_json::Value = toml::from_str(&text).unwrap();
            assert_eq!(schema.is_valid(&value), is_valid, "{key}");
        }
    }
}
