//! The input of parsers.

use crate::{Error, Result};
use nom::error::{ErrorKind, FromExternalError, ParseError};
use nom::{Err, IResult, Needed, Parser};
use std::iter::{Copied, Enumerate};
use std::slice::Iter;

/// The message of the error for a range that ends before its fields do.
pub(super) const TOO_SHORT: &str = "the data ends too early";

/// What a parser of fields returns: the bytes after them, and their values.
pub type Parsed<'a, T> = IResult<Bytes<'a>, T, Error>;

/// The input of nom's parsers: bytes, and their place in the file.
///
/// ```
/// use ckpt_api::fields::{Bytes, be, le};
/// let mut input = Bytes::new(&[1, 0, 2, 3], 100);
/// assert_eq!(input.parse((le::<u16>, be::<u8>))?, (1, 2));
/// assert_eq!((input.offset(), input.remaining()), (103, 1));
/// assert_eq!(input.parse(le::<u16>).unwrap_err().context().offset, Some(103));
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a> {
    bytes: &'a [u8],
    offset: u64,
    /// Offset of the end of the range in the file, which the bytes may not reach.
    end: u64,
    too_short: &'static str,
}

impl<'a> Bytes<'a> {
    /// Bytes in memory, which begin at `offset` of their file.
    pub fn new(bytes: &'a [u8], offset: u64) -> Self {
        Bytes { bytes, offset, end: offset.saturating_add(bytes.len() as u64), too_short: TOO_SHORT }
    }

    /// A window of a range of a file: its bytes begin at `offset`, and the range ends at `end`. A parser that needs
    /// more of the range than the window has answers [`Err::Incomplete`].
    #[inline]
    pub fn window(bytes: &'a [u8], offset: u64, end: u64) -> Self {
        Bytes { bytes, offset, end, too_short: TOO_SHORT }
    }

    /// Sets the message of the error for bytes that end before their fields do.
    #[must_use]
    pub fn with_message(self, too_short: &'static str) -> Self {
        Bytes { too_short, ..self }
    }

    /// Runs a parser, and moves past what it parsed. After an error, the next byte is the same as before.
    ///
    /// # Errors
    /// Those of the parser; [`crate::Kind::Corrupt`] if it needs more bytes than there are.
    #[inline]
    pub fn parse<T>(&mut self, mut parser: impl Parser<Bytes<'a>, Output = T, Error = Error>) -> Result<T> {
        match parser.parse(*self) {
            Ok((rest, value)) => {
                *self = rest;
                Ok(value)
            }
            Err(Err::Error(error) | Err::Failure(error)) => Err(error),
            Err(Err::Incomplete(needed)) => Err(self.too_short(self.needed(needed))),
        }
    }

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

    /// Returns how many bytes from here on a parser needs that answered [`Err::Incomplete`].
    pub fn needed(self, missing: Needed) -> u64 {
        let missing = match missing {
            Needed::Unknown => 1,
            Needed::Size(size) => size.get() as u64,
        };
        (self.bytes.len() as u64).saturating_add(missing)
    }

    /// Returns the answer of a parser that needs `len` bytes from here on, which the window lacks: the window has to
    /// grow or, if the range lacks them too, the error that says so.
    #[cold]
    pub fn lacks(self, len: u64) -> Err<Error> {
        let missing = len.saturating_sub(self.bytes.len() as u64);
        if len > self.remaining() {
            return Err::Error(self.too_short(len));
        }
        Err::Incomplete(Needed::new(usize::try_from(missing).unwrap_or(usize::MAX)))
    }

    /// The bytes after the first `len`.
    #[inline]
    pub(super) fn after(self, len: usize) -> Self {
        let bytes = self.bytes.get(len..).unwrap_or_default();
        Bytes { bytes, offset: self.offset.saturating_add(len as u64), ..self }
    }

    pub(super) fn too_short(self, len: u64) -> Error {
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

    #[inline]
    fn input_len(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    fn take(&self, index: usize) -> Self {
        let bytes = self.bytes.get(..index).unwrap_or_default();
        // What is taken is complete: a parser within it may not answer `Incomplete`.
        Bytes { bytes, end: self.offset.saturating_add(index as u64), ..*self }
    }

    #[inline]
    fn take_from(&self, index: usize) -> Self {
        self.after(index)
    }

    #[inline]
    fn take_split(&self, index: usize) -> (Self, Self) {
        (self.take_from(index), self.take(index))
    }

    fn position<P: Fn(u8) -> bool>(&self, predicate: P) -> Option<usize> {
        self.bytes.iter().position(|byte| predicate(*byte))
    }

    #[inline]
    fn iter_elements(&self) -> Self::Iter {
        self.bytes.iter().copied()
    }

    fn iter_indices(&self) -> Self::IterIndices {
        self.iter_elements().enumerate()
    }

    #[inline]
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
