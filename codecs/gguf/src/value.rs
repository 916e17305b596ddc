//! Values of the metadata: each keeps its type.
//!
//! | in the file | in the checkpoint |
//! |---|---|
//! | a number, a truth value, a string | a [`MetadataValue`] of the same type and width |
//! | an array of u8 | `Bytes` |
//! | another array | `List`, whose elements have one type |
//! | an empty array | a map: `{"array_of": "i32"}` |
//! | a string that is not UTF-8 | a map of its bytes: `{"string": …}` |

use crate::format::ValueType;
use ckpt_api::fields::{count, number};
use ckpt_api::{Endian, Error, Fields, Limit, Limits, MetadataMap, MetadataValue, Number, Result, Writer};

/// Key of the map that stands for an empty array.
const ARRAY_OF: &str = "array_of";
/// Key of the map that stands for a string that is not UTF-8.
const STRING: &str = "string";

/// Reads values, and counts what they take.
pub(crate) struct Reader<'a> {
    endian: Endian,
    limits: &'a Limits,
    entries: u64,
    bytes: u64,
}

/// An array of arrays whose elements are being read.
struct Outer {
    left: u64,
    values: Vec<MetadataValue>,
}

impl<'a> Reader<'a> {
    /// A reader that keeps to `limits`, all values together.
    pub(crate) fn new(endian: Endian, limits: &'a Limits) -> Self {
        Reader { endian, limits, entries: 0, bytes: 0 }
    }

    /// Reads a value: its type and what follows. Arrays of arrays take no stack.
    pub(crate) fn read(&mut self, fields: &mut Fields) -> Result<MetadataValue> {
        let mut open: Vec<Outer> = Vec::new();
        let mut value_type = self.read_type(fields)?;
        loop {
            let mut value = match value_type {
                ValueType::Array => {
                    let element = self.read_type(fields)?;
                    let count = self.count(fields, element)?;
                    if element == ValueType::Array && count > 0 {
                        if open.len() + 1 >= MetadataValue::MAX_NESTING {
                            return Err(Error::limit("the arrays are nested too deeply")
                                .offset(fields.position())
                                .expected(format!("fewer than {} levels", MetadataValue::MAX_NESTING)));
                        }
                        open.push(Outer { left: count, values: Vec::new() });
                        continue;
                    }
                    self.array(fields, element, count)?
                }
                single => self.single(fields, single)?,
            };
            loop {
                let Some(outer) = open.last_mut() else { return Ok(value) };
                outer.values.push(value);
                outer.left = outer.left.saturating_sub(1);
                if outer.left > 0 {
                    value_type = ValueType::Array;
                    break;
                }
                value = MetadataValue::List(open.pop().map(|outer| outer.values).unwrap_or_default());
            }
        }
    }

    /// Reads the number of elements of an array.
    fn count(&mut self, fields: &mut Fields, element: ValueType) -> Result<u64> {
        let start = fields.position();
        let count = self.read_count(fields, element.min_bytes())?;
        match element {
            ValueType::U8 => self.bytes = self.bytes.saturating_add(count),
            _ => self.entries = self.entries.saturating_add(count),
        }
        self.check().map_err(|error| error.offset(start))?;
        Ok(count)
    }

    /// Reads the elements of an array of anything but arrays.
    fn array(&mut self, fields: &mut Fields, element: ValueType, count: u64) -> Result<MetadataValue> {
        if element == ValueType::U8 {
            return Ok(MetadataValue::Bytes(fields.bytes(count)?));
        }
        if count == 0 {
            return Ok(empty(element));
        }
        let mut values = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        for _ in 0..count {
            values.push(self.single(fields, element)?);
        }
        Ok(MetadataValue::List(values))
    }

    fn single(&mut self, fields: &mut Fields, value_type: ValueType) -> Result<MetadataValue> {
        Ok(match value_type {
            ValueType::U8 => self.number::<u8>(fields)?.into(),
            ValueType::I8 => self.number::<i8>(fields)?.into(),
            ValueType::U16 => self.number::<u16>(fields)?.into(),
            ValueType::I16 => self.number::<i16>(fields)?.into(),
            ValueType::U32 => self.number::<u32>(fields)?.into(),
            ValueType::I32 => self.number::<i32>(fields)?.into(),
            ValueType::U64 => self.number::<u64>(fields)?.into(),
            ValueType::I64 => self.number::<i64>(fields)?.into(),
            ValueType::F32 => self.number::<f32>(fields)?.into(),
            ValueType::F64 => self.number::<f64>(fields)?.into(),
            ValueType::Bool => self.truth(fields)?,
            ValueType::String => self.string(fields)?,
            ValueType::Array => return Err(Error::defect("an array is no single value")),
        })
    }

    fn string(&mut self, fields: &mut Fields) -> Result<MetadataValue> {
        let start = fields.position();
        let len = self.read_count(fields, 1)?;
        self.bytes = self.bytes.saturating_add(len);
        self.check().map_err(|error| error.offset(start))?;
        Ok(match String::from_utf8(fields.bytes(len)?) {
            Ok(text) => MetadataValue::Text(text),
            Err(error) => MetadataMap::from_iter([(STRING, MetadataValue::Bytes(error.into_bytes()))]).into(),
        })
    }

    fn read_type(&self, fields: &mut Fields) -> Result<ValueType> {
        let start = fields.position();
        let id = self.number::<u32>(fields)?;
        ValueType::from_id(id).ok_or_else(|| {
            Error::corrupt("a metadata value has an unknown type")
                .offset(start)
                .found(format!("type {id}"))
                .expected("a type from 0 to 12")
        })
    }

    fn truth(&self, fields: &mut Fields) -> Result<MetadataValue> {
        let start = fields.position();
        match self.number::<u8>(fields)? {
            0 => Ok(false.into()),
            1 => Ok(true.into()),
            other => {
                Err(Error::corrupt("a truth value is neither 0 nor 1").offset(start).found(other.to_string()))
            }
        }
    }

    fn number<T: Number>(&self, fields: &mut Fields) -> Result<T> {
        fields.parse(number::<T>(self.endian))
    }

    fn read_count(&self, fields: &mut Fields, min_bytes_each: u64) -> Result<u64> {
        fields.parse(|input| count(min_bytes_each, number::<u64>(self.endian))(input))
    }

    fn check(&self) -> Result<()> {
        self.limits.check(Limit::MetadataEntries, self.entries)?;
        self.limits.check(Limit::MetadataBytes, self.bytes)
    }
}

/// The value of an empty array.
fn empty(element: ValueType) -> MetadataValue {
    MetadataMap::from_iter([(ARRAY_OF, element.name())]).into()
}

/// Appends a value: its type and what follows..
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for a value that GGUF has no type for.
pub(crate) fn write(value: &MetadataValue, writer: &mut Writer) -> Result<()> {
    writer.number(type_of(value)? as u32);
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        match value {
            MetadataValue::List(values) => {
                let element = element_type(values)?;
                writer.number(element as u32).number(values.len() as u64);
                left.extend(values.iter().rev());
            }
            single => write_single(single, writer)?,
        }
    }
    Ok(())
}

/// Returns the type that a value has in a file.
fn type_of(value: &MetadataValue) -> Result<ValueType> {
    Ok(match value {
        MetadataValue::Bool(_) => ValueType::Bool,
        MetadataValue::U8(_) => ValueType::U8,
        MetadataValue::U16(_) => ValueType::U16,
        MetadataValue::U32(_) => ValueType::U32,
        MetadataValue::U64(_) => ValueType::U64,
        MetadataValue::I8(_) => ValueType::I8,
        MetadataValue::I16(_) => ValueType::I16,
        MetadataValue::I32(_) => ValueType::I32,
        MetadataValue::I64(_) => ValueType::I64,
        MetadataValue::F32(_) => ValueType::F32,
        MetadataValue::F64(_) => ValueType::F64,
        MetadataValue::Text(_) => ValueType::String,
        MetadataValue::Bytes(_) | MetadataValue::List(_) => ValueType::Array,
        MetadataValue::Map(map) if string_bytes(map).is_some() => ValueType::String,
        MetadataValue::Map(map) if empty_type(map).is_some() => ValueType::Array,
        other => {
            return Err(Error::unsupported("GGUF has no type for a metadata value")
                .found(shortened(&other.to_string()))
                .expected(
                    "a number, a truth value, a text, or a list of one of them; \
                     an empty list is written {\"array_of\": \"i32\"}",
                ));
        }
    })
}

/// The first characters of a text, for a message.
fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Returns the one type of the elements of a list.
fn element_type(values: &[MetadataValue]) -> Result<ValueType> {
    let [first, rest @ ..] = values else {
        return Err(Error::unsupported("the elements of an empty list have no type")
            .expected("an empty list with its type, as in {\"array_of\": \"i32\"}"));
    };
    let element = type_of(first)?;
    for value in rest {
        let other = type_of(value)?;
        if other != element {
            return Err(Error::unsupported("the elements of a list have different types").found(format!(
                "{} and {}",
                element.name(),
                other.name()
            )));
        }
    }
    Ok(element)
}

/// Returns the bytes of a string that is not UTF-8.
fn string_bytes(map: &MetadataMap) -> Option<&[u8]> {
    map.get(STRING).filter(|_| map.len() == 1)?.as_bytes()
}

/// Returns the type of the elements of an empty array.
fn empty_type(map: &MetadataMap) -> Option<ValueType> {
    ValueType::from_name(map.get(ARRAY_OF).filter(|_| map.len() == 1)?.as_text()?)
}

/// Appends what follows the type of anything but a list.
fn write_single(value: &MetadataValue, writer: &mut Writer) -> Result<()> {
    match value {
        MetadataValue::Bool(truth) => writer.number(u8::from(*truth)),
        MetadataValue::U8(number) => writer.number(*number),
        MetadataValue::U16(number) => writer.number(*number),
        MetadataValue::U32(number) => writer.number(*number),
        MetadataValue::U64(number) => writer.number(*number),
        MetadataValue::I8(number) => writer.number(*number),
        MetadataValue::I16(number) => writer.number(*number),
        MetadataValue::I32(number) => writer.number(*number),
        MetadataValue::I64(number) => writer.number(*number),
        MetadataValue::F32(number) => writer.number(*number),
        MetadataValue::F64(number) => writer.number(*number),
        MetadataValue::Text(text) => write_string(text.as_bytes(), writer),
        MetadataValue::Bytes(bytes) => {
            writer.number(ValueType::U8 as u32).number(bytes.len() as u64).bytes(bytes)
        }
        MetadataValue::Map(map) => match (string_bytes(map), empty_type(map)) {
            (Some(bytes), _) => write_string(bytes, writer),
            (None, Some(element)) => writer.number(element as u32).number(0u64),
            (None, None) => return type_of(value).map(drop),
        },
        other => return type_of(other).map(drop),
    };
    Ok(())
}

/// Appends a string: its length and its bytes.
pub(crate) fn write_string<'w>(bytes: &[u8], writer: &'w mut Writer) -> &'w mut Writer {
    writer.number(bytes.len() as u64).bytes(bytes)
}
