//! Tensors whose elements have a length each: strings and variants.

use crate::cursor::Cursor;
use crate::format::{Entry, checksum, crc32c, mask, unmask};
use ckpt_api::{Checksum, ChecksumAlgorithm, DType, Endian, Error, File, Result};
use prost::encoding::encode_varint;

/// Where the elements of a tensor are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Elements {
    /// Bytes of each element, row-major.
    pub(crate) lengths: Vec<u64>,
    /// The runs of bytes that hold them, in order; none is empty.
    pub(crate) runs: Vec<Run>,
}

/// Bytes that hold elements, one after the other.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// First byte.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) len: u64,
    /// What they must sum to; `None` where that has been checked.
    pub(crate) checksum: Option<Checksum>,
}

/// Reads and checks the lengths of a string tensor for which [`check_room`] holds; the bytes themselves are left to whoever reads them.
pub(crate) fn strings(file: &File, entry: &Entry, endian: Endian) -> Result<Elements> {
    let elements = entry.shape.elements();
    let mut cursor = Cursor::new(file, entry.offset, entry.size)?;
    let mut lengths = Vec::with_capacity(usize::try_from(elements).unwrap_or(0));
    let (mut crc, mut total) = (0, 0u64);
    for _ in 0..elements {
        let length = cursor.varint()?;
        crc = hash_length(crc, length, endian);
        total = total.saturating_add(length);
        lengths.push(length);
    }
    let at = cursor.position();
    let stored = cursor.four()?;
    let value = stored_u32(stored, endian);
    if value != mask(crc) {
        let error = Error::corrupt("the checksum of the strings' lengths does not match");
        return Err(mismatch(error, file, at, mask(crc), value));
    }
    let crc = crc32c(crc, &stored);
    if total != cursor.remaining() {
        return Err(Error::corrupt("the strings' lengths do not fit the stored size")
            .file(file.name())
            .offset(entry.offset)
            .found(format!("strings of {total} bytes"))
            .expected(format!("{} bytes, as the size of {} leaves", cursor.remaining(), entry.size)));
    }
    let mut runs = Vec::new();
    if total == 0 {
        check_end(file, entry, crc)?;
    } else {
        let checksum = Some(checksum(crc, entry.crc));
        runs.push(Run { offset: cursor.position(), len: total, checksum });
    }
    Ok(Elements { lengths, runs })
}

/// What is stored before the strings of these lengths, and the checksum of what is hashed before them.
pub(crate) fn table(lengths: impl Iterator<Item = u64>, endian: Endian) -> (Vec<u8>, u32) {
    let (mut bytes, mut crc) = (Vec::new(), 0);
    for length in lengths {
        encode_varint(length, &mut bytes);
        crc = hash_length(crc, length, endian);
    }
    let stored = u32_bytes(mask(crc), endian);
    bytes.extend(stored);
    (bytes, crc32c(crc, &stored))
}

/// The checksum of a variant tensor, from one element to the next.
pub(crate) struct VariantChecksum {
    endian: Endian,
    crc: u32,
}

impl VariantChecksum {
    /// Of no elements.
    pub(crate) fn new(endian: Endian) -> Self {
        VariantChecksum { endian, crc: 0 }
    }

    /// Adds an element of `length` bytes that sum to `crc`; returns the four bytes stored after it.
    pub(crate) fn add(&mut self, length: u64, crc: u32) -> [u8; 4] {
        let before = hash_u64(self.crc, length, self.endian);
        let running = ChecksumAlgorithm::Crc32c.combine(before, crc, length);
        let stored = u32_bytes(mask(running), self.endian);
        self.crc = crc32c(running, &stored);
        stored
    }

    /// As the entry has it.
    pub(crate) fn finish(self) -> u32 {
        mask(self.crc)
    }
}

/// Reads and checks the lengths and the chain of checksums of a variant tensor, and that each element is a
/// message; the rest is left to whoever reads the bytes.
pub(crate) fn variants(file: &File, entry: &Entry, endian: Endian) -> Result<Elements> {
    let elements = entry.shape.elements();
    let mut cursor = Cursor::new(file, entry.offset, entry.size)?;
    let mut lengths = Vec::with_capacity(usize::try_from(elements).unwrap_or(0));
    let (mut runs, mut crc) = (Vec::new(), 0);
    for _ in 0..elements {
        let length = cursor.varint()?;
        let seed = hash_u64(crc, length, endian);
        let offset = cursor.position();
        check_message(file, &mut cursor, length)?;
        let stored = cursor.four()?;
        let value = stored_u32(stored, endian);
        crc = crc32c(unmask(value), &stored);
        lengths.push(length);
        if length > 0 {
            runs.push(Run { offset, len: length, checksum: Some(checksum(seed, value)) });
        } else if value != mask(seed) {
            return Err(wrong_checksum(file, offset, mask(seed), value));
        }
    }
    if cursor.remaining() > 0 {
        return Err(Error::corrupt("the variants do not fill the stored size")
            .file(file.name())
            .offset(cursor.position())
            .found(format!("{} bytes left", cursor.remaining())));
    }
    check_end(file, entry, crc)?;
    Ok(Elements { lengths, runs })
}

/// Verifies runs now, for callers who will not read them whole.
pub(crate) fn verify(file: &File, runs: &mut [Run]) -> Result<()> {
    for run in runs {
        let Some(checksum) = run.checksum.take() else { continue };
        let mut running = checksum.start();
        Cursor::new(file, run.offset, run.len)?.stream(|bytes| running.update(bytes))?;
        if let Some(stored) = checksum.value.filter(|stored| *stored != running.finish()) {
            return Err(wrong_checksum(file, run.offset, running.finish(), stored));
        }
    }
    Ok(())
}

/// That the entry has bytes for as many lengths as it has elements.
pub(crate) fn check_room(entry: &Entry) -> Result<()> {
    let (each, after) = if entry.dtype == DType::Variant { (5, 0) } else { (1, 4) };
    let elements = entry.shape.elements();
    let least = elements.checked_mul(each).and_then(|bytes| bytes.checked_add(after));
    if least.is_none_or(|least| least > entry.size) {
        return Err(Error::corrupt("the stored size is too small for the elements' lengths")
            .field("size")
            .found(format!("{} bytes", entry.size))
            .expected(format!("room for {elements} elements")));
    }
    Ok(())
}

/// A length is hashed as 32 bits, and only where that is too few as 64.
fn hash_length(crc: u32, length: u64, endian: Endian) -> u32 {
    match (u32::try_from(length), endian) {
        (Ok(length), Endian::Little) => crc32c(crc, &length.to_le_bytes()),
        (Ok(length), Endian::Big) => crc32c(crc, &length.to_be_bytes()),
        (Err(_), _) => hash_u64(crc, length, endian),
    }
}

fn hash_u64(crc: u32, value: u64, endian: Endian) -> u32 {
    match endian {
        Endian::Little => crc32c(crc, &value.to_le_bytes()),
        Endian::Big => crc32c(crc, &value.to_be_bytes()),
    }
}

fn u32_bytes(value: u32, endian: Endian) -> [u8; 4] {
    match endian {
        Endian::Little => value.to_le_bytes(),
        Endian::Big => value.to_be_bytes(),
    }
}

fn stored_u32(bytes: [u8; 4], endian: Endian) -> u32 {
    match endian {
        Endian::Little => u32::from_le_bytes(bytes),
        Endian::Big => u32::from_be_bytes(bytes),
    }
}

fn check_end(file: &File, entry: &Entry, crc: u32) -> Result<()> {
    match mask(crc) == entry.crc {
        true => Ok(()),
        false => Err(wrong_checksum(file, entry.offset, mask(crc), entry.crc)),
    }
}

fn wrong_checksum(file: &File, offset: u64, computed: u32, stored: u32) -> Error {
    mismatch(Error::corrupt("the checksum does not match"), file, offset, computed, stored)
}

fn mismatch(error: Error, file: &File, offset: u64, computed: u32, stored: u32) -> Error {
    error
        .file(file.name())
        .offset(offset)
        .found(format!("{computed:#010x} computed"))
        .expected(format!("{stored:#010x} stored"))
        .help("the file was damaged: copy it again")
}

/// That `length` bytes are fields of a message, one after the other, without reading what they hold.
fn check_message(file: &File, cursor: &mut Cursor, length: u64) -> Result<()> {
    let start = cursor.position();
    let broken = || {
        Error::corrupt("an element of a variant tensor is no VariantTensorDataProto")
            .file(file.name())
            .offset(start)
            .found(format!("{length} bytes that are no such message"))
    };
    let end = start.checked_add(length).filter(|_| length <= cursor.remaining()).ok_or_else(broken)?;
    while cursor.position() < end {
        let tag = cursor.varint().map_err(|_| broken())?;
        let skipped = match (tag >> 3, tag & 7) {
            (0, _) => Err(broken()),
            (_, 0) => cursor.varint().map(drop),
            (_, 1) => cursor.skip(8),
            (_, 2) => cursor.varint().and_then(|len| cursor.skip(len)),
            (_, 5) => cursor.skip(4),
            _ => Err(broken()),
        };
        skipped.map_err(|_| broken())?;
    }
    if cursor.position() == end { Ok(()) } else { Err(broken()) }
}
