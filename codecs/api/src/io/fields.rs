//! Parsing the fields of headers with nom.

use super::file::ends_before;
use crate::{Error, File, Result};
use nom::error::{ErrorKind, FromExternalError, ParseError};
use nom::{Err, IResult, Needed, Parser};
use std::iter::{Copied, Enumerate};
use std::slice::Iter;

/// Many ranges are small: the first read takes `FIRST_READ` bytes, and each further read four times more, up to
/// `MAX_READ`.
const FIRST_READ: u64 = 512;
const MAX_READ: u64 = 64 << 10;

/// What a parser of fields returns: the bytes after them, and their values.
pub type Parsed<'a, T> = IResult<Bytes<'a>, T, Error>;

/// Parses a range of a file with nom, front to back.
///
/// Parsers are those of `nom::bytes::streaming` and `nom::number::streaming`. They see a window of the range, in a
/// buffer of at most 64 KiB. One that needs more than the window says so with [`Err::Incomplete`]: the window grows,
/// and the parser runs again from its first byte. So, one call of [`Fields::parse`] is for a few fields, and a table
/// takes one call for each entry.
#[derive(Debug)]
pub struct Fields<'a> {
    file: &'a File,
    /// Offset of the next byte in the file.
    position: u64,
    /// Offset of the end of the range in the file.
    end: u64,
    buffer: Vec<u8>,
    /// Offset of the buffer's first byte in the file.
    base: u64,
    /// Size of the next read, in bytes.
    read_size: u64,
    too_short: &'static str,
}

impl<'a> Fields<'a> {
    /// The fields of a whole file.
    pub fn new(file: &'a File) -> Self {
        Self::over(file, 0, file.len(), "the file is cut short")
    }

    /// The fields in `len` bytes of a file from `offset`.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] if the file ends before.
    pub fn range(file: &'a File, offset: u64, len: u64) -> Result<Self> {
        let end = offset.checked_add(len).filter(|end| *end <= file.len());
        let end = end.ok_or_else(|| ends_before("data", file.name(), file.len(), offset, len))?;
        Ok(Self::over(file, offset, end, "the data ends too early"))
    }

    fn over(file: &'a File, offset: u64, end: u64, too_short: &'static str) -> Self {
        let (position, base, buffer) = (offset, offset, Vec::new());
        Fields { file, position, end, buffer, base, read_size: FIRST_READ, too_short }
    }

    /// Returns the offset of the next byte in the file.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of bytes left.
    pub fn remaining(&self) -> u64 {
        self.end.saturating_sub(self.position)
    }

    /// Runs a parser, and moves past what it parsed. After an error, the next byte is the same as before.
    ///
    /// # Errors
    /// Those of the parser, with the name of the file; [`crate::Kind::Limit`] for fields of more than 64 KiB;
    /// [`crate::Kind::Io`].
    pub fn parse<T>(&mut self, mut parser: impl FnMut(Bytes<'_>) -> Parsed<'_, T>) -> Result<T> {
        loop {
            let window = self.window();
            let seen = window.bytes.len() as u64;
            let missing = match parser(window) {
                Ok((rest, value)) => {
                    self.position = rest.offset;
                    return Ok(value);
                }
                Err(Err::Error(error) | Err::Failure(error)) => return Err(error.file(self.file.name())),
                Err(Err::Incomplete(needed)) => missing(needed),
            };
            let needed = seen.saturating_add(missing);
            if needed > self.remaining() {
                return Err(self.window().too_short(needed).file(self.file.name()));
            }
            if needed > MAX_READ {
                return Err(self.too_large(needed));
            }
            self.read(needed)?;
        }
    }

    /// The error for fields that no window takes, although the range has them.
    fn too_large(&self, needed: u64) -> Error {
        Error::limit("the fields are larger than the buffer for headers")
            .file(self.file.name())
            .offset(self.position)
            .found(crate::count(needed, "byte"))
            .expected(format!("at most {}", crate::count(MAX_READ, "byte")))
    }

    /// The buffered bytes from the next one on.
    fn window(&self) -> Bytes<'_> {
        let start = usize::try_from(self.position.saturating_sub(self.base)).unwrap_or(usize::MAX);
        let bytes = self.buffer.get(start..).unwrap_or_default();
        Bytes { bytes, offset: self.position, end: self.end, too_short: self.too_short }
    }

    /// Buffers at least `needed` of the bytes left, from the next one on.
    fn read(&mut self, needed: u64) -> Result<()> {
        let size = self.remaining().min(self.read_size.max(needed));
        self.read_size = (self.read_size * 4).min(MAX_READ);
        self.buffer.resize(usize::try_from(size).unwrap_or_default(), 0);
        self.base = self.position;
        self.file.read_at(self.position, &mut self.buffer).inspect_err(|_| self.buffer.clear())
    }
}

/// Names the field that a parser reads. If the range ends before the field does, the error says so, with the name,
/// the field's offset and its size.
pub fn field<'a, T>(
    name: &'static str,
    mut parser: impl Parser<Bytes<'a>, Output = T, Error = Error>,
) -> impl FnMut(Bytes<'a>) -> Parsed<'a, T> {
    move |input| match parser.parse(input) {
        Err(Err::Incomplete(needed)) => {
            let size = (input.bytes.len() as u64).saturating_add(missing(needed));
            if size > input.remaining() {
                return Err(Err::Error(input.too_short(size).field(name)));
            }
            Err(Err::Incomplete(needed))
        }
        Err(Err::Error(error)) => Err(Err::Error(error.field(name))),
        Err(Err::Failure(error)) => Err(Err::Failure(error.field(name))),
        parsed => parsed,
    }
}

fn missing(needed: Needed) -> u64 {
    match needed {
        Needed::Unknown => 1,
        Needed::Size(size) => size.get() as u64,
    }
}

/// The input of nom's parsers: bytes, and their place in the file.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a> {
    bytes: &'a [u8],
    offset: u64,
    /// Offset of the end of the range in the file, which the bytes may not reach.
    end: u64,
    too_short: &'static str,
}

impl<'a> Bytes<'a> {
    /// Returns the bytes in the window.
    pub fn as_slice(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the offset of the first byte in the file.
    pub fn offset(self) -> u64 {
        self.offset
    }

    /// Returns the number of bytes to the end of the range, past the window.
    pub fn remaining(self) -> u64 {
        self.end.saturating_sub(self.offset)
    }

    fn part(self, start: usize, end: usize) -> Self {
        let bytes = self.bytes.get(start..end).unwrap_or_default();
        Bytes { bytes, offset: self.offset.saturating_add(start as u64), ..self }
    }

    fn too_short(self, len: u64) -> Error {
        Error::corrupt(self.too_short)
            .offset(self.offset)
            .found(format!("{} bytes left", self.remaining()))
            .expected(crate::count(len, "byte"))
    }
}

impl<'a> nom::Input for Bytes<'a> {
    type Item = u8;
    type Iter = Copied<Iter<'a, u8>>;
    type IterIndices = Enumerate<Self::Iter>;

    fn input_len(&self) -> usize {
        self.bytes.len()
    }

    fn take(&self, index: usize) -> Self {
        self.part(0, index)
    }

    fn take_from(&self, index: usize) -> Self {
        self.part(index, self.bytes.len())
    }

    fn take_split(&self, index: usize) -> (Self, Self) {
        (self.take_from(index), self.take(index))
    }

    fn position<P: Fn(u8) -> bool>(&self, predicate: P) -> Option<usize> {
        self.bytes.iter().position(|byte| predicate(*byte))
    }

    fn iter_elements(&self) -> Self::Iter {
        self.bytes.iter().copied()
    }

    fn iter_indices(&self) -> Self::IterIndices {
        self.iter_elements().enumerate()
    }

    fn slice_index(&self, count: usize) -> std::result::Result<usize, Needed> {
        match count.checked_sub(self.bytes.len()) {
            None | Some(0) => Ok(count),
            Some(missing) => Err(Needed::new(missing)),
        }
    }
}

impl nom::Offset for Bytes<'_> {
    fn offset(&self, second: &Self) -> usize {
        usize::try_from(second.offset.saturating_sub(self.offset)).unwrap_or(usize::MAX)
    }
}

impl nom::Compare<&[u8]> for Bytes<'_> {
    fn compare(&self, other: &[u8]) -> nom::CompareResult {
        self.bytes.compare(other)
    }

    fn compare_no_case(&self, other: &[u8]) -> nom::CompareResult {
        self.bytes.compare_no_case(other)
    }
}

impl ParseError<Bytes<'_>> for Error {
    fn from_error_kind(input: Bytes<'_>, _: ErrorKind) -> Self {
        Error::corrupt("the data is not what the format says").offset(input.offset)
    }

    fn append(_: Bytes<'_>, _: ErrorKind, other: Self) -> Self {
        other
    }
}

impl FromExternalError<Bytes<'_>, Error> for Error {
    fn from_external_error(_: Bytes<'_>, _: ErrorKind, error: Error) -> Self {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;
    use nom::bytes::streaming::{tag, take};
    use nom::number::streaming::{be_u16, le_u32};
    use std::collections::BTreeMap;

    fn file(bytes: &[u8]) -> File {
        Input::memory("f", BTreeMap::from([("f".to_owned(), bytes.to_vec())])).main().unwrap()
    }

    #[test]
    fn a_range_that_exceeds_the_file_is_refused() {
        let file = file(&[0; 20]);
        assert!(Fields::range(&file, 20, 0).is_ok());
        for (offset, len) in [(0, 21), (21, 0), (u64::MAX, 1), (1, u64::MAX)] {
            assert!(Fields::range(&file, offset, len).is_err(), "{offset} {len}");
        }
    }

    #[test]
    fn fields_cross_the_ends_of_windows_but_not_of_the_range() {
        let bytes: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8).collect();
        let file = file(&bytes);
        let mut fields = Fields::range(&file, 1, 200_003).unwrap();
        for chunk in bytes[1..].chunks_exact(4).take(50_000) {
            let number = fields.parse(|input| field("number", le_u32)(input)).unwrap();
            assert_eq!(number.to_le_bytes(), chunk);
            assert!(fields.buffer.len() as u64 <= MAX_READ);
        }
        assert_eq!((fields.position(), fields.remaining()), (200_001, 3));
        assert!(fields.parse(|input| field("number", le_u32)(input)).is_err());
        let last =
            fields.parse(|input| take(3usize).map(|last: Bytes<'_>| last.as_slice().to_vec()).parse(input));
        assert_eq!(last.unwrap(), bytes[200_001..200_004]);
    }

    #[test]
    fn fields_that_no_window_takes_are_over_a_limit_and_not_cut_short() {
        let file = file(&[7; 100_000]);
        let mut fields = Fields::new(&file);
        let mut text = |len: usize| fields.parse(|input| field("text", take(len)).map(|_| ()).parse(input));
        assert_eq!(text(65_537).unwrap_err().kind(), crate::Kind::Limit);
        assert_eq!(text(100_001).unwrap_err().kind(), crate::Kind::Corrupt);
        text(65_536).unwrap();
        assert_eq!(fields.position(), 65_536);
    }

    #[test]
    fn an_error_names_the_file_the_field_and_its_offset() {
        fn header(input: Bytes<'_>) -> Parsed<'_, ()> {
            let magic = tag::<_, Bytes<'_>, Error>(&b"CKPT"[..]);
            (magic, field("version", be_u16), field("count", le_u32)).map(|_| ()).parse(input)
        }
        let file = file(b"CKPT\x00\x02abc");
        let mut fields = Fields::new(&file);
        let error = fields.parse(header).unwrap_err();
        let context = error.context();
        assert_eq!((context.file, context.field, context.offset), (Some("f"), Some("count"), Some(6)));
        assert_eq!((context.found, context.expected), (Some("3 bytes left"), Some("4 bytes")));
        assert_eq!((error.message(), fields.position()), ("the file is cut short", 0));
    }
}
