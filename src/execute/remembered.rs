//! With which checksums the bytes of a written tensor are remembered, and found again.

use super::journal::Record;
use super::output::Output;
use super::run::interrupted;
use super::verify::verify_extent;
use crate::plan::Job;
use crate::transform::Buffer;
use ckpt_api::{Checksum, ChecksumAlgorithm, Extent, Kind, Result, Written};
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where neither side has a checksum of the bytes.
const OWN: Checksum = Checksum { algorithm: ChecksumAlgorithm::Crc32c, seed: 0, value: None };

/// The extents of a job's target, each with a checksum unless the source's, which is verified, is of the same bytes.
pub(super) fn checked<'a>(job: &Job<'a>) -> Cow<'a, [Extent]> {
    let sources = of_source(job);
    let lacks = |(index, extent): (usize, &Extent)| extent.checksum.is_none() && sources.of(index).is_none();
    if !job.to.extents.iter().enumerate().any(lacks) {
        return Cow::Borrowed(&job.to.extents);
    }
    let with_own = |(index, extent): (usize, &Extent)| {
        let own = lacks((index, extent)).then_some(OWN);
        Extent { checksum: extent.checksum.clone().or(own), ..extent.clone() }
    };
    Cow::Owned(job.to.extents.iter().enumerate().map(with_own).collect())
}

/// The source's extents, where they are the target's.
struct Sources<'a>(&'a [Extent]);

impl<'a> Sources<'a> {
    /// The checksum of the source's extent that is this extent of the target.
    fn of(&self, index: usize) -> Option<&'a Checksum> {
        self.0.get(index)?.checksum.as_ref().filter(|checksum| checksum.value.is_some())
    }
}

/// The source's extents, where their bytes come through unchanged; else none.
fn of_source<'a>(job: &Job<'a>) -> Sources<'a> {
    let (from, to) = (job.from, job.to);
    let unchanged = job.steps.is_empty()
        && job.added.is_empty()
        && from.window.is_none()
        && from.encoding == to.encoding
        && from.extents.len() == to.extents.len()
        && from.extents.iter().zip(&to.extents).all(|(a, b)| a.len == b.len && a.region == b.region);
    Sources(if unchanged { &from.extents } else { &[] })
}

/// What the journal is told of a job; `computed` are the checksums of [`checked`].
pub(super) fn record(job: &Job, computed: &[Option<u32>], rounding: f64) -> Record {
    let sources = of_source(job);
    let sum = |(index, found): (usize, &Option<u32>)| {
        found.or_else(|| sources.of(index)?.value).unwrap_or_default()
    };
    Record { number: job.number as u64, rounding, sums: computed.iter().enumerate().map(sum).collect() }
}

/// The checksums for which the codec asked, of those that were recorded.
pub(super) fn asked(job: &Job, sums: &[u32]) -> Written {
    let pairs = job.to.extents.iter().zip(sums);
    Written { checksums: pairs.map(|(extent, sum)| extent.checksum.as_ref().map(|_| *sum)).collect() }
}

/// Whether the output holds what was recorded: reads every byte of it.
///
/// # Errors
/// [`ckpt_api::Kind::Io`] where `canceled` says so.
pub(super) fn intact(
    job: &Job,
    before: &Record,
    output: &Output,
    chunk: usize,
    canceled: &AtomicBool,
) -> Result<bool> {
    let (extents, sources) = (checked(job), of_source(job));
    if before.sums.len() != extents.len() {
        return Ok(false);
    }
    let mut buffer = Buffer::default();
    for (index, (extent, sum)) in extents.iter().zip(&before.sums).enumerate() {
        if canceled.load(Ordering::Relaxed) {
            return Err(interrupted());
        }
        let Some(checksum) = extent.checksum.as_ref().or_else(|| sources.of(index)) else {
            return Ok(false);
        };
        let expected = Checksum { value: Some(*sum), ..checksum.clone() };
        let expected = Extent { checksum: Some(expected), ..extent.clone() };
        let found =
            output.file(extent.file).and_then(|file| verify_extent(&file, &expected, chunk, &mut buffer));
        match found {
            Ok(()) => {}
            // Bytes that are not there, or not these, are written again.
            Err(error) if matches!(error.kind(), Kind::Corrupt | Kind::Io) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
