//! The directory of an archive, and its members.
//!
//! The crate `rawzip` (0.5.2) was tried in place of this reader. Of the 22 archives of the corpus that this reader refuses,
//! it accepts 17: it compares neither a member's header with the directory, nor both ends, nor the stated number of members
//! with theirs, nor names and places with each other, and takes archives that other bytes precede. It exposes neither the
//! numbers of disks nor the end in 32 bits beside that in 64, so that the ends would be parsed a second time: about 110 of
//! 570 lines could go. For 20,000 members it reads 60,023 times, and this reader 58 times: each may be a request to a store
//! far away. In memory, where a read costs nothing, it takes 0.05 s and this reader, with all checks, 0.20 s.

use super::record::{
    CENTRAL, CENTRAL_BYTES, DEFLATED, END, END_BYTES, END64, END64_BYTES, EXTRA64, FLAG_ENCRYPTED,
    FLAG_MASKED, FLAG_PATCH, FLAG_SIZES_LATER, FLAG_UTF8, LOCAL, LOCAL_BYTES, LOCATOR64, LOCATOR64_BYTES,
    STORED,
};
use crate::decoders::DEFLATE;
use ckpt_api::fields::{Bytes, array, bytes, le, numbers, skip};
use ckpt_api::{ChecksumAlgorithm, Compression, Endian, Error, Extent, File, FileId, Limit, Limits, Result};
use nom::sequence::{preceded, terminated};
use std::borrow::Cow;
use std::collections::HashSet;

/// Length of the longest comment at the end of an archive, in bytes.
const LONGEST_COMMENT: u64 = u16::MAX as u64;
/// Bytes of the extra fields that most members have at most.
const USUAL_EXTRA: u64 = 96;
/// Bytes that are read at a time to check a member.
const PIECE: usize = 1 << 20;
/// Local headers that are so close together are read at once: bytes cost less than calls.
const NEAR: u64 = 4 << 10;
const READ_AT_ONCE: u64 = 64 << 10;

/// Decompressed bytes of a header that any archive may have, however small it is.
const ANY_RATIO: u64 = 4 << 20;

/// An entry of the central directory.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The member's name, which [`stays_inside`].
    pub name: String,
    /// Offset of the entry.
    at: u64,
    flags: u16,
    method: u16,
    /// CRC-32 of the member's data, decompressed.
    pub crc: u32,
    compressed: u64,
    len: u64,
    /// Offset of its local header.
    local: u64,
}

/// Where the bytes of a member are.
#[derive(Clone, Debug)]
pub struct Member {
    /// Offset of the data in the archive.
    pub start: u64,
    /// Length of the decompressed data in bytes.
    pub len: u64,
    /// How the data is compressed; `None` if it is stored as it is.
    pub compression: Option<Compression>,
}

impl Member {
    /// Range of bytes in the archive.
    fn stored_len(&self) -> u64 {
        self.compression.as_ref().map_or(self.len, |compression| compression.stored)
    }

    /// Returns a file that has the decompressed data, and the data's offset in it.
    ///
    /// # Errors
    /// Those of [`Extent::open`].
    pub fn open(&self, archive: &File) -> Result<(File, u64)> {
        let whole = Extent::new(FileId(0), self.start, self.len).with_compression(self.compression.clone());
        match whole.compression() {
            Some(_) => Ok((whole.open(archive)?, 0)),
            None => Ok((archive.clone(), self.start)),
        }
    }

    /// Checks that the data may be parsed as a whole, before any of it is read: its length, and, if it is compressed, how
    /// many bytes it has for each one of the archive. What parsing takes is a multiple of the decompressed bytes, of which one
    /// byte can hold a thousand; those of honest archives hold a few.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`] beyond [`Limit::HeaderBytes`] or [`Limit::HeaderRatio`].
    pub fn check_header(&self, archive: &File, limits: &Limits) -> Result<()> {
        limits.check(Limit::HeaderBytes, self.len)?;
        let excess = self.len.saturating_sub(ANY_RATIO);
        match self.compression {
            Some(_) => limits.check(Limit::HeaderRatio, excess.div_ceil(archive.len().max(1))),
            None => Ok(()),
        }
        .map_err(|error| error.offset(self.start))
    }

    /// Reads the data, and compares its CRC-32 with `stored`, the directory's.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] if they differ; those of reading it.
    pub fn check_crc(&self, archive: &File, stored: u32) -> Result<()> {
        let (file, start) = self.open(archive)?;
        let mut found = 0;
        for at in (0..self.len).step_by(PIECE) {
            let piece = file.bytes(start.saturating_add(at), (self.len - at).min(PIECE as u64))?;
            found = ChecksumAlgorithm::Crc32.append(found, &piece);
        }
        if found == stored {
            return Ok(());
        }
        Err(Error::corrupt("the member's checksum does not match its bytes")
            .offset(self.start)
            .found(format!("{found:#010x}"))
            .expected(format!("{stored:#010x}, as the central directory states"))
            .help("copy the file again; the data changed after it was written"))
    }
}

/// Reads the central directory; returns its entries, and where it begins. All names differ and [`stays_inside`] holds
/// for them; nothing is encrypted; every member is stored or deflated.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`], [`ckpt_api::Kind::Unsupported`]; [`ckpt_api::Kind::Limit`] for more members than
/// [`Limit::Tensors`] and a directory of more bytes than [`Limit::HeaderBytes`].
pub fn entries(file: &File, limits: &Limits) -> Result<(Vec<Entry>, u64)> {
    let found = entries_of_any_name(file, limits)?;
    match found.0.iter().find(|entry| !stays_inside(&entry.name)) {
        Some(entry) => {
            let error = Error::corrupt("the member's name leads outside the archive").expected(INSIDE);
            Err(entry.place(error))
        }
        None => Ok(found),
    }
}

/// As [`entries`], where a name is no path: an archive of arrays may have a member `/a` or `../a`. No name has a NUL.
///
/// # Errors
/// As [`entries`].
pub fn entries_of_any_name(file: &File, limits: &Limits) -> Result<(Vec<Entry>, u64)> {
    let (end, bytes) = directory(file, limits)?;
    let mut fields = record(&bytes, end.start);
    // So many fit into the directory.
    let mut entries = Vec::with_capacity(usize::try_from(end.count).unwrap_or(0));
    while fields.remaining() > 0 {
        let at = fields.offset();
        entries.push(Entry::parse(&mut fields).map_err(|error| error.offset(at))?);
    }
    if entries.len() as u64 != end.count {
        return Err(differs(&end, entries.len().to_string()));
    }
    let mut names = HashSet::with_capacity(entries.len());
    if let Some(twice) = entries.iter().find(|entry| !names.insert(entry.name.as_str())) {
        return Err(Error::corrupt("two members have the same name").offset(twice.at).field(&twice.name));
    }
    Ok((entries, end.start))
}

/// Returns whether the central directory has one of these texts, in a name or elsewhere. Much faster than [`entries`] for an
/// archive of many members that are of no interest without it.
///
/// # Errors
/// Those of finding and reading the directory.
pub fn has_any_text(file: &File, limits: &Limits, texts: &[&str]) -> Result<bool> {
    let (_, bytes) = directory(file, limits)?;
    Ok(texts.iter().any(|text| has_text(&bytes, text.as_bytes())))
}

fn has_text(bytes: &[u8], text: &[u8]) -> bool {
    let Some(first) = text.first() else { return true };
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        rest = rest.get(at..).unwrap_or_default();
        if rest.starts_with(text) {
            return true;
        }
        rest = rest.get(1..).unwrap_or_default();
    }
    false
}

/// Reads the bytes of the central directory.
fn directory(file: &File, limits: &Limits) -> Result<(End, Vec<u8>)> {
    let end = End::find(file)?;
    if end.start.checked_add(end.size) != Some(end.at) {
        return Err(Error::corrupt("the central directory does not lie before the archive's end")
            .offset(end.at)
            .found(format!("{} from offset {}", ckpt_api::count(end.size, "byte"), end.start))
            .expected(format!("its end at {}", end.at))
            .help("the file is cut short, or something was put before the archive"));
    }
    if end.count.checked_mul(CENTRAL_BYTES).is_none_or(|least| least > end.size) {
        return Err(differs(&end, ckpt_api::count(end.size, "byte")));
    }
    limits.check(Limit::Tensors, end.count).map_err(|error| error.offset(end.at))?;
    limits.check(Limit::HeaderBytes, end.size).map_err(|error| error.offset(end.at))?;
    let bytes = file.bytes(end.start, end.size)?;
    Ok((end, bytes))
}

fn differs(end: &End, found: String) -> Error {
    Error::corrupt("the central directory has a different number of members than the archive's end states")
        .offset(end.at)
        .found(found)
        .expected(end.count.to_string())
}

/// Returns the length of an archive that other bytes follow, as readers find it that take the last end in a file for
/// the archive's; `None` for an archive that ends with its file, and if there is no end.
///
/// ```
/// use ckpt_api::Input;
/// use ckpt_containers::zip;
/// let len = |bytes: &[u8]| {
///     let file = Input::memory("a.zip", [("a.zip".to_owned(), bytes.to_vec())].into()).main()?;
///     zip::len_before_others(&file)
/// };
/// let archive = [&b"PK\x05\x06"[..], &[0; 18]].concat();
/// assert_eq!(len(&archive)?, None);
/// assert_eq!(len(&[&archive[..], b"more"].concat())?, Some(22));
/// # Ok::<(), ckpt_api::Error>(())
/// ```
///
/// # Errors
/// Those of reading the file.
pub fn len_before_others(file: &File) -> Result<Option<u64>> {
    let (first, tail) = End::tail(file)?;
    let is_end =
        |(_, window): &(usize, &[u8])| window.starts_with(&END) && window.len() >= END_BYTES as usize;
    let mut ends = End::windows(&tail).filter(is_end).peekable();
    if ends.peek().is_none() || End::windows(&tail).any(|(_, window)| End::fills(window)) {
        return Ok(None);
    }
    let len = ends.next().and_then(|(at, window)| Some(at + END_BYTES as usize + End::comment_len(window)?));
    let len = len.map(|len| first.saturating_add(len as u64));
    Ok(len.filter(|len| *len < file.len()))
}

/// Locates the bytes of all members, in the order of `entries`; `directory` is the offset of the central directory.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] if a member's own header differs from its entry, and where members share bytes.
pub fn members(file: &File, entries: &[Entry], directory: u64) -> Result<Vec<Member>> {
    let mut ordered: Vec<(usize, &Entry)> = entries.iter().enumerate().collect();
    ordered.sort_by_key(|(_, entry)| entry.local);
    let mut headers = Headers::of(file, &ordered);
    let mut members = Vec::with_capacity(entries.len());
    let mut previous = 0;
    for (number, entry) in ordered {
        let member = entry.member(&mut headers).map_err(|error| entry.place(error))?;
        let (start, end) = (entry.local, member.start.saturating_add(member.stored_len()));
        if start < previous || end > directory {
            let what = if start < previous { "another member" } else { "the central directory" };
            let error = Error::corrupt(format!("the member and {what} share bytes"));
            return Err(entry.place(error.found(format!("bytes {start} to {end}"))));
        }
        previous = end;
        members.push((number, member));
    }
    members.sort_by_key(|(number, _)| *number);
    Ok(members.into_iter().map(|(_, member)| member).collect())
}

/// Reads local headers in their order, those that are close together at once.
struct Headers<'a> {
    file: &'a File,
    /// Offsets of the headers that are not read yet.
    next: std::vec::IntoIter<u64>,
    /// A buffer, the offset of its bytes, and how many were read last.
    read: Vec<u8>,
    at: u64,
    len: usize,
}

impl<'a> Headers<'a> {
    fn of(file: &'a File, ordered: &[(usize, &Entry)]) -> Self {
        let next: Vec<u64> = ordered.iter().map(|(_, entry)| entry.local).collect();
        Headers { file, next: next.into_iter(), read: Vec::new(), at: 0, len: 0 }
    }

    /// The bytes at the next local header, which is at `at`: `len` of them, or fewer at the end of the file, but no less
    /// than the fixed part of a header.
    fn bytes(&mut self, at: u64, len: u64) -> Result<&[u8]> {
        self.next.next();
        let len = len.min(self.file.len().saturating_sub(at)).max(LOCAL_BYTES);
        if self.held(at, len).is_none() {
            let mut end = at.saturating_add(len);
            for next in self.next.as_slice() {
                let with = next.saturating_add(len).min(self.file.len());
                if next.saturating_sub(end) > NEAR || with.saturating_sub(at) > READ_AT_ONCE {
                    break;
                }
                end = end.max(with);
            }
            self.fill(at, end)?;
        }
        Ok(self.held(at, len).unwrap_or_default())
    }

    /// Reads a range into the buffer, which stays allocated: clearing a new one for each costs as much as reading.
    fn fill(&mut self, at: u64, end: u64) -> Result<()> {
        let too_long = |_| Error::limit("the header of a member is too long").offset(at);
        self.len = 0;
        let len = usize::try_from(end.saturating_sub(at)).map_err(too_long)?;
        if self.read.len() < len {
            self.read.resize(len, 0);
        }
        self.file.read_at(at, self.read.get_mut(..len).unwrap_or_default())?;
        (self.at, self.len) = (at, len);
        Ok(())
    }

    fn held(&self, at: u64, len: u64) -> Option<&[u8]> {
        let start = usize::try_from(at.checked_sub(self.at)?).ok()?;
        self.read.get(..self.len)?.get(start..)?.get(..usize::try_from(len).ok()?)
    }
}

/// The content of an archive's end record.
struct End {
    /// Number of members.
    count: u64,
    /// Range of the central directory.
    start: u64,
    size: u64,
    /// Offset at which it must end.
    at: u64,
}

impl End {
    /// The last bytes of a file, in which its end is, and the offset of the first of them.
    fn tail(file: &File) -> Result<(u64, Vec<u8>)> {
        let longest = (END_BYTES + LONGEST_COMMENT).min(file.len());
        let first = file.len().saturating_sub(longest);
        Ok((first, file.bytes(first, longest)?))
    }

    /// What follows each byte and the byte itself, the last one first.
    fn windows(tail: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
        (0..tail.len()).rev().filter_map(|at| Some((at, tail.get(at..)?)))
    }

    /// Whether these bytes are an end whose comment fills the rest, so that what looks like an end within a comment is
    /// none.
    fn fills(window: &[u8]) -> bool {
        window.starts_with(&END)
            && Self::comment_len(window).is_some_and(|len| window.len() == END_BYTES as usize + len)
    }

    /// The length of the comment of an end that begins with these bytes.
    fn comment_len(window: &[u8]) -> Option<usize> {
        let fixed = window.get(..END_BYTES as usize)?;
        fixed.last_chunk().map(|len| usize::from(u16::from_le_bytes(*len)))
    }

    fn find(file: &File) -> Result<Self> {
        let (first, tail) = Self::tail(file)?;
        let mut windows = Self::windows(&tail);
        let (index, bytes) = windows.find(|(_, window)| Self::fills(window)).ok_or_else(|| {
            Error::corrupt("the archive has no end")
                .offset(file.len())
                .expected("the end-of-central-directory record of a zip archive")
                .help("the file is cut short, or is not an archive: copy it again")
        })?;
        let at = first.saturating_add(index as u64);
        let mut fields = record(bytes, at);
        let counts = preceded(skip(END.len() as u64), numbers::<u16, 4>(Endian::Little));
        let ([disk, first_disk, here, count], [size, start]) =
            fields.parse((counts, numbers::<u32, 2>(Endian::Little)))?;
        let end = End { count: u64::from(count), start: u64::from(start), size: u64::from(size), at };
        match Self::find64(file, at)? {
            Some(large) if end.agrees(&large) => Ok(large),
            None if [disk, first_disk] == [0, 0] && here == count => Ok(end),
            _ => Err(Error::corrupt("the archive's end contradicts itself")
                .offset(at)
                .expected("one part, and the same numbers in 64 bits if there are any")),
        }
    }

    /// Reads the 64-bit record before the end, if there is one.
    fn find64(file: &File, end: u64) -> Result<Option<Self>> {
        let Some(at) = end.checked_sub(LOCATOR64_BYTES) else { return Ok(None) };
        let bytes = file.bytes(at, LOCATOR64_BYTES)?;
        let Some(rest) = bytes.strip_prefix(&LOCATOR64) else { return Ok(None) };
        let mut fields = record(rest, at);
        let disk = le::<u32>;
        let large = fields.parse(preceded(disk, le::<u64>))?;
        let wrong = || Error::corrupt("the archive's 64-bit end is not where its locator says").offset(at);
        if large.checked_add(END64_BYTES) != Some(at) {
            return Err(wrong().found(large.to_string()).expected("56 bytes before the locator"));
        }
        let bytes = file.bytes(large, END64_BYTES)?;
        let rest = bytes.strip_prefix(&END64).ok_or_else(wrong)?;
        let mut fields = record(rest, large);
        let numbers = numbers::<u64, 4>(Endian::Little);
        let [here, count, size, start] = fields.parse(preceded(skip(20), numbers))?;
        if here != count {
            return Err(wrong().found("an archive of several parts"));
        }
        Ok(Some(End { count, start, size, at: large }))
    }

    /// Returns whether the 32-bit numbers are the same, or are marked as stored in 64 bits.
    fn agrees(&self, large: &End) -> bool {
        let same = |number: u64, most: u64, large: u64| number == large || number == most;
        same(self.count, u64::from(u16::MAX), large.count)
            && same(self.size, u64::from(u32::MAX), large.size)
            && same(self.start, u64::from(u32::MAX), large.start)
    }
}

impl Entry {
    /// Returns the offset of the entry in the archive.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Returns the offset of the member's own header.
    pub fn local_at(&self) -> u64 {
        self.local
    }

    fn parse(fields: &mut Bytes<'_>) -> Result<Self> {
        let at = fields.offset();
        let short = fields.remaining();
        if fields.parse(array)? != CENTRAL {
            return Err(Error::corrupt("the central directory is damaged")
                .found(format!("{} without the signature of an entry", ckpt_api::count(short, "byte")))
                .expected(format!("an entry of at least {CENTRAL_BYTES} bytes")));
        }
        let (
            [_made_by, _version, flags, method, _time, _date],
            [crc, compressed, len],
            [name_len, extra_len, comment_len, disk, _internal_attributes],
            [_external_attributes, local],
        ) = fields.parse((
            numbers::<u16, 6>(Endian::Little),
            numbers::<u32, 3>(Endian::Little),
            numbers::<u16, 5>(Endian::Little),
            numbers::<u32, 2>(Endian::Little),
        ))?;
        let comment = skip(comment_len.into());
        let (name, extra) =
            fields.parse(terminated((bytes(name_len.into()), bytes(extra_len.into())), comment))?;
        let mut large = Large::find(extra, at)?;
        let len = large.resolve(len)?;
        let compressed = large.resolve(compressed)?;
        let local = large.resolve(local)?;
        let name = text(name, flags)?;
        let entry = Entry { name, at, flags, method, crc, compressed, len, local };
        if disk != 0 {
            return Err(entry.place(Error::unsupported("the archive has several parts")));
        }
        entry.check().map_err(|error| entry.place(error))?;
        Ok(entry)
    }

    /// Refuses a member that cannot be read.
    fn check(&self) -> Result<()> {
        if self.name.contains('\0') {
            return Err(Error::corrupt("the member's name leads outside the archive").expected(INSIDE));
        }
        if self.flags & (FLAG_ENCRYPTED | FLAG_PATCH | FLAG_MASKED) != 0 {
            return Err(Error::unsupported("the member is encrypted or patched")
                .found(format!("flags {:#06x}", self.flags))
                .help("write the archive again without a password"));
        }
        match self.method {
            STORED if self.compressed == self.len => Ok(()),
            STORED => Err(Error::corrupt("the member is not compressed, and has two lengths")
                .found(self.compressed.to_string())
                .expected(self.len.to_string())),
            DEFLATED => Ok(()),
            method => Err(Error::unsupported("the member is compressed in an unknown way")
                .found(format!("method {method}"))
                .expected("method 0 (stored) or 8 (deflated)")),
        }
    }

    /// Adds the member's name to an error.
    fn place(&self, error: Error) -> Error {
        error.offset(self.at).field(&self.name)
    }

    /// Locates the member's bytes. Its local header must agree with the directory.
    fn member(&self, headers: &mut Headers<'_>) -> Result<Member> {
        let file = headers.file;
        // Name and extra fields mostly fit into one read with the fixed part.
        let wanted = LOCAL_BYTES + self.name.len() as u64 + USUAL_EXTRA;
        let start = headers.bytes(self.local, wanted)?;
        let (head, after) = start.split_at_checked(LOCAL_BYTES as usize).unwrap_or_default();
        let differs = |what: &str| {
            Error::corrupt(format!("the member's own header and the central directory differ in its {what}"))
                .offset(self.local)
        };
        let rest = head.strip_prefix(&LOCAL).ok_or_else(|| differs("place"))?;
        let mut fields = record(rest, self.local);
        let ([_version, flags, method, _time, _date], [crc, compressed, len], [name_len, extra_len]) = fields
            .parse((
                numbers::<u16, 5>(Endian::Little),
                numbers::<u32, 3>(Endian::Little),
                numbers::<u16, 2>(Endian::Little),
            ))?;
        let names = self.local.saturating_add(LOCAL_BYTES);
        let variable_len = usize::from(name_len) + usize::from(extra_len);
        let variable = match after.get(..variable_len) {
            Some(variable) => Cow::Borrowed(variable),
            None => Cow::Owned(file.bytes(names, variable_len as u64)?),
        };
        let (name, extra) = variable.split_at_checked(name_len.into()).unwrap_or_default();
        let mut large = Large::find(extra, names)?;
        let (len, compressed) = (large.resolve(len)?, large.resolve(compressed)?);
        // Where the sizes come after the data they may be missing here.
        let later = self.flags & FLAG_SIZES_LATER != 0;
        let same = |own: u64, listed: u64| own == listed || (later && own == 0);
        let checks = [
            ("flags", flags == self.flags),
            ("method", method == self.method),
            ("name", name == self.name.as_bytes()),
            ("checksum", same(u64::from(crc), u64::from(self.crc))),
            ("length", same(len, self.len) && same(compressed, self.compressed)),
        ];
        if let Some((what, _)) = checks.iter().find(|(_, same)| !same) {
            return Err(differs(what));
        }
        let start = names.saturating_add(variable_len as u64);
        let compression = (self.method == DEFLATED).then(|| Compression::new(DEFLATE, self.compressed));
        Ok(Member { start, len: self.len, compression })
    }
}

fn text(name: &[u8], flags: u16) -> Result<String> {
    let is_known = name.is_ascii() || flags & FLAG_UTF8 != 0;
    let text = str::from_utf8(name).ok().filter(|_| is_known);
    text.map(str::to_owned).ok_or_else(|| {
        Error::unsupported("the member's name is neither ASCII nor UTF-8")
            .found(format!("\"{}\"", name.escape_ascii()))
            .help("write the archive again with the program that made it")
    })
}

/// The 64-bit numbers of an extra field, in the order of the 32-bit fields that refer to them.
struct Large<'a>(Bytes<'a>);

impl<'a> Large<'a> {
    /// Finds the numbers in the extra fields of a record, which begin at `at`.
    fn find(extra: &'a [u8], at: u64) -> Result<Self> {
        let mut rest = extra;
        while rest.len() >= 4 {
            let mut fields = record(rest, at);
            let (id, len) = fields.parse((le::<u16>, le::<u16>))?;
            fields.parse(skip(len.into()))?;
            let (field, next) = rest.split_at_checked(4 + usize::from(len)).unwrap_or((rest, &[]));
            if id == EXTRA64 {
                let mut numbers = record(field, at);
                numbers.parse(skip(4))?;
                return Ok(Large(numbers));
            }
            rest = next;
        }
        Ok(Large(record(&[], at)))
    }

    fn resolve(&mut self, number: u32) -> Result<u64> {
        if number < u32::MAX { Ok(u64::from(number)) } else { self.0.parse(le::<u64>) }
    }
}

/// Reads the little-endian fields of the record at `at`.
fn record(bytes: &[u8], at: u64) -> Bytes<'_> {
    Bytes::new(bytes, at).with_message("a record of the archive is cut short")
}

/// Returns whether the name is safe: no tool unpacks the member to a path outside its folder.
pub fn stays_inside(name: &str) -> bool {
    let name = name.as_bytes();
    !name.starts_with(b"/")
        && !name.iter().any(|byte| matches!(byte, b'\\' | 0))
        && name.split(|byte| *byte == b'/').all(|part| part != b"..")
}

/// The description of a safe name, for messages.
pub const INSIDE: &str = "no '/' at its beginning, and no '..', '\\' or NUL";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_leaves_the_archive_is_known() {
        for name in ["/a", "../a", "a/../b", "..", "a\\b", "a\0b", "/"] {
            assert!(!stays_inside(name), "{name:?}");
        }
        for name in ["", "a", "a/b", "a..b", "...", "a//b", "x:0", "ä"] {
            assert!(stays_inside(name), "{name:?}");
        }
    }
}
