//! Writes a file of Flax: a tree in msgpack that holds its arrays.

use super::left_out::leave_out_roles;
use super::paths::{joined, of_name, reconcile, stated, text};
use crate::format::FLAX_NAMESPACE as NAMESPACE;
use crate::format::dtype::name_of;
use crate::msgpack::CHUNKED;
use crate::tree::PathKey;
use ckpt_api::{
    Checkpoint, Encoding, Error, Extent, FileId, Literal, Loss, LossKind, MetadataMap, MetadataValue,
    OutputFile, OutputLayout, Placement, Result, Tensor, TensorId, Writer,
};
use std::collections::{HashMap, HashSet};

/// Bytes of an array, at most, before Flax cuts it.
const MAX_CHUNK_SIZE: u64 = 1 << 30;

/// Extensions: an array.
const ARRAY: u8 = 1;

/// What is at the end of a path.
enum Leaf<'a> {
    Tensor(TensorId, &'a Tensor),
    Value(&'a MetadataValue),
}

/// See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str) -> Result<OutputLayout> {
    let mut leaves: Vec<(Vec<PathKey>, Leaf<'_>)> = Vec::new();
    for (id, tensor) in checkpoint.tensors.iter().enumerate() {
        if name_of(tensor.dtype).is_some() {
            let path =
                stated(&tensor.metadata, NAMESPACE, &tensor.name).unwrap_or_else(|| of_name(&tensor.name));
            leaves.push((path, Leaf::Tensor(TensorId(id), tensor)));
        }
    }
    let taken: HashSet<&str> = checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let values = checkpoint.metadata.value(NAMESPACE, "values").and_then(|values| values.as_map());
    for (name, value) in values.into_iter().flat_map(MetadataMap::iter) {
        if !taken.contains(name) {
            leaves.push((of_name(name), Leaf::Value(value)));
        }
    }
    let mut paths: Vec<Vec<PathKey>> = leaves.iter().map(|(path, _)| path.clone()).collect();
    reconcile(&mut paths);
    if let Some(path) = paths.iter().find(|path| path.iter().any(|key| text(key) == CHUNKED)) {
        return Err(Error::unsupported("a part of a name says to Flax that a map is an array")
            .tensor(joined(path))
            .help("give the tensor another name"));
    }
    let root = Trie::of(&paths);
    let mut file = FileWriter::default();
    root.write(&leaves, &mut file)?;
    let mut placed = file.finish(name);
    let lost = checkpoint.metadata.namespace(NAMESPACE).into_iter().flat_map(|own| own.iter());
    let lost = lost.filter(|(key, _)| *key != "values");
    placed.losses.extend(lost.map(|(key, _)| {
        Loss::new(
            LossKind::MetadataDropped,
            format!("{NAMESPACE}.{key}"),
            "a file of Flax has no place for it",
        )
    }));
    leave_out_roles(&mut placed, checkpoint);
    Ok(placed)
}

/// Maps within each other, whose entries are in the order of the leaves.
struct Trie {
    nodes: Vec<Vec<(String, Child)>>,
}

#[derive(Clone, Copy)]
enum Child {
    Map(usize),
    Leaf(usize),
}

impl Trie {
    fn of(paths: &[Vec<PathKey>]) -> Trie {
        let mut nodes = vec![Vec::new()];
        let mut known: HashMap<(usize, String), usize> = HashMap::new();
        for (leaf, path) in paths.iter().enumerate() {
            let mut at = 0;
            let Some((last, above)) = path.split_last() else { continue };
            for key in above {
                let key = text(key);
                at = match known.get(&(at, key.clone())) {
                    Some(next) => *next,
                    None => {
                        let next = nodes.len();
                        nodes.push(Vec::new());
                        if let Some(node) = nodes.get_mut(at) {
                            node.push((key.clone(), Child::Map(next)));
                        }
                        known.insert((at, key), next);
                        next
                    }
                };
            }
            if let Some(node) = nodes.get_mut(at) {
                node.push((text(last), Child::Leaf(leaf)));
            }
        }
        Trie { nodes }
    }

    fn write(&self, leaves: &[(Vec<PathKey>, Leaf<'_>)], file: &mut FileWriter) -> Result<()> {
        let children = |node: usize| self.nodes.get(node).map_or(&[][..], Vec::as_slice);
        file.map(children(0).len() as u64);
        let mut open = vec![children(0).iter()];
        while let Some(top) = open.last_mut() {
            let Some((key, child)) = top.next() else {
                open.pop();
                continue;
            };
            file.text(key);
            match child {
                Child::Map(node) => {
                    file.map(children(*node).len() as u64);
                    open.push(children(*node).iter());
                }
                Child::Leaf(leaf) => match leaves.get(*leaf) {
                    Some((_, Leaf::Tensor(id, tensor))) => {
                        file.tensor(*id, tensor).map_err(|error| error.tensor(&tensor.name))?;
                    }
                    Some((_, Leaf::Value(value))) => file.value(value),
                    None => return Err(Error::defect("a leaf of the tree is missing")),
                },
            }
        }
        Ok(())
    }
}

/// The bytes of a file: headers, and places of elements between them.
#[derive(Default)]
struct FileWriter {
    header: Writer,
    /// Where the header begins that is not a literal yet.
    at: u64,
    literals: Vec<Literal>,
    placements: Vec<Placement>,
}

impl FileWriter {
    fn tensor(&mut self, id: TensorId, tensor: &Tensor) -> Result<()> {
        let too_large = || Error::limit("the tensor is too large for a file");
        let encoding = Encoding::row_major(tensor);
        let element = encoding.stored_len(1).unwrap_or(1).max(1);
        let len = encoding.stored_len(tensor.shape.elements()).ok_or_else(too_large)?;
        let mut extents = Vec::new();
        if len <= MAX_CHUNK_SIZE {
            self.array(&tensor.shape, tensor, len, &mut extents)?;
        } else {
            let elements = (MAX_CHUNK_SIZE / element).max(1);
            self.map(3);
            self.text(CHUNKED);
            self.header.number(0xc3u8);
            self.text("shape");
            self.map(tensor.shape.rank() as u64);
            for (axis, len) in tensor.shape.iter().enumerate() {
                self.text(&axis.to_string());
                self.unsigned(*len);
            }
            self.text("chunks");
            let count = tensor.shape.elements().div_ceil(elements);
            self.map(count);
            let mut left = tensor.shape.elements();
            for number in 0..count {
                let own = left.min(elements);
                left -= own;
                self.text(&number.to_string());
                self.array(&[own], tensor, own.checked_mul(element).ok_or_else(too_large)?, &mut extents)?;
            }
        }
        self.placements.push(Placement::new(id, &tensor.name, extents, encoding));
        Ok(())
    }

    /// An extension with an array of this shape, whose elements have so many bytes.
    fn array(&mut self, shape: &[u64], tensor: &Tensor, len: u64, extents: &mut Vec<Extent>) -> Result<()> {
        let name = name_of(tensor.dtype).ok_or_else(|| Error::defect("a type without a name"))?;
        let mut own = FileWriter::default();
        own.list(3);
        own.list(shape.len() as u64);
        shape.iter().for_each(|len| own.unsigned(*len));
        own.text(name);
        own.sized([0xc4, 0xc5, 0xc6], len)?;
        let head = own.header.into_bytes();
        let payload = len.saturating_add(head.len() as u64);
        match payload {
            1 | 2 | 4 | 8 | 16 => {
                self.header.number(0xd4 + payload.trailing_zeros() as u8);
            }
            _ => self.sized([0xc7, 0xc8, 0xc9], payload)?,
        }
        self.header.number(ARRAY).bytes(&head);
        let offset = self.at.saturating_add(self.header.len());
        self.flush();
        if len > 0 {
            extents.push(Extent::new(FileId(0), offset, len));
        }
        self.at = offset.saturating_add(len);
        Ok(())
    }

    fn flush(&mut self) {
        let bytes = std::mem::take(&mut self.header).into_bytes();
        self.literals.push(Literal { file: FileId(0), offset: self.at, bytes });
    }

    fn finish(mut self, name: &str) -> OutputLayout {
        let len = self.at.saturating_add(self.header.len());
        self.flush();
        OutputLayout::default()
            .with_files(vec![OutputFile::new(name, len)])
            .with_literals(self.literals)
            .with_placements(self.placements)
    }

    fn map(&mut self, len: u64) {
        self.collection(0x80, 0xde, len);
    }

    fn list(&mut self, len: u64) {
        self.collection(0x90, 0xdc, len);
    }

    /// The length of a map or a list, of which no checkpoint has more than fit in 32 bits.
    fn collection(&mut self, short: u8, long: u8, len: u64) {
        match (u8::try_from(len), u16::try_from(len)) {
            (Ok(len @ 0..=15), _) => {
                self.header.number(short | len);
            }
            (_, Ok(len)) => {
                self.header.number(long).bytes(&len.to_be_bytes());
            }
            _ => {
                let len = u32::try_from(len).unwrap_or(u32::MAX);
                self.header.number(long + 1).bytes(&len.to_be_bytes());
            }
        }
    }

    fn text(&mut self, text: &str) {
        match u8::try_from(text.len()) {
            Ok(len @ 0..=31) => {
                self.header.number(0xa0 | len);
            }
            // No text of a checkpoint has more bytes than 32 bits count.
            _ => self.sized([0xd9, 0xda, 0xdb], text.len() as u64).unwrap_or_default(),
        }
        self.header.bytes(text.as_bytes());
    }

    /// One of three markers, and a length of one, two or four bytes.
    fn sized(&mut self, [one, two, four]: [u8; 3], len: u64) -> Result<()> {
        if let Ok(len) = u8::try_from(len) {
            self.header.number(one).number(len);
        } else if let Ok(len) = u16::try_from(len) {
            self.header.number(two).bytes(&len.to_be_bytes());
        } else {
            let len = u32::try_from(len).map_err(|_| Error::limit("a value is too large for msgpack"))?;
            self.header.number(four).bytes(&len.to_be_bytes());
        }
        Ok(())
    }

    fn unsigned(&mut self, number: u64) {
        match (u8::try_from(number), u16::try_from(number), u32::try_from(number)) {
            (Ok(number @ 0..=0x7f), ..) => {
                self.header.number(number);
            }
            (Ok(number), ..) => {
                self.header.number(0xccu8).number(number);
            }
            (_, Ok(number), _) => {
                self.header.number(0xcdu8).bytes(&number.to_be_bytes());
            }
            (.., Ok(number)) => {
                self.header.number(0xceu8).bytes(&number.to_be_bytes());
            }
            _ => {
                self.header.number(0xcfu8).bytes(&number.to_be_bytes());
            }
        }
    }

    fn signed(&mut self, number: i64) {
        match (u64::try_from(number), i8::try_from(number), i16::try_from(number), i32::try_from(number)) {
            (Ok(number), ..) => self.unsigned(number),
            (_, Ok(number @ -32..), ..) => {
                self.header.number(number);
            }
            (_, Ok(number), ..) => {
                self.header.number(0xd0u8).number(number);
            }
            (_, _, Ok(number), _) => {
                self.header.number(0xd1u8).bytes(&number.to_be_bytes());
            }
            (.., Ok(number)) => {
                self.header.number(0xd2u8).bytes(&number.to_be_bytes());
            }
            _ => {
                self.header.number(0xd3u8).bytes(&number.to_be_bytes());
            }
        }
    }

    /// A native value; what msgpack has no place for is nothing.
    fn value(&mut self, value: &MetadataValue) {
        match value {
            MetadataValue::Bool(value) => {
                self.header.number(0xc2 | u8::from(*value));
            }
            MetadataValue::Text(text) => self.text(text),
            MetadataValue::F32(number) => {
                self.header.number(0xcau8).bytes(&number.to_be_bytes());
            }
            MetadataValue::F64(number) => {
                self.header.number(0xcbu8).bytes(&number.to_be_bytes());
            }
            MetadataValue::Map(_) => self.map(0),
            MetadataValue::List(_) => self.list(0),
            other => match (other.as_i64(), other.as_u64()) {
                (Some(number), _) => self.signed(number),
                (None, Some(number)) => self.unsigned(number),
                (None, None) => {
                    self.header.number(0xc0u8);
                }
            },
        }
    }
}
