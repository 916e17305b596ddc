//! The index that `place` leaves for `finish`, complete except for the checksums of data that is not written yet.

use crate::format::{Entry, encode_crc, mask};
use crate::index::Index;
use crate::key::Key;
use crate::key_text::abbreviate;
use crate::ordered_code::sliced_name;
use crate::strings::VariantChecksum;
use crate::table_writer::{Compression, TableWriter};
use ckpt_api::{
    ChecksumAlgorithm, Endian, Error, FileId, FinishState, Input, Limit, Limits, Literal, MostlyOne,
    OutputLayout, Result, Setting, Written, text,
};
use prost::encoding::encoded_len_varint;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashSet};

/// An index without its checksums.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PendingIndex {
    /// Number of data files, for the header.
    pub(crate) shards: u32,
    /// Whether the data files are big-endian.
    pub(crate) big_endian: bool,
    /// Whether the literals are compressed.
    pub(crate) snappy: bool,
    /// Number of the index file in the list of output files.
    pub(crate) file: FileId,
    /// All entries except the header.
    pub(crate) entries: Vec<PendingEntry>,
    /// The index file that was read, which is written again if it still has the same entries; empty if not recorded.
    #[serde(default, with = "ckpt_api::base64_text", skip_serializing_if = "Vec::is_empty")]
    pub(crate) original: Vec<u8>,
}

/// An entry without its checksum.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PendingEntry {
    /// The key.
    #[serde(default, with = "ckpt_api::base64_text", skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) key: Key,
    /// The encoded fields before the checksum.
    #[serde(default, with = "ckpt_api::base64_text", skip_serializing_if = "SmallVec::is_empty")]
    pub(crate) location: SmallVec<[u8; 24]>,
    /// The checksum. It is final unless there are `extents` or variants.
    pub(crate) crc: u32,
    /// Number of the placement that writes the data.
    pub(crate) placement: u32,
    /// Numbers of the placement's extents in this entry, in the order of the file. The checksum of the first one
    /// includes what is hashed before it.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) extents: MostlyOne<u32>,
    /// What few entries have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) more: Option<Box<More>>,
}

/// Apart from the entry, for there can be a million of them.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct More {
    /// The encoded fields after the checksum.
    #[serde(default, with = "ckpt_api::base64_text", skip_serializing_if = "Vec::is_empty")]
    pub(crate) slices: Vec<u8>,
    /// For a variant tensor, what the checksums between its elements are computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) variants: Option<Variants>,
}

/// The elements of a variant tensor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Variants {
    /// Length of each element in bytes.
    pub(crate) lengths: Vec<u64>,
    /// Number of the data file in the list of output files.
    pub(crate) file: FileId,
    /// Offset of the tensor's first byte.
    pub(crate) offset: u64,
}

impl PendingIndex {
    /// Sorts the entries by key, and refuses keys that a reader would confuse. `slices` are the keys of slices.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`], naming the tensor.
    pub(crate) fn sort(&mut self, slices: &HashSet<Vec<u8>>) -> Result<()> {
        self.entries.sort_by(|a, b| a.key[..].cmp(&b.key));
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
                    .found(ckpt_api::count(key.len(), "byte"))
                    .expected(format!("at most {limit}")));
            }
        }
        self.check_slices(slices)
    }

    /// Refuses a tensor whose key a reader would take for a slice of another tensor.
    fn check_slices(&self, slices: &HashSet<Vec<u8>>) -> Result<()> {
        let exists = |key: &[u8]| self.entries.binary_search_by(|entry| entry.key[..].cmp(key)).is_ok();
        let is_ambiguous = |entry: &&PendingEntry| {
            !slices.contains(&entry.key[..]) && sliced_name(&entry.key).is_some_and(|name| exists(&name))
        };
        match self.entries.iter().find(is_ambiguous) {
            Some(entry) => Err(refused("the tensor's key is that of a slice of another tensor", &entry.key)),
            None => Ok(()),
        }
    }

    /// Returns the index as the state for finishing.
    pub(crate) fn into_state(self) -> FinishState {
        let bytes = |entry: &PendingEntry| {
            let location = if entry.location.spilled() { entry.location.len() } else { 0 };
            let fields = entry.key.len() + location + entry.slices().len();
            let more = entry.more.as_ref().map_or(0, |_| size_of::<More>());
            let extents = if entry.extents.len() > 1 { size_of_val(&entry.extents[..]) } else { 0 };
            let lengths = entry.variants().map_or(0, |all| size_of_val(&all.lengths[..]));
            size_of::<PendingEntry>() + fields + more + extents + lengths
        };
        let entries = self.entries.iter().map(bytes).sum::<usize>();
        let bytes = self.original.len() + entries;
        FinishState::new(self).of_size(bytes as u64)
    }

    /// Returns the literals that depend on the written data: the index, and the checksums within variant tensors.
    ///
    /// # Errors
    /// Those of [`FinishState::get`]; [`ckpt_api::Kind::Defect`] if `placed` is not the result of this codec's `place`.
    pub(crate) fn finish(placed: &OutputLayout, written: &[Written]) -> Result<Vec<Literal>> {
        let index = placed.finish.get::<PendingIndex>()?;
        let endian = if index.big_endian { Endian::Big } else { Endian::Little };
        let mut literals = Vec::new();
        let mut checksums = Vec::with_capacity(index.entries.len());
        for entry in &index.entries {
            checksums.push(entry.checksum(placed, written, endian, &mut literals)?);
        }
        let bytes = match index.is_original(&checksums, endian) {
            true => index.original.clone(),
            false => index.table(&checksums, endian),
        };
        literals.push(Literal { file: index.file, offset: 0, bytes });
        Ok(literals)
    }

    /// Returns the entries with their final checksums.
    fn with_checksums<'a>(&'a self, checksums: &'a [u32]) -> impl Iterator<Item = (&'a PendingEntry, u32)> {
        self.entries.iter().zip(checksums.iter().copied())
    }

    /// Whether the index file that was read has the same header and entries.
    fn is_original(&self, checksums: &[u32], endian: Endian) -> bool {
        const NAME: &str = "index";
        if self.original.is_empty() {
            return false;
        }
        let mut limits = Limits::default();
        limits.set(Limit::NameBytes, u64::MAX);
        let input = Input::memory(NAME, BTreeMap::from([(NAME.to_owned(), self.original.clone())]));
        let read = input.file(NAME).and_then(|file| Index::read(&file, &limits, false));
        read.is_ok_and(|Index { header, entries, .. }| {
            let mut own = self.with_checksums(checksums);
            (header.shards, header.endian) == (self.shards, endian)
                && entries.len() == self.entries.len()
                && entries.iter().zip(&mut own).all(|((key, read), (entry, crc))| {
                    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
                    entry.encode(crc, &mut ours);
                    **key == *entry.key && read.encode(&mut theirs).is_ok() && theirs == ours
                })
        })
    }

    fn table(&self, checksums: &[u32], endian: Endian) -> Vec<u8> {
        let compression = if self.snappy { Compression::Snappy } else { Compression::None };
        let mut table = TableWriter::of_index(self.shards, endian, compression);
        let mut value = Vec::new();
        for (entry, crc) in self.with_checksums(checksums) {
            value.clear();
            entry.encode(crc, &mut value);
            table.add(&entry.key, &value);
        }
        table.finish()
    }
}

impl PendingEntry {
    /// An entry whose checksum is final.
    pub(crate) fn new(key: Key, entry: &Entry) -> Result<Self> {
        let mut pending = PendingEntry { key, crc: entry.crc, ..PendingEntry::default() };
        let mut bytes = Vec::with_capacity(64);
        entry.encode_location(&mut bytes)?;
        pending.location = SmallVec::from_slice(&bytes);
        bytes.clear();
        entry.encode_slices(&mut bytes);
        if !bytes.is_empty() {
            pending.more.get_or_insert_default().slices = bytes;
        }
        Ok(pending)
    }

    fn slices(&self) -> &[u8] {
        self.more.as_ref().map_or(&[], |more| &more.slices)
    }

    fn variants(&self) -> Option<&Variants> {
        self.more.as_ref()?.variants.as_ref()
    }

    fn encode(&self, crc: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.location);
        encode_crc(crc, out);
        out.extend_from_slice(self.slices());
    }

    /// Returns the final checksum, computed from those of the written extents.
    fn checksum(
        &self,
        placed: &OutputLayout,
        written: &[Written],
        endian: Endian,
        literals: &mut Vec<Literal>,
    ) -> Result<u32> {
        let mut sums = Vec::with_capacity(self.extents.len());
        let placement = self.placement as usize;
        for extent in self.extents.iter().map(|extent| *extent as usize) {
            let crc = written.get(placement).and_then(|written| *written.checksums.get(extent)?);
            let placement = placed.placements.get(placement);
            let len = placement.and_then(|placement| placement.extents.get(extent)).map(|extent| extent.len);
            sums.push(crc.zip(len).ok_or_else(foreign)?);
        }
        if let Some(variants) = self.variants() {
            return finish_variants(variants, &sums, endian, literals);
        }
        let mut sums = sums.into_iter();
        let Some((first, _)) = sums.next() else { return Ok(self.crc) };
        let combine = |crc, (next, len)| ChecksumAlgorithm::Crc32c.combine(crc, next, len);
        Ok(mask(sums.fold(first, combine)))
    }
}

/// Computes the checksums of a variant tensor: adds those between its elements to `literals`, and returns the entry's.
fn finish_variants(
    variants: &Variants,
    sums: &[(u32, u64)],
    endian: Endian,
    literals: &mut Vec<Literal>,
) -> Result<u32> {
    let mut offset = variants.offset;
    let (mut sums, mut checksum) = (sums.iter(), VariantChecksum::new(endian));
    for length in &variants.lengths {
        let crc = if *length > 0 { sums.next().ok_or_else(foreign)?.0 } else { 0 };
        let bytes = checksum.add(*length, crc).to_vec();
        let at = offset.saturating_add(encoded_len_varint(*length) as u64).saturating_add(*length);
        offset = at.saturating_add(bytes.len() as u64);
        literals.push(Literal { file: variants.file, offset: at, bytes });
    }
    Ok(checksum.finish())
}

fn refused(message: &str, key: &[u8]) -> Error {
    Error::usage(message)
        .tensor(abbreviate(key))
        .help(text!["give the tensor another name with a mapping, or leave it out with ", Setting::EXCLUDE])
}

fn foreign() -> Error {
    Error::defect("the written extents are not those that tf2 placed")
}
