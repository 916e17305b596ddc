//! Parsing the fields of headers with nom.
//!
//! [`Bytes`] is the input of all parsers: bytes, and where they are in the file. Bytes in memory are parsed with
//! [`Bytes::parse`], those of a file with [`Fields::parse`]. The parsers are nom's streaming ones, and those of this
//! module, whose errors also say where the missing field begins.
//!
//! ```
//! use ckpt_api::fields::{Bytes, count, field, le, text};
//! use ckpt_api::{Limit, Limits};
//! use nom::Parser;
//! use nom::bytes::streaming::tag;
//! use nom::sequence::preceded;
//!
//! let limits = Limits::default();
//! let mut input = Bytes::new(b"CKPT\x02\x00\x04\x00\x00\x00name", 0);
//! let (version, len) = input.parse(preceded(tag(&b"CKPT"[..]), (le::<u16>, count(1, le::<u32>))))?;
//! assert_eq!((version, input.parse(text(len, &limits, Limit::NameBytes))?), (2, "name"));
//! let error = input.parse(field("checksum", le::<u32>)).unwrap_err();
//! assert_eq!((error.context().field, error.context().offset), (Some("checksum"), Some(14)));
//! # Ok::<(), ckpt_api::Error>(())
//! ```

mod bytes;
mod parsers;

use super::file::ends_before;
use crate::{Error, File, Limit, Limits, Result};
use nom::Err;

use bytes::TOO_SHORT;
pub use bytes::{Bytes, Parsed};
pub use parsers::{array, be, bytes, count, field, le, number, numbers, skip, text, varint};

/// Many ranges are small: the first read takes `FIRST_READ` bytes, and each further read four times more, up to
/// `MAX_READ`.
const FIRST_READ: u64 = 512;
const MAX_READ: u64 = 64 << 10;

/// Parses a range of a file with nom, front to back. Nothing is read past the range, nothing is allocated for bytes
/// that it lacks, and errors name the file.
///
/// Parsers see a window of the range, in a buffer of at most 64 KiB. One that needs more than the window says so with
/// [`Err::Incomplete`]: the window grows, and the parser runs again from its first byte. So, one call of
/// [`Fields::parse`] is for a few fields, and a table takes one call for each entry. [`Fields::bytes`] and
/// [`Fields::text`] are for what may be longer than a window.
///
/// ```
/// use ckpt_api::{Fields, Input, Limit, Limits};
/// use ckpt_api::fields::{count, le};
/// let files = [("f".to_owned(), b"\x02\x00\x04\x00\x00\x00name".to_vec())].into();
/// let file = Input::memory("f", files).main()?;
/// let mut fields = Fields::new(&file);
/// let version = fields.parse(le::<u16>)?;
/// let len = fields.parse(|input| count(1, le::<u32>)(input))?;
/// let name = fields.text(len, &Limits::default(), Limit::NameBytes)?;
/// assert_eq!((version, name.as_str(), fields.remaining()), (2, "name", 0));
/// assert!(fields.parse(le::<u8>).is_err());
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Debug)]
pub struct Fields<'a> {
    file: &'a File,
    /// Offset of the next byte in the file.
    position: u64,
    /// Offset of the end of the range in the file.
    end: u64,
    buffer: Vec<u8>,
    /// Offset of the buffer's first byte in the file.
    base: u64,
    /// Size of the next read, in bytes.
    read_size: u64,
    too_short: &'static str,
}

impl<'a> Fields<'a> {
    /// The fields of a whole file.
    pub fn new(file: &'a File) -> Self {
        Self::over(file, 0, file.len(), "the file is cut short")
    }

    /// The fields in `len` bytes of a file from `offset`.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] if the file ends before.
    pub fn range(file: &'a File, offset: u64, len: u64) -> Result<Self> {
        let end = offset.checked_add(len).filter(|end| *end <= file.len());
        let end = end.ok_or_else(|| ends_before("data", file.name(), file.len(), offset, len))?;
        Ok(Self::over(file, offset, end, TOO_SHORT))
    }

    fn over(file: &'a File, offset: u64, end: u64, too_short: &'static str) -> Self {
        let (position, base, buffer) = (offset, offset, Vec::new());
        Fields { file, position, end, buffer, base, read_size: FIRST_READ, too_short }
    }

    /// Sets the message of the error for a range that ends before its fields do.
    #[must_use]
    pub fn with_message(mut self, too_short: &'static str) -> Self {
        self.too_short = too_short;
        self
    }

    /// Returns the offset of the next byte in the file.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of bytes left.
    pub fn remaining(&self) -> u64 {
        self.end.saturating_sub(self.position)
    }

    /// Runs a parser, and moves past what it parsed. After an error, the next byte is the same as before.
    ///
    /// # Errors
    /// Those of the parser, with the name of the file; [`crate::Kind::Limit`] for fields of more than 64 KiB;
    /// [`crate::Kind::Io`].
    pub fn parse<T>(&mut self, mut parser: impl FnMut(Bytes<'_>) -> Parsed<'_, T>) -> Result<T> {
        loop {
            let window = self.window();
            let needed = match parser(window) {
                Ok((rest, value)) => {
                    self.position = rest.offset();
                    return Ok(value);
                }
                Err(Err::Error(error) | Err::Failure(error)) => return Err(error.file(self.file.name())),
                Err(Err::Incomplete(missing)) => window.needed(missing),
            };
            if needed > self.remaining() {
                return Err(self.window().too_short(needed).file(self.file.name()));
            }
            if needed > MAX_READ {
                return Err(self.too_large(needed));
            }
            self.read(needed)?;
        }
    }

    /// Skips `len` bytes without reading them.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] if fewer are left.
    pub fn skip(&mut self, len: u64) -> Result<()> {
        if len > self.remaining() {
            return Err(self.window().too_short(len).file(self.file.name()));
        }
        self.position += len;
        Ok(())
    }

    /// Reads `len` bytes, of any number that the range has.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] if fewer are left; [`crate::Kind::Io`].
    pub fn bytes(&mut self, len: u64) -> Result<Vec<u8>> {
        if (MAX_READ + 1..=self.remaining()).contains(&len) {
            let bytes = self.file.bytes(self.position, len)?;
            self.position += len;
            return Ok(bytes);
        }
        self.parse(|input| bytes(len)(input).map(|(rest, bytes)| (rest, bytes.to_vec())))
    }

    /// Reads `len` bytes of UTF-8 text, at most as many as the limit allows.
    ///
    /// # Errors
    /// As [`Fields::bytes`]; [`crate::Kind::Limit`]; [`crate::Kind::Corrupt`] at the first byte that is not UTF-8.
    pub fn text(&mut self, len: u64, limits: &Limits, limit: Limit) -> Result<String> {
        let start = self.position;
        let text = limits.check(limit, len).map_err(|error| error.offset(start)).and_then(|()| {
            String::from_utf8(self.bytes(len)?).map_err(|error| parsers::not_utf8(start, error.utf8_error()))
        });
        text.map_err(|error| error.file(self.file.name()))
    }

    /// Reads all bytes left, and calls `visit` with one window of them after the other.
    ///
    /// # Errors
    /// [`crate::Kind::Io`].
    pub fn stream(&mut self, mut visit: impl FnMut(&[u8])) -> Result<()> {
        while self.remaining() > 0 {
            let window = self.window().as_slice();
            if window.is_empty() {
                self.read(self.remaining().min(MAX_READ))?;
                continue;
            }
            visit(window);
            self.position += window.len() as u64;
        }
        Ok(())
    }

    /// The error for fields that no window takes, although the range has them.
    fn too_large(&self, needed: u64) -> Error {
        Error::limit("the fields are larger than the buffer for headers")
            .file(self.file.name())
            .offset(self.position)
            .found(crate::count(needed, "byte"))
            .expected(format!("at most {}", crate::count(MAX_READ, "byte")))
    }

    /// The buffered bytes from the next one on.
    #[inline]
    fn window(&self) -> Bytes<'_> {
        let start = usize::try_from(self.position.saturating_sub(self.base)).unwrap_or(usize::MAX);
        let bytes = self.buffer.get(start..).unwrap_or_default();
        Bytes::window(bytes, self.position, self.end).with_message(self.too_short)
    }

    /// Buffers at least `needed` of the bytes left, from the next one on.
    fn read(&mut self, needed: u64) -> Result<()> {
        let size = self.remaining().min(self.read_size.max(needed));
        self.read_size = (self.read_size * 4).min(MAX_READ);
        self.buffer.resize(usize::try_from(size).unwrap_or_default(), 0);
        self.base = self.position;
        self.file.read_at(self.position, &mut self.buffer).inspect_err(|_| self.buffer.clear())
    }
}

#[cfg(test)]
mod tests;
