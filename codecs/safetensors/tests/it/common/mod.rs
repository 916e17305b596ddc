//! Files written by hand.

use ckpt_api::{Contents, Input, Result};
use ckpt_safetensors::Safetensors;
use std::collections::BTreeMap;

/// Length, header, data.
pub fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

/// One header entry.
pub fn entry(name: &str, dtype: &str, shape: &str, start: u64, end: u64) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{start},{end}]}}"#)
}

/// Bytes that differ from each other.
pub fn data(len: usize) -> Vec<u8> {
    (0..len).map(|k| (k * 7 + 1) as u8).collect()
}

pub fn files<const N: usize>(files: [(&str, Vec<u8>); N]) -> BTreeMap<String, Vec<u8>> {
    files.map(|(name, bytes)| (name.to_owned(), bytes)).into()
}

pub fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub fn read(entry: &str, files: BTreeMap<String, Vec<u8>>) -> Result<(Contents, Vec<Vec<u8>>)> {
    ckpt_conformance::read(&Safetensors, &Input::memory(entry, files), &[])
}

pub fn read_one(bytes: &[u8]) -> Result<(Contents, Vec<Vec<u8>>)> {
    read("m.safetensors", files([("m.safetensors", bytes.to_vec())]))
}

/// Two shards and their index.
pub fn set(metadata: &str) -> BTreeMap<String, Vec<u8>> {
    let first = format!("{{{},{}}}", entry("a", "F32", "[2,2]", 0, 16), entry("b", "BF16", "[3]", 16, 22));
    let second = format!(r#"{{"__metadata__":{{"format":"pt"}},{}}}"#, entry("c", "I64", "[]", 0, 8));
    let (one, two) = ("m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors");
    let index = format!(r#"{{"metadata":{metadata},"weight_map":{{"a":"{one}","b":"{one}","c":"{two}"}}}}"#);
    files([
        (one, file(&first, &data(22))),
        (two, file(&second, &data(8))),
        ("m.safetensors.index.json", index.into_bytes()),
    ])
}
