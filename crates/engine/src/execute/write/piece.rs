//! One piece of a tensor, written a run at a time in any order.

use super::writer::Writer;
use crate::layout;
use ckpt_api::{Checksum, Extent, Result, ScatteredChecksum};

/// The place of a piece in its extent.
pub(crate) struct PieceWriter<'a, 'w> {
    writer: &'a mut Writer<'w>,
    /// First byte in the file, and within the extent.
    offset: u64,
    at: u64,
    len: u64,
    written: u64,
    check: Option<ScatteredChecksum>,
}

impl<'a, 'w> PieceWriter<'a, 'w> {
    /// `checksum` is what the piece contributes to, if anything.
    pub(crate) fn new(
        writer: &'a mut Writer<'w>,
        extent: &Extent,
        piece: &layout::Piece,
        checksum: Option<&Checksum>,
    ) -> Self {
        PieceWriter {
            writer,
            offset: extent.offset + piece.at,
            at: piece.at,
            len: piece.len,
            written: 0,
            check: checksum.map(|checksum| checksum.start_scattered(extent.len)),
        }
    }

    /// Writes bytes at an offset of the piece; `false` if they are not within it.
    pub(crate) fn write(&mut self, mut offset: u64, bytes: &[u8]) -> Result<bool> {
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > self.len) {
            return Ok(false);
        }
        for part in bytes.chunks(LARGEST_WRITE) {
            self.writer.write_at(self.offset + offset, part)?;
            if let Some(check) = &mut self.check {
                check.update(self.at + offset, part);
            }
            offset += part.len() as u64;
        }
        self.written += bytes.len() as u64;
        Ok(true)
    }

    /// What the piece contributes to the extent's checksum (0 if there is none); `None` if bytes are missing.
    pub(crate) fn finish(self) -> Option<u32> {
        let complete = self.written == self.len;
        complete.then(|| self.check.map_or(0, ScatteredChecksum::remainder))
    }
}

/// Larger writes are erratic on some systems.
const LARGEST_WRITE: usize = 1 << 20;
