//! Extents that follow each other, written a piece at a time in any order.

use super::writer::Writer;
use ckpt_api::{Extent, Result, ScatteredChecksum};

/// Consecutive extents of the output, as one run of bytes.
pub(super) struct Extents<'a> {
    extents: &'a [Extent],
    checksums: Vec<Option<ScatteredChecksum>>,
    written: u64,
}

impl<'a> Extents<'a> {
    pub(super) fn new(extents: &'a [Extent]) -> Self {
        let start = |extent: &Extent| extent.checksum.as_ref().map(|sum| sum.start_scattered(extent.len));
        Extents { extents, checksums: extents.iter().map(start).collect(), written: 0 }
    }

    /// Writes bytes at an offset; `false` where no extent takes them.
    pub(super) fn write(&mut self, writer: &mut Writer, mut offset: u64, mut bytes: &[u8]) -> Result<bool> {
        for (extent, checksum) in self.extents.iter().zip(&mut self.checksums) {
            if bytes.is_empty() {
                break;
            }
            let Some(space) = extent.len.checked_sub(offset) else {
                offset -= extent.len;
                continue;
            };
            let space = usize::try_from(space).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(bytes.len().min(space));
            for piece in now.chunks(LARGEST_WRITE) {
                writer.write_at(extent.file, extent.offset + offset, piece)?;
                if let Some(checksum) = checksum {
                    checksum.update(offset, piece);
                }
                offset += piece.len() as u64;
            }
            self.written += now.len() as u64;
            (offset, bytes) = (offset - extent.len.min(offset), later);
        }
        Ok(bytes.is_empty())
    }

    /// The checksums of the extents; `None` where they are not full.
    pub(super) fn finish(self) -> Option<Vec<Option<u32>>> {
        let total: u64 = self.extents.iter().map(|extent| extent.len).sum();
        let finished = self.checksums.into_iter().map(|checksum| match checksum {
            Some(checksum) => checksum.finish().map(Some),
            None => Some(None),
        });
        finished.collect::<Option<Vec<_>>>().filter(|_| self.written == total)
    }
}

/// Larger writes are erratic on some systems.
const LARGEST_WRITE: usize = 1 << 20;
