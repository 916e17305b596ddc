//! Small tokenizers of each kind, with the keys that llama.cpp's converter writes: `tests/interop/make_tokenizers.py` makes them.

use ckpt_api::{Input, Limits, MetadataMap};
use ckpt_tokenizers::{Keys, Request, SpacePrefix, TokenizerKind, from_gguf, to_gguf};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Every fixture and its kind.
const FIXTURES: [(&str, TokenizerKind); 7] = [
    ("bpe_gpt2", TokenizerKind::Bpe),
    ("bpe_llama3", TokenizerKind::Bpe),
    ("llama_bpe", TokenizerKind::LlamaBpe),
    ("roberta", TokenizerKind::Bpe),
    ("sentence_piece", TokenizerKind::SentencePiece),
    ("unigram", TokenizerKind::Unigram),
    ("word_piece", TokenizerKind::WordPiece),
];

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn config(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(path(name).join("config.json")).unwrap()).unwrap()
}

fn keys(input: &Input, kind: TokenizerKind, config: &Value, pre: Option<&str>) -> Keys {
    let kinds = [kind];
    let request = Request {
        family_pre: pre,
        vocab_size: config["vocab_size"].as_u64(),
        space_prefix: SpacePrefix::Stated,
        ..Request::new(&kinds, config)
    };
    to_gguf(input, &request, &Limits::default()).unwrap()
}

fn assert_equal(found: &MetadataMap, expected: &MetadataMap, name: &str) {
    let names = |pairs: &MetadataMap| pairs.iter().map(|(key, _)| key.to_owned()).collect::<Vec<_>>();
    assert_eq!(names(found), names(expected), "{name}");
    for (key, value) in found.iter() {
        assert!(expected.get(key) == Some(value), "{name} {key}: {value}");
    }
}

fn expected(name: &str) -> MetadataMap {
    serde_json::from_slice(&std::fs::read(path(name).join("keys.json")).unwrap()).unwrap()
}

#[test]
fn the_keys_of_each_kind_are_those_of_the_converter() {
    for (name, kind) in FIXTURES {
        let expected = expected(name);
        let pre = expected.get("tokenizer.ggml.pre").and_then(|pre| pre.as_text());
        let keys = keys(&Input::open(path(name)).unwrap(), kind, &config(name), pre);
        assert_equal(&keys.pairs, &expected, name);
    }
}

#[test]
fn files_made_of_the_keys_of_each_kind_become_the_same_keys() {
    for (name, kind) in FIXTURES {
        let expected = expected(name);
        let pre = expected.get("tokenizer.ggml.pre").and_then(|pre| pre.as_text());
        let files = from_gguf(&expected, &Limits::default()).unwrap();
        let mut config = config(name);
        for (key, id) in &files.config {
            config[key] = (*id).into();
        }
        assert_equal(&keys(&Input::memory("", files.files), kind, &config, pre).pairs, &expected, name);
    }
}
