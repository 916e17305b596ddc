//! Lays out a zip archive as PyTorch's writer does: stored records, each with its data on a multiple of 64; or, where a
//! file system can share blocks with the source, large storages where the source has them within a block.
//!
//! The checksums of storages are known only after their bytes are written. The layout leaves gaps for them, which
//! [`Sums::literals`] fills.

use crate::container::identity;
use ckpt_api::zip::record::{
    CENTRAL, DESCRIPTOR, END, END64, EXTRA64, FLAG_SIZES_LATER, FLAG_UTF8, LOCAL, LOCAL_BYTES, LOCATOR64,
};
use ckpt_api::{ChecksumAlgorithm, Error, FileId, Literal, Phases, Result, TensorId, Writer};
use serde::{Deserialize, Serialize};

/// Id of the extra field that pads, and the byte in it.
const PADDING: [u8; 2] = *b"FB";
const FILL: u8 = b'Z';
/// Version of the writer (3.0, on Unix), and the first version of the format with 64-bit numbers.
const MADE_BY: u16 = 0x031e;
const NEEDED64: u16 = 45;
/// The data of records begins on a multiple of this.
const ALIGNMENT: u64 = 64;

/// An archive of which the first records are laid out.
pub(crate) struct Archive {
    prefix: String,
    sketch: Sketch,
    records: Vec<Record>,
    sums: Sums,
    has_storages: bool,
}

/// Where the source has the bytes of a storage.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) phases: &'a Phases,
    pub(crate) tensor: TensorId,
    /// The storage begins on a multiple of these bytes.
    pub(crate) alignment: u64,
}

/// What is known about a record.
struct Record {
    name: String,
    /// Offset of the local header.
    at: u64,
    len: u64,
    crc: Crc,
}

/// The checksum of a record.
#[derive(Clone, Copy)]
enum Crc {
    Known(u32),
    /// That of the storage with this number in [`Sums::storages`].
    Storage(usize),
    /// That of the archive's id.
    Id,
}

/// Where checksums go that are known after the storages are written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sums {
    file: usize,
    /// Checksums of the records before the storages, and of those behind them.
    before: Vec<u32>,
    after: Vec<u32>,
    /// Storages that have bytes.
    storages: Vec<StorageSum>,
    /// The sum of all names.
    names: u64,
    /// Offsets of the id, and of its checksum in descriptor and directory.
    id: [u64; 3],
}

/// The checksum of a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StorageSum {
    /// Number of the placement that has the checksum, and of the extent in it.
    placement: usize,
    extent: usize,
    /// Its offsets in descriptor and directory.
    offsets: [u64; 2],
}

impl Archive {
    /// An archive of an object with this pickle, whose records lie in the folder `prefix`.
    pub(crate) fn new(file: FileId, prefix: impl Into<String>, pickle: &[u8]) -> Result<Self> {
        let mut archive = Archive::empty(file, prefix);
        archive.add("data.pkl", pickle)?;
        archive.add(".format_version", b"1")?;
        archive.add(".storage_alignment", b"64")?;
        archive.add("byteorder", b"little")?;
        Ok(archive)
    }

    /// The same for storages that begin where the source has them within a block. It does not state an alignment, from
    /// which PyTorch could compute where storages begin.
    pub(crate) fn unaligned(file: FileId, prefix: impl Into<String>, pickle: &[u8]) -> Result<Self> {
        let mut archive = Archive::empty(file, prefix);
        archive.add("data.pkl", pickle)?;
        archive.add("byteorder", b"little")?;
        Ok(archive)
    }

    fn empty(file: FileId, prefix: impl Into<String>) -> Self {
        let sums = Sums { file: file.0, ..Sums::default() };
        let sketch = Sketch { file, at: 0, bytes: Writer::new(), literals: Vec::new() };
        let prefix = prefix.into();
        Archive { prefix, sketch, records: Vec::new(), sums, has_storages: false }
    }

    /// Adds a record with these bytes.
    fn add(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let crc = ChecksumAlgorithm::Crc32.append(0, bytes);
        match self.has_storages {
            false => self.sums.before.push(crc),
            true => self.sums.after.push(crc),
        }
        let record = self.begin(name, bytes.len() as u64, Crc::Known(crc), None)?;
        self.sketch.bytes.bytes(bytes);
        self.end(record);
        Ok(())
    }

    /// Adds a storage of `len` bytes, whose checksum is that of an extent of a placement, by their numbers; returns the
    /// offset of its bytes, which begin where `origin` has them within a block.
    pub(crate) fn add_storage(
        &mut self,
        key: &str,
        len: u64,
        (placement, extent): (usize, usize),
        origin: Option<Origin<'_>>,
    ) -> Result<u64> {
        self.has_storages = true;
        let crc = match len {
            0 => Crc::Known(0),
            _ => {
                self.sums.storages.push(StorageSum { placement, extent, offsets: [0; 2] });
                Crc::Storage(self.sums.storages.len() - 1)
            }
        };
        let record = self.begin(&format!("data/{key}"), len, crc, origin)?;
        let at = self.sketch.gap(len)?;
        self.end(record);
        Ok(at)
    }

    /// Adds the last record, which identifies the archive, and the directory. Returns the length of the file, its
    /// known bytes, and where checksums are still missing.
    pub(crate) fn finish(mut self) -> Result<(u64, Vec<Literal>, Sums)> {
        self.add("version", b"3\n")?;
        let folder = self.prefix.len() + 1;
        let names = self.records.iter().map(|record| record.name.get(folder..).unwrap_or_default());
        self.sums.names = identity::of_names(names);
        let record = self.begin(".data/serialization_id", identity::TEXT_BYTES, Crc::Id, None)?;
        let [at, ..] = &mut self.sums.id;
        *at = self.sketch.gap(identity::TEXT_BYTES)?;
        self.end(record);
        let start = self.sketch.position();
        let records = std::mem::take(&mut self.records);
        records.iter().for_each(|record| self.central(record));
        let size = self.sketch.position().saturating_sub(start);
        self.directory_end(records.len() as u64, start, size);
        let len = self.sketch.position();
        let len = (len <= i64::MAX as u64).then_some(len).ok_or_else(too_large)?;
        self.sketch.flush();
        Ok((len, self.sketch.literals, self.sums))
    }

    /// Writes the header of a record, of which the source may have the bytes.
    fn begin(&mut self, name: &str, len: u64, crc: Crc, origin: Option<Origin<'_>>) -> Result<Record> {
        let record = Record { name: format!("{}/{name}", self.prefix), at: self.sketch.position(), len, crc };
        let name_len = u16::try_from(record.name.len()).map_err(|_| too_long())?;
        let extra = record.extra64(len, 0);
        let head = LOCAL_BYTES + u64::from(name_len) + extra.len() as u64 + 4;
        let least = record.at.checked_add(head).ok_or_else(too_large)?;
        let moved = origin.and_then(|origin| origin.distance(least));
        let room = u64::from(u16::MAX) - 4 - extra.len() as u64;
        let padding = match moved.filter(|padding| *padding <= room) {
            Some(padding) => padding,
            None => least.checked_next_multiple_of(ALIGNMENT).ok_or_else(too_large)? - least,
        };
        // At most `room`, or less than `ALIGNMENT`.
        let padding = padding as u16;
        let bytes = &mut self.sketch.bytes;
        bytes.bytes(&LOCAL).number(0u16);
        record.common(bytes);
        bytes.number(0u32).numbers(&[0u32, 0]).numbers(&[name_len, extra.len() as u16 + 4 + padding]);
        bytes.bytes(record.name.as_bytes()).bytes(&extra);
        bytes.bytes(&PADDING).number(padding).bytes(&vec![FILL; padding.into()]);
        Ok(record)
    }

    /// Writes what follows the data of a record.
    fn end(&mut self, record: Record) {
        if record.len > 0 {
            self.sketch.bytes.bytes(&DESCRIPTOR);
            self.checksum(record.crc, 0);
            match record.is_large() {
                true => self.sketch.bytes.numbers(&[record.len; 2]),
                false => self.sketch.bytes.numbers(&[saturated(record.len); 2]),
            };
        }
        self.records.push(record);
    }

    /// Writes a record's entry of the directory.
    fn central(&mut self, record: &Record) {
        self.sketch.bytes.bytes(&CENTRAL).numbers(&[0u16, 0]);
        record.common(&mut self.sketch.bytes);
        self.checksum(record.crc, 1);
        let extra = record.extra64(record.len, record.len);
        self.sketch
            .bytes
            .numbers(&[saturated(record.len); 2])
            // The length of the name was checked when the record began.
            .numbers(&[record.name.len() as u16, extra.len() as u16, 0, 0, 0])
            .numbers(&[0, saturated(record.at)])
            .bytes(record.name.as_bytes())
            .bytes(&extra);
    }

    fn directory_end(&mut self, count: u64, start: u64, size: u64) {
        let bytes = &mut self.sketch.bytes;
        bytes.bytes(&END64).number(44u64).numbers(&[MADE_BY, NEEDED64]).numbers(&[0u32, 0]);
        bytes.numbers(&[count, count, size, start]);
        bytes.bytes(&LOCATOR64).number(0u32).number(start.saturating_add(size)).number(1u32);
        let entries = u16::try_from(count).unwrap_or(u16::MAX);
        bytes.bytes(&END).numbers(&[0, 0, entries, entries]).numbers(&[saturated(size), saturated(start)]);
        bytes.number(0u16);
    }

    /// Writes a checksum, or leaves a gap for it. `place` is 0 in the descriptor and 1 in the directory.
    fn checksum(&mut self, crc: Crc, place: usize) {
        if let Crc::Known(crc) = crc {
            self.sketch.bytes.number(crc);
            return;
        }
        let at = self.sketch.position();
        let [_, of_id @ ..] = &mut self.sums.id;
        let offset = match crc {
            Crc::Storage(number) => {
                self.sums.storages.get_mut(number).and_then(|sum| sum.offsets.get_mut(place))
            }
            _ => of_id.get_mut(place),
        };
        if let Some(offset) = offset {
            *offset = at;
        }
        self.sketch.flush();
        self.sketch.at = at.saturating_add(4);
    }
}

impl Origin<'_> {
    /// Bytes from an offset to the next one at which the storage can share blocks; `None` if there is none.
    pub(crate) fn distance(&self, least: u64) -> Option<u64> {
        self.phases.of(self.tensor)?;
        let at = self.phases.next(self.tensor, least);
        at.checked_sub(least).filter(|_| at.is_multiple_of(self.alignment))
    }
}

impl Record {
    /// Writes flags, method and time, which both headers have.
    fn common(&self, bytes: &mut Writer) {
        let later = if self.len > 0 { FLAG_SIZES_LATER } else { 0 };
        bytes.numbers(&[FLAG_UTF8 | later, 0, 0, 0]);
    }

    /// Whether the record needs 64-bit numbers.
    fn is_large(&self) -> bool {
        [self.len, self.at].iter().any(|number| saturated(*number) == u32::MAX)
    }

    /// Returns the extra field with the numbers that do not fit into 32 bits.
    fn extra64(&self, len: u64, stored: u64) -> Vec<u8> {
        let mut numbers = Vec::new();
        if saturated(self.len) == u32::MAX {
            numbers.extend([len, stored]);
        }
        if saturated(self.at) == u32::MAX {
            numbers.push(self.at);
        }
        let mut bytes = Writer::new();
        if !numbers.is_empty() {
            bytes.numbers(&[EXTRA64, 8 * numbers.len() as u16]).numbers(&numbers);
        }
        bytes.into_bytes()
    }
}

impl Sums {
    /// The same for an archive that begins at this offset of its file.
    pub(crate) fn moved(mut self, start: u64) -> Self {
        let offsets = self.storages.iter_mut().flat_map(|sum| &mut sum.offsets).chain(&mut self.id);
        offsets.for_each(|offset| *offset = offset.saturating_add(start));
        self
    }

    /// Returns the checksums, and the id that is made of them. `crc` gives the checksum of a placement's extent.
    pub(crate) fn literals(&self, crc: impl Fn(usize, usize) -> Option<u32>) -> Result<Vec<Literal>> {
        let missing = || Error::defect("a storage was written without its checksum");
        let file = FileId(self.file);
        let mut literals = Vec::with_capacity(2 * self.storages.len() + 3);
        let mut add = |offset: u64, bytes: &[u8]| {
            literals.push(Literal { file, offset, bytes: bytes.to_vec() });
        };
        let mut crcs = self.before.clone();
        for storage in &self.storages {
            let crc = crc(storage.placement, storage.extent).ok_or_else(missing)?;
            storage.offsets.iter().for_each(|offset| add(*offset, &crc.to_le_bytes()));
            crcs.push(crc);
        }
        crcs.extend(&self.after);
        let text = identity::text(self.names, identity::of_checksums(crcs.into_iter()));
        let [at, of_crc @ ..] = &self.id;
        add(*at, text.as_bytes());
        let crc = ChecksumAlgorithm::Crc32.append(0, text.as_bytes());
        of_crc.iter().for_each(|offset| add(*offset, &crc.to_le_bytes()));
        Ok(literals)
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        (size_of::<Self>() + size_of_val(&self.storages[..])) as u64
    }
}

/// Bytes of a file that are known, and gaps between them.
struct Sketch {
    file: FileId,
    /// Offset of `bytes`.
    at: u64,
    bytes: Writer,
    literals: Vec<Literal>,
}

impl Sketch {
    fn position(&self) -> u64 {
        self.at.saturating_add(self.bytes.len())
    }

    /// Leaves a gap, and returns its offset.
    fn gap(&mut self, len: u64) -> Result<u64> {
        self.flush();
        let at = self.at;
        self.at = at.checked_add(len).ok_or_else(too_large)?;
        Ok(at)
    }

    fn flush(&mut self) {
        let bytes = std::mem::take(&mut self.bytes).into_bytes();
        if !bytes.is_empty() {
            let offset = self.at;
            self.at = offset.saturating_add(bytes.len() as u64);
            self.literals.push(Literal { file: self.file, offset, bytes });
        }
    }
}

/// Returns the number, or the mark for a number that is stored in 64 bits elsewhere.
fn saturated(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn too_large() -> Error {
    Error::unsupported("the tensors have more bytes than a file can hold")
}

fn too_long() -> Error {
    Error::unsupported("the name is too long for a zip archive").expected("at most 65,535 bytes")
}
