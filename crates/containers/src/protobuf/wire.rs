//! Fields of messages, read one after the other from a file.

use ckpt_api::fields::{array, le, varint};
use ckpt_api::{Error, Fields, File, Limit, Limits, Result};
use std::ops::Range;

/// Reads the fields of messages; a message within another is read where it is.
pub struct Wire<'a> {
    fields: Fields<'a>,
    limits: &'a Limits,
    format: &'static WireFormat,
}

/// What errors say of a format whose files are messages.
#[derive(Debug)]
pub struct WireFormat {
    /// The error for a file that ends within a message: "the model is cut short".
    pub cut_short: &'static str,
    /// The error for a field of another type than the format's.
    pub other_type: &'static str,
    /// The help for a wire type that protocol buffers do not have.
    pub unknown_type: &'static str,
}

/// One field: its number, its value, and where it is.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its number in the message's schema.
    pub number: u64,
    /// Its value.
    pub value: Value,
    /// The whole field, with its tag.
    pub span: Range<u64>,
}

/// The value of a field.
#[derive(Clone, Debug)]
pub enum Value {
    /// An integer, or a truth value.
    Varint(u64),
    /// 8 bytes of fixed length.
    Fixed64,
    /// 4 bytes of fixed length.
    Fixed32([u8; 4]),
    /// A text, a message, or packed numbers: so many bytes, which come next.
    Bytes(Range<u64>),
}

impl<'a> Wire<'a> {
    /// Reads the message that is the whole file.
    pub fn new(file: &'a File, limits: &'a Limits, format: &'static WireFormat) -> Self {
        Wire { fields: Fields::new(file).with_message(format.cut_short), limits, format }
    }

    /// Reads the message in this range.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] if the file ends before.
    pub fn within(
        file: &'a File,
        limits: &'a Limits,
        format: &'static WireFormat,
        range: Range<u64>,
    ) -> Result<Self> {
        let fields = Fields::range(file, range.start, range.end.saturating_sub(range.start))?;
        Ok(Wire { fields, limits, format })
    }

    /// Offset in the file of what is read next.
    pub fn position(&self) -> u64 {
        self.fields.position()
    }

    /// Reads the next field of the message that ends at `end`; `None` at its end. Bytes are left to be read or skipped.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for a field that exceeds the message or has an unknown wire type.
    pub fn field(&mut self, end: u64) -> Result<Option<Field>> {
        let start = self.fields.position();
        if start >= end {
            return if start == end {
                Ok(None)
            } else {
                Err(self.wrong("a field exceeds its message", start))
            };
        }
        let key = self.fields.parse(varint)?;
        let value = match key & 7 {
            0 => Value::Varint(self.fields.parse(varint)?),
            1 => {
                self.fields.skip(8)?;
                Value::Fixed64
            }
            2 => {
                let len = self.fields.parse(varint)?;
                let first = self.fields.position();
                let last = first.checked_add(len).filter(|last| *last <= end);
                let last = last.ok_or_else(|| {
                    self.wrong("a field exceeds its message", start)
                        .found(ckpt_api::count(len, "byte"))
                        .expected(format!("at most {}", end.saturating_sub(first)))
                })?;
                Value::Bytes(first..last)
            }
            5 => Value::Fixed32(self.fields.parse(array)?),
            kind => {
                return Err(self
                    .wrong("a field has an unknown wire type", start)
                    .found(format!("type {kind} of field {}", key >> 3))
                    .help(self.format.unknown_type));
            }
        };
        let stop = match &value {
            Value::Bytes(range) => range.end,
            _ => self.fields.position(),
        };
        if stop > end || key >> 3 == 0 {
            return Err(self.wrong("a field exceeds its message, or has the number 0", start));
        }
        Ok(Some(Field { number: key >> 3, value, span: start..stop }))
    }

    /// Moves to the end of a field of which nothing, or a part, was read.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for a file that ends before.
    pub fn skip(&mut self, field: &Field) -> Result<()> {
        let rest = field.span.end.checked_sub(self.fields.position());
        let rest = rest.ok_or_else(|| self.wrong("a field exceeds its message", field.span.start))?;
        self.fields.skip(rest)
    }

    /// Reads a text within the limit of names.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`] beyond [`Limit::NameBytes`]; [`ckpt_api::Kind::Corrupt`] for a field of another type.
    pub fn text(&mut self, field: &Field) -> Result<String> {
        let range = self.range(field)?;
        self.fields.text(range.end.saturating_sub(range.start), self.limits, Limit::NameBytes)
    }

    /// Reads bytes within the limit of headers.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`] beyond [`Limit::HeaderBytes`]; [`ckpt_api::Kind::Corrupt`] for a field of another type.
    pub fn bytes(&mut self, field: &Field) -> Result<Vec<u8>> {
        let range = self.range(field)?;
        let len = range.end.saturating_sub(range.start);
        self.limits.check(Limit::HeaderBytes, len)?;
        self.fields.bytes(len)
    }

    /// The bytes of a field that has some.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for a field of another type.
    pub fn range(&self, field: &Field) -> Result<Range<u64>> {
        match &field.value {
            Value::Bytes(range) => Ok(range.clone()),
            other => Err(self.kind(field, other)),
        }
    }

    /// The integer of a field.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for a field of another type.
    pub fn int(&self, field: &Field) -> Result<i64> {
        match field.value {
            Value::Varint(value) => Ok(value as i64),
            ref other => Err(self.kind(field, other)),
        }
    }

    /// The 32-bit float of a field.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for a field of another type.
    pub fn float(&self, field: &Field) -> Result<f32> {
        match field.value {
            Value::Fixed32(bytes) => Ok(f32::from_le_bytes(bytes)),
            ref other => Err(self.kind(field, other)),
        }
    }

    /// Adds the integers of a field that may be packed.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for a field of another type, or cut short.
    pub fn ints(&mut self, field: &Field, to: &mut Vec<i64>) -> Result<()> {
        match &field.value {
            Value::Varint(value) => to.push(*value as i64),
            Value::Bytes(range) => {
                while self.fields.position() < range.end {
                    to.push(self.fields.parse(varint)? as i64);
                }
            }
            other => return Err(self.kind(field, other)),
        }
        Ok(())
    }

    /// Adds the 32-bit floats of a field that may be packed.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for a field of another type, or cut short.
    pub fn floats(&mut self, field: &Field, to: &mut Vec<f32>) -> Result<()> {
        match &field.value {
            Value::Fixed32(bytes) => to.push(f32::from_le_bytes(*bytes)),
            Value::Bytes(range) => {
                while self.fields.position() < range.end {
                    to.push(self.fields.parse(le::<f32>)?);
                }
            }
            other => return Err(self.kind(field, other)),
        }
        Ok(())
    }

    fn kind(&self, field: &Field, value: &Value) -> Error {
        let found = match value {
            Value::Varint(_) => "a varint",
            Value::Fixed64 => "8 bytes",
            Value::Fixed32(_) => "4 bytes",
            Value::Bytes(_) => "a length and bytes",
        };
        let error = self.wrong(self.format.other_type, field.span.start);
        error.found(format!("{found} as field {}", field.number))
    }

    /// The error for a message that breaks the format at this offset.
    pub fn wrong(&self, what: &str, at: u64) -> Error {
        Error::corrupt(what).offset(at)
    }
}
