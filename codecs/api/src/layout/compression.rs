//! How stored bytes are compressed.

use super::decoder::{Decoder, DecoderUnit, DecoderUse, Parameters};
use super::plain_decoders::{self, LITERAL, SIGNS, Signs, literal_of};
use crate::{Error, Limit, Limits, Result};
use serde::{Deserialize, Deserializer, Serialize};
use std::num::NonZeroU32;

/// Bytes of a checksum at the end of the compressed bytes.
pub(crate) const FLETCHER_BYTES: u64 = 4;

/// How the bytes of an extent are compressed in their file.
///
/// ```
/// use ckpt_api::{Compression, Decoder};
/// // Four bytes that are repeated; the first 128 of the result are not the extent's.
/// let compression = Compression::new(Decoder::REPEATED, 4).skipping(128);
/// assert_eq!((compression.decoder(), compression.stored, compression.skip), ("repeated", 4, 128));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Compression {
    /// How the file's bytes are decompressed.
    #[serde(rename = "method", deserialize_with = "stated")]
    decoder: DecoderUse,
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

impl Compression {
    /// The decoder's output of `stored` bytes in the file.
    pub fn new(decoder: &'static Decoder, stored: u64) -> Self {
        let decoder = DecoderUse::Plain(decoder);
        Compression { decoder, stored, skip: 0, after: 0, shuffled: None, fletcher32: false }
    }

    /// `stored` bytes of numbers that are stored with these signs flipped. Any range of them can be read by itself, so
    /// that nothing is skipped, shuffled or summed.
    pub fn flipping(signs: Signs, stored: u64) -> Self {
        Compression::new(SIGNS, stored).with_parameters(signs.parameters())
    }

    /// Bytes that no file holds: those of a small tensor that is made while a conversion is planned. The plan has them; at most
    /// 64 KiB. None are stored, so that the extent may begin anywhere in any file.
    ///
    /// ```
    /// use ckpt_api::{Compression, Extent, FileId, Input};
    /// let file = Input::memory("f", [("f".to_owned(), Vec::new())].into()).main()?;
    /// let extent = Extent::new(FileId(0), 0, 3).with_compression(Compression::literal(*b"abc"));
    /// assert_eq!(extent.open(&file)?.bytes(1, 2)?, *b"bc");
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    pub fn literal(bytes: impl Into<Box<[u8]>>) -> Self {
        Compression::new(LITERAL, 0).with_parameters(literal_of(bytes))
    }

    /// The same with parameters for the decoder.
    #[must_use]
    pub fn with_parameters(mut self, parameters: Parameters) -> Self {
        if let Some(decoder) = self.decoder.decoder() {
            self.decoder = DecoderUse::new(decoder, parameters);
        }
        self
    }

    /// The name of the decoder.
    pub fn decoder(&self) -> &str {
        self.decoder.name()
    }

    /// Whether the decoder is known: a document holds only its name, and [`Compression::attach`] looks for it.
    pub fn has_decoder(&self) -> bool {
        self.decoder.decoder().is_some()
    }

    /// Takes the decoder of its name out of `known`, which a serialized compression lacks.
    pub fn attach(&mut self, known: &[&'static Decoder]) {
        self.decoder.attach(known);
    }

    /// The decoder and its parameters.
    ///
    /// # Errors
    /// [`crate::Kind::Unsupported`] for one of a plan that no codec of this program knows.
    pub(crate) fn known(&self) -> Result<(&'static Decoder, &Parameters)> {
        let decoder = self.decoder.decoder().ok_or_else(|| {
            Error::unsupported("no decoder of this name is registered").found(self.decoder().to_owned())
        })?;
        Ok((decoder, self.decoder.parameters()))
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

    /// Decompressed bytes of an extent of `len`, those before and after it included. A decoder that is not known yet
    /// bounds nothing.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] if so few stored bytes cannot hold them.
    pub(crate) fn total(&self, len: u64) -> Result<u64> {
        let most = self.longest().unwrap_or(u64::MAX);
        let total = self.skip.checked_add(len).and_then(|total| total.checked_add(self.after));
        let total = total.filter(|total| *total <= most).ok_or_else(|| {
            Error::corrupt("the compressed data is too short for the tensor")
                .found(format!("{} bytes of {}", self.stored, self.decoder()))
                .expected(format!("at least the compressed size of {len} bytes"))
        })?;
        match self.is_in_place() && !self.is_plain(len) {
            true => Err(Error::corrupt("an extent that is decoded in place has other bytes than are stored")
                .found(format!("{} bytes of {}", self.stored, self.decoder()))
                .expected(format!("{len} bytes, none of them skipped, shuffled or summed"))),
            false => Ok(total),
        }
    }

    /// The most bytes that the stored ones decode to; `None` for a decoder that is not known yet.
    fn longest(&self) -> Option<u64> {
        Some(self.decoder.decoder()?.longest(self.payload(), self.decoder.parameters()))
    }

    /// Checks what can be checked without decompressing.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`], [`crate::Kind::Limit`].
    pub(crate) fn check(&self, len: u64, limits: &Limits) -> Result<()> {
        let total = self.total(len)?;
        let is_bounded = self.shuffled.is_some() || self.longest() == Some(u64::MAX);
        match self.is_whole() {
            true => limits.check(Limit::ChunkBytes, total.max(self.payload())),
            false if is_bounded => limits.check(Limit::ChunkBytes, total),
            false => Ok(()),
        }
    }

    /// Whether the decoder needs all bytes at once.
    pub(crate) fn is_whole(&self) -> bool {
        self.unit() == Some(DecoderUnit::Whole)
    }

    /// Whether any range of bytes is decoded by itself.
    pub(crate) fn is_in_place(&self) -> bool {
        self.unit() == Some(DecoderUnit::InPlace)
    }

    fn unit(&self) -> Option<DecoderUnit> {
        self.decoder.decoder().map(Decoder::unit)
    }

    /// Whether the extent has as many bytes as are stored, and none beside them.
    fn is_plain(&self, len: u64) -> bool {
        let Compression { stored, skip, after, shuffled, fletcher32, .. } = *self;
        (stored, skip, after, shuffled, fletcher32) == (len, 0, 0, None, false)
    }
}

/// The decoder of a document, which is known if every program knows it.
fn stated<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<DecoderUse, D::Error> {
    let mut stated = DecoderUse::deserialize(deserializer)?;
    stated.attach(plain_decoders::ALL);
    Ok(stated)
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
