//! Bounded, sequential reading of headers and tables.

use super::file::ends_before;
use crate::{Endian, Error, File, Limit, Limits, Number, Result};
use prost::encoding::decode_varint;
use std::borrow::Cow;

/// Bytes of the longest varint.
const MAX_VARINT: usize = 10;
/// Many ranges are small: the first read takes `FIRST_READ` bytes, and each further read four times more, up to
/// `MAX_READ`.
const FIRST_READ: u64 = 512;
const MAX_READ: u64 = 64 << 10;

/// Reads a range of a file, or bytes that were read from one, front to back.
///
/// Numbers are little-endian until [`Cursor::with_endian`]. Nothing is read past the range, and nothing is allocated
/// for bytes that it lacks. An error names the file and the offset. Of a file, at most 64 KiB are buffered.
///
/// ```
/// use ckpt_api::{Cursor, Limit, Limits};
/// let bytes = b"\x01\x02\x00\x04\x00\x00\x00name";
/// let mut cursor = Cursor::of_bytes(bytes, 0);
/// assert_eq!((cursor.number::<u8>()?, cursor.number::<u16>()?), (1, 2));
/// let len = cursor.count::<u32>(1)?;
/// assert_eq!(cursor.text(len, &Limits::default(), Limit::NameBytes)?, "name");
/// assert!(cursor.number::<u8>().is_err());
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Debug)]
pub struct Cursor<'a> {
    /// `None` for bytes that were read already.
    file: Option<&'a File>,
    /// Offset of the next byte in the file.
    position: u64,
    /// Offset of the end of the range in the file.
    end: u64,
    buffer: Cow<'a, [u8]>,
    /// Offset of the buffer's first byte in the file.
    base: u64,
    /// Size of the next read, in bytes.
    read_size: u64,
    endian: Endian,
    too_short: &'static str,
}

impl<'a> Cursor<'a> {
    /// A cursor over a whole file.
    pub fn new(file: &'a File) -> Self {
        Self::over(Some(file), Cow::Owned(Vec::new()), 0, file.len(), "the file is cut short")
    }

    /// A cursor over `len` bytes of a file from `offset`.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] if the file ends before.
    pub fn range(file: &'a File, offset: u64, len: u64) -> Result<Self> {
        let end = offset.checked_add(len).filter(|end| *end <= file.len());
        let end = end.ok_or_else(|| ends_before("data", file.name(), file.len(), offset, len))?;
        Ok(Self::over(Some(file), Cow::Owned(Vec::new()), offset, end, "the data ends too early"))
    }

    /// A cursor over bytes that begin at `offset` of their file. Its errors do not name the file.
    pub fn of_bytes(bytes: &'a [u8], offset: u64) -> Self {
        let end = offset.saturating_add(bytes.len() as u64);
        Self::over(None, Cow::Borrowed(bytes), offset, end, "the data ends too early")
    }

    fn over(
        file: Option<&'a File>,
        buffer: Cow<'a, [u8]>,
        offset: u64,
        end: u64,
        too_short: &'static str,
    ) -> Self {
        let (position, base, endian) = (offset, offset, Endian::Little);
        Cursor { file, position, end, buffer, base, read_size: FIRST_READ, endian, too_short }
    }

    /// Reads numbers in this byte order from now on.
    #[must_use]
    pub fn with_endian(mut self, endian: Endian) -> Self {
        self.endian = endian;
        self
    }

    /// Sets the message of the error for data that ends before what it should contain.
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

    /// Reads a number.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`], [`crate::Kind::Io`]; so do all methods that read.
    pub fn number<T: Number>(&mut self) -> Result<T> {
        let endian = self.endian;
        let number = T::from_bytes(self.peek(T::BYTES)?, endian);
        let number = number.ok_or_else(|| self.too_short(T::BYTES as u64))?;
        self.position += T::BYTES as u64;
        Ok(number)
    }

    /// Reads `N` numbers.
    ///
    /// # Errors
    /// As [`Cursor::number`].
    pub fn numbers<T: Number, const N: usize>(&mut self) -> Result<[T; N]> {
        let (mut numbers, endian) = ([T::default(); N], self.endian);
        let bytes = self.peek(N * T::BYTES)?;
        if bytes.len() == N * T::BYTES {
            for (number, bytes) in numbers.iter_mut().zip(bytes.chunks_exact(T::BYTES)) {
                *number = T::from_bytes(bytes, endian).unwrap_or_default();
            }
            self.position += (N * T::BYTES) as u64;
            return Ok(numbers);
        }
        // The error is that of the first number that is missing.
        for number in &mut numbers {
            *number = self.number()?;
        }
        Ok(numbers)
    }

    /// Reads the number of things that follow, of which each takes at least `min_bytes_each`. The number is checked
    /// against the bytes left, so that memory may be reserved for it.
    ///
    /// # Errors
    /// As [`Cursor::number`], at the offset of the number.
    pub fn count<T: Number + Into<u64>>(&mut self, min_bytes_each: u64) -> Result<u64> {
        let start = self.position;
        let count = self.number::<T>()?.into();
        let needed = count.saturating_mul(min_bytes_each);
        if needed <= self.remaining() {
            return Ok(count);
        }
        let error = Error::corrupt("the file is cut short, or claims more than it holds")
            .offset(start)
            .found(format!("{} bytes after it", self.remaining()))
            .expected(format!("at least {needed} bytes"));
        Err(self.named(error))
    }

    /// Reads a varint: 7 bits in each byte, the lowest first.
    ///
    /// # Errors
    /// As [`Cursor::number`].
    pub fn varint(&mut self) -> Result<u64> {
        let mut rest = self.peek(MAX_VARINT)?;
        let available = rest.len();
        let value = decode_varint(&mut rest).map(|value| (value, available.saturating_sub(rest.len())));
        let (value, len) = value.map_err(|_| {
            let error = Error::corrupt("a varint is unterminated or longer than 64 bits");
            self.named(error.offset(self.position))
        })?;
        self.position += len as u64;
        Ok(value)
    }

    /// Reads `N` bytes.
    ///
    /// # Errors
    /// As [`Cursor::number`].
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.peek(N)?.first_chunk().copied();
        let bytes = bytes.ok_or_else(|| self.too_short(N as u64))?;
        self.position += N as u64;
        Ok(bytes)
    }

    /// Reads `len` bytes.
    ///
    /// # Errors
    /// As [`Cursor::number`].
    pub fn bytes(&mut self, len: u64) -> Result<Vec<u8>> {
        let size = self.checked(len)?;
        let bytes = match self.file {
            Some(file) if len > MAX_READ => file.bytes(self.position, len)?,
            _ => self.peek(size)?.to_vec(),
        };
        self.position += len;
        Ok(bytes)
    }

    /// Reads `len` bytes of UTF-8 text, at most as many as the limit allows.
    ///
    /// # Errors
    /// As [`Cursor::number`], and [`crate::Kind::Limit`].
    pub fn text(&mut self, len: u64, limits: &Limits, limit: Limit) -> Result<String> {
        let start = self.position;
        limits.check(limit, len).map_err(|error| self.named(error.offset(start)))?;
        String::from_utf8(self.bytes(len)?).map_err(|error| {
            let valid = error.utf8_error().valid_up_to() as u64;
            self.named(Error::corrupt("the text is not UTF-8").offset(start.saturating_add(valid)))
        })
    }

    /// Skips `len` bytes without reading them.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] if fewer are left.
    pub fn skip(&mut self, len: u64) -> Result<()> {
        self.checked(len)?;
        self.position += len;
        Ok(())
    }

    /// Reads all bytes left, and calls `visit` with one buffer of them after the other.
    ///
    /// # Errors
    /// As [`Cursor::number`].
    pub fn stream(&mut self, mut visit: impl FnMut(&[u8])) -> Result<()> {
        while self.remaining() > 0 {
            let len = usize::try_from(self.remaining().min(MAX_READ)).unwrap_or(MAX_VARINT);
            let bytes = self.peek(len)?;
            visit(bytes);
            self.position += bytes.len() as u64;
        }
        Ok(())
    }

    fn checked(&self, len: u64) -> Result<usize> {
        let size = usize::try_from(len).ok().filter(|_| len <= self.remaining());
        size.ok_or_else(|| self.too_short(len))
    }

    fn too_short(&self, len: u64) -> Error {
        let error = Error::corrupt(self.too_short)
            .offset(self.position)
            .found(format!("{} bytes left", self.remaining()))
            .expected(crate::count(len, "byte"));
        self.named(error)
    }

    fn named(&self, error: Error) -> Error {
        match self.file {
            Some(file) => error.file(file.name()),
            None => error,
        }
    }

    /// Returns the next `len` bytes, or fewer at the end, without moving past them.
    fn peek(&mut self, len: usize) -> Result<&[u8]> {
        let len = usize::try_from(self.remaining().min(len as u64)).unwrap_or(len);
        let buffered = self.base.saturating_add(self.buffer.len() as u64);
        let is_buffered = self.base <= self.position && self.position + len as u64 <= buffered;
        if let Some(file) = self.file.filter(|_| !is_buffered) {
            let size = self.remaining().min(self.read_size.max(len as u64));
            self.read_size = (self.read_size * 4).min(MAX_READ);
            let buffer = self.buffer.to_mut();
            buffer.resize(usize::try_from(size).unwrap_or(len), 0);
            self.base = self.position;
            if let Err(error) = file.read_at(self.position, buffer) {
                buffer.clear();
                return Err(error);
            }
        }
        let start = usize::try_from(self.position - self.base).unwrap_or(usize::MAX);
        Ok(self.buffer.get(start..).and_then(|rest| rest.get(..len)).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Input, Kind};
    use std::collections::BTreeMap;

    /// A file of these bytes, ten before and ten after.
    fn file(bytes: &[u8]) -> File {
        let bytes = [&[0xff; 10][..], bytes, &[0xff; 10]].concat();
        Input::memory("f", BTreeMap::from([("f".to_owned(), bytes)])).main().unwrap()
    }

    #[test]
    fn a_range_that_exceeds_the_file_is_refused() {
        let file = file(&[]);
        assert!(Cursor::range(&file, 0, 20).is_ok());
        assert!(Cursor::range(&file, 20, 0).is_ok());
        for (offset, len) in [(0, 21), (20, 1), (21, 0), (u64::MAX, 1), (1, u64::MAX)] {
            assert!(Cursor::range(&file, offset, len).is_err(), "{offset} {len}");
        }
    }

    #[test]
    fn nothing_is_read_past_the_end_of_the_range() {
        let bytes = [0x80, 0x01, 1, 2, 3, 4];
        let file = file(&bytes);
        for mut cursor in [Cursor::range(&file, 10, 6).unwrap(), Cursor::of_bytes(&bytes, 10)] {
            assert_eq!((cursor.varint().unwrap(), cursor.position(), cursor.remaining()), (128, 12, 4));
            assert!(cursor.skip(5).is_err() && cursor.skip(u64::MAX).is_err());
            assert!(cursor.bytes(5).is_err() && cursor.bytes(u64::MAX).is_err());
            assert!(cursor.number::<u64>().is_err() && cursor.numbers::<u16, 3>().is_err());
            cursor = Cursor::of_bytes(&bytes, 10);
            cursor.skip(2).unwrap();
            assert_eq!(cursor.array().unwrap(), [1, 2, 3, 4]);
            assert!(cursor.array::<4>().is_err() && cursor.varint().is_err() && cursor.skip(1).is_err());
            cursor.skip(0).unwrap();
        }
        let mut cursor = Cursor::range(&file, 10, 1).unwrap();
        assert!(cursor.varint().is_err(), "the varint continues past the range");
        cursor.skip(1).unwrap();
        assert_eq!((cursor.position(), cursor.remaining()), (11, 0));
    }

    #[test]
    #[cfg_attr(miri, ignore = "its streams take minutes")]
    fn numbers_and_streams_cross_the_ends_of_buffers() {
        let bytes: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8 & 0x7f).collect();
        let file = file(&bytes);
        for start in [0, 1, 505, 511, 512, 513, 2559, 2560] {
            let mut cursor = Cursor::range(&file, 10, bytes.len() as u64).unwrap();
            for expected in &bytes[..start] {
                assert_eq!(cursor.varint().unwrap(), u64::from(*expected));
            }
            assert_eq!(cursor.bytes(4).unwrap(), bytes[start..start + 4]);
            assert_eq!(cursor.bytes(70_000).unwrap(), bytes[start + 4..][..70_000]);
            let rest = &bytes[start + 70_004..];
            assert_eq!(cursor.remaining(), rest.len() as u64);
            let (mut streamed, mut largest) = (Vec::<u8>::new(), 0);
            cursor
                .stream(|bytes| {
                    streamed.extend(bytes);
                    largest = largest.max(bytes.len() as u64);
                })
                .unwrap();
            assert!(streamed == rest && largest <= MAX_READ, "{start}");
        }
    }

    #[test]
    fn numbers_have_the_byte_order_of_the_cursor() {
        let bytes = [1, 2, 3, 4];
        let mut cursor = Cursor::of_bytes(&bytes, 0);
        assert_eq!(cursor.numbers::<u16, 2>().unwrap(), [0x0201, 0x0403]);
        let mut cursor = Cursor::of_bytes(&bytes, 0).with_endian(Endian::Big);
        assert_eq!(cursor.number::<i32>().unwrap(), 0x0102_0304);
    }

    #[test]
    fn an_error_names_the_file_and_the_offset() {
        let file = file(&[5, 0, 0, 0, b'a']);
        let mut cursor = Cursor::range(&file, 10, 5).unwrap().with_message("the table is cut short");
        let error = cursor.count::<u32>(1).unwrap_err();
        assert_eq!((error.context().file, error.context().offset), (Some("f"), Some(10)));
        let error = cursor.number::<u16>().unwrap_err();
        assert_eq!((error.message(), error.context().offset), ("the table is cut short", Some(14)));
    }

    #[test]
    fn a_text_is_utf_8_within_its_limit() {
        let limits = Limits::default().with(Limit::NameBytes, 2);
        let text =
            |bytes: &[u8]| Cursor::of_bytes(bytes, 3).text(bytes.len() as u64, &limits, Limit::NameBytes);
        assert_eq!(text(b"ab").unwrap(), "ab");
        assert_eq!(text(b"abc").unwrap_err().kind(), Kind::Limit);
        assert_eq!(text(b"a\xff").unwrap_err().context().offset, Some(4));
    }
}
