//! Lays out a zip archive as PyTorch's writer does: stored records, each with its data on a multiple of 64; or, where a
//! file system can share blocks with the source, large storages where the source has them within a block.
//!
//! The checksums of storages are known only after their bytes are written. The layout leaves gaps for them, which
//! [`Sums::literals`] fills.

use crate::container::identity;
use ckpt_api::{ChecksumAlgorithm, Error, FileId, Literal, Phases, Result, TensorId, Writer};
use ckpt_containers::zip::record::CENTRAL_CRC;
use ckpt_containers::zip::{DESCRIPTOR_CRC, PyTorchRecord, pytorch_end, too_large};
use serde::{Deserialize, Serialize};

/// Bytes of a checksum.
const CRC_BYTES: usize = 4;

/// An archive of which the first records are laid out.
pub(crate) struct Archive {
    prefix: String,
    sketch: Sketch,
    records: Vec<(PyTorchRecord, Crc)>,
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
    /// An archive of an object with this pickle, whose records are in the folder `prefix`.
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
        let record = self.begin(name, bytes.len() as u64, None)?;
        self.sketch.bytes.bytes(bytes);
        self.end(record, Crc::Known(crc));
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
        let record = self.begin(&format!("data/{key}"), len, origin)?;
        let at = self.sketch.gap(len)?;
        self.end(record, crc);
        Ok(at)
    }

    /// Adds the last record, which identifies the archive, and the directory. Returns the length of the file, its
    /// known bytes, and where checksums are still missing.
    pub(crate) fn finish(mut self) -> Result<(u64, Vec<Literal>, Sums)> {
        self.add("version", b"3\n")?;
        let folder = self.prefix.len() + 1;
        let names = self.records.iter().map(|(record, _)| record.name().get(folder..).unwrap_or_default());
        self.sums.names = identity::of_names(names);
        let record = self.begin(".data/serialization_id", identity::TEXT_BYTES, None)?;
        let [at, ..] = &mut self.sums.id;
        *at = self.sketch.gap(identity::TEXT_BYTES)?;
        self.end(record, Crc::Id);
        let start = self.sketch.position();
        let records = std::mem::take(&mut self.records);
        for (record, crc) in &records {
            self.summed(&record.central(crc.known()), CENTRAL_CRC, *crc, 1);
        }
        let size = self.sketch.position().saturating_sub(start);
        self.sketch.bytes.bytes(&pytorch_end(records.len() as u64, start, size));
        let len = self.sketch.position();
        let len = (len <= i64::MAX as u64).then_some(len).ok_or_else(too_large)?;
        self.sketch.flush();
        Ok((len, self.sketch.literals, self.sums))
    }

    /// Writes the header of a record, of which the source may have the bytes.
    fn begin(&mut self, name: &str, len: u64, origin: Option<Origin<'_>>) -> Result<PyTorchRecord> {
        let name = format!("{}/{name}", self.prefix);
        let distance = origin.map(|origin| move |least| origin.distance(least));
        let record = PyTorchRecord::new(name, self.sketch.position(), len, distance)?;
        self.sketch.bytes.bytes(&record.local());
        Ok(record)
    }

    /// Writes what follows the data of a record.
    fn end(&mut self, record: PyTorchRecord, crc: Crc) {
        let descriptor = record.descriptor(crc.known());
        if !descriptor.is_empty() {
            self.summed(&descriptor, DESCRIPTOR_CRC, crc, 0);
        }
        self.records.push((record, crc));
    }

    /// Writes bytes with a checksum at `at`, or with a gap for it. `place` is 0 in the descriptor and 1 in the directory.
    fn summed(&mut self, bytes: &[u8], at: u64, crc: Crc, place: usize) {
        let (head, rest) = bytes.split_at_checked(at as usize).unwrap_or_default();
        let (sum, rest) = rest.split_at_checked(CRC_BYTES).unwrap_or_default();
        self.sketch.bytes.bytes(head);
        match crc {
            Crc::Known(_) => drop(self.sketch.bytes.bytes(sum)),
            _ => self.leave_gap(crc, place),
        }
        self.sketch.bytes.bytes(rest);
    }

    fn leave_gap(&mut self, crc: Crc, place: usize) {
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
        self.sketch.at = at.saturating_add(CRC_BYTES as u64);
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

impl Crc {
    /// The checksum, or 0 if it is filled in later.
    fn known(self) -> u32 {
        match self {
            Crc::Known(crc) => crc,
            Crc::Storage(_) | Crc::Id => 0,
        }
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
