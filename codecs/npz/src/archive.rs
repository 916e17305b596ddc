//! Writes the records of a zip archive, as `np.savez` does.

use ckpt_api::Writer;
use ckpt_api::zip::record::{
    CENTRAL, CENTRAL_CRC, END, END64, END64_BYTES, EXTRA64, FLAG_UTF8, LOCAL, LOCAL_BYTES, LOCATOR64, STORED,
};

/// First version of the format with 64-bit sizes, on Unix.
const VERSION: u8 = 45;
const UNIX: u8 = 3;
/// 1980-01-01, the earliest date of the format.
const DATE: u16 = 1 << 5 | 1;
/// `rw-------`.
const ATTRIBUTES: u32 = 0o600 << 16;
/// Python writes larger numbers in 64 bits; the format allows twice as much in 32.
const MOST_BYTES: u64 = (1 << 31) - 1;
const MOST_ENTRIES: u64 = u16::MAX as u64;
/// Bytes of the extra field with 64-bit sizes, which every local header has.
const SIZES: u16 = 20;
/// The extra field that the format's specification lists for room: its id, its signature, and the bytes before the room.
const ROOM: [u16; 2] = [0xa220, 0xa028];
const ROOM_BYTES: u16 = 8;

/// A member to write.
pub(crate) struct Member {
    /// The bytes of its name, at most 65,535.
    pub(crate) name: Vec<u8>,
    name_len: u16,
    /// Offset of its local header.
    pub(crate) at: u64,
    /// Length of its data in bytes.
    pub(crate) len: u64,
    /// Bytes of the extra field that moves its data; 0 for none.
    room: u16,
}

impl Member {
    /// Creates a member; `None` if the name is too long for the format.
    pub(crate) fn new(name: String, at: u64, len: u64) -> Option<Self> {
        let name = name.into_bytes();
        let name_len = u16::try_from(name.len()).ok()?;
        Some(Member { name, name_len, at, len, room: 0 })
    }

    /// Returns the offset of its data.
    pub(crate) fn data(&self) -> Option<u64> {
        self.at.checked_add(LOCAL_BYTES + u64::from(self.name_len) + u64::from(SIZES) + u64::from(self.room))
    }

    /// Lets the data begin further on, at what `next` returns for the least offset that is possible: where they began
    /// before, or behind an extra field without content. They stay where they are if the field would be too long.
    pub(crate) fn move_data(&mut self, next: impl Fn(u64) -> u64) {
        let room = |from: u64| {
            let wanted = next(from);
            if wanted == from {
                return Some(0);
            }
            let least = from.checked_add(ROOM_BYTES.into())?;
            let wanted = if wanted < least { next(least) } else { wanted };
            u16::try_from(wanted.checked_sub(from)?).ok().filter(|room| room.checked_add(SIZES).is_some())
        };
        self.room = self.data().and_then(room).unwrap_or(0);
    }

    /// Returns the local header, with a checksum of 0.
    pub(crate) fn local(&self) -> Vec<u8> {
        let mut bytes = Writer::new();
        bytes.bytes(&LOCAL).bytes(&[VERSION, 0]);
        self.common(&mut bytes, u64::MAX);
        bytes.number(SIZES + self.room).bytes(&self.name);
        bytes.numbers(&[EXTRA64, SIZES - 4]).numbers(&[self.len, self.len]);
        if let Some(room) = self.room.checked_sub(ROOM_BYTES) {
            let [id, signature] = ROOM;
            bytes.numbers(&[id, self.room - 4, signature, 0]).bytes(&vec![0; room.into()]);
        }
        bytes.into_bytes()
    }

    /// Returns the entry of the central directory, with a checksum of 0.
    fn central(&self) -> Vec<u8> {
        let large = |number: &&u64| **number > MOST_BYTES;
        let extra: Vec<u64> = [self.len, self.len, self.at].iter().filter(large).copied().collect();
        let extra_len = match extra.len() {
            0 => 0,
            count => 4 + 8 * count as u16,
        };
        let mut bytes = Writer::new();
        bytes.bytes(&CENTRAL).bytes(&[VERSION, UNIX, VERSION, 0]);
        self.common(&mut bytes, self.len);
        bytes.numbers(&[extra_len, 0, 0, 0]).numbers(&[ATTRIBUTES, saturated(self.at)]).bytes(&self.name);
        if extra_len > 0 {
            bytes.numbers(&[EXTRA64, extra_len - 4]).numbers(&extra);
        }
        bytes.into_bytes()
    }

    /// Writes the fields that both records have, up to the length of the name.
    fn common(&self, bytes: &mut Writer, len: u64) {
        let flags = if self.name.is_ascii() { 0 } else { FLAG_UTF8 };
        bytes
            .numbers(&[flags, STORED, 0, DATE])
            .numbers(&[0, saturated(len), saturated(len)])
            .number(self.name_len);
    }
}

/// Returns the bytes after the members (the central directory, which begins at `at`, and the archive's end), and the
/// offset in them of each member's checksum.
pub(crate) fn tail(members: &[Member], at: u64) -> (Vec<u8>, Vec<u64>) {
    let mut bytes = Writer::new();
    let mut checksums = Vec::with_capacity(members.len());
    for member in members {
        checksums.push(bytes.len() + CENTRAL_CRC);
        bytes.bytes(&member.central());
    }
    let (count, size) = (members.len() as u64, bytes.len());
    if count > MOST_ENTRIES || at > MOST_BYTES || size > MOST_BYTES {
        let version = u16::from(VERSION);
        bytes.bytes(&END64).number(END64_BYTES - 12).numbers(&[version, version]).numbers(&[0u32, 0]);
        bytes.numbers(&[count, count, size, at]);
        bytes.bytes(&LOCATOR64).number(0u32).number(at.saturating_add(size)).number(1u32);
    }
    // Python leaves 32-bit numbers here where they fit, although they are above its own bound.
    let exact = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let entries = u16::try_from(count).unwrap_or(u16::MAX);
    bytes.bytes(&END).numbers(&[0, 0, entries, entries]).numbers(&[exact(size), exact(at)]).number(0u16);
    (bytes.into_bytes(), checksums)
}

/// Returns the number, or the mark for a number that is stored in 64 bits elsewhere.
fn saturated(number: u64) -> u32 {
    if number > MOST_BYTES { u32::MAX } else { number as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::zip::record::{CENTRAL_BYTES, END_BYTES, LOCAL_BYTES, LOCATOR64_BYTES};

    fn member(at: u64, len: u64) -> Member {
        Member::new("a.npy".to_owned(), at, len).unwrap()
    }

    #[test]
    fn records_have_the_lengths_that_they_say() {
        assert_eq!(member(0, 7).local().len() as u64, LOCAL_BYTES + 5 + 20);
        assert_eq!(member(0, 7).central().len() as u64, CENTRAL_BYTES + 5);
        for (at, len, numbers) in [(0, 1 << 32, 2), (1 << 31, 0, 1), (1 << 40, 1 << 40, 3)] {
            assert_eq!(member(at, len).central().len() as u64, CENTRAL_BYTES + 5 + 4 + 8 * numbers);
        }
        assert_eq!(tail(&[], 0).0.len() as u64, END_BYTES);
        assert_eq!(tail(&[], 1 << 31).0.len() as u64, END64_BYTES + LOCATOR64_BYTES + END_BYTES);
    }

    #[test]
    fn data_are_moved_by_an_extra_field() {
        let start = LOCAL_BYTES + 5 + 20;
        let beyond = |first: u64| move |least: u64| least.max(first);
        for (wanted, moved) in [(0, 0), (start, 0), (start + 1, 8), (start + 8, 8), (start + 4096, 4096)] {
            let mut member = member(0, 7);
            member.move_data(beyond(wanted));
            assert_eq!(member.data(), Some(start + moved), "{wanted}");
            let local = member.local();
            assert_eq!(local.len() as u64, start + moved, "{wanted}");
            let field = &local[start as usize..];
            if let [0x20, 0xa2, low, high, 0x28, 0xa0, rest @ ..] = field {
                assert_eq!(u64::from(u16::from_le_bytes([*low, *high])) + 4, moved);
                assert!(rest.iter().all(|byte| *byte == 0));
            } else {
                assert!(field.is_empty() && moved == 0, "{wanted}");
            }
        }
        let mut member = member(0, 7);
        member.move_data(beyond(start + 65_516));
        assert_eq!(member.data(), Some(start), "the extra fields would have 65,536 bytes");
        member.move_data(beyond(start + 65_515));
        assert_eq!(member.data(), Some(start + 65_515));
    }

    #[test]
    fn a_name_longer_than_the_format_counts_is_none() {
        assert!(Member::new("a".repeat(65_535), 0, 0).is_some());
        assert!(Member::new("a".repeat(65_536), 0, 0).is_none());
    }
}
