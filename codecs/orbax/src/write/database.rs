//! Encodes a database: nodes after the values in their file, and the manifest.

use crate::ocdbt::{MANIFEST_MAGIC, NODE_MAGIC};
use ckpt_api::{Checksum, ChecksumAlgorithm, Error, Result, Writer};

/// A key and its value.
pub(super) struct Entry {
    pub(super) key: Vec<u8>,
    pub(super) value: EntryValue,
}

pub(super) enum EntryValue {
    /// In the node.
    Inline(Vec<u8>),
    /// In the file with the nodes.
    Stored { offset: u64, len: u64 },
}

/// The bytes of a database.
pub(super) struct Encoded {
    /// All nodes, of which the root is the last.
    pub(super) nodes: Vec<u8>,
    pub(super) manifest: Vec<u8>,
}

/// Entries of a leaf, and children of an interior node: a node has about a megabyte.
const ENTRIES: usize = 4096;

/// What Orbax configures.
const INLINE_BYTES: u64 = 1024;
const NODE_BYTES: u64 = 100_000_000;
const ARITY_LOG2: u8 = 4;

/// When the database was written, in nanoseconds: always the same, so that the same tensors give the same bytes.
const WRITTEN: u64 = 1_577_836_800_000_000_000;

/// A node that is encoded.
struct Encoding {
    first_key: Vec<u8>,
    offset: u64,
    len: u64,
    keys: u64,
    tree_bytes: u64,
    value_bytes: u64,
}

/// Encodes a database whose values and nodes are in the file `path`, in which `start` is the end of the values.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for two entries with one key, and a key that is too long.
pub(super) fn encode(mut entries: Vec<Entry>, path: &str, start: u64, uuid: [u8; 16]) -> Result<Encoded> {
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    check_keys(&entries)?;
    let mut nodes = Vec::new();
    let mut level: Vec<Encoding> =
        entries.chunks(ENTRIES).map(|entries| leaf(entries, path, start, &mut nodes)).collect();
    let mut height = 0u8;
    while level.len() > 1 {
        height += 1;
        level = level
            .chunks(ENTRIES)
            .map(|children| interior(children, height, path, start, &mut nodes))
            .collect();
    }
    let manifest = manifest(level.first(), height, path, uuid);
    Ok(Encoded { nodes, manifest })
}

fn check_keys(entries: &[Entry]) -> Result<()> {
    let shown = |entry: &Entry| String::from_utf8_lossy(&entry.key).escape_debug().to_string();
    let mut pairs = entries.iter().zip(entries.iter().skip(1));
    if let Some((entry, _)) = pairs.find(|(a, b)| a.key == b.key) {
        return Err(Error::unsupported("two values of the checkpoint would have one key")
            .found(shown(entry))
            .help("give one of the tensors another name"));
    }
    match entries.iter().find(|entry| entry.key.len() > usize::from(u16::MAX)) {
        None => Ok(()),
        Some(entry) => Err(Error::unsupported("the name of a tensor is too long")
            .found(format!("{}…", shown(entry).chars().take(40).collect::<String>()))),
    }
}

fn leaf(entries: &[Entry], path: &str, start: u64, nodes: &mut Vec<u8>) -> Encoding {
    let mut body = Writer::new();
    body.number(0u8);
    let stored: Vec<(u64, u64)> = entries
        .iter()
        .filter_map(|entry| match entry.value {
            EntryValue::Stored { offset, len } => Some((offset, len)),
            EntryValue::Inline(_) => None,
        })
        .collect();
    files(&mut body, path, !stored.is_empty());
    keys(&mut body, &entries.iter().map(|entry| &entry.key[..]).collect::<Vec<_>>());
    body_suffixes(&mut body, entries.iter().map(|entry| &entry.key[..]));
    for entry in entries {
        body.varint(match &entry.value {
            EntryValue::Inline(bytes) => bytes.len() as u64,
            EntryValue::Stored { len, .. } => *len,
        });
    }
    for entry in entries {
        body.number(u8::from(matches!(entry.value, EntryValue::Stored { .. })));
    }
    column(&mut body, stored.iter().map(|_| 0));
    column(&mut body, stored.iter().map(|(offset, _)| *offset));
    for entry in entries {
        if let EntryValue::Inline(bytes) = &entry.value {
            body.bytes(bytes);
        }
    }
    let value_bytes = stored.iter().fold(0u64, |sum, (_, len)| sum.saturating_add(*len));
    let first_key = entries.first().map(|entry| entry.key.clone()).unwrap_or_default();
    let (offset, len) = add(nodes, start, body);
    Encoding { first_key, offset, len, keys: entries.len() as u64, tree_bytes: len, value_bytes }
}

fn interior(children: &[Encoding], height: u8, path: &str, start: u64, nodes: &mut Vec<u8>) -> Encoding {
    let mut body = Writer::new();
    body.number(height);
    files(&mut body, path, true);
    keys(&mut body, &children.iter().map(|child| &child.first_key[..]).collect::<Vec<_>>());
    // Children keep the whole of their keys.
    column(&mut body, children.iter().map(|_| 0));
    body_suffixes(&mut body, children.iter().map(|child| &child.first_key[..]));
    column(&mut body, children.iter().map(|_| 0));
    let columns: [fn(&Encoding) -> u64; 5] = [
        |child| child.offset,
        |child| child.len,
        |child| child.keys,
        |child| child.tree_bytes,
        |child| child.value_bytes,
    ];
    for of in columns {
        column(&mut body, children.iter().map(of));
    }
    let sum = |of: fn(&Encoding) -> u64| children.iter().map(of).fold(0, u64::saturating_add);
    let first_key = children.first().map(|child| child.first_key.clone()).unwrap_or_default();
    let (keys, below, value_bytes) = (sum(columns[2]), sum(columns[3]), sum(columns[4]));
    let (offset, len) = add(nodes, start, body);
    Encoding { first_key, offset, len, keys, tree_bytes: below.saturating_add(len), value_bytes }
}

/// A table of one file, or of none.
fn files(body: &mut Writer, path: &str, has_file: bool) {
    body.varint(has_file.into());
    if has_file {
        body.varint(path.len() as u64).varint(0).bytes(path.as_bytes());
    }
}

/// The number of keys, and how much each shares with the one before it.
fn keys(body: &mut Writer, keys: &[&[u8]]) {
    body.varint(keys.len() as u64);
    let shared = shared(keys.iter().copied());
    column(body, shared.iter().skip(1).map(|shared| *shared as u64));
    column(body, keys.iter().zip(&shared).map(|(key, shared)| key.len().saturating_sub(*shared) as u64));
}

fn body_suffixes<'a>(body: &mut Writer, keys: impl Iterator<Item = &'a [u8]> + Clone) {
    let shared = shared(keys.clone());
    for (key, shared) in keys.zip(shared) {
        body.bytes(key.get(shared..).unwrap_or_default());
    }
}

/// Numbers, one after the other.
fn column(body: &mut Writer, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        body.varint(number);
    }
}

/// How many bytes each key shares with the one before it.
fn shared<'a>(keys: impl Iterator<Item = &'a [u8]>) -> Vec<usize> {
    let mut before: &[u8] = &[];
    keys.map(|key| {
        let shared = before.iter().zip(key).take_while(|(a, b)| a == b).count();
        before = key;
        shared
    })
    .collect()
}

/// Adds a node to those in the file; returns where it is.
fn add(nodes: &mut Vec<u8>, start: u64, body: Writer) -> (u64, u64) {
    let offset = start.saturating_add(nodes.len() as u64);
    let node = enveloped(NODE_MAGIC, body);
    let len = node.len() as u64;
    nodes.extend(node);
    (offset, len)
}

/// A body with what is around it, without compression.
fn enveloped(magic: u32, body: Writer) -> Vec<u8> {
    const AROUND: u64 = 4 + 8 + 2 + 4;
    let body = body.into_bytes();
    let mut object = Writer::new();
    object.bytes(&magic.to_be_bytes()).number(AROUND + body.len() as u64).varint(0).varint(0).bytes(&body);
    let mut bytes = object.into_bytes();
    let mut sum = Checksum { algorithm: ChecksumAlgorithm::Crc32c, seed: 0, value: None }.start();
    sum.update(&bytes);
    bytes.extend(sum.finish().to_le_bytes());
    bytes
}

fn manifest(root: Option<&Encoding>, height: u8, path: &str, uuid: [u8; 16]) -> Vec<u8> {
    let mut body = Writer::new();
    body.bytes(&uuid).number(0u8).varint(INLINE_BYTES).varint(NODE_BYTES).number(ARITY_LOG2);
    // New nodes of this database are compressed: method 1, level 0.
    body.varint(1).number(0u32);
    files(&mut body, if root.is_some() { path } else { "" }, true);
    body.varint(1).varint(1).number(height).varint(0);
    let numbers = match root {
        Some(root) => [root.offset, root.len, root.keys, root.tree_bytes, root.value_bytes],
        None => [u64::MAX, u64::MAX, 0, 0, 0],
    };
    column(&mut body, numbers.into_iter());
    body.number(WRITTEN).varint(0);
    enveloped(MANIFEST_MAGIC, body)
}
