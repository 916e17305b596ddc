//! What the fuzz targets share.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod files;
pub mod generate;
pub mod loose;
pub mod naive;
pub mod round_trip;
pub mod saved_model;
pub mod table;

use ckpt_api::{Codec, Contents, Input, Limits, Match, Options, Side, conformance};
use std::collections::BTreeMap;

/// Values beyond this are not read: the time goes into headers.
const VALUE_BYTES: u64 = 1 << 20;

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

/// Options of a codec for reading.
pub fn options(codec: &dyn Codec, options: &[(&str, &str)]) -> Options {
    let options: Vec<_> = options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let info = codec.info();
    Options::parse(info.id, info.options, Side::Read, &options).expect("known options")
}

/// Probes and reads with small limits, then the values; what was read and can be written must come back the same. Gives
/// what was read, unless that is too much.
pub fn read(codec: &dyn Codec, input: &Input, options: &Options) -> Option<(Contents, Vec<Vec<u8>>)> {
    let probed = codec.probe(input).expect("memory can always be read");
    let mut limits = Limits::default();
    for (name, value) in
        [("header_bytes", "1m"), ("block_bytes", "1m"), ("tensors", "10k"), ("graph_nodes", "10k")]
    {
        limits.set_by_name(name, value).expect("a known limit");
    }
    let contents = codec.read(input, options, &limits).ok()?;
    // What a file holds is said where the file itself shows nothing.
    if ["content", "arch"].iter().all(|name| options.text(name).is_none()) {
        assert_ne!(probed, Match::No, "what can be read must be recognized");
    }
    contents.check(&limits).ok()?;
    let all = contents.placements.iter().map(|placement| placement.tensor);
    let sizes = contents.checkpoint.tensors.iter().map(ckpt_api::Tensor::value_bytes);
    if contents.check_data(input, all).is_err() || sizes.fold(0u64, u64::saturating_add) > VALUE_BYTES {
        return None;
    }
    let (contents, values) = conformance::read_given(codec, input, options).ok()?;
    if !codec.info().writes.is_empty() && contents.repairs.is_empty() {
        round_trip(codec, input, options, &contents.checkpoint, &values);
    }
    Some((contents, values))
}

/// The files of a directory that was written under this name.
fn directory(name: &str, files: &BTreeMap<String, Vec<u8>>) -> Input {
    let prefix = format!("{name}/");
    let inside = |file: &str| file.strip_prefix(&prefix).unwrap_or(file).to_owned();
    Input::memory("", files.iter().map(|(file, data)| (inside(file), data.clone())).collect())
}

fn round_trip(
    codec: &dyn Codec,
    input: &Input,
    options: &Options,
    checkpoint: &ckpt_api::Checkpoint,
    values: &[Vec<u8>],
) {
    let Ok(files) = conformance::write(codec, checkpoint, values, input.entry(), &[]) else { return };
    let written = match files.contains_key(input.entry()) {
        true => Input::memory(input.entry(), files.clone()),
        false => directory(input.entry(), &files),
    };
    let (again, same) = match conformance::read_given(codec, &written, options) {
        // An option for one file has no effect on the directory that is written for it.
        Err(error) if error.kind() == ckpt_api::Kind::Usage => return,
        read => read.expect("what was written can be read"),
    };
    let describe = |checkpoint: &ckpt_api::Checkpoint, values: &[Vec<u8>]| {
        let pairs = checkpoint.tensors.iter().zip(values);
        pairs
            .map(|(tensor, value)| (tensor.name.clone(), (tensor.shape.clone(), value.clone())))
            .collect::<BTreeMap<_, _>>()
    };
    assert_eq!(describe(checkpoint, values), describe(&again.checkpoint, &same));
    let twice =
        conformance::write(codec, &again.checkpoint, &same, input.entry(), &[]).expect("and written again");
    assert_eq!(files, twice);
}
