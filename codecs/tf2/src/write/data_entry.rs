//! Entries with data that are still to be placed in a data file.

use crate::format::{Entry, mask};
use crate::key::Key;
use crate::strings::length_table;
use ckpt_api::{DType, Endian, Region, Shape, TensorId};

/// An entry with data of its own: a tensor, or one slice of a partitioned tensor.
#[derive(Debug)]
pub(crate) struct DataEntry {
    /// Key in the index.
    pub(crate) key: Key,
    /// The entry. Its shard and offset, and the checksum of data that is not known yet, are still missing.
    pub(crate) entry: Entry,
    /// The leading bytes of the data that are known already.
    pub(crate) head: Vec<u8>,
    /// Unmasked CRC-32C of what is hashed before the data that is not known yet.
    pub(crate) seed: u32,
    /// For a variant tensor, the length of each element in bytes.
    pub(crate) variants: Option<Vec<u64>>,
    /// Data file and offset in the checkpoint that was read, if recorded.
    pub(crate) original: Option<(u32, u64)>,
}

/// What the layout depends on of an entry with data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataSize {
    /// Bytes of the data.
    pub(crate) size: u64,
    /// See [`DataEntry::original`].
    pub(crate) original: Option<(u32, u64)>,
    /// The tensor whose bytes are all of the data; `None` if there is none.
    pub(crate) owner: Option<TensorId>,
}

impl DataEntry {
    /// An entry of size 0.
    pub(crate) fn new(key: impl Into<Key>, dtype: DType, shape: Shape) -> Self {
        let entry =
            Entry { dtype, shape, shard: 0, offset: 0, size: 0, crc: mask(0), slices: [].into(), at: 0 };
        DataEntry { key: key.into(), entry, head: Vec::new(), seed: 0, variants: None, original: None }
    }

    /// An entry of strings of these lengths, which follow the table of their lengths.
    pub(crate) fn strings(key: Key, shape: Shape, lengths: &[u64], endian: Endian) -> Self {
        let (head, seed) = length_table(lengths.iter().copied(), endian);
        let size = lengths.iter().fold(head.len() as u64, |sum, len| sum.saturating_add(*len));
        let mut data = DataEntry { head, seed, ..DataEntry::new(key, DType::String, shape) };
        (data.entry.size, data.entry.crc) = (size, mask(seed));
        data
    }
}

/// A range of a data entry that holds consecutive bytes of a tensor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Number of the data entry in its group.
    pub(crate) entry: usize,
    /// Offset of the first byte within the data entry.
    pub(crate) offset: u64,
    /// Length in bytes.
    pub(crate) len: u64,
    /// The part of the tensor that the segment holds; `None` if segments hold the tensor's elements in order.
    pub(crate) region: Option<Region>,
}
