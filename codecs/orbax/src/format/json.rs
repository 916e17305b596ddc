//! JSON whose objects have no name twice.

use ckpt_api::{Error, MetadataMap, MetadataValue, Result};
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::HashSet;
use std::fmt;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    List(Vec<Json>),
    Map(Vec<(String, Json)>),
}

impl Json {
    /// Parses a whole text; at most 128 values are within each other.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`].
    pub(crate) fn parse(bytes: &[u8]) -> Result<Json> {
        serde_json::from_slice(bytes).map_err(|error| {
            Error::corrupt("the JSON cannot be read").found(error.to_string()).help("copy the file again")
        })
    }

    /// The value of a name; `None` if there is none, or if this is no object.
    pub(crate) fn get(&self, name: &str) -> Option<&Json> {
        self.entries()?.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    pub(crate) fn entries(&self) -> Option<&[(String, Json)]> {
        match self {
            Json::Map(entries) => Some(entries),
            _ => None,
        }
    }

    pub(crate) fn list(&self) -> Option<&[Json]> {
        match self {
            Json::List(values) => Some(values),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn unsigned(&self) -> Option<u64> {
        match self {
            Json::Unsigned(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn bool(&self) -> Option<bool> {
        match self {
            Json::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The numbers of a list of unsigned integers.
    pub(crate) fn unsigned_list(&self) -> Option<Vec<u64>> {
        self.list()?.iter().map(Json::unsigned).collect()
    }

    /// Whether the value says that something is not there.
    pub(crate) fn is_nothing(&self) -> bool {
        match self {
            Json::Null => true,
            Json::List(values) => values.is_empty(),
            Json::Map(entries) => entries.is_empty(),
            _ => false,
        }
    }

    /// The value as people should see it, cut if it is long.
    pub(crate) fn shown(&self) -> String {
        const LONGEST: usize = 80;
        let text = match self {
            Json::Null => "null".to_owned(),
            Json::Bool(value) => value.to_string(),
            Json::Unsigned(number) => number.to_string(),
            Json::Signed(number) => number.to_string(),
            Json::Float(number) => number.to_string(),
            Json::Text(text) => format!("'{}'", text.escape_debug()),
            Json::List(values) => ckpt_api::count(values.len() as u64, "value"),
            Json::Map(entries) => match self.get("id").or_else(|| self.get("name")) {
                Some(Json::Text(name)) => format!("'{}'", name.escape_debug()),
                _ => ckpt_api::count(entries.len() as u64, "field"),
            },
        };
        text.chars().take(LONGEST).collect()
    }

    /// The value as metadata.
    pub(crate) fn metadata(&self) -> MetadataValue {
        match self {
            Json::Null => MetadataValue::Null,
            Json::Bool(value) => (*value).into(),
            Json::Unsigned(number) => MetadataValue::integer(*number),
            Json::Signed(number) => (*number).into(),
            Json::Float(number) => (*number).into(),
            Json::Text(text) => text.as_str().into(),
            Json::List(values) => MetadataValue::List(values.iter().map(Json::metadata).collect()),
            Json::Map(entries) => {
                let mut map = MetadataMap::new();
                for (name, value) in entries {
                    map.insert(name.as_str(), value.metadata());
                }
                MetadataValue::Map(map)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json, E> {
        Ok(Json::Unsigned(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json, E> {
        Ok(Json::Signed(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Json, E> {
        Ok(Json::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element()? {
            values.push(value);
        }
        Ok(Json::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry::<String, Json>()? {
            entries.push(entry);
        }
        match repeated(&entries) {
            None => Ok(Json::Map(entries)),
            Some(name) => Err(A::Error::custom(format!("'{}' is there twice", name.escape_debug()))),
        }
    }
}

/// A name that is there twice.
fn repeated(entries: &[(String, Json)]) -> Option<&str> {
    /// Up to so many names are compared with each other, which is faster than a table: most objects have two or three.
    const FEW: usize = 8;
    let mut names = entries.iter().map(|(name, _)| name.as_str());
    if entries.len() <= FEW {
        let is_before = |(at, (name, _)): &(usize, &(String, Json))| {
            entries.iter().take(*at).any(|(other, _)| other == name)
        };
        return entries.iter().enumerate().find(is_before).map(|(_, (name, _))| name.as_str());
    }
    let mut seen = HashSet::with_capacity(entries.len());
    names.find(|name| !seen.insert(*name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_there_twice_is_refused() {
        assert!(Json::parse(br#"{"a": 1, "b": {"a": 2}}"#).is_ok());
        assert!(Json::parse(br#"{"b": {"a": 1, "a": 2}}"#).unwrap_err().to_string().contains("twice"));
        let many = |last: &str| {
            let names =
                ["a", "b", "c", "d", "e", "f", "g", "h", "i", last].map(|name| format!("\"{name}\": 1"));
            Json::parse(format!("{{{}}}", names.join(", ")).as_bytes())
        };
        assert!(many("j").is_ok() && many("c").unwrap_err().to_string().contains("'c' is there twice"));
    }

    #[test]
    fn values_within_each_other_are_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Json::parse(nested(100).as_bytes()).is_ok());
        assert!(Json::parse(nested(20_000).as_bytes()).is_err());
    }
}
