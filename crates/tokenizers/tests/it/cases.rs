//! Directories of Hugging Face, each with the keys that llama.cpp's converter writes: the directory that `CKPT_CASES` names.

use ckpt_api::{Input, Limits, MetadataMap, MetadataValue};
use ckpt_tokenizers::{Keys, Request, SpacePrefix, TokenizerKind, from_gguf, to_gguf};
use serde_json::Value;
use std::path::PathBuf;

/// A directory and what is expected of it.
struct Case {
    name: String,
    path: PathBuf,
    config: Value,
    expected: Value,
}

impl Case {
    /// Returns the keys that the crate makes of the files in `input`.
    fn keys(&self, input: &Input) -> Keys {
        let kinds = match self.config["model_type"].as_str().unwrap() {
            "llama" => &[TokenizerKind::SentencePiece, TokenizerKind::LlamaBpe, TokenizerKind::Bpe][..],
            "gemma3_text" => &[TokenizerKind::SentencePiece],
            _ => &[TokenizerKind::Bpe],
        };
        let space_prefix = match self.config["model_type"].as_str().unwrap() {
            "llama" => SpacePrefix::Stated,
            "gemma3_text" => SpacePrefix::False,
            _ => SpacePrefix::Unset,
        };
        let request = Request {
            vocab_size: self.config["vocab_size"].as_u64(),
            family_pre: self.expected["pre"].as_str(),
            space_prefix,
            ..Request::new(kinds, &self.config)
        };
        to_gguf(input, &request, &Limits::default()).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }
}

/// Every case; empty if `CKPT_CASES` is not set.
fn cases() -> Vec<Case> {
    let Some(root) = std::env::var_os("CKPT_CASES") else {
        eprintln!("skipped: CKPT_CASES does not name the directory of files by other programs");
        return Vec::new();
    };
    let root = PathBuf::from(root).join("hf");
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(&root).unwrap() {
        let path = entry.unwrap().path();
        let json = |name: &str| -> Option<Value> {
            Some(serde_json::from_slice(&std::fs::read(path.join(name)).ok()?).unwrap())
        };
        let (Some(config), Some(expected)) = (json("config.json"), json("expected.json")) else { continue };
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        cases.push(Case { name, path, config, expected });
    }
    assert!(cases.len() >= 5, "{} in {}", cases.len(), root.display());
    cases
}

/// The types of a value as `expected.json` names them.
fn types(value: &MetadataValue) -> Vec<&'static str> {
    match value {
        MetadataValue::Bool(_) => vec!["BOOL"],
        MetadataValue::U32(_) => vec!["UINT32"],
        MetadataValue::I32(_) => vec!["INT32"],
        MetadataValue::F32(_) => vec!["FLOAT32"],
        MetadataValue::Text(_) => vec!["STRING"],
        MetadataValue::List(values) => [vec!["ARRAY"], types(&values[0])].concat(),
        other => panic!("{other}"),
    }
}

/// The value as `expected.json` has it.
fn plain(value: &MetadataValue) -> Value {
    match value {
        MetadataValue::Bool(value) => (*value).into(),
        MetadataValue::Text(text) => text.as_str().into(),
        MetadataValue::F32(number) => f64::from(*number).into(),
        MetadataValue::List(values) => values.iter().map(plain).collect(),
        other => other.as_i64().unwrap().into(),
    }
}

/// The keys of a tokenizer in `expected.json`.
fn expected(case: &Case) -> Vec<(String, Value, Value)> {
    let keys = case.expected["keys"].as_array().unwrap().iter();
    let entry = |key: &Value| (key[0].as_str().unwrap().to_owned(), key[1].clone(), key[2].clone());
    keys.map(entry).filter(|(key, ..)| key.starts_with("tokenizer.")).collect()
}

fn compare(case: &Case, pairs: &MetadataMap) -> usize {
    let expected = expected(case);
    let names: Vec<&str> = pairs.iter().map(|(key, _)| key).collect();
    let expected_names: Vec<&str> = expected.iter().map(|(key, ..)| key.as_str()).collect();
    assert_eq!(names, expected_names, "{}", case.name);
    for ((key, value), (_, expected_types, expected)) in pairs.iter().zip(&expected) {
        assert_eq!(Value::from(types(value)), *expected_types, "{} {key}", case.name);
        assert_eq!(plain(value), *expected, "{} {key}", case.name);
    }
    expected.len()
}

#[test]
fn the_keys_of_every_directory_are_those_of_the_converter() {
    let cases = cases();
    let mut keys = 0;
    for case in &cases {
        keys += compare(case, &case.keys(&Input::open(&case.path).unwrap()).pairs);
    }
    assert!(cases.is_empty() || keys >= 50, "{keys}");
    eprintln!("{keys} keys of {} directories", cases.len());
}

#[test]
fn files_made_of_keys_become_the_same_keys() {
    let cases = cases();
    for case in &cases {
        let keys = case.keys(&Input::open(&case.path).unwrap());
        let files = from_gguf(&keys.pairs, &Limits::default()).unwrap();
        assert_eq!(files.notes, Vec::<String>::new(), "{}", case.name);
        let again = case.keys(&Input::memory("", files.files));
        assert_eq!(again.kind, keys.kind, "{}", case.name);
        compare(case, &again.pairs);
    }
}
