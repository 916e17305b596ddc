//! The index of a shard: where its chunks are.

use super::chain::IndexPlace;
use crate::ocdbt::{Files, Value};
use ckpt_api::fields::{Bytes, number};
use ckpt_api::{Checksum, ChecksumAlgorithm, Error, Result, count};
use std::ops::Range;

/// Bytes of an entry, and of the checksum.
const ENTRY: u64 = 16;
const SUM: u64 = 4;

/// What an entry has for a chunk that is not stored.
const NOT_STORED: (u64, u64) = (u64::MAX, u64::MAX);

/// Reads the index of a shard of so many chunks: the range of each within the shard, `None` for one that is not stored.
///
/// # Errors
/// Those of reading; [`ckpt_api::Kind::Corrupt`] for a checksum that differs, and ranges that the shard does not have.
pub(super) fn read_index(
    shard: &Value,
    chunks: u64,
    place: IndexPlace,
    files: &mut Files<'_>,
) -> Result<Vec<Option<Range<u64>>>> {
    let sum = if place.has_checksum { SUM } else { 0 };
    let len =
        chunks.checked_mul(ENTRY).and_then(|len| len.checked_add(sum)).filter(|len| *len <= shard.len());
    let len = len.ok_or_else(|| {
        Error::corrupt("a shard is shorter than its index")
            .found(count(shard.len(), "byte"))
            .expected(format!("an index of {}", count(chunks, "chunk")))
    })?;
    let start = if place.is_at_start { 0 } else { shard.len() - len };
    let bytes = shard.read(files, start..start + len)?;
    let (entries, stored) = bytes.split_at_checked(bytes.len() - sum as usize).unwrap_or_default();
    if place.has_checksum {
        let checksum = Checksum { algorithm: ChecksumAlgorithm::Crc32c, seed: 0, value: None };
        let mut running = checksum.start();
        running.update(entries);
        let stored = stored.first_chunk().map(|sum| u32::from_le_bytes(*sum));
        if stored != Some(running.finish()) {
            return Err(Error::corrupt("the checksum of the index of a shard does not match")
                .found(format!("{:#010x} computed over it", running.finish()))
                .expected(format!("{:#010x}, as stored", stored.unwrap_or_default()))
                .help("copy the checkpoint again"));
        }
    }
    let mut input = Bytes::new(entries, start);
    let mut ranges = Vec::with_capacity(entries.len() / ENTRY as usize);
    for _ in 0..chunks {
        let (offset, len) = input.parse((number::<u64>(place.endian), number::<u64>(place.endian)))?;
        ranges.push(match (offset, len) {
            NOT_STORED => None,
            (offset, len) => {
                let end = offset.checked_add(len).filter(|end| *end <= shard.len()).ok_or_else(|| {
                    Error::corrupt("a chunk of a shard ends after it")
                        .found(format!("{len} bytes from {offset}"))
                        .expected(format!("within {}", count(shard.len(), "byte")))
                })?;
                Some(offset..end)
            }
        });
    }
    Ok(ranges)
}
