//! Decoders that need nothing but the stored bytes: every program knows them, whatever its codecs register.

use super::decoder::{DecodeStream, Decoder, Parameters, StoredBytes};
use crate::Error;
use std::io::{self, Read};
use std::num::NonZeroU8;

/// The decoders that plans may refer to without a codec that registers them.
pub(super) const ALL: &[&Decoder] = &[Decoder::STORED, Decoder::REPEATED, SIGNS, LITERAL];

/// Bytes that are repeated, at most.
const LONGEST_PATTERN: u64 = 64;
/// Bytes of its parameters that an extent can be, at most.
const LONGEST_LITERAL: u64 = 64 << 10;

impl Decoder {
    /// Leaves bytes as they are: for those that are only shuffled.
    pub const STORED: &Decoder =
        &Decoder::stream("stored", |stored, _| stored, |stored, _, _| Ok(Box::new(Stored(stored))));

    /// Repeats the stored bytes, at most 64: for elements that have one value. Zeros if no bytes are stored. Such an
    /// extent has at most [`crate::Limit::ChunkBytes`].
    pub const REPEATED: &Decoder = &Decoder::stream("repeated", |_, _| u64::MAX, Repeated::start);
}

struct Stored(StoredBytes);

impl Read for Stored {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out)
    }
}

impl DecodeStream for Stored {}

/// Bytes that are repeated up to a length.
struct Repeated {
    pattern: Vec<u8>,
    at: usize,
    left: u64,
}

impl Repeated {
    fn start(stored: StoredBytes, _: &Parameters, left: u64) -> io::Result<Box<dyn DecodeStream>> {
        if stored.len() > LONGEST_PATTERN {
            return Err(io::Error::other(
                Error::unsupported("the bytes that are repeated are too many")
                    .found(crate::count(stored.len(), "byte"))
                    .expected(format!("at most {LONGEST_PATTERN} bytes")),
            ));
        }
        let mut pattern = Vec::new();
        stored.take(LONGEST_PATTERN).read_to_end(&mut pattern)?;
        Ok(Box::new(Repeated { pattern, at: 0, left }))
    }
}

impl Read for Repeated {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = usize::try_from(self.left).unwrap_or(usize::MAX).min(out.len());
        for byte in out.iter_mut().take(len) {
            *byte = self.pattern.get(self.at).copied().unwrap_or(0);
            self.at = if self.at + 1 < self.pattern.len() { self.at + 1 } else { 0 };
        }
        self.left = self.left.saturating_sub(len as u64);
        Ok(len)
    }
}

impl DecodeStream for Repeated {}

/// Returns the bytes of its parameters, whatever is stored.
pub(super) const LITERAL: &Decoder = &Decoder::stream(
    "literal",
    |stored, parameters| match literal(parameters) {
        Some(bytes) if stored == 0 => {
            Some(bytes.len() as u64).filter(|len| *len <= LONGEST_LITERAL).unwrap_or(0)
        }
        _ => 0,
    },
    |_, parameters, _| Ok(Box::new(Literal(io::Cursor::new(literal(parameters).unwrap_or_default().into())))),
);

/// The parameters of an extent that is these bytes.
pub(super) fn literal_of(bytes: impl Into<Box<[u8]>>) -> Parameters {
    Parameters::default().with_bytes("bytes", bytes)
}

fn literal(parameters: &Parameters) -> Option<&[u8]> {
    parameters.bytes("bytes")
}

struct Literal(io::Cursor<Box<[u8]>>);

impl Read for Literal {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out)
    }
}

impl DecodeStream for Literal {}

/// Flips the [`Signs`] of its parameters.
pub(super) const SIGNS: &Decoder = &Decoder::in_place(
    "signs",
    |parameters| Signs::of(parameters).is_some(),
    |offset, parameters, bytes| {
        if let Some(signs) = Signs::of(parameters) {
            signs.flip(offset, bytes);
        }
    },
);

/// Which bits of stored numbers are the other way round: the upper one of a byte in every period.
///
/// ```
/// use ckpt_api::Signs;
/// // Complex numbers of two little-endian 32-bit floats, whose imaginary parts are stored with the other sign.
/// let conjugated = Signs::new(8, 7);
/// assert!(conjugated.is_some() && Signs::new(8, 8).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

    /// As the decoder gets them.
    pub(super) fn parameters(self) -> Parameters {
        let period = Parameters::default().with_number("period", self.period.get().into());
        period.with_number("at", self.at.into())
    }

    fn of(parameters: &Parameters) -> Option<Self> {
        let byte = |name| u8::try_from(parameters.number(name)?).ok();
        Signs::new(byte("period")?, byte("at")?)
    }

    /// Flips the signs in bytes that begin at `offset` of the extent.
    fn flip(self, offset: u64, bytes: &mut [u8]) {
        let period = u64::from(self.period.get());
        let first = (u64::from(self.at) + period - offset % period) % period;
        for byte in bytes.iter_mut().skip(first as usize).step_by(period as usize) {
            *byte ^= 0x80;
        }
    }
}
