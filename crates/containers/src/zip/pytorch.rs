//! Writes the records of a zip archive as PyTorch's writer does, byte for byte: stored members without times, whose data
//! begins on a multiple of 64, and whose checksums and lengths follow it.

use super::record::{
    CENTRAL, DESCRIPTOR, END, END64, END64_BYTES, EXTRA64, FLAG_SIZES_LATER, FLAG_UTF8, LOCAL, LOCAL_BYTES,
    LOCATOR64,
};
use super::too_large;
use ckpt_api::{Error, Result, Writer};

/// The data of records begins on a multiple of this.
pub const PYTORCH_ALIGNMENT: u64 = 64;
/// Offset of the checksum in what follows the data of a record.
pub const DESCRIPTOR_CRC: u64 = 4;

/// Id of the extra field that pads, and the byte in it.
const PADDING: [u8; 2] = *b"FB";
const FILL: u8 = b'Z';
/// Version of the writer (3.0, on Unix), and the first version of the format with 64-bit numbers.
const MADE_BY: u16 = 0x031e;
const NEEDED64: u16 = 45;

/// A record to write.
///
/// ```
/// use ckpt_api::Input;
/// use ckpt_containers::zip::{self, PyTorchRecord, pytorch_end};
/// let record = PyTorchRecord::new("m/version".to_owned(), 0, 2, None::<fn(u64) -> Option<u64>>)?;
/// let mut bytes = [&record.local()[..], b"3\n", &record.descriptor(0xd19d_2c2d)].concat();
/// let start = bytes.len() as u64;
/// bytes.extend(record.central(0xd19d_2c2d));
/// bytes.extend(pytorch_end(1, start, bytes.len() as u64 - start));
/// let file = Input::memory("m.pt", [("m.pt".to_owned(), bytes)].into()).main()?;
/// let (entries, directory) = zip::entries(&file, &ckpt_api::Limits::default())?;
/// assert_eq!(zip::members(&file, &entries, directory)?[0].start, 64);
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PyTorchRecord {
    name: String,
    name_len: u16,
    at: u64,
    len: u64,
    padding: u16,
}

impl PyTorchRecord {
    /// A record of `len` bytes, whose local header is at `at`. Its data begins so many bytes after the least possible
    /// offset as `distance` returns for that offset; on a multiple of [`PYTORCH_ALIGNMENT`] if there is no such number,
    /// or no room for so many bytes.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a name of more than 65,535 bytes, and for offsets beyond 64 bits.
    pub fn new(
        name: String,
        at: u64,
        len: u64,
        distance: Option<impl FnOnce(u64) -> Option<u64>>,
    ) -> Result<Self> {
        let name_len = u16::try_from(name.len()).map_err(|_| {
            Error::unsupported("the name is too long for a zip archive").expected("at most 65,535 bytes")
        })?;
        let mut record = PyTorchRecord { name, name_len, at, len, padding: 0 };
        let extra = record.extra64(len, 0).len() as u64;
        let head = LOCAL_BYTES + u64::from(name_len) + extra + 4;
        let least = at.checked_add(head).ok_or_else(too_large)?;
        let room = u64::from(u16::MAX) - 4 - extra;
        let moved = distance.and_then(|distance| distance(least)).filter(|padding| *padding <= room);
        let padding = match moved {
            Some(padding) => padding,
            None => least.checked_next_multiple_of(PYTORCH_ALIGNMENT).ok_or_else(too_large)? - least,
        };
        // At most `room`, or less than the alignment.
        record.padding = padding as u16;
        Ok(record)
    }

    /// Its name, with its folder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The local header; the data follow.
    pub fn local(&self) -> Vec<u8> {
        let extra = self.extra64(self.len, 0);
        let mut bytes = Writer::new();
        bytes.bytes(&LOCAL).number(0u16);
        self.common(&mut bytes);
        bytes.number(0u32).numbers(&[0u32, 0]);
        bytes.numbers(&[self.name_len, extra.len() as u16 + 4 + self.padding]);
        bytes.bytes(self.name.as_bytes()).bytes(&extra);
        bytes.bytes(&PADDING).number(self.padding).bytes(&vec![FILL; self.padding.into()]);
        bytes.into_bytes()
    }

    /// What follows the data, with its CRC-32 at [`DESCRIPTOR_CRC`]; nothing for a record without data.
    pub fn descriptor(&self, crc: u32) -> Vec<u8> {
        let mut bytes = Writer::new();
        if self.len > 0 {
            bytes.bytes(&DESCRIPTOR).number(crc);
            match self.is_large() {
                true => bytes.numbers(&[self.len; 2]),
                false => bytes.numbers(&[saturated(self.len); 2]),
            };
        }
        bytes.into_bytes()
    }

    /// The entry of the directory, with the data's CRC-32 at [`super::record::CENTRAL_CRC`].
    pub fn central(&self, crc: u32) -> Vec<u8> {
        let extra = self.extra64(self.len, self.len);
        let mut bytes = Writer::new();
        bytes.bytes(&CENTRAL).numbers(&[0u16, 0]);
        self.common(&mut bytes);
        bytes
            .number(crc)
            .numbers(&[saturated(self.len); 2])
            .numbers(&[self.name_len, extra.len() as u16, 0, 0, 0])
            .numbers(&[0, saturated(self.at)])
            .bytes(self.name.as_bytes())
            .bytes(&extra);
        bytes.into_bytes()
    }

    /// Writes flags, method and time, which both headers have.
    fn common(&self, bytes: &mut Writer) {
        let later = if self.len > 0 { FLAG_SIZES_LATER } else { 0 };
        bytes.numbers(&[FLAG_UTF8 | later, 0, 0, 0]);
    }

    /// Whether the record needs 64-bit numbers.
    fn is_large(&self) -> bool {
        [self.len, self.at].iter().any(|number| saturated(*number) == u32::MAX)
    }

    /// Returns the extra field with the numbers that do not fit into 32 bits.
    fn extra64(&self, len: u64, stored: u64) -> Vec<u8> {
        let mut numbers = Vec::new();
        if saturated(self.len) == u32::MAX {
            numbers.extend([len, stored]);
        }
        if saturated(self.at) == u32::MAX {
            numbers.push(self.at);
        }
        let mut bytes = Writer::new();
        if !numbers.is_empty() {
            bytes.numbers(&[EXTRA64, 8 * numbers.len() as u16]).numbers(&numbers);
        }
        bytes.into_bytes()
    }
}

/// The archive's end: of `count` records, with a directory of `size` bytes from `start` on.
pub fn pytorch_end(count: u64, start: u64, size: u64) -> Vec<u8> {
    let mut bytes = Writer::new();
    bytes.bytes(&END64).number(END64_BYTES - 12).numbers(&[MADE_BY, NEEDED64]).numbers(&[0u32, 0]);
    bytes.numbers(&[count, count, size, start]);
    bytes.bytes(&LOCATOR64).number(0u32).number(start.saturating_add(size)).number(1u32);
    let entries = u16::try_from(count).unwrap_or(u16::MAX);
    bytes.bytes(&END).numbers(&[0, 0, entries, entries]).numbers(&[saturated(size), saturated(start)]);
    bytes.number(0u16);
    bytes.into_bytes()
}

/// Returns the number, or the mark for a number that is stored in 64 bits elsewhere.
fn saturated(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
