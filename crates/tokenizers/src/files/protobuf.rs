//! The wire format of protocol buffers, for one small schema.

use ckpt_api::{Error, Result};

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed32(u32),
    Fixed64,
    /// A text, bytes or a message, and its offset in the file.
    Bytes(&'a [u8], u64),
}

/// Reads the fields of one message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    /// Offset of the first of the bytes in the file.
    offset: u64,
}

impl<'a> Fields<'a> {
    /// The fields in these bytes, which are at this offset of the file.
    pub(super) fn new(bytes: &'a [u8], offset: u64) -> Self {
        Fields { bytes, offset }
    }

    /// The next field: its number and its value.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] with the offset.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Value<'a>)>> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let start = self.offset;
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => {
                self.take(8)?;
                Value::Fixed64
            }
            2 => {
                let len = self.varint()?;
                let offset = self.offset;
                Value::Bytes(self.take(len)?, offset)
            }
            5 => {
                let bytes = self.take(4)?;
                Value::Fixed32(bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
            }
            other => {
                return Err(Error::corrupt("a field of the file has an unknown wire type")
                    .offset(start)
                    .found(other.to_string())
                    .expected("0, 1, 2 or 5"));
            }
        };
        Ok(Some((key >> 3, value)))
    }

    fn varint(&mut self) -> Result<u64> {
        let start = self.offset;
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?.first().copied().unwrap_or_default();
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Error::corrupt("a number of the file has more than 10 bytes").offset(start))
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8]> {
        let parts = usize::try_from(len).ok().and_then(|len| self.bytes.split_at_checked(len));
        let (taken, rest) = parts.ok_or_else(|| {
            Error::corrupt("the file is cut short")
                .offset(self.offset)
                .found(format!("{} left", ckpt_api::count(self.bytes.len(), "byte")))
                .expected(ckpt_api::count(len, "byte"))
                .help("copy the file again")
        })?;
        (self.bytes, self.offset) = (rest, self.offset.saturating_add(len));
        Ok(taken)
    }
}

/// Appends fields to a message.
#[derive(Debug, Default)]
pub(super) struct Message(pub(super) Vec<u8>);

impl Message {
    /// Appends a field with a number or a truth value.
    pub(super) fn varint(&mut self, field: u64, number: u64) -> &mut Self {
        self.number(field << 3);
        self.number(number);
        self
    }

    /// Appends a field with an f32.
    pub(super) fn float(&mut self, field: u64, number: f32) -> &mut Self {
        self.number(field << 3 | 5);
        self.0.extend(number.to_le_bytes());
        self
    }

    /// Appends a field with a text, bytes or a message.
    pub(super) fn bytes(&mut self, field: u64, bytes: &[u8]) -> &mut Self {
        self.number(field << 3 | 2);
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}
