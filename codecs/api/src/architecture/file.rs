//! An architecture file whose syntax alone is parsed.

use super::syntax::{Syntax, invalid};
use super::{Architecture, json_tokens};
use crate::{Error, Limit, Limits, Result, text};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What to know if a layer has another type.
const LIMITS: &str = "a chain has only dense layers and convolutions; for others, write a graph or a template, or use a SavedModel";

/// The architecture file of the user, not parsed further than its syntax.
///
/// ```
/// let file = ckpt_api::ArchitectureFile::from_json(r#"{ "format": "bullet", "input": {} }"#)?;
/// assert_eq!(file.format(), Some("bullet"));
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchitectureFile {
    name: Option<String>,
    document: Value,
}

impl ArchitectureFile {
    /// A file with this content, as its JSON form: a type of a codec, a document of another syntax, or a
    /// [`crate::MetadataValue`]. [`ArchitectureFile::parse`] is the inverse.
    ///
    /// # Errors
    /// [`crate::Kind::Unsupported`] for content that has no JSON form.
    pub fn new(content: &impl Serialize) -> Result<Self> {
        let document = serde_json::to_value(content).map_err(|error| {
            Error::unsupported("the architecture has no JSON form").found(error.to_string()).caused_by(error)
        })?;
        Ok(ArchitectureFile { name: None, document })
    }

    /// Parses JSON.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] with the line and column.
    pub fn from_json(json: &str) -> Result<Self> {
        Self::from_json_within(json, &Limits::default())
    }

    /// As [`ArchitectureFile::from_json`], within limits of the caller's.
    ///
    /// # Errors
    /// As [`ArchitectureFile::from_json`]; [`crate::Kind::Limit`] for a text with more tokens than
    /// [`Limit::TextTokens`], before memory is allocated for each.
    pub fn from_json_within(json: &str, limits: &Limits) -> Result<Self> {
        limits.check(Limit::TextTokens, json_tokens::count(json))?;
        let document = serde_json::from_str(json).map_err(|error| invalid(&error.to_string()))?;
        Ok(ArchitectureFile { name: None, document })
    }

    /// Sets the path that errors name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Returns the path that the file was read from.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the content as JSON, without line breaks.
    pub fn to_json(&self) -> String {
        self.document.to_string()
    }

    /// Returns the id of the format whose codec parses the file; `None` for a chain of layers.
    pub fn format(&self) -> Option<&str> {
        self.document.get("format")?.as_str()
    }

    /// Whether the file has this key.
    ///
    /// ```
    /// let file = ckpt_api::ArchitectureFile::from_json(r#"{ "layers": [] }"#)?;
    /// assert!(file.has("layers") && !file.has("graph"));
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    pub fn has(&self, key: &str) -> bool {
        self.document.get(key).is_some()
    }

    /// Parses the file as a chain of layers.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`], naming the file.
    pub fn layers(&self) -> Result<Architecture> {
        let architecture = self.deserialize(|place, error| match place.ends_with("].type") {
            true => error.with_help(|known| text![known, "; ", LIMITS]),
            false => error.help(Syntax::of(self.name()).example()),
        });
        architecture
            .map(|architecture: Architecture| Architecture { file: self.name.clone(), ..architecture })
    }

    /// Parses the file as a type of a codec.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`], naming the file and the field.
    pub fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        self.deserialize(|_, error| error)
    }

    /// Parses the file; `advise` adds what to do to the error at a place.
    fn deserialize<T: serde::de::DeserializeOwned>(
        &self,
        advise: impl FnOnce(&str, Error) -> Error,
    ) -> Result<T> {
        serde_path_to_error::deserialize(&self.document).map_err(|error| {
            let place = error.path().to_string();
            let error = advise(&place, invalid(&error.inner().to_string()));
            let error = if place == "." { error } else { error.field(place) };
            match &self.name {
                Some(name) => error.file(name),
                None => error,
            }
        })
    }
}
