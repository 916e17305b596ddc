//! JSON files in bounded memory.

use ckpt_api::{Error, Input, Limit, Limits, Result};
use serde::de::{DeserializeOwned, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use std::fmt;
use std::marker::PhantomData;

/// A JSON file of a directory.
#[derive(Debug)]
pub(crate) struct Json<T> {
    /// The file as messages name it.
    pub(crate) file: String,
    pub(crate) value: T,
}

/// Reads a JSON file of a directory; `None` if there is none.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for what is not JSON, or JSON of another shape; [`ckpt_api::Kind::Limit`].
pub(crate) fn from_directory<T: DeserializeOwned>(
    directory: &Input,
    name: &str,
    limits: &Limits,
) -> Result<Option<Json<T>>> {
    if !directory.has_file(name) {
        return Ok(None);
    }
    let file = directory.file(name)?;
    let named = |error: Error| error.file(file.name());
    limits.check(Limit::HeaderBytes, file.len()).map_err(named)?;
    let value = parse(&file.bytes(0, file.len())?, limits).map_err(named)?;
    Ok(Some(Json { file: file.name().to_owned(), value }))
}

/// Parses a JSON text.
///
/// # Errors
/// As [`from_directory`].
fn parse<T: DeserializeOwned>(json: &[u8], limits: &Limits) -> Result<T> {
    limits.check(Limit::MetadataEntries, most_values(json))?;
    serde_json::from_slice(json).map_err(|error| match error.classify() {
        Category::Data => Error::corrupt("the JSON file does not have the fields of a tokenizer file")
            .found(error.to_string())
            .help("copy the file again, or save the tokenizer again with its own library"),
        _ => Error::corrupt("the file is not JSON").found(error.to_string()).help(
            "copy the file again; a file of a few lines that name a version and a size is a pointer of Git LFS: fetch it",
        ),
    })
}

/// Returns a number that is at least the number of values in the text: each of them but the first follows a bracket or a
/// comma. Signs inside strings count, too, of which tokenizers have few.
fn most_values(json: &[u8]) -> u64 {
    1 + json.iter().filter(|byte| matches!(byte, b'[' | b'{' | b',')).count() as u64
}

/// A short list: one of a part that has few elements in every tokenizer. More are an error.
#[derive(Clone, Debug)]
pub(super) struct Few<T>(pub(super) Vec<T>);

impl<T> Default for Few<T> {
    fn default() -> Self {
        Few(Vec::new())
    }
}

impl<T> Few<T> {
    /// Elements of a short list. The longest one that is known has 60.
    const MOST: usize = 4096;
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Elements<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
            type Value = Few<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {} elements", Few::<T>::MOST)
            }

            fn visit_unit<E>(self) -> std::result::Result<Few<T>, E> {
                Ok(Few::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> std::result::Result<Few<T>, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = elements.next_element()? {
                    if values.len() == Few::<T>::MOST {
                        return Err(A::Error::invalid_length(values.len() + 1, &self));
                    }
                    values.push(value);
                }
                Ok(Few(values))
            }
        }
        deserializer.deserialize_any(Elements(PhantomData))
    }
}
