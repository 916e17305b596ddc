//! The fields of a body: numbers of variable length, and columns of them.

use ckpt_api::fields::{Bytes, array, bytes, field, le, varint};
use ckpt_api::{Error, Result, count};

/// The rest of a body.
pub(super) struct Body<'a>(Bytes<'a>);

impl<'a> Body<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Body(Bytes::new(bytes, 0))
    }

    /// Bytes from the beginning of the body.
    pub(super) fn offset(&self) -> u64 {
        self.0.offset()
    }

    pub(super) fn byte(&mut self, name: &'static str) -> Result<u8> {
        self.0.parse(field(name, le::<u8>))
    }

    pub(super) fn number(&mut self, name: &'static str) -> Result<u64> {
        self.0.parse(field(name, varint))
    }

    pub(super) fn array<const N: usize>(&mut self, name: &'static str) -> Result<[u8; N]> {
        self.0.parse(field(name, array))
    }

    pub(super) fn bytes(&mut self, name: &'static str, len: u64) -> Result<&'a [u8]> {
        self.0.parse(field(name, bytes(len)))
    }

    /// A number of things, each of which has at least one byte in the rest of the body.
    pub(super) fn count(&mut self, name: &'static str, most: u64) -> Result<usize> {
        let at = self.offset();
        let number = self.number(name)?;
        if number > most || number > self.0.remaining() {
            return Err(Error::corrupt("a count is larger than what is counted can be")
                .offset(at)
                .field(name)
                .found(number.to_string())
                .expected(format!("at most {}", most.min(self.0.remaining()))));
        }
        usize::try_from(number).map_err(|_| Error::limit("too large for this machine"))
    }

    /// As many numbers as there are things.
    pub(super) fn column(&mut self, name: &'static str, len: usize) -> Result<Vec<u64>> {
        // A number has at least a byte.
        if len as u64 > self.0.remaining() {
            return Err(self.too_short(name, len as u64));
        }
        (0..len).map(|_| self.number(name)).collect()
    }

    pub(super) fn skip_column(&mut self, name: &'static str, len: usize) -> Result<()> {
        (0..len).try_for_each(|_| self.number(name).map(|_| ()))
    }

    /// Refuses bytes after the last field.
    pub(super) fn end(self, what: &str) -> Result<()> {
        match self.0.remaining() {
            0 => Ok(()),
            left => Err(Error::corrupt(format!("bytes follow the last field of {what}"))
                .offset(self.offset())
                .found(count(left, "byte"))
                .expected("none")),
        }
    }

    fn too_short(&self, name: &'static str, len: u64) -> Error {
        Error::corrupt("the data ends too early")
            .offset(self.offset())
            .field(name)
            .found(count(self.0.remaining(), "byte"))
            .expected(format!("at least {}", count(len, "byte")))
    }
}
