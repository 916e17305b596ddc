//! Fields of a configuration, each checked when it is asked for.

use ckpt_api::{Error, Result};
use serde_json::{Map, Value};

/// The fields of an object, and the file that they are in.
#[derive(Clone, Copy)]
pub(crate) struct Stated<'a> {
    pub(crate) object: &'a Map<String, Value>,
    pub(crate) file: &'a str,
}

impl<'a> Stated<'a> {
    fn field(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    /// The text of a field.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for something else.
    pub(crate) fn text(&self, key: &str) -> Result<Option<&'a str>> {
        let Some(value) = self.field(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.wrong(key, "a text"))
    }

    /// The whole number of a field.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for something else.
    pub(crate) fn integer(&self, key: &str) -> Result<Option<i64>> {
        let Some(value) = self.field(key) else { return Ok(None) };
        value.as_i64().map(Some).ok_or_else(|| self.wrong(key, "a whole number"))
    }

    /// Whether a field is true.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for something else than true and false.
    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>> {
        let Some(value) = self.field(key) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(key, "true or false"))
    }

    /// The object of a field.
    pub(crate) fn inner(&self, key: &str) -> Option<Stated<'a>> {
        let object = self.object.get(key)?.as_object()?;
        Some(Stated { object, file: self.file })
    }

    /// The texts of a field that is a list.
    pub(crate) fn texts(&self, key: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.object.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// The error about a field.
    pub(crate) fn wrong(&self, key: &str, expected: impl Into<String>) -> Error {
        let found = self.object.get(key).map_or("nothing".to_owned(), Value::to_string);
        Error::corrupt("the configuration of quantized weights is not valid")
            .file(self.file)
            .field(key)
            .found(found)
            .expected(expected.into())
    }

    /// The error about a variant that is not known.
    pub(crate) fn unknown(&self, key: &str, found: &str, known: &str) -> Error {
        Error::unsupported("the weights are quantized in a way that is not known")
            .file(self.file)
            .field(key)
            .found(format!("'{found}'"))
            .expected(known)
    }
}
