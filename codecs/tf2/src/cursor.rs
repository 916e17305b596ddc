//! Sequential reading of part of a file through a small buffer.

use crate::wire::MAX_VARINT;
use ckpt_api::{Error, File, Result};
use prost::encoding::decode_varint;

/// The first read is small, for most string tensors are; each further one is larger, up to this.
const BUFFER: u64 = 64 << 10;
const FIRST: u64 = 512;

/// Reads `start..end` of a file, front to back, holding no more than a buffer of it.
pub(crate) struct Cursor<'a> {
    file: &'a File,
    position: u64,
    end: u64,
    buffer: Vec<u8>,
    /// Bytes to read next.
    ahead: u64,
    /// File offset of the buffer's first byte.
    base: u64,
}

impl<'a> Cursor<'a> {
    /// A cursor at `offset` that reads at most `len` bytes.
    pub(crate) fn new(file: &'a File, offset: u64, len: u64) -> Result<Self> {
        let end = offset.checked_add(len).filter(|end| *end <= file.len()).ok_or_else(|| {
            Error::corrupt("the file ends before the tensor does")
                .file(file.name())
                .offset(offset)
                .found(format!("a file of {} bytes", file.len()))
                .expected(format!("{len} bytes from offset {offset}"))
                .help("the file is cut short or belongs to another checkpoint: copy it again")
        })?;
        Ok(Cursor { file, position: offset, end, buffer: Vec::new(), ahead: FIRST, base: offset })
    }

    /// File offset of the next byte.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Bytes that are left.
    pub(crate) fn remaining(&self) -> u64 {
        self.end - self.position
    }

    /// A number of variable length.
    pub(crate) fn varint(&mut self) -> Result<u64> {
        let mut rest = self.peek(MAX_VARINT)?;
        let available = rest.len();
        let value = decode_varint(&mut rest).map(|value| (value, available.saturating_sub(rest.len())));
        let (value, len) = value.map_err(|_| {
            Error::corrupt("a number has no end or too many bits")
                .file(self.file.name())
                .offset(self.position)
        })?;
        self.position += len as u64;
        Ok(value)
    }

    /// The next four bytes.
    pub(crate) fn four(&mut self) -> Result<[u8; 4]> {
        let bytes = self.peek(4)?.first_chunk().copied();
        let bytes = bytes.ok_or_else(|| self.too_short(4))?;
        self.position += 4;
        Ok(bytes)
    }

    /// Passes over bytes without reading them.
    pub(crate) fn skip(&mut self, len: u64) -> Result<()> {
        if len > self.remaining() {
            return Err(self.too_short(len));
        }
        self.position += len;
        Ok(())
    }

    /// Calls `visit` with all bytes that are left, in pieces.
    pub(crate) fn stream(&mut self, mut visit: impl FnMut(&[u8])) -> Result<()> {
        while self.remaining() > 0 {
            let piece = usize::try_from(self.remaining().min(BUFFER)).unwrap_or(MAX_VARINT);
            let bytes = self.peek(piece)?;
            visit(bytes);
            self.position += bytes.len() as u64;
        }
        Ok(())
    }

    fn too_short(&self, len: u64) -> Error {
        Error::corrupt("the tensor's stored size is too small for what it must hold")
            .file(self.file.name())
            .offset(self.position)
            .found(format!("{} bytes left", self.remaining()))
            .expected(format!("{len} bytes"))
    }

    /// The next `len` bytes, fewer only at the end.
    fn peek(&mut self, len: usize) -> Result<&[u8]> {
        let len = usize::try_from(self.remaining().min(len as u64)).unwrap_or(len);
        let buffered = self.base + self.buffer.len() as u64;
        if self.position < self.base || self.position + len as u64 > buffered {
            let size = self.remaining().min(self.ahead.max(len as u64));
            self.ahead = (self.ahead * 4).min(BUFFER);
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
