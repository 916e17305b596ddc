//! Tensors whose elements vary in length: strings and variants.

use crate::errors::checksum_mismatch;
use crate::format::{Entry, checksum, crc32c, mask, unmask};
use ckpt_api::fields::{array, varint};
use ckpt_api::{Checksum, ChecksumAlgorithm, DType, Endian, Error, Fields, File, Result};
use prost::encoding::encode_varint;

/// The lengths of a tensor's elements, and where the elements are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Elements {
    /// Length of each element in bytes, in row-major order.
    pub(crate) lengths: Vec<u64>,
    /// Byte ranges that hold the elements, in order; none is empty.
    pub(crate) ranges: Vec<ByteRange>,
}

/// A range of a data file that holds consecutive elements.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ByteRange {
    /// Offset of the first byte.
    pub(crate) offset: u64,
    /// Length in bytes.
    pub(crate) len: u64,
    /// The stored checksum of the range; `None` if it has been verified.
    pub(crate) checksum: Option<Checksum>,
}

impl ByteRange {
    /// The range of an entry whose elements have a fixed size.
    pub(crate) fn of_entry(entry: &Entry) -> Self {
        ByteRange { offset: entry.offset, len: entry.size, checksum: Some(checksum(0, entry.crc)) }
    }
}

/// Reads the lengths of a string tensor and verifies their checksum. Whoever reads the strings verifies theirs.
///
/// The caller has called [`check_size`].
pub(crate) fn read_strings(file: &File, entry: &Entry, endian: Endian) -> Result<Elements> {
    let elements = entry.shape.elements();
    let mut fields = elements_of(file, entry)?;
    let mut lengths = Vec::with_capacity(usize::try_from(elements).unwrap_or(0));
    let (mut crc, mut total) = (0, 0u64);
    for _ in 0..elements {
        let length = fields.parse(varint)?;
        crc = hash_length(crc, length, endian);
        total = total.saturating_add(length);
        lengths.push(length);
    }
    let at = fields.position();
    let stored = fields.parse(array)?;
    let value = stored_u32(stored, endian);
    if value != mask(crc) {
        let error =
            checksum_mismatch("the checksum of the strings' lengths does not match", mask(crc), value);
        return Err(error.file(file.name()).offset(at));
    }
    let crc = crc32c(crc, &stored);
    if total != fields.remaining() {
        return Err(Error::corrupt("the lengths of the strings do not add up to the stored size")
            .file(file.name())
            .offset(entry.offset)
            .found(format!("strings of {total} bytes"))
            .expected(format!(
                "{} bytes, which a stored size of {} leaves",
                fields.remaining(),
                entry.size
            )));
    }
    let mut ranges = Vec::new();
    if total == 0 {
        check_end(file, entry, crc)?;
    } else {
        let checksum = Some(checksum(crc, entry.crc));
        ranges.push(ByteRange { offset: fields.position(), len: total, checksum });
    }
    Ok(Elements { lengths, ranges })
}

/// Returns what is stored before strings of these lengths, and the unmasked CRC-32C of what is hashed before them.
pub(crate) fn length_table(lengths: impl Iterator<Item = u64>, endian: Endian) -> (Vec<u8>, u32) {
    let (mut bytes, mut crc) = (Vec::new(), 0);
    for length in lengths {
        encode_varint(length, &mut bytes);
        crc = hash_length(crc, length, endian);
    }
    let stored = u32_bytes(mask(crc), endian);
    bytes.extend(stored);
    (bytes, crc32c(crc, &stored))
}

/// The running checksum of a variant tensor.
pub(crate) struct VariantChecksum {
    endian: Endian,
    crc: u32,
}

impl VariantChecksum {
    /// Starts before the first element.
    pub(crate) fn new(endian: Endian) -> Self {
        VariantChecksum { endian, crc: 0 }
    }

    /// Adds an element of `length` bytes whose unmasked CRC-32C is `crc`. Returns the four bytes stored after it.
    pub(crate) fn add(&mut self, length: u64, crc: u32) -> [u8; 4] {
        let before = hash_u64(self.crc, length, self.endian);
        let running = ChecksumAlgorithm::Crc32c.combine(before, crc, length);
        let stored = u32_bytes(mask(running), self.endian);
        self.crc = crc32c(running, &stored);
        stored
    }

    /// Returns the checksum for the tensor's entry.
    pub(crate) fn finish(self) -> u32 {
        mask(self.crc)
    }
}

/// Reads the lengths of a variant tensor, and checks that each element is a protobuf message and that the stored
/// checksums follow from each other. Whoever reads the elements verifies theirs.
///
/// The caller has called [`check_size`].
pub(crate) fn read_variants(file: &File, entry: &Entry, endian: Endian) -> Result<Elements> {
    let elements = entry.shape.elements();
    let mut fields = elements_of(file, entry)?;
    let mut lengths = Vec::with_capacity(usize::try_from(elements).unwrap_or(0));
    let (mut ranges, mut crc) = (Vec::new(), 0);
    for _ in 0..elements {
        let length = fields.parse(varint)?;
        let seed = hash_u64(crc, length, endian);
        let offset = fields.position();
        check_message(file, &mut fields, length)?;
        let stored = fields.parse(array)?;
        let value = stored_u32(stored, endian);
        crc = crc32c(unmask(value), &stored);
        lengths.push(length);
        if length > 0 {
            ranges.push(ByteRange { offset, len: length, checksum: Some(checksum(seed, value)) });
        } else if value != mask(seed) {
            return Err(wrong_checksum(file, offset, mask(seed), value));
        }
    }
    if fields.remaining() > 0 {
        return Err(Error::corrupt("the variants end before the stored size does")
            .file(file.name())
            .offset(fields.position())
            .found(format!("{} bytes left", fields.remaining())));
    }
    check_end(file, entry, crc)?;
    Ok(Elements { lengths, ranges })
}

/// Verifies the checksums of ranges that will not be read as a whole, and removes them.
pub(crate) fn verify(file: &File, ranges: &mut [ByteRange]) -> Result<()> {
    for range in ranges {
        let Some(checksum) = range.checksum.take() else { continue };
        let mut running = checksum.start();
        Fields::range(file, range.offset, range.len)?.stream(|bytes| running.update(bytes))?;
        if let Some(stored) = checksum.value.filter(|stored| *stored != running.finish()) {
            return Err(wrong_checksum(file, range.offset, running.finish(), stored));
        }
    }
    Ok(())
}

/// Checks that the entry has enough bytes for the lengths of its elements.
pub(crate) fn check_size(entry: &Entry) -> Result<()> {
    // At least a length of one byte each; a checksum after each variant, or after the lengths of strings.
    let (each, after) = if entry.dtype == DType::Variant { (5, 0) } else { (1, 4) };
    let elements = entry.shape.elements();
    let least = elements.checked_mul(each).and_then(|bytes| bytes.checked_add(after));
    if least.is_none_or(|least| least > entry.size) {
        return Err(Error::corrupt("the stored size is too small for the lengths of the elements")
            .field("size")
            .found(ckpt_api::count(entry.size, "byte"))
            .expected(format!("enough bytes for {elements} elements")));
    }
    Ok(())
}

/// Hashes a string's length: as 32 bits if it fits, else as 64.
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

fn elements_of<'a>(file: &'a File, entry: &Entry) -> Result<Fields<'a>> {
    let fields = Fields::range(file, entry.offset, entry.size)?;
    Ok(fields.with_message("the tensor's stored size is too small for its elements"))
}

fn check_end(file: &File, entry: &Entry, crc: u32) -> Result<()> {
    match mask(crc) == entry.crc {
        true => Ok(()),
        false => Err(wrong_checksum(file, entry.offset, mask(crc), entry.crc)),
    }
}

fn wrong_checksum(file: &File, offset: u64, computed: u32, stored: u32) -> Error {
    checksum_mismatch("the checksum of the tensor's elements does not match", computed, stored)
        .file(file.name())
        .offset(offset)
}

/// Checks that the next `length` bytes are fields of a protobuf message, without reading their values.
fn check_message(file: &File, fields: &mut Fields, length: u64) -> Result<()> {
    let start = fields.position();
    let broken = || {
        Error::corrupt("an element of a variant tensor is not a VariantTensorDataProto")
            .file(file.name())
            .offset(start)
            .found(format!("{length} bytes that are not a protobuf message"))
    };
    let end = start.checked_add(length).filter(|_| length <= fields.remaining()).ok_or_else(broken)?;
    while fields.position() < end {
        let tag = fields.parse(varint).map_err(|_| broken())?;
        let skipped = match (tag >> 3, tag & 7) {
            (0, _) => Err(broken()),
            (_, 0) => fields.parse(varint).map(drop),
            (_, 1) => fields.skip(8),
            (_, 2) => fields.parse(varint).and_then(|len| fields.skip(len)),
            (_, 5) => fields.skip(4),
            _ => Err(broken()),
        };
        skipped.map_err(|_| broken())?;
    }
    if fields.position() == end { Ok(()) } else { Err(broken()) }
}
