//! Sorted string tables: blocks of prefix-compressed entries, found through an index block.

use crate::format::{FOOTER_LEN, MAGIC, TRAILER_LEN, crc32c, mask};
use crate::names::shown;
use ckpt_api::{Error, File, Limit, Limits, Repair, Result};
use prost::encoding::decode_varint;

/// Calls `visit` with every key, value and the file offset of the entry's block, in order; every block is
/// reached through the index and checked.
///
/// With `lenient`, restart points and separators, which a sequential reading does not need, may be wrong; the
/// result says what was.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`], [`ckpt_api::Kind::Limit`], [`ckpt_api::Kind::Io`], and those of `visit`.
pub(crate) fn scan(
    file: &File,
    limits: &Limits,
    lenient: bool,
    mut visit: impl FnMut(&[u8], &[u8], u64) -> Result<()>,
) -> Result<Vec<Repair>> {
    let mut scan = Scan { file, limits, lenient, repairs: Vec::new() };
    let blocks = scan.index(footer(file)?)?;
    let (mut last, mut before, mut end) = (None, None, 0);
    for Indexed { separator, handle } in &blocks {
        // Else a few bytes could have the same block read again and again.
        if handle.offset < end {
            return Err(overlapping(file, handle.offset, end));
        }
        end = handle.offset.saturating_add(handle.size);
        let block = scan.block(*handle)?;
        let mut first = true;
        scan.entries(&block, &mut last, |key, value, at| {
            if std::mem::take(&mut first) && before.is_some_and(|before: &Vec<u8>| key <= &before[..]) {
                return Err(misplaced(file, at, key));
            }
            visit(key, value, at)
        })?;
        if let Some(key) = last.as_ref().filter(|last| *last > separator) {
            scan.mend(misplaced(file, handle.offset, key), "a block's keys lie past the index's separator")?;
        }
        before = Some(separator);
    }
    Ok(scan.repairs)
}

/// Whether the file ends as a table does.
pub(crate) fn has_magic(file: &File) -> Result<bool> {
    let Some(offset) = file.len().checked_sub(FOOTER_LEN) else { return Ok(false) };
    let mut bytes = [0; 8];
    file.read_at(offset + FOOTER_LEN - 8, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes) == MAGIC)
}

/// Whether the file begins as the index of a bundle does: with an entry under the empty key that begins with a number
/// of data files.
pub(crate) fn begins(file: &File) -> Result<bool> {
    const NUM_SHARDS: u8 = 0x08;
    let mut bytes = [0; 4];
    let len = file.len().min(4) as usize;
    let head = &mut bytes[..len];
    file.read_at(0, head)?;
    Ok(matches!(bytes, [0, 0, 2..0x80, NUM_SHARDS]))
}

fn overlapping(file: &File, offset: u64, end: u64) -> Error {
    Error::corrupt("a block of the index begins before the end of the block before it")
        .file(file.name())
        .offset(offset)
        .found(format!("offset {offset}"))
        .expected(format!("at least {end}"))
        .help("the file was damaged: copy it again")
}

fn misplaced(file: &File, at: u64, key: &[u8]) -> Error {
    Error::corrupt("a key lies in a block where the index would not look for it")
        .file(file.name())
        .offset(at)
        .tensor(shown(key))
        .help(LENIENT)
}

#[derive(Clone, Copy, Debug)]
struct Handle {
    offset: u64,
    size: u64,
}

impl Handle {
    fn take(rest: &mut &[u8]) -> Option<Self> {
        Some(Handle { offset: decode_varint(rest).ok()?, size: decode_varint(rest).ok()? })
    }
}

/// The handle of the index block.
fn footer(file: &File) -> Result<Handle> {
    if !has_magic(file)? {
        return Err(without_footer(file)?);
    }
    let offset = file.len() - FOOTER_LEN;
    let bytes = file.bytes(offset, FOOTER_LEN)?;
    let mut rest = &bytes[..];
    let index = Handle::take(&mut rest).and_then(|_metaindex| Handle::take(&mut rest));
    index.ok_or_else(|| Error::corrupt("the footer names no index block").file(file.name()).offset(offset))
}

/// What to say of a file that does not end with a footer.
fn without_footer(file: &File) -> Result<Error> {
    let tail = file.len().min(8);
    let last = file.bytes(file.len() - tail, tail)?;
    let last = last.iter().rev().fold(String::from("0x"), |text, byte| format!("{text}{byte:02x}"));
    let error = match begins(file)? {
        true => Error::corrupt("the TensorFlow index is cut short: its footer is missing").help(
            "copy PREFIX.index again from where it was written; without its end nothing says where tensors lie",
        ),
        false => Error::corrupt("the index does not end as a table does")
            .help("the file is cut short or is no TensorFlow index: copy it again"),
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

/// A block as the index has it: no key of it is greater than the separator.
struct Indexed {
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
    /// Where in the file a byte of the contents is, as near as can be said.
    fn at(&self, position: usize) -> u64 {
        if self.compressed { self.offset } else { self.offset.saturating_add(position as u64) }
    }
}

impl Scan<'_> {
    /// The blocks that the index block lists.
    fn index(&mut self, at: Handle) -> Result<Vec<Indexed>> {
        let (file, limits) = (self.file, self.limits);
        let (mut blocks, mut bytes) = (Vec::new(), 0u64);
        let index = self.block(at)?;
        self.entries(&index, &mut None, |separator, mut value, at| {
            let handle = Handle::take(&mut value)
                .ok_or_else(|| Error::corrupt("the index names no block").file(file.name()).offset(at))?;
            // Shared prefixes make them longer in memory than in the file.
            bytes = bytes.saturating_add(separator.len() as u64);
            limits.check(Limit::HeaderBytes, bytes)?;
            limits.check(Limit::Tensors, blocks.len() as u64 + 1)?;
            blocks.push(Indexed { separator: separator.to_vec(), handle });
            Ok(())
        })?;
        Ok(blocks)
    }

    fn block(&self, handle: Handle) -> Result<Block> {
        let Handle { offset, size } = handle;
        let corrupt = |message: &str| Error::corrupt(message).file(self.file.name()).offset(offset);
        let end = offset.checked_add(size).and_then(|end| end.checked_add(TRAILER_LEN));
        if end.is_none_or(|end| end > self.file.len() - FOOTER_LEN) {
            return Err(corrupt("a block lies outside the file")
                .found(format!("{size} bytes"))
                .expected(format!("an end before the footer of a file of {} bytes", self.file.len())));
        }
        self.limits
            .check(Limit::BlockBytes, size)
            .map_err(|error| error.file(self.file.name()).offset(offset))?;
        let mut bytes = self.file.bytes(offset, size + TRAILER_LEN)?;
        let trailer = bytes.split_off(bytes.len() - 4);
        let stored = trailer.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte));
        let computed = mask(crc32c(0, &bytes));
        if stored != computed {
            return Err(corrupt("a block of the index has a wrong checksum")
                .found(format!("{computed:#010x} computed"))
                .expected(format!("{stored:#010x} stored"))
                .help("the file was damaged: copy it again"));
        }
        match bytes.pop() {
            Some(0) => Ok(Block { offset, compressed: false, contents: bytes }),
            Some(1) => Ok(Block { offset, compressed: true, contents: self.decompress(offset, &bytes)? }),
            kind => Err(Error::unsupported("a block is compressed in an unknown way")
                .file(self.file.name())
                .offset(offset + size)
                .found(kind.map_or_else(String::new, |kind| kind.to_string()))
                .expected("0 (none) or 1 (snappy)")),
        }
    }

    fn decompress(&self, offset: u64, bytes: &[u8]) -> Result<Vec<u8>> {
        // Three bytes of snappy make at most 64.
        const MOST: usize = 64;
        let corrupt = |found: String| {
            let error = Error::corrupt("a compressed block cannot be decompressed");
            error.file(self.file.name()).offset(offset).found(found)
        };
        let claimed = snap::raw::decompress_len(bytes).map_err(|error| corrupt(error.to_string()))?;
        if claimed > bytes.len().saturating_mul(MOST) {
            return Err(corrupt(format!("{} bytes that claim to be {claimed}", bytes.len())));
        }
        self.limits.check(Limit::BlockBytes, claimed as u64).map_err(|error| error.file(self.file.name()))?;
        snap::raw::Decoder::new().decompress_vec(bytes).map_err(|error| corrupt(error.to_string()))
    }

    /// Walks a block. `last` is the key before the first, and afterwards the last.
    fn entries(
        &mut self,
        block: &Block,
        last: &mut Option<Vec<u8>>,
        mut visit: impl FnMut(&[u8], &[u8], u64) -> Result<()>,
    ) -> Result<()> {
        let name = self.file.name().to_owned();
        let corrupt =
            |message: &str, position: usize| Error::corrupt(message).file(&name).offset(block.at(position));
        let (entries, restarts) = self.split(block)?;
        let mut expected = restarts.iter().copied().peekable();
        let mut rest = entries;
        let mut key: Vec<u8> = Vec::new();
        let mut first = true;
        while !rest.is_empty() {
            let position = entries.len() - rest.len();
            let Stored { shared, suffix, value } = Stored::take(&mut rest)
                .ok_or_else(|| corrupt("an entry reaches past its block", position))?;
            if shared > key.len() {
                return Err(corrupt("an entry shares more of its key than the key before has", position)
                    .found(shared.to_string())
                    .expected(format!("at most {}", key.len())));
            }
            let restarts_here = expected.next_if(|at| u32::try_from(position) == Ok(*at)).is_some();
            if (first && !restarts_here) || (restarts_here && shared != 0) {
                self.mend(
                    bad_restart(corrupt(WRONG_RESTART, position)),
                    "a restart point is missing or shares a key",
                )?;
            }
            let follows = match first {
                true => last.as_ref().is_none_or(|before| suffix > &before[..]),
                false => key.get(shared..).is_some_and(|before| suffix > before),
            };
            key.truncate(shared);
            key.extend_from_slice(suffix);
            if !follows {
                return Err(
                    corrupt("the keys are not in order, or one is there twice", position).tensor(shown(&key))
                );
            }
            visit(&key, value, block.at(position))?;
            first = false;
        }
        if !first {
            if let Some(restart) = expected.next() {
                let error = bad_restart(corrupt(WRONG_RESTART, entries.len())).found(restart.to_string());
                self.mend(error, "a restart point lies at no entry")?;
            }
            *last = Some(key);
        }
        Ok(())
    }

    /// The entries' bytes and the restart points after them.
    fn split<'b>(&self, block: &'b Block) -> Result<(&'b [u8], Vec<u32>)> {
        let corrupt = |message: &str| {
            let error = Error::corrupt(message).file(self.file.name()).offset(block.offset);
            error.found(format!("a block of {} bytes", block.contents.len()))
        };
        let (rest, count) = block
            .contents
            .split_last_chunk::<4>()
            .ok_or_else(|| corrupt("a block is too short for its number of restart points"))?;
        let count = u32::from_le_bytes(*count);
        if count == 0 {
            return Err(corrupt("a block has no restart point"));
        }
        let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(4));
        let split = bytes.and_then(|bytes| rest.len().checked_sub(bytes));
        let split = split.ok_or_else(|| corrupt("a block has more restart points than bytes"))?;
        let (entries, restarts) = rest.split_at(split);
        let (restarts, _) = restarts.as_chunks::<4>();
        Ok((entries, restarts.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()))
    }

    /// An error, or under `lenient` a repair.
    fn mend(&mut self, error: Error, detail: &str) -> Result<()> {
        if !self.lenient {
            return Err(error);
        }
        let subject = self.file.name().to_owned();
        let detail = format!("{detail}; read in sequence instead");
        if !self.repairs.iter().any(|repair| repair.detail == detail) {
            self.repairs.push(Repair { subject, detail });
        }
        Ok(())
    }
}

/// Its last restart point lies past the last entry, and its separator is empty.
const LENIENT: &str = "Swift for TensorFlow writes such an index for 15 tensors (31, 47, …); --set lenient=true reads it in sequence";

const WRONG_RESTART: &str = "a restart point of a block is wrong";

fn bad_restart(error: Error) -> Error {
    error.expected("the offset of an entry that shares nothing with the key before").help(LENIENT)
}

/// An entry as stored: how much of the key before it shares, the rest of its own, and its value.
struct Stored<'a> {
    shared: usize,
    suffix: &'a [u8],
    value: &'a [u8],
}

impl<'a> Stored<'a> {
    fn take(rest: &mut &'a [u8]) -> Option<Self> {
        let mut number = || usize::try_from(u32::try_from(decode_varint(rest).ok()?).ok()?).ok();
        let (shared, suffix, value) = (number()?, number()?, number()?);
        let (suffix, tail) = rest.split_at_checked(suffix)?;
        let (value, tail) = tail.split_at_checked(value)?;
        *rest = tail;
        Some(Stored { shared, suffix, value })
    }
}
