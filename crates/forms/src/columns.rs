//! Columns of tables: one value for each row.

use super::bytes::Bytes;
use ckpt_api::{Error, Result};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Unsigned integers, little-endian in one byte string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Column<T>(pub(crate) Vec<T>);

/// An integer of a column.
pub(crate) trait Number: Copy {
    /// Adds the integer's bytes.
    fn write(self, bytes: &mut Vec<u8>);

    /// The integers of whole bytes; `None` if the last one lacks some.
    fn read(bytes: &[u8]) -> Option<Vec<Self>>;
}

macro_rules! numbers {
    ($($type:ty)*) => {
        $(impl Number for $type {
            fn write(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn read(bytes: &[u8]) -> Option<Vec<Self>> {
                let (numbers, rest) = bytes.as_chunks();
                rest.is_empty().then(|| numbers.iter().map(|number| <$type>::from_le_bytes(*number)).collect())
            }
        })*
    };
}

numbers! { u32 u64 }

impl<T: Number> Serialize for Column<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::with_capacity(size_of_val(&self.0[..]));
        self.0.iter().for_each(|number| number.write(&mut bytes));
        serializer.serialize_bytes(&bytes)
    }
}

impl<'de, T: Number> Deserialize<'de> for Column<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Bytes(bytes) = Bytes::deserialize(deserializer)?;
        let numbers = T::read(&bytes).ok_or_else(|| D::Error::custom("a column ends within a number"))?;
        Ok(Column(numbers))
    }
}

/// Texts, one after the other in one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Texts {
    text: String,
    /// Bytes of each.
    lens: Column<u32>,
}

impl Texts {
    /// Adds a text of less than 4 GiB.
    pub(crate) fn push(&mut self, text: &str) -> Result<()> {
        self.text.push_str(text);
        self.lens.0.push(index(text.len())?);
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.lens.0.len()
    }

    /// The texts; an error follows the last one if the lengths do not fit the text.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<&str>> {
        let mut start = 0_usize;
        self.lens.0.iter().map(move |len| {
            let end = usize::try_from(*len).ok().and_then(|len| start.checked_add(len));
            let text = end.and_then(|end| self.text.get(start..end));
            start = end.unwrap_or(usize::MAX);
            text.ok_or_else(|| malformed("the lengths of texts do not fit them"))
        })
    }
}

/// A position in a table, as columns have it.
pub(crate) fn index(position: usize) -> Result<u32> {
    u32::try_from(position).map_err(|_| {
        Error::unsupported("a codec's message has a table of more than 2^32 rows").found(position.to_string())
    })
}

/// The error for a message that contradicts itself.
pub(crate) fn malformed(what: &str) -> Error {
    Error::unsupported("a message of a codec contradicts itself").found(what.to_owned())
}

/// The values of few kinds that many rows have.
#[derive(Debug)]
pub(crate) struct Kinds<T> {
    kinds: Vec<T>,
    known: std::collections::HashMap<T, u32>,
    last: Option<(T, u32)>,
}

impl<T: Clone + Eq + std::hash::Hash> Kinds<T> {
    pub(crate) fn new() -> Self {
        Kinds { kinds: Vec::new(), known: std::collections::HashMap::new(), last: None }
    }

    /// The number of a kind, which is new if no row before had it.
    pub(crate) fn number(&mut self, kind: &T) -> Result<u32> {
        if let Some((last, number)) = &self.last
            && last == kind
        {
            return Ok(*number);
        }
        let number = match self.known.get(kind) {
            Some(number) => *number,
            None => {
                let number = index(self.kinds.len())?;
                self.kinds.push(kind.clone());
                self.known.insert(kind.clone(), number);
                number
            }
        };
        self.last = Some((kind.clone(), number));
        Ok(number)
    }

    pub(crate) fn into_kinds(self) -> Vec<T> {
        self.kinds
    }
}
