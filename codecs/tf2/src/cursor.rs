//! Sequential reading of a range of a file through a small buffer.

use crate::wire::MAX_VARINT;
use ckpt_api::{Error, File, Result};
use prost::encoding::decode_varint;

/// Most string tensors are small: the first read takes `FIRST_READ` bytes, and each further read four times more, up to
/// `MAX_READ`.
const FIRST_READ: u64 = 512;
const MAX_READ: u64 = 64 << 10;

/// A reader of a range of a file, front to back, which buffers at most [`MAX_READ`] bytes.
pub(crate) struct Cursor<'a> {
    file: &'a File,
    position: u64,
    end: u64,
    buffer: Vec<u8>,
    /// Size of the next read, in bytes.
    read_size: u64,
    /// File offset of the buffer's first byte.
    base: u64,
}

impl<'a> Cursor<'a> {
    /// Returns a cursor over `len` bytes at `offset`.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] if the file ends before.
    pub(crate) fn new(file: &'a File, offset: u64, len: u64) -> Result<Self> {
        let end = offset.checked_add(len).filter(|end| *end <= file.len()).ok_or_else(|| {
            Error::corrupt("the file ends before the tensor does")
                .file(file.name())
                .offset(offset)
                .found(format!("a file of {} bytes", file.len()))
                .expected(format!("{len} bytes from offset {offset}"))
                .help("the file is cut short or belongs to another checkpoint: copy it again")
        })?;
        Ok(Cursor { file, position: offset, end, buffer: Vec::new(), read_size: FIRST_READ, base: offset })
    }

    /// Returns the file offset of the next byte.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of bytes left.
    pub(crate) fn remaining(&self) -> u64 {
        self.end - self.position
    }

    /// Reads a varint.
    pub(crate) fn varint(&mut self) -> Result<u64> {
        let mut rest = self.peek(MAX_VARINT)?;
        let available = rest.len();
        let value = decode_varint(&mut rest).map(|value| (value, available.saturating_sub(rest.len())));
        let (value, len) = value.map_err(|_| {
            Error::corrupt("a varint has no end or more than 64 bits")
                .file(self.file.name())
                .offset(self.position)
        })?;
        self.position += len as u64;
        Ok(value)
    }

    /// Reads four bytes.
    pub(crate) fn four_bytes(&mut self) -> Result<[u8; 4]> {
        let bytes = self.peek(4)?.first_chunk().copied();
        let bytes = bytes.ok_or_else(|| self.too_short(4))?;
        self.position += 4;
        Ok(bytes)
    }

    /// Skips `len` bytes without reading them.
    pub(crate) fn skip(&mut self, len: u64) -> Result<()> {
        if len > self.remaining() {
            return Err(self.too_short(len));
        }
        self.position += len;
        Ok(())
    }

    /// Reads all bytes left, and calls `visit` with one buffer of them after the other.
    pub(crate) fn stream(&mut self, mut visit: impl FnMut(&[u8])) -> Result<()> {
        while self.remaining() > 0 {
            let len = usize::try_from(self.remaining().min(MAX_READ)).unwrap_or(MAX_VARINT);
            let bytes = self.peek(len)?;
            visit(bytes);
            self.position += bytes.len() as u64;
        }
        Ok(())
    }

    fn too_short(&self, len: u64) -> Error {
        Error::corrupt("the tensor's stored size is too small for its elements")
            .file(self.file.name())
            .offset(self.position)
            .found(format!("{} bytes left", self.remaining()))
            .expected(format!("{len} bytes"))
    }

    /// Returns the next `len` bytes, or fewer at the end, without moving past them.
    fn peek(&mut self, len: usize) -> Result<&[u8]> {
        let len = usize::try_from(self.remaining().min(len as u64)).unwrap_or(len);
        let buffered = self.base + self.buffer.len() as u64;
        if self.position < self.base || self.position + len as u64 > buffered {
            let size = self.remaining().min(self.read_size.max(len as u64));
            self.read_size = (self.read_size * 4).min(MAX_READ);
            self.buffer.resize(usize::try_from(size).unwrap_or(len), 0);
            self.base = self.position;
            if let Err(error) = self.file.read_at(self.position, &mut self.buffer) {
                self.buffer.clear();
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
    use ckpt_api::Input;
    use std::collections::BTreeMap;

    /// A file of these bytes, ten before and ten after.
    fn file(bytes: &[u8]) -> File {
        let bytes = [&[0xff; 10][..], bytes, &[0xff; 10]].concat();
        Input::memory("f", BTreeMap::from([("f".to_owned(), bytes)])).main().unwrap()
    }

    #[test]
    fn a_range_that_exceeds_the_file_is_refused() {
        let file = file(&[]);
        assert!(Cursor::new(&file, 0, 20).is_ok());
        assert!(Cursor::new(&file, 20, 0).is_ok());
        for (offset, len) in [(0, 21), (20, 1), (21, 0), (u64::MAX, 1), (1, u64::MAX)] {
            assert!(Cursor::new(&file, offset, len).is_err(), "{offset} {len}");
        }
    }

    #[test]
    fn nothing_is_read_past_the_end_of_the_range() {
        let file = file(&[0x80, 0x01, 1, 2, 3, 4]);
        let mut cursor = Cursor::new(&file, 10, 6).unwrap();
        assert_eq!((cursor.varint().unwrap(), cursor.position(), cursor.remaining()), (128, 12, 4));
        assert!(cursor.skip(5).is_err() && cursor.skip(u64::MAX).is_err());
        assert_eq!(cursor.four_bytes().unwrap(), [1, 2, 3, 4]);
        assert!(cursor.four_bytes().is_err() && cursor.varint().is_err() && cursor.skip(1).is_err());
        cursor.skip(0).unwrap();
        let mut cursor = Cursor::new(&file, 10, 1).unwrap();
        assert!(cursor.varint().is_err(), "the varint continues past the range");
        cursor.skip(1).unwrap();
        assert_eq!((cursor.position(), cursor.remaining()), (11, 0));
    }

    #[test]
    fn numbers_and_streams_cross_the_ends_of_buffers() {
        let bytes: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8 & 0x7f).collect();
        let file = file(&bytes);
        for start in [0, 1, 505, 511, 512, 513, 2559, 2560] {
            let mut cursor = Cursor::new(&file, 10, bytes.len() as u64).unwrap();
            for expected in &bytes[..start] {
                assert_eq!(cursor.varint().unwrap(), u64::from(*expected));
            }
            assert_eq!(cursor.four_bytes().unwrap(), bytes[start..start + 4]);
            cursor.skip(70_000).unwrap();
            let rest = &bytes[start + 70_004..];
            assert_eq!(cursor.remaining(), rest.len() as u64);
            let (mut streamed, mut largest) = (Vec::<u8>::new(), 0);
            cursor
                .stream(|bytes| {
                    streamed.extend(bytes);
                    largest = largest.max(bytes.len() as u64);
                })
                .unwrap();
            assert!(streamed == rest && largest == MAX_READ, "{start}");
        }
    }
}
