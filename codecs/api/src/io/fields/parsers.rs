//! Parsers of fields, for use beside those of nom: each says where a field begins that the range lacks.

use super::bytes::{Bytes, Parsed};
use crate::{Endian, Error, Limit, Limits, Number};
use nom::{Err, Parser};
use prost::encoding::decode_varint;

/// Bytes of the longest varint.
const MAX_VARINT: u64 = 10;

/// Parses a little-endian number: an integer or float of Rust.
///
/// # Errors
/// [`crate::Kind::Corrupt`] at the number's offset if the range ends before; so do all parsers of this module.
#[inline]
pub fn le<T: Number>(input: Bytes<'_>) -> Parsed<'_, T> {
    number(Endian::Little)(input)
}

/// Parses a big-endian number.
///
/// # Errors
/// As [`le`].
#[inline]
pub fn be<T: Number>(input: Bytes<'_>) -> Parsed<'_, T> {
    number(Endian::Big)(input)
}

/// Parses a number in a byte order that is known only at run time.
#[inline]
pub fn number<T: Number>(endian: Endian) -> impl Fn(Bytes<'_>) -> Parsed<'_, T> + Copy {
    move |input| match T::from_bytes(input.as_slice(), endian) {
        Some(number) => Ok((input.after(T::BYTES), number)),
        None => Err(input.lacks(T::BYTES as u64)),
    }
}

/// Parses `N` numbers. An error is that of the first one that is missing.
#[inline]
pub fn numbers<T: Number, const N: usize>(endian: Endian) -> impl Fn(Bytes<'_>) -> Parsed<'_, [T; N]> + Copy {
    move |input| {
        let mut numbers = [T::default(); N];
        if let Some(bytes) = input.as_slice().get(..N * T::BYTES) {
            for (place, bytes) in numbers.iter_mut().zip(bytes.chunks_exact(T::BYTES)) {
                *place = T::from_bytes(bytes, endian).unwrap_or_default();
            }
            return Ok((input.after(N * T::BYTES), numbers));
        }
        let mut rest = input;
        for place in &mut numbers {
            (rest, *place) = number(endian)(rest)?;
        }
        Ok((rest, numbers))
    }
}

/// Parses the number of things that follow, of which each takes at least `min_bytes_each`. The number is checked
/// against the bytes left in the range, so that memory may be reserved for it.
///
/// # Errors
/// [`crate::Kind::Corrupt`] at the offset of the number.
pub fn count<'a, N: Into<u64>>(
    min_bytes_each: u64,
    mut number: impl Parser<Bytes<'a>, Output = N, Error = Error>,
) -> impl FnMut(Bytes<'a>) -> Parsed<'a, u64> {
    move |input| {
        let (rest, count) = number.parse(input)?;
        let count = count.into();
        let needed = count.saturating_mul(min_bytes_each);
        if needed <= rest.remaining() {
            return Ok((rest, count));
        }
        let error = Error::corrupt("the file is cut short, or claims more than it holds")
            .offset(input.offset())
            .found(format!("{} bytes after it", rest.remaining()))
            .expected(format!("at least {needed} bytes"));
        Err(Err::Error(error))
    }
}

/// Parses a varint: 7 bits in each byte, the lowest first.
///
/// # Errors
/// [`crate::Kind::Corrupt`] if it has no end in the range, or more than 64 bits.
#[inline]
pub fn varint(input: Bytes<'_>) -> Parsed<'_, u64> {
    let bytes = input.as_slice();
    let mut rest = bytes;
    match decode_varint(&mut rest) {
        Ok(value) => Ok((input.after(bytes.len().saturating_sub(rest.len())), value)),
        Err(_) => Err(no_varint(input)),
    }
}

#[cold]
fn no_varint(input: Bytes<'_>) -> Err<Error> {
    let longest = MAX_VARINT.min(input.remaining());
    if (input.as_slice().len() as u64) < longest {
        return input.lacks(longest);
    }
    let error = Error::corrupt("a varint is unterminated or longer than 64 bits");
    Err::Error(error.offset(input.offset()))
}

/// Parses `N` bytes.
///
/// # Errors
/// As [`le`].
#[inline]
pub fn array<const N: usize>(input: Bytes<'_>) -> Parsed<'_, [u8; N]> {
    match input.as_slice().first_chunk() {
        Some(bytes) => Ok((input.after(N), *bytes)),
        None => Err(input.lacks(N as u64)),
    }
}

/// Parses `len` bytes.
#[inline]
pub fn bytes(len: u64) -> impl Fn(Bytes<'_>) -> Parsed<'_, &[u8]> + Copy {
    move |input| {
        let size = usize::try_from(len).unwrap_or(usize::MAX);
        match input.as_slice().get(..size) {
            Some(bytes) => Ok((input.after(size), bytes)),
            None => Err(input.lacks(len)),
        }
    }
}

/// Skips `len` bytes of a window: [`Fields::skip`](super::Fields::skip) skips any number without reading them.
#[inline]
pub fn skip(len: u64) -> impl Fn(Bytes<'_>) -> Parsed<'_, ()> + Copy {
    move |input| bytes(len)(input).map(|(rest, _)| (rest, ()))
}

/// Parses `len` bytes of UTF-8 text, at most as many as the limit allows.
///
/// # Errors
/// [`crate::Kind::Limit`] at the text's offset; [`crate::Kind::Corrupt`] at the first byte that is not UTF-8.
pub fn text(len: u64, limits: &Limits, limit: Limit) -> impl Fn(Bytes<'_>) -> Parsed<'_, &str> + Copy {
    move |input| {
        let start = input.offset();
        limits.check(limit, len).map_err(|error| Err::Error(error.offset(start)))?;
        let (rest, bytes) = bytes(len)(input)?;
        match str::from_utf8(bytes) {
            Ok(text) => Ok((rest, text)),
            Err(error) => Err(Err::Error(not_utf8(start, error))),
        }
    }
}

/// Names the field that a parser reads. If the range ends before the field does, the error says so, with the name,
/// the field's offset and its size.
pub fn field<'a, T>(
    name: &'static str,
    mut parser: impl Parser<Bytes<'a>, Output = T, Error = Error>,
) -> impl FnMut(Bytes<'a>) -> Parsed<'a, T> {
    move |input| match parser.parse(input) {
        Err(Err::Incomplete(missing)) if input.needed(missing) > input.remaining() => {
            Err(Err::Error(input.too_short(input.needed(missing)).field(name)))
        }
        Err(Err::Error(error)) => Err(Err::Error(error.field(name))),
        Err(Err::Failure(error)) => Err(Err::Failure(error.field(name))),
        parsed => parsed,
    }
}

/// The error for a text that begins at `start`.
pub(super) fn not_utf8(start: u64, error: std::str::Utf8Error) -> Error {
    Error::corrupt("the text is not UTF-8").offset(start.saturating_add(error.valid_up_to() as u64))
}
