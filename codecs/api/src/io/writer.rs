//! Writing of headers and tables.

use crate::Endian;
use prost::encoding::encode_varint;

/// Bytes of a header, appended one field after the other: the counterpart of [`crate::Fields`].
///
/// Numbers are little-endian until [`Writer::with_endian`].
///
/// ```
/// use ckpt_api::Writer;
/// let mut writer = Writer::new();
/// writer.bytes(b"TOY1").number(3u16).numbers(&[1u32, 2]).varint(300);
/// assert_eq!(writer.into_bytes(), b"TOY1\x03\0\x01\0\0\0\x02\0\0\0\xac\x02");
/// ```
#[derive(Clone, Debug)]
pub struct Writer {
    bytes: Vec<u8>,
    endian: Endian,
}

impl Default for Writer {
    fn default() -> Self {
        Writer::new()
    }
}

impl Writer {
    /// An empty writer.
    pub fn new() -> Self {
        Writer { bytes: Vec::new(), endian: Endian::Little }
    }

    /// Writes numbers in this byte order from now on.
    #[must_use]
    pub fn with_endian(mut self, endian: Endian) -> Self {
        self.endian = endian;
        self
    }

    /// Appends a number.
    pub fn number<T: Number>(&mut self, number: T) -> &mut Self {
        number.append(self.endian, &mut self.bytes);
        self
    }

    /// Appends numbers.
    pub fn numbers<T: Number>(&mut self, numbers: &[T]) -> &mut Self {
        numbers.iter().for_each(|number| number.append(self.endian, &mut self.bytes));
        self
    }

    /// Appends a varint: 7 bits in each byte, the lowest first.
    pub fn varint(&mut self, number: u64) -> &mut Self {
        encode_varint(number, &mut self.bytes);
        self
    }

    /// Appends bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Returns the number of bytes so far.
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Whether there are no bytes yet.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// A number that [`fields::number`](crate::fields::number) parses and a [`Writer`] writes: an integer or float of Rust.
pub trait Number: sealed::Sealed + Copy + Default {
    /// Bytes of one number.
    const BYTES: usize;

    /// Reads a number from the first bytes; `None` if there are too few.
    fn from_bytes(bytes: &[u8], endian: Endian) -> Option<Self>;

    /// Appends the number's bytes.
    fn append(self, endian: Endian, bytes: &mut Vec<u8>);
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! numbers {
    ($($number:ty)*) => {
        $(
            impl sealed::Sealed for $number {}

            impl Number for $number {
                const BYTES: usize = size_of::<$number>();

                fn from_bytes(bytes: &[u8], endian: Endian) -> Option<Self> {
                    let bytes = *bytes.first_chunk()?;
                    Some(match endian {
                        Endian::Little => <$number>::from_le_bytes(bytes),
                        Endian::Big => <$number>::from_be_bytes(bytes),
                    })
                }

                fn append(self, endian: Endian, bytes: &mut Vec<u8>) {
                    match endian {
                        Endian::Little => bytes.extend_from_slice(&self.to_le_bytes()),
                        Endian::Big => bytes.extend_from_slice(&self.to_be_bytes()),
                    }
                }
            }
        )*
    };
}

numbers!(u8 u16 u32 u64 i8 i16 i32 i64 f32 f64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::{self, Bytes, number, numbers};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            a: u8, b: i16, c: u32, d: i64, e: f64, varint: u64, big: bool,
            bytes in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            let endian = if big { Endian::Big } else { Endian::Little };
            let mut writer = Writer::new().with_endian(endian);
            writer.number(a).varint(varint).number(b).numbers(&[c, c]).bytes(&bytes).number(d).number(e);
            let written = writer.into_bytes();
            let mut input = Bytes::new(&written, 7);
            prop_assert_eq!(input.parse(number::<u8>(endian)).unwrap(), a);
            prop_assert_eq!(input.parse(fields::varint).unwrap(), varint);
            prop_assert_eq!(input.parse(number::<i16>(endian)).unwrap(), b);
            prop_assert_eq!(input.parse(numbers::<u32, 2>(endian)).unwrap(), [c, c]);
            prop_assert_eq!(input.parse(fields::bytes(bytes.len() as u64)).unwrap(), bytes);
            prop_assert_eq!(input.parse(number::<i64>(endian)).unwrap(), d);
            prop_assert_eq!(input.parse(number::<f64>(endian)).unwrap().to_bits(), e.to_bits());
            prop_assert_eq!((input.remaining(), input.offset()), (0, 7 + written.len() as u64));
        }
    }
}
