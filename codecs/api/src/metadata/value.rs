//! The values of metadata: one value, and maps of them, which are values, too.

use super::key::Key;
use std::collections::HashMap;

/// One value. It keeps the width of integers and floats, every bit of a float, and the order of a map.
///
/// Two values are equal if they have the same type and the same bits: a NaN equals itself, and -0 differs from 0.
///
/// # JSON
/// `Serialize` and `Deserialize` map values to JSON one to one. Every JSON document is a value, and is written again as
/// it was:
///
/// | value | JSON |
/// |---|---|
/// | `I64`; `U64` above 2⁶³ - 1 | `5` |
/// | finite `F64` | `0.5` |
/// | `Null`, `Bool`, `Text`, `List`, `Map` | `null`, `true`, `"text"`, `[…]`, `{…}` |
/// | other integers, such as `U32` | `{"$u32": 5}` |
/// | `F32` | `{"$f32": 0.5}`; bits if it is not finite: `{"$f32": "7fc00000"}` |
/// | infinite or NaN `F64` | `{"$f64": "7ff8000000000000"}` |
/// | `Bytes` | `{"$bytes": "AAEC"}`, in base64 |
/// | `Map` whose own form is one of these | `{"$map": {"$u32": 5}}` |
///
/// # Nesting
/// Values nest at most [`MetadataValue::MAX_NESTING`] deep. [`crate::Contents::check`] refuses deeper ones. A codec
/// that builds nested values from input calls [`MetadataValue::checked`] on each list and map that it completes,
/// because comparing and dropping a value takes stack for each level.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum MetadataValue {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// An unsigned integer of 8 bits.
    U8(u8),
    /// An unsigned integer of 16 bits.
    U16(u16),
    /// An unsigned integer of 32 bits.
    U32(u32),
    /// An unsigned integer of 64 bits.
    U64(u64),
    /// A signed integer of 8 bits.
    I8(i8),
    /// A signed integer of 16 bits.
    I16(i16),
    /// A signed integer of 32 bits.
    I32(i32),
    /// A signed integer of 64 bits, and an integer whose width the source does not state.
    I64(i64),
    /// A float of 32 bits.
    F32(f32),
    /// A float of 64 bits.
    F64(f64),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A sequence.
    List(Vec<MetadataValue>),
    /// Values by key.
    Map(MetadataMap),
}

impl MetadataValue {
    /// Levels of lists and maps that a value may have.
    pub const MAX_NESTING: usize = 48;

    /// An integer whose width does not matter: `I64` if it fits, or else `U64`, as in JSON.
    ///
    /// ```
    /// use ckpt_api::MetadataValue;
    /// assert_eq!(MetadataValue::integer(5), MetadataValue::I64(5));
    /// assert_eq!(MetadataValue::integer(u64::MAX), MetadataValue::U64(u64::MAX));
    /// ```
    pub fn integer(number: u64) -> Self {
        i64::try_from(number).map_or(MetadataValue::U64(number), MetadataValue::I64)
    }

    /// A list of integers whose width does not matter.
    pub fn integers(numbers: impl IntoIterator<Item = u64>) -> Self {
        MetadataValue::List(numbers.into_iter().map(MetadataValue::integer).collect())
    }

    /// Returns the truth value.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            MetadataValue::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// Returns an integer of any width, if it is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            MetadataValue::U64(number) => Some(number),
            _ => self.as_i64().and_then(|number| u64::try_from(number).ok()),
        }
    }

    /// Returns an integer of any width, if it fits.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            MetadataValue::U8(number) => Some(number.into()),
            MetadataValue::U16(number) => Some(number.into()),
            MetadataValue::U32(number) => Some(number.into()),
            MetadataValue::U64(number) => i64::try_from(number).ok(),
            MetadataValue::I8(number) => Some(number.into()),
            MetadataValue::I16(number) => Some(number.into()),
            MetadataValue::I32(number) => Some(number.into()),
            MetadataValue::I64(number) => Some(number),
            _ => None,
        }
    }

    /// Returns a float of any width.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            MetadataValue::F32(number) => Some(number.into()),
            MetadataValue::F64(number) => Some(number),
            _ => None,
        }
    }

    /// Returns the text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            MetadataValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            MetadataValue::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns the elements of the list.
    pub fn as_list(&self) -> Option<&[MetadataValue]> {
        match self {
            MetadataValue::List(values) => Some(values),
            _ => None,
        }
    }

    /// Returns the map.
    pub fn as_map(&self) -> Option<&MetadataMap> {
        match self {
            MetadataValue::Map(map) => Some(map),
            _ => None,
        }
    }
}

impl PartialEq for MetadataValue {
    fn eq(&self, other: &Self) -> bool {
        use MetadataValue::*;
        match (self, other) {
            (Null, Null) => true,
            (Bool(a), Bool(b)) => a == b,
            (U8(a), U8(b)) => a == b,
            (U16(a), U16(b)) => a == b,
            (U32(a), U32(b)) => a == b,
            (U64(a), U64(b)) => a == b,
            (I8(a), I8(b)) => a == b,
            (I16(a), I16(b)) => a == b,
            (I32(a), I32(b)) => a == b,
            (I64(a), I64(b)) => a == b,
            (F32(a), F32(b)) => a.to_bits() == b.to_bits(),
            (F64(a), F64(b)) => a.to_bits() == b.to_bits(),
            (Text(a), Text(b)) => a == b,
            (Bytes(a), Bytes(b)) => a == b,
            (List(a), List(b)) => a == b,
            (Map(a), Map(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for MetadataValue {}

macro_rules! from {
    ($($type:ty => $variant:ident;)*) => {
        $(impl From<$type> for MetadataValue {
            fn from(value: $type) -> Self {
                MetadataValue::$variant(value.into())
            }
        })*
    };
}

from! {
    bool => Bool;
    u8 => U8;
    u16 => U16;
    u32 => U32;
    u64 => U64;
    i8 => I8;
    i16 => I16;
    i32 => I32;
    i64 => I64;
    f32 => F32;
    f64 => F64;
    &str => Text;
    String => Text;
    MetadataMap => Map;
}

impl<T: Into<MetadataValue>> From<Vec<T>> for MetadataValue {
    fn from(values: Vec<T>) -> Self {
        MetadataValue::List(values.into_iter().map(T::into).collect())
    }
}

impl<T: Clone + Into<MetadataValue>> From<&[T]> for MetadataValue {
    fn from(values: &[T]) -> Self {
        MetadataValue::List(values.iter().cloned().map(T::into).collect())
    }
}

impl<T: Into<MetadataValue>, const N: usize> From<[T; N]> for MetadataValue {
    fn from(values: [T; N]) -> Self {
        MetadataValue::List(values.into_iter().map(T::into).collect())
    }
}

impl<T: Into<MetadataValue>> From<Option<T>> for MetadataValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(MetadataValue::Null, T::into)
    }
}

/// Values by key, in the order in which the keys were inserted.
///
/// Two maps are equal if they have the same entries, in any order.
///
/// ```
/// use ckpt_api::{MetadataMap, MetadataValue};
/// let map: MetadataMap = [("b", 1i64), ("a", 2)].into_iter().collect();
/// assert_eq!(map.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["b", "a"]);
/// assert_eq!(map.get("a"), Some(&MetadataValue::I64(2)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct MetadataMap {
    entries: Vec<(Key, MetadataValue)>,
    /// `None` while there are few: comparing those is faster, and most maps have few.
    positions: Option<Box<Positions>>,
}

/// Position of every key.
#[derive(Clone, Debug)]
struct Positions(HashMap<Box<str>, usize>);

/// Number of entries that are searched one by one.
const FEW: usize = 16;

impl MetadataMap {
    /// An empty map.
    pub fn new() -> Self {
        MetadataMap::default()
    }

    /// Sets one value. Returns the one that it replaces; the key keeps its place then.
    pub fn insert(
        &mut self,
        key: impl Into<String>,
        value: impl Into<MetadataValue>,
    ) -> Option<MetadataValue> {
        let (key, value): (String, MetadataValue) = (key.into(), value.into());
        let position = self.position(&key);
        if let Some((_, old)) = position.and_then(|position| self.entries.get_mut(position)) {
            return Some(std::mem::replace(old, value));
        }
        if let Some(positions) = &mut self.positions {
            positions.0.insert(key.as_str().into(), self.entries.len());
        }
        if self.entries.is_empty() {
            // Many maps have one entry, and `push` alone would make room for four.
            self.entries.reserve_exact(1);
        }
        self.entries.push((key.into(), value));
        if self.positions.is_none() && self.entries.len() > FEW {
            self.index();
        }
        None
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&MetadataValue> {
        self.entries.get(self.position(key)?).map(|(_, value)| value)
    }

    /// Removes a key and returns its value. Takes time linear in the number of entries.
    pub fn remove(&mut self, key: &str) -> Option<MetadataValue> {
        let position = self.position(key)?;
        let (_, value) = self.entries.remove(position);
        self.index();
        Some(value)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the entries in the order in which their keys were inserted.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &MetadataValue)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    fn position(&self, key: &str) -> Option<usize> {
        match &self.positions {
            Some(positions) => positions.0.get(key).copied(),
            None => self.entries.iter().position(|(own, _)| own.as_bytes() == key.as_bytes()),
        }
    }

    fn index(&mut self) {
        let keys =
            self.entries.iter().enumerate().map(|(position, (key, _))| (key.as_str().into(), position));
        self.positions = (self.entries.len() > FEW).then(|| Box::new(Positions(keys.collect())));
    }
}

impl PartialEq for MetadataMap {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl Eq for MetadataMap {}

impl IntoIterator for MetadataMap {
    type Item = (String, MetadataValue);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        let entries = self.entries.into_iter().map(|(key, value)| (key.as_str().to_owned(), value));
        entries.collect::<Vec<_>>().into_iter()
    }
}

impl<K: Into<String>, V: Into<MetadataValue>> FromIterator<(K, V)> for MetadataMap {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = MetadataMap::new();
        map.extend(entries);
        map
    }
}

impl<K: Into<String>, V: Into<MetadataValue>> Extend<(K, V)> for MetadataMap {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}
