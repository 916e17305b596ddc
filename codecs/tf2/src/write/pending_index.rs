//! The index as `place` leaves it for `seal`: complete except for the checksums of data that is not written yet.

use crate::format::{Entry, encode_crc, mask};
use crate::index::Index;
use crate::key_text::abbreviate;
use crate::ordered_code::sliced_name;
use crate::strings::VariantChecksum;
use crate::table_writer::{Compression, TableWriter};
use ckpt_api::{
    Block, ChecksumAlgorithm, Endian, Error, FileId, Input, Limit, Limits, Placed, Result, Setting, Written,
};
use prost::Message;
use prost::encoding::encoded_len_varint;
use std::collections::{BTreeMap, HashSet};

/// An index without its checksums.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PendingIndex {
    /// Number of data files, for the header.
    #[prost(uint32, tag = "1")]
    pub(crate) shards: u32,
    /// Whether the data files are big-endian.
    #[prost(bool, tag = "2")]
    pub(crate) big_endian: bool,
    /// Whether the blocks are compressed.
    #[prost(bool, tag = "3")]
    pub(crate) snappy: bool,
    /// Number of the index file in the list of output files.
    #[prost(uint64, tag = "4")]
    pub(crate) file: u64,
    /// All entries except the header.
    #[prost(message, repeated, tag = "5")]
    pub(crate) entries: Vec<PendingEntry>,
    /// The index file that was read, which is written again if it still has the same entries; empty if not recorded.
    #[prost(bytes = "vec", tag = "6")]
    pub(crate) original: Vec<u8>,
}

/// An entry without its checksum.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PendingEntry {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    /// The encoded fields before the checksum.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) location: Vec<u8>,
    /// The checksum. It is final unless `extents` or `variants` has elements.
    #[prost(fixed32, tag = "6")]
    pub(crate) crc: u32,
    /// The encoded fields after the checksum.
    #[prost(bytes = "vec", tag = "7")]
    pub(crate) slices: Vec<u8>,
    /// Number of the placement that writes the data.
    #[prost(uint64, tag = "3")]
    pub(crate) placement: u64,
    /// Numbers of the placement's extents in this entry, in the order of the file. The checksum of the first one includes
    /// what is hashed before it.
    #[prost(uint64, repeated, tag = "4")]
    pub(crate) extents: Vec<u64>,
    /// For a variant tensor, what the checksums between its elements are computed from.
    #[prost(message, optional, tag = "5")]
    pub(crate) variants: Option<Variants>,
}

/// The elements of a variant tensor.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Variants {
    /// Length of each element in bytes.
    #[prost(uint64, repeated, tag = "1")]
    pub(crate) lengths: Vec<u64>,
    /// Number of the data file in the list of output files.
    #[prost(uint64, tag = "2")]
    pub(crate) file: u64,
    /// Offset of the tensor's first byte.
    #[prost(uint64, tag = "3")]
    pub(crate) offset: u64,
}

impl PendingIndex {
    /// Sorts the entries by key, and refuses keys that a reader would confuse. `slices` are the keys of slices.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`], naming the tensor.
    pub(crate) fn sort(&mut self, slices: &HashSet<Vec<u8>>) -> Result<()> {
        self.entries.sort_by(|a, b| a.key.cmp(&b.key));
        for pair in self.entries.windows(2) {
            if let [a, b] = pair
                && a.key == b.key
            {
                return Err(refused("two tensors would be stored under the same key", &a.key));
            }
        }
        let limit = Limit::NameBytes.default_value();
        for PendingEntry { key, .. } in &self.entries {
            if key.is_empty() {
                return Err(refused(
                    "a tensor without a name cannot be stored: the empty key is the header's",
                    key,
                ));
            }
            if key.len() as u64 > limit {
                return Err(refused("the tensor's key is too long", key)
                    .found(format!("{} bytes", key.len()))
                    .expected(format!("at most {limit}")));
            }
        }
        self.check_slices(slices)
    }

    /// Refuses a tensor whose key a reader would take for a slice of another tensor.
    fn check_slices(&self, slices: &HashSet<Vec<u8>>) -> Result<()> {
        let exists =
            |key: &[u8]| self.entries.binary_search_by(|entry| entry.key.as_slice().cmp(key)).is_ok();
        let is_ambiguous = |entry: &&PendingEntry| {
            !slices.contains(&entry.key) && sliced_name(&entry.key).is_some_and(|name| exists(&name))
        };
        match self.entries.iter().find(is_ambiguous) {
            Some(entry) => Err(refused("the tensor's key is that of a slice of another tensor", &entry.key)),
            None => Ok(()),
        }
    }

    /// Encodes the index for [`Placed::draft`].
    pub(crate) fn encode(&self) -> Vec<u8> {
        self.encode_to_vec()
    }

    /// Returns the blocks that depend on the written data: the index, and the checksums within variant tensors.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Defect`] if `placed` is not the result of this codec's `place`.
    pub(crate) fn finish(placed: &Placed, written: &[Written]) -> Result<Vec<Block>> {
        let mut index = PendingIndex::decode(&placed.draft[..]).map_err(|_| foreign())?;
        let endian = if index.big_endian { Endian::Big } else { Endian::Little };
        let mut blocks = Vec::new();
        for entry in &mut index.entries {
            entry.finish(placed, written, endian, &mut blocks)?;
        }
        let file = FileId(usize::try_from(index.file).map_err(|_| foreign())?);
        let original = std::mem::take(&mut index.original);
        let bytes = if index.has_entries_of(&original, endian) { original } else { index.table(endian) };
        blocks.push(Block { file, offset: 0, bytes });
        Ok(blocks)
    }

    /// Whether the index file `original` has the same header and entries.
    fn has_entries_of(&self, original: &[u8], endian: Endian) -> bool {
        const NAME: &str = "index";
        if original.is_empty() {
            return false;
        }
        let mut limits = Limits::default();
        limits.set(Limit::NameBytes, u64::MAX);
        let input = Input::memory(NAME, BTreeMap::from([(NAME.to_owned(), original.to_vec())]));
        let read = input.file(NAME).and_then(|file| Index::read(&file, &limits, false));
        read.is_ok_and(|Index { header, entries, .. }| {
            (header.shards, header.endian) == (self.shards, endian)
                && entries.len() == self.entries.len()
                && entries.iter().zip(&self.entries).all(|((key, read), entry)| {
                    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
                    entry.encode(&mut ours);
                    **key == *entry.key && read.encode(&mut theirs).is_ok() && theirs == ours
                })
        })
    }

    fn table(&self, endian: Endian) -> Vec<u8> {
        let compression = if self.snappy { Compression::Snappy } else { Compression::None };
        let mut table = TableWriter::of_index(self.shards, endian, compression);
        let mut value = Vec::new();
        for entry in &self.entries {
            value.clear();
            entry.encode(&mut value);
            table.add(&entry.key, &value);
        }
        table.finish()
    }
}

impl PendingEntry {
    /// An entry whose checksum is final.
    pub(crate) fn new(key: Vec<u8>, entry: &Entry) -> Result<Self> {
        let mut pending = PendingEntry { key, crc: entry.crc, ..PendingEntry::default() };
        entry.encode_location(&mut pending.location)?;
        entry.encode_slices(&mut pending.slices);
        Ok(pending)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(&self.location);
        encode_crc(self.crc, out);
        out.extend(&self.slices);
    }

    /// Computes the checksum from the written extents.
    fn finish(
        &mut self,
        placed: &Placed,
        written: &[Written],
        endian: Endian,
        blocks: &mut Vec<Block>,
    ) -> Result<()> {
        let index = usize::try_from(self.placement).map_err(|_| foreign())?;
        let mut sums = Vec::with_capacity(self.extents.len());
        for extent in &self.extents {
            let extent = usize::try_from(*extent).map_err(|_| foreign())?;
            let crc = written.get(index).and_then(|written| *written.checksums.get(extent)?);
            let len = placed.placements.get(index).and_then(|placement| placement.extents.get(extent));
            let (Some(crc), Some(len)) = (crc, len.map(|extent| extent.len)) else { return Err(foreign()) };
            sums.push((crc, len));
        }
        if let Some(variants) = &self.variants {
            self.crc = finish_variants(variants, &sums, endian, blocks)?;
            return Ok(());
        }
        let mut sums = sums.into_iter();
        if let Some((first, _)) = sums.next() {
            let combine = |crc, (next, len)| ChecksumAlgorithm::Crc32c.combine(crc, next, len);
            self.crc = mask(sums.fold(first, combine));
        }
        Ok(())
    }
}

/// Computes the checksums of a variant tensor: adds those between its elements to `blocks`, and returns the entry's.
fn finish_variants(
    variants: &Variants,
    sums: &[(u32, u64)],
    endian: Endian,
    blocks: &mut Vec<Block>,
) -> Result<u32> {
    let file = FileId(usize::try_from(variants.file).map_err(|_| foreign())?);
    let mut offset = variants.offset;
    let (mut sums, mut checksum) = (sums.iter(), VariantChecksum::new(endian));
    for length in &variants.lengths {
        let crc = if *length > 0 { sums.next().ok_or_else(foreign)?.0 } else { 0 };
        let bytes = checksum.add(*length, crc).to_vec();
        let at = offset.saturating_add(encoded_len_varint(*length) as u64).saturating_add(*length);
        offset = at.saturating_add(bytes.len() as u64);
        blocks.push(Block { file, offset: at, bytes });
    }
    Ok(checksum.finish())
}

fn refused(message: &str, key: &[u8]) -> Error {
    Error::usage(message).tensor(abbreviate(key)).help(format!(
        "give the tensor another name with a mapping, or leave it out with {}",
        Setting::Exclude
    ))
}

fn foreign() -> Error {
    Error::defect("the written extents are not those that tf2 placed")
}
