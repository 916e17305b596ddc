//! The tar archive that `torch.save` wrote before PyTorch 0.4: three members without compression.
//!
//! ```text
//! storages   how many; for each: pickle (key, location, class), i64 elements, bytes; then the parts of storages
//! tensors    how many; for each: pickle (key, storage, class), i32 axes, 4 bytes, i64 lengths, strides, offset
//! pickle     the object, whose persistent ids are the keys of tensors
//! ```
//!
//! A fourth member, `sys_info`, states the byte order of the machine. PyTorch reads all numbers as little-endian ones
//! whatever it says.

use super::saved::{Record, Saved};
use super::script::Classes;
use crate::format::StorageClass;
use ckpt_api::fields::{Bytes, Parsed, bytes, le, skip};
use ckpt_api::{Endian, Error, Fields, File, Limit, Limits, Result};
use ckpt_containers::pickle::{Builder, Decoded, Feed, Id, Names, Tree, Value, parse, shown};
use nom::sequence::terminated;
use nom::{Err, Parser, multi};
use std::collections::HashMap;

/// Bytes of a header, and of what everything is padded to.
const BLOCK: u64 = 512;
/// What the archive's length is a multiple of.
const RECORD: u64 = 20 * BLOCK;
/// Members that PyTorch wrote.
const NAMES: [&str; 4] = ["sys_info", "pickle", "tensors", "storages"];
/// Most members of an archive.
const MOST_MEMBERS: usize = 64;
const MOST_AXES: u32 = 1024;

/// Whether the file begins as such an archive does.
pub(super) fn is_checkpoint(file: &File) -> Result<bool> {
    if file.len() < BLOCK {
        return Ok(false);
    }
    let header = file.bytes(0, BLOCK)?;
    Ok(Header::parse(&header).is_some_and(|header| NAMES.contains(&header.name.as_str())))
}

/// What is different in the file that is written.
const DIFFERENCE: &str =
    "it has the tar archive of before PyTorch 0.4, and is written as the zip archive of PyTorch 2.8";

/// See [`super::open`].
pub(super) fn open(file: &File, limits: &Limits) -> Result<Saved> {
    let members = members(file)?;
    let member = |name: &str| {
        members.get(name).copied().ok_or_else(|| {
            Error::corrupt("the archive lacks a member of a PyTorch checkpoint")
                .expected(format!("'{name}'"))
                .help("the file is cut short, or is another kind of archive")
        })
    };
    let mut part = Part::new(file, member("storages")?, limits);
    let storages = storages(&mut part).map_err(|error| error.field("storages"))?;
    let mut part = Part::new(file, member("tensors")?, limits);
    let tensors = tensors(&mut part).map_err(|error| error.field("tensors"))?;
    let (start, end) = member("pickle")?;
    let tree = parse(Feed::new(file, start, end, limits)).map_err(|error| error.field("pickle"))?;
    let names = Names::of(&tree);
    let tree = resolve(tree, &storages, &tensors).map_err(|error| error.field("pickle"))?;
    let records = storages.into_iter().filter_map(|(key, storage)| Some((key.to_string(), storage.record?)));
    Ok(Saved {
        pickle_start: Some(start),
        tree,
        names,
        records: records.collect(),
        endian: Endian::Little,
        is_script: false,
        classes: Classes::default(),
        constants: None,
        folder: None,
        differences: vec![DIFFERENCE.to_owned()],
        followed_by: 0,
    })
}

/// The header of a member.
struct Header {
    name: String,
    len: u64,
    /// `0` for a file.
    kind: u8,
}

impl Header {
    /// Parses a block; `None` for anything else than a header of the formats that begin with `ustar`.
    fn parse(block: &[u8]) -> Option<Self> {
        const CHECKSUM: std::ops::Range<usize> = 148..156;
        let (mode_and_owners, time, link) = (skip(24), skip(12), skip(100));
        let parts = (
            terminated(bytes(100), mode_and_owners),
            terminated(bytes(12), time),
            bytes(8),
            terminated(le::<u8>, link),
            bytes(5),
        );
        let (name, size, checksum, kind, magic) = Bytes::new(block, 0).parse(parts).ok()?;
        if magic != b"ustar" {
            return None;
        }
        let sum = |(at, byte): (usize, &u8)| u64::from(if CHECKSUM.contains(&at) { b' ' } else { *byte });
        if octal(checksum)? != block.iter().enumerate().map(sum).sum::<u64>() {
            return None;
        }
        let len = match size.split_first()? {
            // More than 8 GiB.
            (0x80, rest) => u64::from_be_bytes(*rest.last_chunk()?),
            _ => octal(size)?,
        };
        let name = name.split(|byte| *byte == 0).next()?;
        let name = std::str::from_utf8(name).ok()?;
        let name = name.strip_prefix("./").unwrap_or(name).to_owned();
        Some(Header { name, len, kind: if kind == 0 { b'0' } else { kind } })
    }
}

/// A number in octal digits, between spaces or zero bytes.
fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?;
    let digits = text.trim_matches(['\0', ' ']);
    if digits.is_empty() { Some(0) } else { u64::from_str_radix(digits, 8).ok() }
}

/// The ranges of all files in the archive, by name.
fn members(file: &File) -> Result<HashMap<String, (u64, u64)>> {
    let mut found = HashMap::new();
    let mut at = 0;
    while file.len().saturating_sub(at) >= BLOCK {
        let block = file.bytes(at, BLOCK)?;
        if block.iter().all(|byte| *byte == 0) {
            check_end(file, at)?;
            return Ok(found);
        }
        let wrong = |what: &str| Error::corrupt(format!("a member of the tar archive {what}")).offset(at);
        let header = Header::parse(&block).ok_or_else(|| wrong("has a damaged header"))?;
        let start = at.saturating_add(BLOCK);
        let end = start.checked_add(header.len).filter(|end| *end <= file.len()).ok_or_else(|| {
            wrong("reaches beyond the file")
                .found(ckpt_api::count(header.len, "byte"))
                .expected(format!("at most {}", file.len().saturating_sub(start)))
                .help("the file is cut short or damaged: copy it again")
        })?;
        if header.kind == b'0' && found.insert(header.name, (start, end)).is_some() {
            return Err(wrong("has the name of another one"));
        }
        if found.len() > MOST_MEMBERS {
            return Err(Error::limit("the tar archive has too many members")
                .expected(format!("at most {MOST_MEMBERS}")));
        }
        at = end.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX);
    }
    Err(no_end(at.min(file.len())))
}

/// Checks that two blocks of zeros, and more up to the end of a record, are the last of the file.
fn check_end(file: &File, at: u64) -> Result<()> {
    let rest = file.len().saturating_sub(at);
    let is_padded = (2 * BLOCK..=RECORD + BLOCK).contains(&rest) && file.len().is_multiple_of(RECORD);
    if is_padded && file.bytes(at, rest)?.iter().all(|byte| *byte == 0) { Ok(()) } else { Err(no_end(at)) }
}

fn no_end(at: u64) -> Error {
    Error::corrupt("the tar archive does not end as one does")
        .offset(at)
        .expected(format!("zeros up to a multiple of {RECORD} bytes, and nothing behind them"))
        .help("the file is cut short, or something was appended: copy it again")
}

/// A member that is read from its first byte on.
struct Part<'a> {
    file: &'a File,
    at: u64,
    end: u64,
    limits: &'a Limits,
}

impl<'a> Part<'a> {
    fn new(file: &'a File, (at, end): (u64, u64), limits: &'a Limits) -> Self {
        Part { file, at, end, limits }
    }

    fn pickle(&mut self) -> Result<Tree> {
        let tree = parse(Feed::new(self.file, self.at, self.end, self.limits))?;
        self.at = tree.end();
        Ok(tree)
    }

    /// How many storages or tensors follow.
    fn count(&mut self) -> Result<u64> {
        let at = self.at;
        let tree = self.pickle()?;
        let count = tree.int(tree.root()).and_then(|count| u64::try_from(count).ok());
        let count =
            count.ok_or_else(|| Error::corrupt("the member does not begin with a count").offset(at))?;
        self.limits.check(Limit::Tensors, count)?;
        Ok(count)
    }

    /// Natural numbers of 64 bits.
    fn naturals(&mut self, count: u32) -> Result<Vec<u64>> {
        let mut fields = Fields::new(self.file);
        fields.skip(self.at)?;
        let numbers = fields.parse(|input| multi::count(stored_natural, count as usize).parse(input))?;
        self.at = fields.position();
        self.check()?;
        Ok(numbers)
    }

    fn check(&self) -> Result<()> {
        if self.at <= self.end {
            return Ok(());
        }
        Err(Error::corrupt("the member ends too early")
            .offset(self.end)
            .help("the file is damaged: copy it again"))
    }
}

/// Parses an integer of 64 bits with a sign that is not negative.
fn stored_natural(input: Bytes<'_>) -> Parsed<'_, u64> {
    let (rest, number) = le::<i64>(input)?;
    match u64::try_from(number) {
        Ok(natural) => Ok((rest, natural)),
        Err(_) => Err(Err::Error(
            Error::corrupt("a size, stride or offset is negative")
                .offset(input.offset())
                .found(number.to_string()),
        )),
    }
}

/// A storage, or a part of one.
struct Storage {
    class: StorageClass,
    module: String,
    name: String,
    elements: u64,
    /// For a part: the key of the storage, its first element, and how many.
    part: Option<(i64, u64, u64)>,
    /// `None` for a part.
    record: Option<Record>,
}

fn storages(part: &mut Part<'_>) -> Result<HashMap<i64, Storage>> {
    let mut storages = HashMap::new();
    for _ in 0..part.count()? {
        let at = part.at;
        let wrong = |what: &str| Error::corrupt(format!("a storage {what}")).offset(at);
        let tree = part.pickle()?;
        let parsed = tree.tuple::<3>(tree.root()).and_then(|[key, _location, class]| {
            let (module, name) = tree.global(class)?;
            Some((tree.int(key)?, module, name))
        });
        let (key, module, name) =
            parsed.ok_or_else(|| wrong("is not described by key, location and class"))?;
        let class = StorageClass::named(module, name).ok_or_else(|| {
            Error::unsupported("a storage has an unknown class").offset(at).found(shown(module, name))
        })?;
        let [elements] = part.naturals(1)?[..] else { return Err(wrong("has no size")) };
        let len = elements.checked_mul(class.element().bytes);
        let len = len.filter(|len| *len <= part.end.saturating_sub(part.at)).ok_or_else(|| {
            wrong("reaches beyond its member")
                .found(ckpt_api::count(elements, "element"))
                .expected(format!("at most {} bytes", part.end.saturating_sub(part.at)))
                .help("the file is cut short or damaged: copy it again")
        })?;
        let record = Some(Record { start: part.at, len, compression: None, crc: None });
        part.at = part.at.saturating_add(len);
        let storage =
            Storage { class, module: module.to_owned(), name: name.to_owned(), elements, part: None, record };
        if storages.insert(key, storage).is_some() {
            return Err(wrong("has the key of another one"));
        }
    }
    add_parts(part, &mut storages)?;
    Ok(storages)
}

/// Adds the parts of storages: a list of (key, key of the storage, first element, elements).
fn add_parts(part: &mut Part<'_>, storages: &mut HashMap<i64, Storage>) -> Result<()> {
    let at = part.at;
    let tree = part.pickle()?;
    let wrong = |what: &str| Error::corrupt(format!("a part of a storage {what}")).offset(at);
    let Value::List(list) = tree.value(tree.root()) else {
        return Err(wrong("is not in a list"));
    };
    for id in tree.items(list) {
        let numbers = tree.tuple::<4>(id).map(|ids| ids.map(|id| tree.int(id)));
        let Some([Some(key), Some(root), Some(first), Some(count)]) = numbers else {
            return Err(wrong("is not described by four integers"));
        };
        let range = u64::try_from(first).ok().zip(u64::try_from(count).ok());
        let (first, count) = range.ok_or_else(|| wrong("has a negative range"))?;
        let whole = storages.get(&root).filter(|whole| whole.part.is_none());
        let whole = whole.ok_or_else(|| wrong("refers to a storage that is missing"))?;
        let storage = Storage {
            class: whole.class,
            module: whole.module.clone(),
            name: whole.name.clone(),
            elements: whole.elements,
            part: Some((root, first, count)),
            record: None,
        };
        if storages.insert(key, storage).is_some() {
            return Err(wrong("has the key of another one"));
        }
    }
    Ok(())
}

/// A view of a storage.
struct View {
    storage: i64,
    offset: u64,
    lens: Vec<u64>,
    strides: Vec<u64>,
}

fn tensors(part: &mut Part<'_>) -> Result<HashMap<i64, View>> {
    let mut tensors = HashMap::new();
    for _ in 0..part.count()? {
        let at = part.at;
        let wrong = |what: &str| Error::corrupt(format!("a tensor {what}")).offset(at);
        let tree = part.pickle()?;
        let keys = tree.tuple::<3>(tree.root()).map(|[key, storage, _]| (tree.int(key), tree.int(storage)));
        let Some((Some(key), Some(storage))) = keys else {
            return Err(wrong("is not described by key, storage and class"));
        };
        let mut fields = Fields::new(part.file);
        fields.skip(part.at)?;
        let axes = fields.parse(|input| terminated(le::<u32>, le::<u32>).parse(input))?;
        if axes > MOST_AXES {
            return Err(wrong("has too many axes").found(axes.to_string()));
        }
        part.at = fields.position();
        let (lens, strides) = (part.naturals(axes)?, part.naturals(axes)?);
        let [offset] = part.naturals(1)?[..] else { return Err(wrong("has no offset")) };
        if tensors.insert(key, View { storage, offset, lens, strides }).is_some() {
            return Err(wrong("has the key of another one"));
        }
    }
    Ok(tensors)
}

/// Puts calls that make the tensors in the place of their keys, and classes in that of their descriptions.
fn resolve(tree: Tree, storages: &HashMap<i64, Storage>, tensors: &HashMap<i64, View>) -> Result<Tree> {
    let references: Vec<(Id, Id)> = tree
        .ids()
        .filter_map(|id| match tree.value(id) {
            Value::Persistent(key) => Some((id, key)),
            _ => None,
        })
        .collect();
    let mut targets = Vec::with_capacity(references.len());
    for (id, key) in references {
        let target = match tree.value(key) {
            Value::Int(key) => Target::Tensor(key),
            // Protocol 0 writes every id as a text.
            Value::Text(key) => Target::Tensor(key.parse().map_err(|_| unknown(key))?),
            // A class, the file that it comes from, and its source.
            Value::Tuple(list) => tree.items(list).next().map(Target::Class).ok_or_else(|| unknown("()"))?,
            other => return Err(unknown(&format!("{other:?}"))),
        };
        targets.push((id, target));
    }
    let mut builder = tree.into_builder();
    let mut made = HashMap::new();
    for (id, target) in targets {
        let value = match target {
            Target::Class(class) => class,
            Target::Tensor(key) => match made.get(&key) {
                Some(value) => *value,
                None => {
                    let view = tensors.get(&key).ok_or_else(|| unknown(&key.to_string()))?;
                    let value = call(&mut builder, view, storages)?;
                    made.insert(key, value);
                    value
                }
            },
        };
        builder.replace(id, value);
    }
    Ok(builder.into_tree())
}

enum Target {
    Tensor(i64),
    Class(Id),
}

fn unknown(key: &str) -> Error {
    Error::corrupt("the pickle refers to a tensor that is missing")
        .found(key.escape_debug().to_string())
        .expected("the key of a tensor")
}

/// The call that makes a tensor in later files: `_rebuild_tensor(storage, offset, size, stride)`.
fn call(builder: &mut Builder, view: &View, storages: &HashMap<i64, Storage>) -> Result<Id> {
    let storage = storages.get(&view.storage).ok_or_else(|| {
        Error::corrupt("the storage of a tensor is missing").expected(format!("the storage {}", view.storage))
    })?;
    let key = storage.part.map_or(view.storage, |(root, ..)| root);
    let class = global(builder, &storage.module, &storage.name)?;
    let part = match storage.part {
        None => Id::NONE,
        Some((_, first, count)) => naturals(builder, &[0, first, count])?,
    };
    let items = [text(builder, "storage")?, class, text(builder, &key.to_string())?, text(builder, "cpu")?];
    let elements = natural(builder, storage.elements)?;
    let [kind, class, key, location] = items;
    let id = builder.tuple(&[kind, class, key, location, elements, part])?;
    let storage = builder.persistent(id)?;
    let offset = natural(builder, view.offset)?;
    let (lens, strides) = (naturals(builder, &view.lens)?, naturals(builder, &view.strides)?);
    let arguments = builder.tuple(&[storage, offset, lens, strides])?;
    let function = global(builder, "torch._utils", "_rebuild_tensor")?;
    builder.call(function, arguments, Id::NONE)
}

fn text(builder: &mut Builder, text: &str) -> Result<Id> {
    builder.decoded(Decoded::Text(text.to_owned()))
}

fn global(builder: &mut Builder, module: &str, name: &str) -> Result<Id> {
    let (module, name) = (text(builder, module)?, text(builder, name)?);
    builder.global(module, name)
}

/// What was an integer of 64 bits with a sign.
fn natural(builder: &mut Builder, number: u64) -> Result<Id> {
    builder.int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn naturals(builder: &mut Builder, numbers: &[u64]) -> Result<Id> {
    let ids = numbers.iter().map(|number| natural(builder, *number)).collect::<Result<Vec<Id>>>()?;
    builder.tuple(&ids)
}
