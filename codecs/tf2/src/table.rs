//! Reads sorted string tables: blocks of prefix-compressed entries, which an index block lists.

use crate::errors::{COPY_AGAIN, checksum_mismatch};
use crate::format::{FOOTER_LEN, MAGIC, TRAILER_LEN, crc32c, mask};
use crate::key_text::abbreviate;
use ckpt_api::fields::{Bytes, Parsed, bytes, le, varint};
use ckpt_api::{Error, File, Limit, Limits, Repair, Result, Setting, Text, text};
use nom::Parser;
use nom::combinator::map_opt;
use nom::sequence::preceded;

/// Calls `visit` with the key, value and file offset of each entry, in order. Reads each block that the index lists,
/// and verifies its checksum.
///
/// Restart points and separators must be right, although reading in sequence does not need them; with `lenient`, wrong
/// ones are returned as repairs instead.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`], [`ckpt_api::Kind::Limit`], [`ckpt_api::Kind::Io`], and the errors of `visit`.
pub(crate) fn scan(
    file: &File,
    limits: &Limits,
    lenient: bool,
    mut visit: impl FnMut(&[u8], &[u8], u64) -> Result<()>,
) -> Result<Vec<Repair>> {
    let mut scan = Scan { file, limits, lenient, repairs: Vec::new() };
    let blocks = scan.index(footer(file)?)?;
    let (mut last, mut previous, mut end) = (None, None, 0);
    for BlockRef { separator, handle } in &blocks {
        // Otherwise a few bytes could have the same block read many times.
        if handle.offset < end {
            return Err(overlapping(file, handle.offset, end));
        }
        end = handle.offset.saturating_add(handle.size);
        let block = scan.block(*handle)?;
        let mut is_first = true;
        scan.entries(&block, &mut last, |key, value, at| {
            if std::mem::take(&mut is_first)
                && previous.is_some_and(|previous: &Vec<u8>| key <= &previous[..])
            {
                return Err(misplaced(file, at, key));
            }
            visit(key, value, at)
        })?;
        if let Some(key) = last.as_ref().filter(|last| *last > separator) {
            scan.repair(misplaced(file, handle.offset, key), "the keys of a block exceed its separator")?;
        }
        previous = Some(separator);
    }
    Ok(scan.repairs)
}

/// The offset and the length of each block that the index lists, without its trailer: within the file.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`], [`ckpt_api::Kind::Limit`], [`ckpt_api::Kind::Io`].
pub(crate) fn blocks(file: &File, limits: &Limits) -> Result<Vec<(u64, u64)>> {
    let mut scan = Scan { file, limits, lenient: false, repairs: Vec::new() };
    let blocks = scan.index(footer(file)?)?;
    let most = file.len().saturating_sub(FOOTER_LEN + TRAILER_LEN);
    let place = |block: BlockRef| {
        let Handle { offset, size } = block.handle;
        offset.checked_add(size).filter(|end| *end <= most).map(|_| (offset, size)).ok_or_else(|| {
            let error =
                Error::corrupt("a block reaches past the end of the table").file(file.name()).offset(offset);
            error.found(ckpt_api::count(size, "byte")).expected(format!("an end of at most {most}"))
        })
    };
    blocks.into_iter().map(place).collect()
}

/// Whether the file ends with the magic number of a table.
pub(crate) fn has_magic(file: &File) -> Result<bool> {
    let Some(offset) = file.len().checked_sub(FOOTER_LEN) else { return Ok(false) };
    let mut bytes = [0; 8];
    file.read_at(offset + FOOTER_LEN - 8, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes) == MAGIC)
}

/// Whether the file begins like the index of a bundle: with an entry whose key is empty and whose value begins with a
/// number of data files.
pub(crate) fn begins_with_header(file: &File) -> Result<bool> {
    const NUM_SHARDS: u8 = 0x08;
    let mut bytes = [0; 4];
    let len = file.len().min(4) as usize;
    let head = &mut bytes[..len];
    file.read_at(0, head)?;
    Ok(matches!(bytes, [0, 0, 2..0x80, NUM_SHARDS]))
}

fn overlapping(file: &File, offset: u64, end: u64) -> Error {
    Error::corrupt("a block of the index starts before the previous block ends")
        .file(file.name())
        .offset(offset)
        .found(format!("offset {offset}"))
        .expected(format!("at least {end}"))
        .help(COPY_AGAIN)
}

fn misplaced(file: &File, at: u64, key: &[u8]) -> Error {
    Error::corrupt("a key is in a block where the index does not look for it")
        .file(file.name())
        .offset(at)
        .tensor(abbreviate(key))
        .help(lenient_help())
}

/// Offset and length of a block, without its trailer.
#[derive(Clone, Copy, Debug)]
struct Handle {
    offset: u64,
    size: u64,
}

impl Handle {
    fn parse(input: Bytes<'_>) -> Parsed<'_, Self> {
        (varint, varint).map(|(offset, size)| Handle { offset, size }).parse(input)
    }
}

/// Reads the footer, and returns the handle of the index block.
fn footer(file: &File) -> Result<Handle> {
    if !has_magic(file)? {
        return Err(missing_footer(file)?);
    }
    let offset = file.len() - FOOTER_LEN;
    let bytes = file.bytes(offset, FOOTER_LEN)?;
    let (metaindex, index) = (Handle::parse, Handle::parse);
    Bytes::new(&bytes, offset).parse(preceded(metaindex, index)).map_err(|_| {
        Error::corrupt("the footer does not contain the location of the index block")
            .file(file.name())
            .offset(offset)
    })
}

/// Returns the error for a file that does not end with a footer.
fn missing_footer(file: &File) -> Result<Error> {
    let tail = file.len().min(8);
    let last = file.bytes(file.len() - tail, tail)?;
    let last = last.iter().rev().fold(String::from("0x"), |text, byte| format!("{text}{byte:02x}"));
    let error = match begins_with_header(file)? {
        true => Error::corrupt("the TensorFlow index is cut short: its footer is missing").help(
            "copy PREFIX.index again from where it was written: without its footer, nothing in it can be located",
        ),
        false => Error::corrupt("the index does not end like a table")
            .help("the file is cut short, or not a TensorFlow index: copy it again"),
    };
    let found = match tail {
        0 => "no bytes".to_owned(),
        _ => format!("{} bytes that end with {last}", file.len()),
    };
    Ok(error
        .file(file.name())
        .offset(file.len() - tail)
        .found(found)
        .expected(format!("a footer of {FOOTER_LEN} bytes that ends with {MAGIC:#018x}")))
}

/// A block that the index lists. None of its keys is greater than the separator.
struct BlockRef {
    separator: Vec<u8>,
    handle: Handle,
}

struct Scan<'a> {
    file: &'a File,
    limits: &'a Limits,
    lenient: bool,
    repairs: Vec<Repair>,
}

/// A block's contents, decompressed.
struct Block {
    offset: u64,
    compressed: bool,
    contents: Vec<u8>,
}

impl Block {
    /// Returns the file offset of a byte of the contents; of the block, if it is compressed.
    fn file_offset(&self, position: usize) -> u64 {
        if self.compressed { self.offset } else { self.offset.saturating_add(position as u64) }
    }
}

impl Scan<'_> {
    /// Reads the index block.
    fn index(&mut self, at: Handle) -> Result<Vec<BlockRef>> {
        let (file, limits) = (self.file, self.limits);
        let (mut blocks, mut bytes) = (Vec::new(), 0u64);
        let index = self.block(at)?;
        self.entries(&index, &mut None, |separator, value, at| {
            let handle = Bytes::new(value, at).parse(Handle::parse).map_err(|_| {
                Error::corrupt("an entry of the index block does not locate a block")
                    .file(file.name())
                    .offset(at)
            })?;
            // Separators with shared prefixes take more memory than space in the file.
            bytes = bytes.saturating_add(separator.len() as u64);
            limits.check(Limit::HeaderBytes, bytes)?;
            limits.check(Limit::Tensors, blocks.len() as u64 + 1)?;
            blocks.push(BlockRef { separator: separator.to_vec(), handle });
            Ok(())
        })?;
        Ok(blocks)
    }

    fn block(&self, handle: Handle) -> Result<Block> {
        let Handle { offset, size } = handle;
        let corrupt = |message: &str| Error::corrupt(message).file(self.file.name()).offset(offset);
        let end = offset.checked_add(size).and_then(|end| end.checked_add(TRAILER_LEN));
        if end.is_none_or(|end| end > self.file.len() - FOOTER_LEN) {
            return Err(corrupt("a block reaches past the end of the table")
                .found(ckpt_api::count(size, "byte"))
                .expected(format!("an end before the footer of a file of {} bytes", self.file.len())));
        }
        self.limits
            .check(Limit::BlockBytes, size)
            .map_err(|error| error.file(self.file.name()).offset(offset))?;
        let mut bytes = self.file.bytes(offset, size + TRAILER_LEN)?;
        let (kind, stored) = trailer(&bytes, size)?;
        bytes.truncate(bytes.len() - 4);
        let computed = mask(crc32c(0, &bytes));
        if stored != computed {
            let error =
                checksum_mismatch("the checksum of a block of the index does not match", computed, stored);
            return Err(error.file(self.file.name()).offset(offset));
        }
        bytes.pop();
        match kind {
            0 => Ok(Block { offset, compressed: false, contents: bytes }),
            1 => Ok(Block { offset, compressed: true, contents: self.decompress(offset, &bytes)? }),
            kind => Err(Error::unsupported("a block has an unknown compression")
                .file(self.file.name())
                .offset(offset + size)
                .found(kind.to_string())
                .expected("0 (none) or 1 (snappy)")),
        }
    }

    fn decompress(&self, offset: u64, bytes: &[u8]) -> Result<Vec<u8>> {
        // Snappy decompresses three bytes to at most 64.
        const MAX_RATIO: usize = 64;
        let corrupt = |found: String| {
            let error = Error::corrupt("a compressed block cannot be decompressed");
            error.file(self.file.name()).offset(offset).found(found)
        };
        let claimed = snap::raw::decompress_len(bytes).map_err(|error| corrupt(error.to_string()))?;
        if claimed > bytes.len().saturating_mul(MAX_RATIO) {
            return Err(corrupt(format!("{} bytes that claim to decompress to {claimed}", bytes.len())));
        }
        self.limits.check(Limit::BlockBytes, claimed as u64).map_err(|error| error.file(self.file.name()))?;
        snap::raw::Decoder::new().decompress_vec(bytes).map_err(|error| corrupt(error.to_string()))
    }

    /// Calls `visit` with the entries of a block. `last` is the last key of the previous block, and becomes that of
    /// this one.
    fn entries(
        &mut self,
        block: &Block,
        last: &mut Option<Vec<u8>>,
        mut visit: impl FnMut(&[u8], &[u8], u64) -> Result<()>,
    ) -> Result<()> {
        let name = self.file.name().to_owned();
        let corrupt = |message: &str, position: usize| {
            Error::corrupt(message).file(&name).offset(block.file_offset(position))
        };
        let (entries, restarts) = self.split(block)?;
        let mut expected = restarts.iter().copied().peekable();
        let mut rest = Bytes::new(entries, 0);
        let mut key: Vec<u8> = Vec::new();
        let mut first = true;
        while rest.remaining() > 0 {
            let position = entries.len() - rest.as_slice().len();
            let RawEntry { shared, suffix, value } = rest.parse(RawEntry::parse).map_err(|_| {
                corrupt("an entry has an invalid length or reaches past the end of its block", position)
            })?;
            if shared > key.len() {
                return Err(corrupt(
                    "an entry shares more bytes with the previous key than that has",
                    position,
                )
                .found(shared.to_string())
                .expected(format!("at most {}", key.len())));
            }
            let is_restart = expected.next_if(|at| u32::try_from(position) == Ok(*at)).is_some();
            if (first && !is_restart) || (is_restart && shared != 0) {
                self.repair(
                    bad_restart(corrupt(WRONG_RESTART, position)),
                    "a restart point is missing, or its entry shares bytes with the previous key",
                )?;
            }
            let follows = match first {
                true => last.as_ref().is_none_or(|before| suffix > &before[..]),
                false => key.get(shared..).is_some_and(|before| suffix > before),
            };
            key.truncate(shared);
            key.extend_from_slice(suffix);
            if !follows {
                return Err(corrupt("the keys are not in ascending order", position).tensor(abbreviate(&key)));
            }
            visit(&key, value, block.file_offset(position))?;
            first = false;
        }
        if !first {
            if let Some(restart) = expected.next() {
                let error = bad_restart(corrupt(WRONG_RESTART, entries.len())).found(restart.to_string());
                self.repair(error, "a restart point is not the offset of an entry")?;
            }
            *last = Some(key);
        }
        Ok(())
    }

    /// Splits a block into the bytes of its entries and its restart points.
    fn split<'b>(&self, block: &'b Block) -> Result<(&'b [u8], Vec<u32>)> {
        let corrupt = |message: &str| {
            let error = Error::corrupt(message).file(self.file.name()).offset(block.offset);
            error.found(format!("a block of {} bytes", block.contents.len()))
        };
        let (rest, count) = block
            .contents
            .split_last_chunk::<4>()
            .ok_or_else(|| corrupt("a block is too short for the number of its restart points"))?;
        let count = u32::from_le_bytes(*count);
        if count == 0 {
            return Err(corrupt("a block has no restart point"));
        }
        let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(4));
        let split = bytes.and_then(|bytes| rest.len().checked_sub(bytes));
        let split = split.ok_or_else(|| corrupt("a block is too short for its restart points"))?;
        let (entries, restarts) = rest.split_at(split);
        let (restarts, _) = restarts.as_chunks::<4>();
        Ok((entries, restarts.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()))
    }

    /// Returns the error or, if `lenient`, records a repair.
    fn repair(&mut self, error: Error, detail: &str) -> Result<()> {
        if !self.lenient {
            return Err(error);
        }
        let subject = self.file.name().to_owned();
        let detail = format!("{detail}; the entries were read in sequence instead");
        if !self.repairs.iter().any(|repair| repair.detail == detail) {
            self.repairs.push(Repair { subject, detail });
        }
        Ok(())
    }
}

/// In such an index, the last restart point is past the last entry, and the separator is empty.
fn lenient_help() -> Text {
    text![
        "Swift for TensorFlow writes such an index for 15 tensors (31, 47, …); ",
        Setting::READ_OPTION.of("lenient=true"),
        " reads it in sequence",
    ]
}

const WRONG_RESTART: &str = "a restart point of a block is wrong";

fn bad_restart(error: Error) -> Error {
    error.expected("the offset of an entry that shares no bytes with the previous key").help(lenient_help())
}

/// An entry as stored: the number of bytes that its key shares with the previous key, the rest of the key, and the
/// value.
struct RawEntry<'a> {
    shared: usize,
    suffix: &'a [u8],
    value: &'a [u8],
}

impl<'a> RawEntry<'a> {
    #[inline]
    fn parse(input: Bytes<'a>) -> Parsed<'a, Self> {
        let length = |input| map_opt(varint, |length| u32::try_from(length).ok()).parse(input);
        let (input, (shared, suffix, value)) = (length, length, length).parse(input)?;
        let (input, (suffix, value)) = (bytes(suffix.into()), bytes(value.into())).parse(input)?;
        Ok((input, RawEntry { shared: shared as usize, suffix, value }))
    }
}

/// Parses what follows the `size` bytes of a block: the compression type and the checksum.
fn trailer(block: &[u8], size: u64) -> Result<(u8, u32)> {
    Bytes::new(block, 0).parse(preceded(bytes(size), (le::<u8>, le::<u32>)))
}
