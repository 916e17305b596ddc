//! A part of a file, as a file of its own.

use crate::{File, ReadAt, Result};
use std::io;

/// A part of a file.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) file: File,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Section {
    /// Fills a buffer from byte `at` of the part.
    pub(crate) fn fill(&self, at: u64, buffer: &mut [u8]) -> Result<()> {
        self.file.read_at(self.offset.saturating_add(at), buffer)
    }

    /// All bytes of the part.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>> {
        self.file.bytes(self.offset, self.len)
    }
}

impl ReadAt for Section {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = within(buffer, self.len.saturating_sub(offset));
        self.fill(offset, wanted).map_err(io::Error::other)?;
        Ok(wanted.len())
    }
}

/// The beginning of a buffer: at most as many bytes as there are.
pub(crate) fn within(buffer: &mut [u8], bytes: u64) -> &mut [u8] {
    let len = usize::try_from(bytes).unwrap_or(usize::MAX).min(buffer.len());
    buffer.split_at_mut(len).0
}
