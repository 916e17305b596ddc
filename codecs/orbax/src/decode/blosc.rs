//! Blosc 1: blocks that are compressed by themselves, whose bytes or bits may be shuffled.

use super::inflated::inflated;
use super::{blosclz, lz4};
use crate::zarr::ByteCodec;
use std::io;

const HEADER: usize = 16;

/// Bits of the flags.
const SHUFFLED: u8 = 1;
const COPIED: u8 = 2;
const BITS_SHUFFLED: u8 = 4;
const NOT_SPLIT: u8 = 16;

/// Blocks of elements of at most so many bytes are split, if each part has at least so many bytes.
const MOST_SPLITS: usize = 16;
const LEAST_SPLIT: usize = 128;

/// The most bytes that so many stored ones decode to. The header states a number; nothing less bounds runs of zeros.
pub(super) fn longest(stored: u64) -> u64 {
    stored.saturating_mul(32 << 10)
}

/// The fields of a header.
struct Header {
    flags: u8,
    element: usize,
    len: usize,
    block: usize,
}

impl Header {
    fn parse(bytes: &[u8], most: usize) -> io::Result<Header> {
        let [version, _, flags, element] = *bytes.first_chunk().ok_or(io::ErrorKind::UnexpectedEof)?;
        let number = |at| word(bytes, at);
        let (len, block, stored) = (number(4)?, number(8)?, number(12)?);
        if version != 2 {
            return Err(io::Error::other("the version of Blosc is not 2"));
        }
        if stored != bytes.len() {
            return Err(io::Error::other("the stated length is not that of the bytes"));
        }
        if len > most {
            return Err(io::Error::other("it decodes to more bytes than the chunk has"));
        }
        if len > 0 && (block == 0 || element == 0) {
            return Err(io::Error::other("a block has no bytes"));
        }
        Ok(Header { flags, element: element.into(), len, block })
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The number of parts of a block that are compressed by themselves.
    fn splits(&self, is_last: bool) -> usize {
        let splits = !self.has(NOT_SPLIT)
            && !is_last
            && self.element <= MOST_SPLITS
            && self.block / self.element >= LEAST_SPLIT;
        if splits { self.element } else { 1 }
    }
}

/// Decodes a chunk to at most `most` bytes.
///
/// # Errors
/// If the chunk is damaged, or compressed in an unknown way.
pub(super) fn decode(bytes: &[u8], most: usize) -> io::Result<Vec<u8>> {
    let header = Header::parse(bytes, most)?;
    if header.has(COPIED) {
        let plain = bytes.get(HEADER..).unwrap_or_default();
        return match plain.len() == header.len {
            true => Ok(plain.to_vec()),
            false => Err(io::Error::other("the stated length is not that of the bytes")),
        };
    }
    let mut out = Vec::with_capacity(header.len);
    for number in 0..header.len.div_ceil(header.block.max(1)) {
        let start = word(bytes, HEADER + 4 * number)?;
        let len = header.block.min(header.len - out.len());
        let block = block(bytes.get(start..).unwrap_or_default(), &header, len)?;
        if header.has(SHUFFLED) && header.element > 1 {
            out.extend(unshuffled(&block, header.element));
        } else if header.has(BITS_SHUFFLED) {
            out.extend(bits_unshuffled(&block, header.element));
        } else {
            out.extend(block);
        }
    }
    Ok(out)
}

/// Decodes a block of `len` bytes, whose parts each have their length before them.
fn block(bytes: &[u8], header: &Header, len: usize) -> io::Result<Vec<u8>> {
    let splits = header.splits(len < header.block);
    let part = len / splits;
    let (mut out, mut at) = (Vec::with_capacity(len), 0usize);
    for _ in 0..splits {
        let stored = word(bytes, at)?;
        let start = at.saturating_add(4);
        let end = start.saturating_add(stored);
        let source = bytes.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?;
        at = end;
        if stored == part {
            out.extend_from_slice(source);
            continue;
        }
        let decoded = match header.flags >> 5 {
            0 => blosclz::decode(source, part)?,
            1 => lz4::decode(source, part)?,
            2 => snappy(source, part)?,
            3 => inflated(ByteCodec::Zlib, source.to_vec(), part)?,
            4 => inflated(ByteCodec::Zstd, source.to_vec(), part)?,
            _ => return Err(io::Error::other("the compressor of Blosc is unknown")),
        };
        if decoded.len() != part {
            return Err(io::Error::other("a block decodes to another number of bytes"));
        }
        out.extend(decoded);
    }
    match out.len() == len {
        true => Ok(out),
        false => Err(io::Error::other("the parts of a block do not fill it")),
    }
}

fn snappy(bytes: &[u8], len: usize) -> io::Result<Vec<u8>> {
    match snap::raw::decompress_len(bytes) {
        Ok(found) if found == len => {
            snap::raw::Decoder::new().decompress_vec(bytes).map_err(io::Error::other)
        }
        _ => Err(io::Error::other("a block decodes to another number of bytes")),
    }
}

/// Bytes whose elements were shuffled: all first bytes, then all second ones; what fills no element is as it was.
fn unshuffled(bytes: &[u8], element: usize) -> Vec<u8> {
    let count = bytes.len() / element;
    let (planes, rest) = bytes.split_at_checked(count * element).unwrap_or_default();
    let mut out = vec![0; planes.len()];
    if count > 0 {
        for (at, plane) in planes.chunks_exact(count).enumerate() {
            out.iter_mut().skip(at).step_by(element).zip(plane).for_each(|(to, byte)| *to = *byte);
        }
    }
    out.extend_from_slice(rest);
    out
}

/// Bytes of which all first bits of the first bytes of elements come first, then all second ones. Blosc shuffles bits only if
/// the elements are a multiple of eight.
fn bits_unshuffled(bytes: &[u8], element: usize) -> Vec<u8> {
    let count = bytes.len() / element;
    if count == 0 || !count.is_multiple_of(8) {
        return bytes.to_vec();
    }
    let (planes, rest) = bytes.split_at_checked(count * element).unwrap_or_default();
    let mut out = vec![0u8; planes.len()];
    for (number, plane) in planes.chunks_exact(count / 8).enumerate() {
        let (byte, bit) = (number / 8, number % 8);
        for (index, bits) in plane.iter().enumerate() {
            for within in 0..8 {
                if bits >> within & 1 == 1
                    && let Some(to) = out.get_mut((index * 8 + within) * element + byte)
                {
                    *to |= 1 << bit;
                }
            }
        }
    }
    out.extend_from_slice(rest);
    out
}

/// A little-endian number of four bytes.
fn word(bytes: &[u8], at: usize) -> io::Result<usize> {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(io::ErrorKind::UnexpectedEof)?;
    usize::try_from(u32::from_le_bytes(*word)).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chunk that holds these blocks, each with its length before it.
    fn chunk(flags: u8, element: u8, len: u32, block: u32, blocks: &[&[u8]]) -> Vec<u8> {
        let starts = HEADER + 4 * blocks.len();
        let mut bytes = vec![2, 1, flags, element];
        let total = starts + blocks.iter().map(|block| 4 + block.len()).sum::<usize>();
        for number in [len, block, total as u32] {
            bytes.extend(number.to_le_bytes());
        }
        let mut at = starts;
        for block in blocks {
            bytes.extend((at as u32).to_le_bytes());
            at += 4 + block.len();
        }
        for block in blocks {
            bytes.extend((block.len() as u32).to_le_bytes());
            bytes.extend_from_slice(block);
        }
        bytes
    }

    #[test]
    fn blocks_that_did_not_shrink_are_stored_and_shuffled_ones_are_put_together() {
        let stored = chunk(NOT_SPLIT | SHUFFLED | 1 << 5, 2, 6, 4, &[&[1, 3, 2, 4], &[5, 6]]);
        assert_eq!(decode(&stored, 6).unwrap(), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn bits_are_put_together() {
        // Elements 1, 2, 4, …: bit k is set in element k alone.
        let shuffled: Vec<u8> = (0..8).map(|bit| 1 << bit).collect();
        let stored = chunk(NOT_SPLIT | BITS_SHUFFLED | 1 << 5, 1, 8, 8, &[&shuffled]);
        assert_eq!(decode(&stored, 8).unwrap(), shuffled);
    }

    #[test]
    fn damaged_chunks_are_refused() {
        let good = chunk(NOT_SPLIT | 1 << 5, 1, 4, 4, &[b"abcd"]);
        assert_eq!(decode(&good, 4).unwrap(), b"abcd");
        assert!(decode(&good, 3).is_err());
        for len in 0..good.len() {
            assert!(decode(&good[..len], 4).is_err(), "{len}");
        }
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 0xff;
            let _ = decode(&bytes, 64);
        }
    }
}
