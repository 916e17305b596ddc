//! Inputs made of the bytes of a case.

use crate::table;
use ckpt_api::Input;
use std::collections::BTreeMap;

/// One file, named by the user.
pub fn single(name: &str, data: &[u8]) -> Input {
    Input::memory(name, BTreeMap::from([(name.to_owned(), data.to_vec())]))
}

/// A TensorFlow checkpoint from `u32 little-endian length of the index · index · data`; every data file that an
/// index of one or two shards can name holds the same data.
pub fn bundle(data: &[u8]) -> Input {
    let (index, values) = prefixed(data);
    bundle_of(index, values)
}

/// The bytes whose length comes first, as far as there are so many, and what follows.
pub(crate) fn prefixed(data: &[u8]) -> (&[u8], &[u8]) {
    let (len, rest) = data.split_at_checked(4).unwrap_or((&[0; 4], data));
    let len = len.iter().rev().fold(0, |len, byte| len << 8 | usize::from(*byte));
    rest.split_at(len.min(rest.len()))
}

/// Any files from `u8 length · name` of what the user names, of no bytes the directory, and then of each file `u8 length ·
/// name · u16 little-endian length · bytes`.
pub fn files(data: &[u8]) -> Input {
    let (entry, mut rest) = named(data);
    let mut files = BTreeMap::new();
    while !rest.is_empty() {
        let (name, after) = named(rest);
        let (len, after) = after.split_at_checked(2).unwrap_or((&[], after));
        let len = len.iter().rev().fold(0, |len, byte| len << 8 | usize::from(*byte));
        let (bytes, after) = after.split_at(len.min(after.len()));
        files.insert(name, bytes.to_vec());
        rest = after;
    }
    Input::memory(&entry, files)
}

/// An object of a database of Orbax: these bytes with a magic number, their length and their checksum around them.
pub fn ocdbt(magic: u32, data: &[u8]) -> Vec<u8> {
    let len = data.len() as u64 + 16;
    let mut object = [&magic.to_be_bytes()[..], &len.to_le_bytes(), data].concat();
    object.extend(crc32c::crc32c(&object).to_le_bytes());
    object
}

/// What is before the first zero, and after it.
pub fn split_at_zero(data: &[u8]) -> (&[u8], &[u8]) {
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let (before, rest) = data.split_at(end);
    (before, rest.get(1..).unwrap_or_default())
}

/// The name whose length comes first, as far as there are so many bytes, and what follows.
fn named(data: &[u8]) -> (String, &[u8]) {
    let (len, rest) = data.split_first().unwrap_or((&0, data));
    let (name, rest) = rest.split_at(usize::from(*len).min(rest.len()));
    (String::from_utf8_lossy(name).into_owned(), rest)
}

/// A TensorFlow checkpoint of this index.
pub fn bundle_of(index: &[u8], values: &[u8]) -> Input {
    let shards = ["00000-of-00001", "00000-of-00002", "00001-of-00002"];
    let mut files = BTreeMap::from(shards.map(|shard| (format!("m.data-{shard}"), values.to_vec())));
    files.insert("m.index".to_owned(), index.to_vec());
    Input::memory("m.index", files)
}

/// A TensorFlow checkpoint whose index has right checksums around wrong entries. Of the bytes: entries, each `u8 length
/// of key · u8 length of value · key · value`, until a key's length of 255; the rest is data.
pub fn entries(mut bytes: &[u8]) -> Input {
    let mut entries = BTreeMap::new();
    while let Some(([key, value], rest)) = bytes.split_first_chunk::<2>() {
        if *key == u8::MAX {
            bytes = rest;
            break;
        }
        let Some((key, rest)) = rest.split_at_checked(usize::from(*key)) else { break };
        let Some((value, rest)) = rest.split_at_checked(usize::from(*value)) else { break };
        entries.insert(key.to_vec(), value.to_vec());
        bytes = rest;
    }
    let table = table::canonical(&entries);
    bundle_of(&table, bytes)
}

/// An archive of one member, `w.npy`, that holds these bytes.
pub fn archive(data: &[u8]) -> Vec<u8> {
    let mut member = 0u32.to_le_bytes().to_vec();
    member.extend([0, 0, 33, 0]);
    member.extend(crc32fast::hash(data).to_le_bytes());
    member.extend((data.len() as u32).to_le_bytes().repeat(2));
    member.extend([5, 0, 0, 0]);
    let local = [&b"PK\x03\x04\x2d\0"[..], &member, b"w.npy", data].concat();
    let central = [&b"PK\x01\x02\x2d\x03\x2d\0"[..], &member, &[0; 14], b"w.npy"].concat();
    let mut end = b"PK\x05\x06\0\0\0\0\x01\0\x01\0".to_vec();
    end.extend((central.len() as u32).to_le_bytes());
    end.extend((local.len() as u32).to_le_bytes());
    end.extend([0, 0]);
    [local, central, end].concat()
}
