//! The files that `torch.save` writes: where the pickle lies, and where the bytes of each storage.

mod differences;
mod legacy;
mod script;
mod tar;
mod zip;

use crate::format::StorageClass;
use crate::pickle::{Id, Names, Tree, Value};
use ckpt_api::{Compression, Endian, Error, File, Limits, Result};
use std::collections::HashMap;

/// The first bytes of the format before the zip: a pickle of a magic number.
pub(crate) const LEGACY_MAGIC: &[u8; 15] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e";

/// A file that was opened: its object, and its storages by key.
#[derive(Debug)]
pub(crate) struct Saved {
    pub(crate) tree: Tree,
    /// Offset in the file of the pickle, which holds the bytes of arrays; `None` if it is compressed.
    pub(crate) pickle_start: Option<u64>,
    /// What the pickle names.
    pub(crate) names: Names,
    pub(crate) records: HashMap<String, Record>,
    pub(crate) endian: Endian,
    /// Whether it is a TorchScript archive, which also holds code.
    pub(crate) is_script: bool,
    /// What the code of a TorchScript archive states of its classes.
    pub(crate) classes: Classes,
    /// Tensors that the code of a TorchScript archive has as constants, which are not read.
    pub(crate) constants: usize,
    /// The folder of a zip archive in which the records lie.
    pub(crate) folder: Option<String>,
    /// How the file differs from the one that is written for the same pickle and storages, a clause each.
    pub(crate) differences: Vec<String>,
    /// Bytes that follow the archive's end.
    pub(crate) followed_by: u64,
}

/// The bytes of one storage.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// Offset in the file.
    pub(crate) start: u64,
    /// Bytes, decompressed.
    pub(crate) len: u64,
    pub(crate) compression: Option<Compression>,
    /// CRC-32 of all its bytes, if the file has one.
    pub(crate) crc: Option<u32>,
}

/// Which kind of file something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Zip,
    Legacy,
    Tar,
}

/// Recognizes the kind by the first bytes.
pub(crate) fn kind(file: &File) -> Result<Option<Kind>> {
    let len = file.len().min(LEGACY_MAGIC.len() as u64);
    let head = file.bytes(0, len)?;
    Ok(match head.as_slice() {
        bytes if bytes == LEGACY_MAGIC => Some(Kind::Legacy),
        bytes if bytes.starts_with(&ckpt_api::zip::record::LOCAL) => Some(Kind::Zip),
        _ if tar::is_checkpoint(file)? => Some(Kind::Tar),
        _ => None,
    })
}

/// Opens a file of any kind.
pub(crate) fn open(file: &File, limits: &Limits) -> Result<Saved> {
    match kind(file)? {
        Some(Kind::Zip) => zip::open(file, limits),
        Some(Kind::Legacy) => legacy::open(file, limits),
        Some(Kind::Tar) => tar::open(file, limits),
        None => Err(not_saved(file)?),
    }
}

pub(crate) use script::Classes;
pub(crate) use zip::{Sign, sign};

fn not_saved(file: &File) -> Result<Error> {
    let head = file.bytes(0, file.len().min(1))?;
    if head.first() == Some(&0x80) {
        return Ok(Error::unsupported("the file is a pickle that torch.save did not write")
            .found("a pickle without PyTorch's magic number")
            .help("load it in Python, and save its tensors with torch.save"));
    }
    Ok(Error::corrupt("the file is not a PyTorch checkpoint")
        .offset(0)
        .expected("a zip archive, a pickle that begins with PyTorch's magic number, or a tar archive of storages and tensors"))
}

/// What a persistent id states of a storage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StorageId<'a> {
    pub(crate) class: StorageClass,
    pub(crate) key: &'a str,
    /// Elements of `class`.
    pub(crate) elements: u64,
    /// For a part of another storage: its first element in it, and how many; the other one has `key`.
    pub(crate) part: Option<(u64, u64)>,
}

impl<'a> StorageId<'a> {
    /// Parses the id of a storage: `('storage', class, key, location, elements)`, in old files with a sixth item.
    pub(crate) fn parse(tree: &'a Tree, id: Id) -> Result<Self> {
        let wrong = || {
            Error::corrupt("a persistent id of the pickle is not that of a storage")
                .expected("('storage', class, key, location, elements)")
        };
        let Value::Tuple(list) = tree.value(id) else { return Err(wrong()) };
        let mut items = [Id::NONE; 6];
        if !matches!(list.len(), 5 | 6) {
            return Err(wrong());
        }
        items.iter_mut().zip(tree.items(list)).for_each(|(item, id)| *item = id);
        let [kind, class, key, _location, elements, part] = items;
        if !tree.is_text(kind, "storage") {
            return Err(wrong());
        }
        let (module, name) = tree.global(class).ok_or_else(wrong)?;
        let class = StorageClass::named(module, name).ok_or_else(|| {
            Error::unsupported("a storage has an unknown class").found(crate::pickle::shown(module, name))
        })?;
        let key = tree.text(key).ok_or_else(wrong)?;
        let count = |id: Id| tree.int(id).and_then(|number| u64::try_from(number).ok());
        let elements = count(elements).ok_or_else(wrong)?;
        let part = match part {
            Id::NONE => None,
            view => {
                let [_key, offset, len] = tree.tuple(view).ok_or_else(wrong)?;
                Some(count(offset).zip(count(len)).ok_or_else(wrong)?)
            }
        };
        Ok(StorageId { class, key, elements, part })
    }
}

/// Checks every persistent id of a pickle.
fn check_ids(tree: &Tree) -> Result<()> {
    for id in tree.ids() {
        if let Some(id) = tree.persistent(id) {
            let is_module = match tree.value(id) {
                Value::Tuple(list) => {
                    tree.items(list).next().is_some_and(|kind| tree.is_text(kind, "module"))
                }
                _ => false,
            };
            if !is_module {
                StorageId::parse(tree, id)?;
            }
        }
    }
    Ok(())
}
