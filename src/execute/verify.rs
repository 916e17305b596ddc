//! Checksums of stored extents.

use crate::transform::Buffer;
use ckpt_api::{Checksum, Error, Extent, File, Result};

/// Reads an extent from end to end and compares its checksum.
pub(super) fn verify_extent(file: &File, extent: &Extent, chunk: usize, buffer: &mut Buffer) -> Result<()> {
    let Some(expected) = &extent.checksum else { return Ok(()) };
    let mut running = expected.start();
    let mut done = 0;
    while done < extent.len {
        let len = (extent.len - done).min(chunk as u64);
        buffer.resize(usize::try_from(len).unwrap_or(chunk), extent.offset + done);
        file.read_at(extent.offset + done, buffer)?;
        running.update(buffer);
        done += len;
    }
    mismatch(file, extent, expected, running.finish())
}

/// Compares a finished checksum with the stored one.
pub(super) fn mismatch(file: &File, extent: &Extent, expected: &Checksum, found: u32) -> Result<()> {
    match expected.value {
        Some(stored) if stored != found => Err(Error::corrupt(
            "the tensor's checksum does not match its bytes",
        )
        .file(file.name())
        .offset(extent.offset)
        .found(format!("{:#010x} computed over {} bytes", found, extent.len))
        .expected(format!("{stored:#010x}, as stored"))
        .help("the data was changed after it was written: copy the file again, or use another checkpoint")),
        _ => Ok(()),
    }
}
