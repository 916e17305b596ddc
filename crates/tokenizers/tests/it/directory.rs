//! Directories in memory, for the tests of rules.

use ckpt_api::{Error, Input, Kind, Limits, Result};
use ckpt_tokenizers::{Keys, Request, TokenizerKind, to_gguf};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A directory in memory.
#[derive(Clone, Default)]
pub struct Directory(pub BTreeMap<String, Vec<u8>>);

impl Directory {
    pub fn with(mut self, name: &str, content: impl AsRef<[u8]>) -> Self {
        self.0.insert(name.to_owned(), content.as_ref().to_vec());
        self
    }

    pub fn json(self, name: &str, content: &Value) -> Self {
        self.with(name, content.to_string())
    }

    pub fn keys(&self, kind: TokenizerKind, config: Value) -> Result<Keys> {
        self.keys_of(&[kind], config, |request| request)
    }

    pub fn keys_of(
        &self,
        kinds: &[TokenizerKind],
        config: Value,
        change: impl for<'a> FnOnce(Request<'a>) -> Request<'a>,
    ) -> Result<Keys> {
        let request = Request { vocab_size: config["vocab_size"].as_u64(), ..Request::new(kinds, &config) };
        to_gguf(&Input::memory("", self.0.clone()), &change(request), &Limits::default())
    }
}

/// A tokenizer of bytes with the tokens a, b, ab.
pub fn bpe() -> Value {
    json!({
        "added_tokens": [{"id": 3, "content": "<s>", "special": true}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]},
    })
}

pub fn changed(change: impl FnOnce(&mut Value)) -> Directory {
    let mut json = bpe();
    change(&mut json);
    Directory::default().json("tokenizer.json", &json)
}

pub fn bpe_keys(directory: &Directory, vocab_size: u64) -> Result<Keys> {
    directory.keys(TokenizerKind::Bpe, json!({"vocab_size": vocab_size}))
}

pub fn texts(keys: &Keys, key: &str) -> Vec<String> {
    let list = keys.pairs.get(key).unwrap().as_list().unwrap();
    list.iter().map(|value| value.as_text().unwrap().to_owned()).collect()
}

pub fn numbers(keys: &Keys, key: &str) -> Vec<i64> {
    let list = keys.pairs.get(key).unwrap().as_list().unwrap();
    list.iter().map(|value| value.as_i64().unwrap()).collect()
}

#[track_caller]
pub fn assert_error(error: Error, kind: Kind, says: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    let text = error.to_string();
    assert!(says.iter().all(|part| text.contains(part)), "{text}");
}
