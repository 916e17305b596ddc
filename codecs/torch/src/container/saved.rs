//! What a file of any kind holds: one object, and the bytes of its storages.

use super::script::Classes;
use ckpt_api::{Compression, Endian};
use ckpt_containers::pickle::{Names, Tree};
use std::collections::HashMap;

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
    /// The pickle of the constants that the code of a TorchScript archive has, which are not read.
    pub(crate) constants: Option<Tree>,
    /// The folder of a zip archive in which the records are.
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
