//! The JSON form of metadata, which [`MetadataValue`] documents.
//!
//! JSON has one kind of integers and one of floats. Other values are objects with one key, a tag. A map that looks like
//! such an object is itself wrapped in one, so that the form is one to one.

use super::{MetadataMap, MetadataValue};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::fmt;

/// Tag of a map that without it would be read as another value.
const MAP: &str = "$map";
/// Levels of JSON: each level of a value may need a tag.
const MAX_LEVELS: usize = 2 * MetadataValue::MAX_NESTING + 1;

impl Serialize for MetadataMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl Serialize for MetadataValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some((tag, content)) = tagged(self) {
            return one_entry(serializer, tag, &content);
        }
        match self {
            MetadataValue::Null => serializer.serialize_unit(),
            MetadataValue::Bool(value) => serializer.serialize_bool(*value),
            MetadataValue::I64(number) => serializer.serialize_i64(*number),
            MetadataValue::U64(number) => serializer.serialize_u64(*number),
            MetadataValue::F64(number) => serializer.serialize_f64(*number),
            MetadataValue::Text(text) => serializer.serialize_str(text),
            MetadataValue::List(values) => serializer.collect_seq(values),
            MetadataValue::Map(map) if needs_tag(map) => one_entry(serializer, MAP, map),
            MetadataValue::Map(map) => map.serialize(serializer),
            // The others have a tag.
            _ => Err(serde::ser::Error::custom("the metadata value has no JSON form")),
        }
    }
}

/// The JSON form.
impl fmt::Display for MetadataValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

fn one_entry<S: Serializer>(serializer: S, key: &str, value: &impl Serialize) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(key, value)?;
    map.end()
}

/// Returns the tag of a value and what stands under it, a value without a tag. `None` for values that JSON has, and for
/// maps.
fn tagged(value: &MetadataValue) -> Option<(&'static str, MetadataValue)> {
    let integer = |number: i64| MetadataValue::I64(number);
    Some(match *value {
        MetadataValue::U8(number) => ("$u8", integer(number.into())),
        MetadataValue::U16(number) => ("$u16", integer(number.into())),
        MetadataValue::U32(number) => ("$u32", integer(number.into())),
        MetadataValue::U64(number) => ("$u64", integer(i64::try_from(number).ok()?)),
        MetadataValue::I8(number) => ("$i8", integer(number.into())),
        MetadataValue::I16(number) => ("$i16", integer(number.into())),
        MetadataValue::I32(number) => ("$i32", integer(number.into())),
        MetadataValue::F32(number) if number.is_finite() => ("$f32", MetadataValue::F64(number.into())),
        MetadataValue::F32(number) => ("$f32", format!("{:08x}", number.to_bits()).into()),
        MetadataValue::F64(number) if !number.is_finite() => {
            ("$f64", format!("{:016x}", number.to_bits()).into())
        }
        MetadataValue::Bytes(ref bytes) => ("$bytes", BASE64_STANDARD.encode(bytes).into()),
        _ => return None,
    })
}

/// The inverse of [`tagged`]; `None` for anything that it does not return.
fn untagged(tag: &str, content: &MetadataValue) -> Option<MetadataValue> {
    let (integer, text) = (content.as_i64(), content.as_text());
    let value = match tag {
        "$u8" => u8::try_from(integer?).ok()?.into(),
        "$u16" => u16::try_from(integer?).ok()?.into(),
        "$u32" => u32::try_from(integer?).ok()?.into(),
        "$u64" => u64::try_from(integer?).ok()?.into(),
        "$i8" => i8::try_from(integer?).ok()?.into(),
        "$i16" => i16::try_from(integer?).ok()?.into(),
        "$i32" => i32::try_from(integer?).ok()?.into(),
        "$f32" => match content.as_f64() {
            Some(number) => MetadataValue::F32(number as f32),
            None => f32::from_bits(u32::from_str_radix(text?, 16).ok()?).into(),
        },
        "$f64" => f64::from_bits(u64::from_str_radix(text?, 16).ok()?).into(),
        "$bytes" => MetadataValue::Bytes(BASE64_STANDARD.decode(text?).ok()?),
        _ => return None,
    };
    // Other spellings, and numbers that lost bits, are maps like any other.
    tagged(&value).is_some_and(|(own, canonical)| own == tag && canonical == *content).then_some(value)
}

/// Whether the plain form of a map would be read as another value.
fn needs_tag(map: &MetadataMap) -> bool {
    let mut map = map;
    loop {
        let mut entries = map.iter();
        let (Some((key, value)), None) = (entries.next(), entries.next()) else { return false };
        match value {
            _ if untagged(key, value).is_some() => return true,
            MetadataValue::Map(inner) if key == MAP => map = inner,
            _ => return key == MAP && tagged(value).is_some(),
        }
    }
}

/// A value that was read, and the one entry of its object if that object is a tag's.
struct Read {
    value: MetadataValue,
    entry: Option<(String, MetadataValue)>,
}

impl From<MetadataValue> for Read {
    fn from(value: MetadataValue) -> Self {
        Read { value, entry: None }
    }
}

impl Read {
    /// The value of an object with this one entry.
    fn object(key: String, content: Read) -> Read {
        if let Some(value) = untagged(&key, &content.value) {
            return Read { value, entry: Some((key, content.value)) };
        }
        match content.entry {
            Some(entry) if key == MAP => {
                let map = MetadataMap::from_iter([entry]);
                Read { value: map.into(), entry: Some((key, content.value)) }
            }
            _ => MetadataValue::from(MetadataMap::from_iter([(key, content.value)])).into(),
        }
    }
}

impl<'de> Deserialize<'de> for MetadataValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Level(0).deserialize(deserializer).map(|read| read.value)
    }
}

impl<'de> Deserialize<'de> for MetadataMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = MetadataMap;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<MetadataMap, A::Error> {
                let mut map = MetadataMap::new();
                while let Some((key, value)) = entries.next_entry::<String, MetadataValue>()? {
                    map.insert(key, value);
                }
                Ok(map)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// Reads a value at this level of a document.
#[derive(Clone, Copy)]
struct Level(usize);

impl Level {
    fn below<E: de::Error>(self) -> Result<Level, E> {
        match self.0 < MAX_LEVELS {
            true => Ok(Level(self.0 + 1)),
            false => Err(E::custom("the metadata is nested too deeply")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Read;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Read, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = Read;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a metadata value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Read, E> {
        Ok(MetadataValue::Null.into())
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Read, E> {
        Ok(MetadataValue::Bool(value).into())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Read, E> {
        Ok(MetadataValue::I64(number).into())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Read, E> {
        Ok(MetadataValue::integer(number).into())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Read, E> {
        Ok(MetadataValue::F64(number).into())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Read, E> {
        Ok(MetadataValue::from(text).into())
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Read, E> {
        Ok(MetadataValue::Text(text).into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Read, A::Error> {
        let below = self.below()?;
        let mut values = Vec::new();
        while let Some(read) = elements.next_element_seed(below)? {
            values.push(read.value);
        }
        Ok(MetadataValue::List(values).into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Read, A::Error> {
        let below = self.below()?;
        let Some(key) = entries.next_key::<String>()? else {
            return Ok(MetadataValue::from(MetadataMap::new()).into());
        };
        let first = entries.next_value_seed(below)?;
        let Some(next) = entries.next_key::<String>()? else { return Ok(Read::object(key, first)) };
        let mut map = MetadataMap::from_iter([(key, first.value)]);
        map.insert(next, entries.next_value_seed(below)?.value);
        while let Some(key) = entries.next_key::<String>()? {
            map.insert(key, entries.next_value_seed(below)?.value);
        }
        Ok(MetadataValue::Map(map).into())
    }
}
