//! Checksums of a source's extents, computed while their bytes are read.

use super::files::{Files, Handle};
use crate::transform::Buffer;
use ckpt_api::{Checksum, Error, Extent, Placement, Result, ScatteredChecksum};

/// How the checksums of a source are verified while a part of a tensor is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checking {
    /// The checksums of extents that the part reads from end to end are compared, and no others.
    Whole,
    /// Other parts read the other bytes: what this part contributes is collected, for somebody who has all of them.
    Shares,
    /// None is.
    Nothing,
    /// Parts overlap, or leave bytes out: each extent is read from end to end before, once for all parts.
    Before,
}

/// What one part contributes to the checksum of one extent of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialSum {
    /// Number of the extent.
    pub extent: u32,
    /// The remainder of its bytes.
    pub remainder: u32,
    /// How many bytes were read.
    pub bytes: u64,
}

/// One running checksum for each extent that has one.
#[derive(Default)]
pub(super) struct Checks(Vec<Option<ScatteredChecksum>>);

impl Checks {
    /// For all extents of a source.
    pub(super) fn of(source: &Placement) -> Self {
        let start = |extent: &Extent| extent.checksum.as_ref().map(|sum| sum.start_scattered(extent.len));
        Checks(source.extents.iter().map(start).collect())
    }

    /// The running checksum of an extent.
    pub(super) fn extent(&mut self, number: usize) -> Option<&mut ScatteredChecksum> {
        self.0.get_mut(number)?.as_mut()
    }

    /// Compares the checksums of extents that were read from end to end, and returns the shares of the others.
    pub(super) fn finish(
        self,
        source: &Placement,
        files: &Files<'_>,
        shares: &mut Vec<PartialSum>,
    ) -> Result<()> {
        for (number, (extent, check)) in (0..).zip(source.extents.iter().zip(self.0)) {
            let (Some(expected), Some(check)) = (&extent.checksum, check) else { continue };
            match check.clone().finish() {
                Some(found) => mismatch(&files.file(extent.file)?, extent, expected, found)?,
                None if check.covered() > 0 => {
                    let bytes = check.covered();
                    shares.push(PartialSum { extent: number, remainder: check.remainder(), bytes });
                }
                None => {}
            }
        }
        Ok(())
    }
}

/// Reads an extent from end to end and compares its checksum.
pub(super) fn verify_extent(
    (file, start): (&Handle<'_>, u64),
    (extent, expected): (&Extent, &Checksum),
    chunk: usize,
    buffer: &mut Buffer,
) -> Result<()> {
    let mut running = expected.start();
    let mut done = 0;
    while done < extent.len {
        let len = (extent.len - done).min(chunk as u64);
        buffer.resize(usize::try_from(len).unwrap_or(chunk), start + done);
        file.read_at(start + done, buffer)?;
        running.update(buffer);
        done += len;
    }
    mismatch(file, extent, expected, running.finish())
}

/// Compares the checksum that the shares of all parts of an extent come to with the stored one.
pub fn verify_assembled(files: &Files<'_>, extent: &Extent, remainder: u32) -> Result<()> {
    let Some(expected) = &extent.checksum else { return Ok(()) };
    let found = expected.assemble(extent.len, [remainder]);
    mismatch(&files.file(extent.file)?, extent, expected, found)
}

/// Compares a finished checksum with the stored one.
pub(super) fn mismatch(file: &Handle<'_>, extent: &Extent, expected: &Checksum, found: u32) -> Result<()> {
    match expected.value {
        Some(stored) if stored != found => {
            Err(Error::corrupt("the tensor's checksum does not match its bytes")
                .file(file.name())
                .offset(extent.offset)
                .found(format!("{:#010x} computed over {} bytes", found, extent.len))
                .expected(format!("{stored:#010x}, as stored"))
                .help(
                    "the data changed after it was written: copy the file again, or use another checkpoint",
                ))
        }
        _ => Ok(()),
    }
}
