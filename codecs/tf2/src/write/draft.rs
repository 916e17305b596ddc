//! The index while its checksums are not known: what `place` leaves for `seal`.

use crate::bundle::Index;
use crate::format::{Entry, Header, encode_crc, mask};
use crate::names::shown;
use crate::ordered_code::sliced_name;
use crate::strings::VariantChecksum;
use crate::table_writer::{Compression, TableWriter};
use ckpt_api::{
    Block, ChecksumAlgorithm, Endian, Error, FileId, Input, Limit, Limits, Placed, Result, Written,
};
use prost::Message;
use prost::encoding::encoded_len_varint;
use std::collections::{BTreeMap, HashSet};

/// An index but for checksums.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Draft {
    /// Number of data files that the header states.
    #[prost(uint32, tag = "1")]
    pub(crate) shards: u32,
    /// Whether the data files are big-endian.
    #[prost(bool, tag = "2")]
    pub(crate) big_endian: bool,
    /// Whether blocks are compressed.
    #[prost(bool, tag = "3")]
    pub(crate) snappy: bool,
    /// Number of the index in the list of output files.
    #[prost(uint64, tag = "4")]
    pub(crate) file: u64,
    /// All entries but the header.
    #[prost(message, repeated, tag = "5")]
    pub(crate) entries: Vec<DraftEntry>,
    /// The index that was read, to be written again if it still says the same; empty for none.
    #[prost(bytes = "vec", tag = "6")]
    pub(crate) read: Vec<u8>,
}

/// An entry but for its checksum.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DraftEntry {
    /// Its key.
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    /// The fields of the entry before the checksum.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) place: Vec<u8>,
    /// The checksum; final where nothing is left to be written.
    #[prost(fixed32, tag = "6")]
    pub(crate) crc: u32,
    /// The fields after it.
    #[prost(bytes = "vec", tag = "7")]
    pub(crate) slices: Vec<u8>,
    /// Number of the placement that writes the rest.
    #[prost(uint64, tag = "3")]
    pub(crate) placement: u64,
    /// Numbers of the extents, in the order of the file; the first one's checksum counts what lies before it.
    #[prost(uint64, repeated, tag = "4")]
    pub(crate) extents: Vec<u64>,
    /// Of a variant tensor with elements: bytes of each, and the number of the file.
    #[prost(message, optional, tag = "5")]
    pub(crate) variants: Option<Variants>,
}

/// What the checksums between the elements of a variant tensor are made from.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Variants {
    /// Bytes of each element.
    #[prost(uint64, repeated, tag = "1")]
    pub(crate) lengths: Vec<u64>,
    /// Number of the data file in the list of output files.
    #[prost(uint64, tag = "2")]
    pub(crate) file: u64,
    /// The tensor's first byte.
    #[prost(uint64, tag = "3")]
    pub(crate) offset: u64,
}

impl Draft {
    /// Sorts the entries, and refuses what no reader could tell apart. `slices` are the keys of slices.
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
        for DraftEntry { key, .. } in &self.entries {
            if key.is_empty() {
                return Err(refused(
                    "a tensor without a name cannot be stored: the header has the empty key",
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

    /// A key that only looks like a slice of another tensor would be taken for one.
    fn check_slices(&self, slices: &HashSet<Vec<u8>>) -> Result<()> {
        let find = |key: &[u8]| self.entries.binary_search_by(|entry| entry.key.as_slice().cmp(key)).is_ok();
        let looks = |entry: &&DraftEntry| {
            !slices.contains(&entry.key) && sliced_name(&entry.key).is_some_and(|name| find(&name))
        };
        match self.entries.iter().find(looks) {
            Some(entry) => Err(refused("the tensor's key is that of a slice of another tensor", &entry.key)),
            None => Ok(()),
        }
    }

    /// The bytes for [`Placed::draft`].
    pub(crate) fn encode(&self) -> Vec<u8> {
        self.encode_to_vec()
    }

    /// The blocks that depend on what was written: the index, and the checksums within variant tensors.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mismatch`] for a draft that is not this codec's.
    pub(crate) fn seal(placed: &Placed, written: &[Written]) -> Result<Vec<Block>> {
        let mut draft = Draft::decode(&placed.draft[..]).map_err(|_| foreign())?;
        let endian = if draft.big_endian { Endian::Big } else { Endian::Little };
        let mut blocks = Vec::new();
        for entry in &mut draft.entries {
            entry.finish(placed, written, endian, &mut blocks)?;
        }
        let file = FileId(usize::try_from(draft.file).map_err(|_| foreign())?);
        let read = std::mem::take(&mut draft.read);
        let bytes = if draft.is_said_by(&read, endian) { read } else { draft.table(endian) };
        blocks.push(Block { file, offset: 0, bytes });
        Ok(blocks)
    }

    /// Whether an index says exactly this, in whatever way.
    fn is_said_by(&self, index: &[u8], endian: Endian) -> bool {
        const NAME: &str = "index";
        if index.is_empty() {
            return false;
        }
        let mut limits = Limits::default();
        limits.set(Limit::NameBytes, u64::MAX);
        let input = Input::memory(NAME, BTreeMap::from([(NAME.to_owned(), index.to_vec())]));
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
        let mut table = index(self.shards, endian, compression);
        let mut value = Vec::new();
        for entry in &self.entries {
            value.clear();
            entry.encode(&mut value);
            table.add(&entry.key, &value);
        }
        table.finish()
    }
}

/// An index that has its header.
pub(crate) fn index(shards: u32, endian: Endian, compression: Compression) -> TableWriter {
    let mut table = TableWriter::new(compression);
    table.add(&[], &Header::encode(shards, endian));
    table
}

impl DraftEntry {
    /// An entry whose checksum is final.
    pub(crate) fn new(key: Vec<u8>, entry: &Entry) -> Result<Self> {
        let mut draft = DraftEntry { key, crc: entry.crc, ..DraftEntry::default() };
        entry.encode_place(&mut draft.place)?;
        entry.encode_slices(&mut draft.slices);
        Ok(draft)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(&self.place);
        encode_crc(self.crc, out);
        out.extend(&self.slices);
    }

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
    Error::usage(message)
        .tensor(shown(key))
        .help("give the tensor another name with a mapping, or leave it out with --exclude")
}

fn foreign() -> Error {
    Error::defect("the draft of the index is not what was placed")
}
