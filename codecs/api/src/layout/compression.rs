//! How stored bytes are compressed.

use crate::{Error, Limit, Limits, Result};
use serde::{Deserialize, Serialize};
use std::num::{NonZeroU8, NonZeroU32};

/// Bytes of a checksum at the end of the compressed bytes.
pub(crate) const FLETCHER_BYTES: u64 = 4;

/// How the bytes of an extent are compressed in their file.
///
/// ```
/// use ckpt_api::{Compression, Method};
/// // 1,000 bytes of a zip member, whose first 128 decompressed bytes are a header.
/// let compression = Compression::new(Method::Deflate, 1000).skipping(128);
/// assert_eq!((compression.stored, compression.skip), (1000, 128));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Compression {
    /// How the file's bytes are decompressed.
    pub method: Method,
    /// Bytes in the file.
    pub stored: u64,
    /// Decompressed bytes before the extent's first: a header that is compressed together with the elements.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skip: u64,
    /// Decompressed bytes after the extent's last: others' that are compressed together with its own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub after: u64,
    /// Bytes of the elements whose bytes were shuffled before they were compressed: all first bytes, then all second
    /// ones, as HDF5's and Blosc's shuffle filters do. Such an extent is decompressed as a whole; its size is bounded
    /// by [`Limit::ChunkBytes`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shuffled: Option<NonZeroU32>,
    /// Whether the file's bytes end in the Fletcher-32 checksum of those before, as HDF5's filter stores it: it counts
    /// as `stored`, and is verified before anything is decompressed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fletcher32: bool,
}

/// How bytes are decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Method {
    /// Not at all: bytes that are only shuffled.
    Stored,
    /// DEFLATE (RFC 1951) without a header, as zip archives store it.
    Deflate,
    /// zlib (RFC 1950), as HDF5's `gzip` filter stores it.
    Zlib,
    /// One frame of Zstandard (RFC 8878) with a window of at most 8 MiB.
    Zstd,
    /// UTF-8 text with a character for each byte, U+0000 to U+00FF, as pickles of protocol 2 store bytes.
    Latin1,
    /// LZF, as HDF5's filter of `h5py` stores it.
    Lzf,
    /// The same bytes again and again, at most 64: elements that have one value. Zeros where there are no bytes. Such an
    /// extent holds at most [`Limit::ChunkBytes`].
    Repeated,
    /// Numbers of a repeated field of a protocol buffer, which become little-endian elements.
    Protobuf(ProtobufNumbers),
    /// Numbers that are stored with the other sign. Any range of them can be read by itself, so that nothing is skipped,
    /// shuffled or summed.
    Signs(Signs),
}

/// Which bits of stored numbers are the other way round: the upper one of a byte in every period.
///
/// ```
/// use ckpt_api::Signs;
/// // Complex numbers of two little-endian 32-bit floats, whose imaginary parts are stored with the other sign.
/// let conjugated = Signs::new(8, 7);
/// assert!(conjugated.is_some() && Signs::new(8, 8).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signs {
    /// Bytes after which the signs repeat, from the extent's first byte on.
    period: NonZeroU8,
    /// The byte with the sign within each period.
    at: u8,
}

impl Signs {
    /// The signs in the byte `at` of every `period` bytes; `None` if there is no such byte.
    pub fn new(period: u8, at: u8) -> Option<Self> {
        Some(Signs { period: NonZeroU8::new(period).filter(|period| at < period.get())?, at })
    }

    /// Flips the signs in bytes that begin at `offset` of the extent.
    pub(crate) fn flip(self, offset: u64, bytes: &mut [u8]) {
        let period = u64::from(self.period.get());
        let first = (u64::from(self.at) + period - offset % period) % period;
        for byte in bytes.iter_mut().skip(first as usize).step_by(period as usize) {
            *byte ^= 0x80;
        }
    }
}

/// How a repeated field of a protocol buffer stores its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProtobufNumbers {
    /// Bytes of the tag before each number; 0 for a packed field, whose one tag comes before the extent.
    pub tag_bytes: u8,
    /// Bytes of an element: the low bytes of a varint, or all of a number of fixed length.
    pub element_bytes: NonZeroU8,
    /// Whether each number is a varint.
    pub is_varint: bool,
}

impl Method {
    /// The name shown to people.
    pub fn name(self) -> &'static str {
        match self {
            Method::Stored => "stored",
            Method::Deflate => "deflate",
            Method::Zlib => "zlib",
            Method::Zstd => "zstd",
            Method::Latin1 => "latin-1",
            Method::Lzf => "lzf",
            Method::Repeated => "repeated",
            Method::Protobuf(_) => "protobuf",
            Method::Signs(_) => "signs",
        }
    }

    /// The most bytes that one byte can decompress to.
    fn largest_ratio(self) -> u64 {
        match self {
            Method::Stored | Method::Latin1 | Method::Signs(_) => 1,
            // 258 bytes for a length and a distance of one bit each.
            Method::Deflate | Method::Zlib => 1032,
            // A block of 128 KiB for four bytes.
            Method::Zstd => 32 << 10,
            // 264 bytes for three.
            Method::Lzf => 88,
            Method::Repeated => u64::MAX,
            Method::Protobuf(numbers) if numbers.is_varint => numbers.element_bytes.get().into(),
            Method::Protobuf(_) => 1,
        }
    }
}

impl Compression {
    /// Bytes that lie in the file as `stored` bytes.
    pub fn new(method: Method, stored: u64) -> Self {
        Compression { method, stored, skip: 0, after: 0, shuffled: None, fletcher32: false }
    }

    /// The same without its first decompressed bytes.
    #[must_use]
    pub fn skipping(mut self, bytes: u64) -> Self {
        self.skip = bytes;
        self
    }

    /// The same, with so many decompressed bytes after the extent's.
    #[must_use]
    pub fn followed_by(mut self, bytes: u64) -> Self {
        self.after = bytes;
        self
    }

    /// The same, of elements of so many bytes that were shuffled.
    #[must_use]
    pub fn shuffled(mut self, element: NonZeroU32) -> Self {
        self.shuffled = Some(element);
        self
    }

    /// The same, with a Fletcher-32 checksum in the last four bytes in the file.
    #[must_use]
    pub fn with_fletcher32(mut self) -> Self {
        self.fletcher32 = true;
        self
    }

    /// Compressed bytes in the file, without their checksum.
    pub(crate) fn payload(&self) -> u64 {
        self.stored.saturating_sub(if self.fletcher32 { FLETCHER_BYTES } else { 0 })
    }

    /// Decompressed bytes of an extent of `len`, those before and after it included.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] where so few stored bytes cannot hold them.
    pub(crate) fn total(&self, len: u64) -> Result<u64> {
        // Of no bytes, zeros are repeated.
        let of_nothing = if self.method == Method::Repeated { u64::MAX } else { 0 };
        let most = self.payload().saturating_mul(self.method.largest_ratio()).max(of_nothing);
        let total = self.skip.checked_add(len).and_then(|total| total.checked_add(self.after));
        total.filter(|total| *total <= most).ok_or_else(|| {
            Error::corrupt("the compressed data is too short for the tensor")
                .found(format!("{} bytes of {}", self.stored, self.method.name()))
                .expected(format!("at least the compressed size of {len} bytes"))
        })
    }

    /// Checks what can be checked without decompressing.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`], [`crate::Kind::Limit`].
    pub(crate) fn check(&self, len: u64, limits: &Limits) -> Result<()> {
        let total = self.total(len)?;
        self.check_signs()?;
        let is_bounded = self.shuffled.is_some() || self.method == Method::Repeated;
        if is_bounded { limits.check(Limit::ChunkBytes, total) } else { Ok(()) }
    }

    /// Checks that nothing but signs is flipped, if they are.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`].
    pub(crate) fn check_signs(&self) -> Result<()> {
        let Method::Signs(signs) = self.method else { return Ok(()) };
        let is_possible = Signs::new(signs.period.get(), signs.at).is_some();
        let is_plain = *self == Compression::new(self.method, self.stored);
        match is_possible && is_plain {
            true => Ok(()),
            false => Err(Error::corrupt("an extent with other signs contradicts itself")),
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
