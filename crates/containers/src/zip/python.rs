//! Writes the records of a zip archive as Python's `zipfile` does, byte for byte: stored members, without times.

use super::record::{
    CENTRAL, CENTRAL_CRC, END, END64, END64_BYTES, EXTRA64, FLAG_UTF8, LOCAL, LOCAL_BYTES, LOCAL_CRC,
    LOCATOR64, STORED,
};
use ckpt_api::Writer;

/// Versions of the format that read the archive: the second one has 64-bit sizes.
const VERSION: u8 = 20;
const VERSION_64: u8 = 45;
const UNIX: u8 = 3;
/// 1980-01-01, the earliest date of the format.
const DATE: u16 = 1 << 5 | 1;
/// `rw-------`.
const ATTRIBUTES: u32 = 0o600 << 16;
/// Python writes larger numbers in 64 bits; the format allows twice as much in 32.
const MOST_BYTES: u64 = (1 << 31) - 1;
const MOST_ENTRIES: u64 = u16::MAX as u64;
/// Bytes of a local header's extra field with 64-bit sizes.
const SIZES: u16 = 20;
/// The extra field that the format's specification lists for room: its id, its signature, and the bytes before the room.
const ROOM: [u16; 2] = [0xa220, 0xa028];
const ROOM_BYTES: u16 = 8;

/// A member to write.
///
/// ```
/// use ckpt_api::Input;
/// use ckpt_containers::zip::{self, PythonMember};
/// let member = PythonMember::new("a.txt", 0, 2).unwrap().with_crc(0xad98_e545);
/// let mut bytes = [&member.local()[..], b"hi"].concat();
/// bytes.extend(zip::python_directory(&[member], bytes.len() as u64).0);
/// let file = Input::memory("a.zip", [("a.zip".to_owned(), bytes)].into()).main()?;
/// let (entries, _) = zip::entries(&file, &ckpt_api::Limits::default())?;
/// assert_eq!((entries[0].name.as_str(), entries[0].crc), ("a.txt", 0xad98_e545));
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PythonMember {
    name: Vec<u8>,
    name_len: u16,
    at: u64,
    len: u64,
    crc: u32,
    /// Whether the local header has 64-bit sizes even if the member is small.
    has_room_for_sizes: bool,
    /// Bytes of the extra field that moves its data; 0 for none.
    room: u16,
}

impl PythonMember {
    /// A member of `len` bytes, whose local header is at `at`, with a checksum of 0; `None` if the name has more than
    /// 65,535 bytes.
    pub fn new(name: impl Into<String>, at: u64, len: u64) -> Option<Self> {
        let name = name.into().into_bytes();
        let name_len = u16::try_from(name.len()).ok()?;
        Some(PythonMember { name, name_len, at, len, crc: 0, has_room_for_sizes: false, room: 0 })
    }

    /// The same with the CRC-32 of its data.
    #[must_use]
    pub fn with_crc(mut self, crc: u32) -> Self {
        self.crc = crc;
        self
    }

    /// The same with sizes of 64 bits in the local header, as `ZipFile.open` writes them with `force_zip64`, which
    /// `np.savez` sets.
    #[must_use]
    pub fn with_64_bit_sizes(mut self) -> Self {
        self.has_room_for_sizes = true;
        self
    }

    /// Offset of its local header in the archive.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Offset of the checksum in the archive's local header.
    pub fn local_crc(&self) -> u64 {
        self.at.saturating_add(LOCAL_CRC)
    }

    /// Offset of its data in the archive; `None` if there is no such number.
    pub fn data(&self) -> Option<u64> {
        let extra = u64::from(self.sizes()) + u64::from(self.room);
        self.at.checked_add(LOCAL_BYTES + u64::from(self.name_len) + extra)
    }

    /// Lets the data begin further on, at what `next` returns for the least offset that is possible: where they began
    /// before, or after an extra field without content. They stay where they are if the field would be too long.
    pub fn move_data(&mut self, next: impl Fn(u64) -> u64) {
        let sizes = self.sizes();
        let room = |from: u64| {
            let wanted = next(from);
            if wanted == from {
                return Some(0);
            }
            let least = from.checked_add(ROOM_BYTES.into())?;
            let wanted = if wanted < least { next(least) } else { wanted };
            u16::try_from(wanted.checked_sub(from)?).ok().filter(|room| room.checked_add(sizes).is_some())
        };
        self.room = self.data().and_then(room).unwrap_or(0);
    }

    /// The local header; the data follow.
    pub fn local(&self) -> Vec<u8> {
        let mut bytes = Writer::new();
        let sizes = self.sizes();
        let (version, len) = match self.has_room_for_sizes {
            true => (VERSION_64, u64::MAX),
            false => (self.version(), self.len),
        };
        bytes.bytes(&LOCAL).bytes(&[version, 0]);
        self.common(&mut bytes, len);
        bytes.number(sizes + self.room).bytes(&self.name);
        if sizes > 0 {
            bytes.numbers(&[EXTRA64, SIZES - 4]).numbers(&[self.len, self.len]);
        }
        if let Some(room) = self.room.checked_sub(ROOM_BYTES) {
            let [id, signature] = ROOM;
            bytes.numbers(&[id, self.room - 4, signature, 0]).bytes(&vec![0; room.into()]);
        }
        bytes.into_bytes()
    }

    /// The entry of the central directory.
    fn central(&self) -> Vec<u8> {
        let large = |number: &&u64| **number > MOST_BYTES;
        let extra: Vec<u64> = [self.len, self.len, self.at].iter().filter(large).copied().collect();
        let extra_len = match extra.len() {
            0 => 0,
            count => 4 + 8 * count as u16,
        };
        let version = if extra.is_empty() { self.version() } else { VERSION_64 };
        let mut bytes = Writer::new();
        bytes.bytes(&CENTRAL).bytes(&[version, UNIX, version, 0]);
        self.common(&mut bytes, self.len);
        bytes.numbers(&[extra_len, 0, 0, 0]).numbers(&[ATTRIBUTES, saturated(self.at)]).bytes(&self.name);
        if extra_len > 0 {
            bytes.numbers(&[EXTRA64, extra_len - 4]).numbers(&extra);
        }
        bytes.into_bytes()
    }

    /// Bytes of the sizes of 64 bits in the local header.
    fn sizes(&self) -> u16 {
        if self.version() == VERSION_64 { SIZES } else { 0 }
    }

    /// The version of the format that has what the local header has.
    fn version(&self) -> u8 {
        if self.has_room_for_sizes || self.len > MOST_BYTES { VERSION_64 } else { VERSION }
    }

    /// Writes the fields that both records have, up to the length of the name.
    fn common(&self, bytes: &mut Writer, len: u64) {
        let flags = if self.name.is_ascii() { 0 } else { FLAG_UTF8 };
        bytes
            .numbers(&[flags, STORED, 0, DATE])
            .numbers(&[self.crc, saturated(len), saturated(len)])
            .number(self.name_len);
    }
}

/// Returns the bytes after the members (the central directory, which begins at `at`, and the archive's end), and the
/// offset in them of each member's checksum.
pub fn python_directory(members: &[PythonMember], at: u64) -> (Vec<u8>, Vec<u64>) {
    let mut bytes = Writer::new();
    let mut checksums = Vec::with_capacity(members.len());
    for member in members {
        checksums.push(bytes.len() + CENTRAL_CRC);
        bytes.bytes(&member.central());
    }
    let (count, size) = (members.len() as u64, bytes.len());
    if count > MOST_ENTRIES || at > MOST_BYTES || size > MOST_BYTES {
        let version = u16::from(VERSION_64);
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
    use super::super::record::{CENTRAL_BYTES, END_BYTES, LOCAL_BYTES, LOCATOR64_BYTES};
    use super::*;

    fn member(at: u64, len: u64) -> PythonMember {
        PythonMember::new("a.npy", at, len).unwrap().with_64_bit_sizes()
    }

    #[test]
    fn records_have_the_lengths_that_they_say() {
        assert_eq!(member(0, 7).local().len() as u64, LOCAL_BYTES + 5 + 20);
        assert_eq!(member(0, 7).central().len() as u64, CENTRAL_BYTES + 5);
        let small = |len| PythonMember::new("a.npy", 0, len).unwrap();
        assert_eq!(small(7).local().len() as u64, LOCAL_BYTES + 5);
        assert_eq!(small(1 << 31).local().len() as u64, LOCAL_BYTES + 5 + 20);
        assert_eq!(small(1 << 31).data(), Some(LOCAL_BYTES + 5 + 20));
        for (at, len, numbers) in [(0, 1 << 32, 2), (1 << 31, 0, 1), (1 << 40, 1 << 40, 3)] {
            assert_eq!(member(at, len).central().len() as u64, CENTRAL_BYTES + 5 + 4 + 8 * numbers);
        }
        assert_eq!(python_directory(&[], 0).0.len() as u64, END_BYTES);
        assert_eq!(python_directory(&[], 1 << 31).0.len() as u64, END64_BYTES + LOCATOR64_BYTES + END_BYTES);
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
        assert!(PythonMember::new("a".repeat(65_535), 0, 0).is_some());
        assert!(PythonMember::new("a".repeat(65_536), 0, 0).is_none());
    }
}
