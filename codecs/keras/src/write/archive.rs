//! Writes the records of a zip archive, as Python's `zipfile` does.

use ckpt_api::Writer;
use ckpt_api::zip::record::{
    CENTRAL, CENTRAL_CRC, END, END64, END64_BYTES, EXTRA64, LOCAL, LOCAL_CRC, LOCATOR64, STORED,
};

/// Versions that read the archive: the second one has 64-bit sizes.
const VERSION: u16 = 20;
const VERSION_64: u16 = 45;
const UNIX: u16 = 3 << 8;
/// 1980-01-01, the earliest date of the format.
const DATE: u16 = 1 << 5 | 1;
/// `rw-------`.
const ATTRIBUTES: u32 = 0o600 << 16;
/// Python writes larger numbers in 64 bits.
const MOST_BYTES: u64 = (1 << 31) - 1;

/// A member to write, stored as it is.
pub(super) struct Member<'a> {
    pub(super) name: &'a str,
    pub(super) crc: u32,
    pub(super) len: u64,
    /// Offset of its local header.
    pub(super) at: u64,
}

impl Member<'_> {
    fn is_large(&self) -> bool {
        self.len > MOST_BYTES
    }

    /// The local header; its data follow.
    pub(super) fn local(&self) -> Vec<u8> {
        let mut bytes = Writer::new();
        bytes.bytes(&LOCAL).number(if self.is_large() { VERSION_64 } else { VERSION });
        self.common(&mut bytes);
        bytes.number(if self.is_large() { 20u16 } else { 0 }).bytes(self.name.as_bytes());
        if self.is_large() {
            bytes.numbers(&[EXTRA64, 16]).numbers(&[self.len, self.len]);
        }
        bytes.into_bytes()
    }

    /// Offset of the checksum in the archive.
    pub(super) fn local_crc(&self) -> u64 {
        self.at.saturating_add(LOCAL_CRC)
    }

    fn central(&self) -> Vec<u8> {
        let mut large = Vec::new();
        if self.is_large() {
            large.extend([self.len, self.len]);
        }
        if self.at > MOST_BYTES {
            large.push(self.at);
        }
        let version = if large.is_empty() { VERSION } else { VERSION_64 };
        let extra = if large.is_empty() { 0 } else { 4 + 8 * large.len() as u16 };
        let mut bytes = Writer::new();
        bytes.bytes(&CENTRAL).numbers(&[UNIX | version, version]);
        self.common(&mut bytes);
        bytes
            .numbers(&[extra, 0, 0, 0])
            .numbers(&[ATTRIBUTES, saturated(self.at)])
            .bytes(self.name.as_bytes());
        if extra > 0 {
            bytes.numbers(&[EXTRA64, extra - 4]).numbers(&large);
        }
        bytes.into_bytes()
    }

    /// The fields that both records have, up to the length of the name.
    fn common(&self, bytes: &mut Writer) {
        let len = saturated(self.len);
        bytes.numbers(&[0, STORED, 0, DATE]).numbers(&[self.crc, len, len]).number(self.name.len() as u16);
    }
}

/// Returns the bytes after the members, which begin at `at`, and the offset in the archive of each member's checksum.
pub(super) fn tail(members: &[Member], at: u64) -> (Vec<u8>, Vec<u64>) {
    let mut bytes = Writer::new();
    let mut checksums = Vec::with_capacity(members.len());
    for member in members {
        checksums.push(at.saturating_add(bytes.len()).saturating_add(CENTRAL_CRC));
        bytes.bytes(&member.central());
    }
    let (count, size) = (members.len() as u64, bytes.len());
    if at > MOST_BYTES {
        bytes.bytes(&END64).number(END64_BYTES - 12).numbers(&[VERSION_64, VERSION_64]).numbers(&[0u32, 0]);
        bytes.numbers(&[count, count, size, at]);
        bytes.bytes(&LOCATOR64).number(0u32).number(at.saturating_add(size)).number(1u32);
    }
    let start = u32::try_from(at).unwrap_or(u32::MAX);
    bytes
        .bytes(&END)
        .numbers(&[0, 0, count as u16, count as u16])
        .numbers(&[size as u32, start])
        .number(0u16);
    (bytes.into_bytes(), checksums)
}

/// Returns the number, or the mark for one that is stored in 64 bits elsewhere.
fn saturated(number: u64) -> u32 {
    if number > MOST_BYTES { u32::MAX } else { number as u32 }
}
