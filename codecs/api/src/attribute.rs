//! The attributes of a node.

use crate::{Error, Graph, Node, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The value of an attribute.
///
/// In JSON, a number that JSON lacks is an object: `{"float": "-inf"}`, and in a list, `{"floats": [0.0, "nan"]}`.
///
/// ```
/// use ckpt_api::Attribute;
/// let least = Attribute::Float(f64::NEG_INFINITY);
/// let json = serde_json::to_string(&least).unwrap();
/// assert_eq!(json, r#"{"float":"-inf"}"#);
/// assert_eq!(serde_json::from_str::<Attribute>(&json).unwrap(), least);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Document", into = "Document")]
#[non_exhaustive]
pub enum Attribute {
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(String),
    /// Integers.
    Ints(Vec<i64>),
    /// Numbers.
    Floats(Vec<f64>),
    /// Texts.
    Texts(Vec<String>),
    /// A graph that the node runs, such as a branch. It takes values of the graph that the node is in, too.
    Graph(Box<Graph>),
}

/// An attribute as JSON has it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Document {
    Int(i64),
    Float(f64),
    Text(String),
    Ints(Vec<i64>),
    Floats(Vec<f64>),
    Texts(Vec<String>),
    Special(Special),
    Graph(Box<Graph>),
}

/// Numbers of which some are not finite.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Special {
    Float(Real),
    Floats(Vec<Real>),
}

/// A number; as a text if it is not finite.
#[derive(Clone, Copy)]
struct Real(f64);

impl From<Attribute> for Document {
    fn from(attribute: Attribute) -> Self {
        match attribute {
            Attribute::Int(value) => Document::Int(value),
            Attribute::Float(value) if !value.is_finite() => Document::Special(Special::Float(Real(value))),
            Attribute::Float(value) => Document::Float(value),
            Attribute::Text(text) => Document::Text(text),
            Attribute::Ints(values) => Document::Ints(values),
            Attribute::Floats(values) if !values.iter().all(|value| value.is_finite()) => {
                Document::Special(Special::Floats(values.into_iter().map(Real).collect()))
            }
            Attribute::Floats(values) => Document::Floats(values),
            Attribute::Texts(texts) => Document::Texts(texts),
            Attribute::Graph(graph) => Document::Graph(graph),
        }
    }
}

impl From<Document> for Attribute {
    fn from(document: Document) -> Self {
        match document {
            Document::Int(value) => Attribute::Int(value),
            Document::Float(value) | Document::Special(Special::Float(Real(value))) => {
                Attribute::Float(value)
            }
            Document::Text(text) => Attribute::Text(text),
            Document::Ints(values) => Attribute::Ints(values),
            Document::Floats(values) => Attribute::Floats(values),
            Document::Special(Special::Floats(values)) => {
                Attribute::Floats(values.into_iter().map(|Real(value)| value).collect())
            }
            Document::Texts(texts) => Attribute::Texts(texts),
            Document::Graph(graph) => Attribute::Graph(graph),
        }
    }
}

impl Serialize for Real {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            value if value.is_finite() => serializer.serialize_f64(value),
            value if value.is_nan() => serializer.serialize_str("nan"),
            value if value > 0.0 => serializer.serialize_str("inf"),
            _ => serializer.serialize_str("-inf"),
        }
    }
}

impl<'de> Deserialize<'de> for Real {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Stored {
            Number(f64),
            Text(String),
        }
        match Stored::deserialize(deserializer)? {
            Stored::Number(value) => Ok(Real(value)),
            Stored::Text(text) => match text.as_str() {
                "nan" => Ok(Real(f64::NAN)),
                "inf" => Ok(Real(f64::INFINITY)),
                "-inf" => Ok(Real(f64::NEG_INFINITY)),
                _ => Err(serde::de::Error::custom("a number, or one of inf, -inf and nan")),
            },
        }
    }
}

impl Attribute {
    /// Returns the error for attribute `name` with this value, where `expected` is needed.
    pub fn invalid(&self, name: &str, expected: impl Into<String>) -> Error {
        let found = match self {
            Attribute::Int(value) => value.to_string(),
            Attribute::Float(value) => value.to_string(),
            Attribute::Text(value) => format!("'{}'", value.escape_debug()),
            Attribute::Ints(values) => format!("{values:?}"),
            Attribute::Floats(values) => format!("{values:?}"),
            Attribute::Texts(values) => format!("{values:?}"),
            Attribute::Graph(graph) => format!("a graph of {}", crate::count(graph.nodes.len(), "node")),
        };
        Error::corrupt(format!("attribute '{name}' is not valid")).found(found).expected(expected)
    }
}

impl Node {
    /// Returns an integer; `default` if the node lacks the attribute.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] for an attribute of another type; so for all attributes below.
    pub fn int(&self, name: &str, default: i64) -> Result<i64> {
        match self.attributes.get(name) {
            None => Ok(default),
            Some(Attribute::Int(value)) => Ok(*value),
            Some(other) => Err(other.invalid(name, "an integer")),
        }
    }

    /// Returns an integer, 0 or 1, as a flag; `false` if the node lacks the attribute.
    ///
    /// # Errors
    /// As [`Node::int`], also for other integers.
    pub fn flag(&self, name: &str) -> Result<bool> {
        match self.int(name, 0)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Attribute::Int(other).invalid(name, "0 or 1")),
        }
    }

    /// Returns a number, which may be stored as an integer; `default` if the node lacks the attribute.
    ///
    /// # Errors
    /// As [`Node::int`], also for NaN.
    #[expect(clippy::cast_precision_loss, reason = "an integer in place of a number is small")]
    pub fn float(&self, name: &str, default: f64) -> Result<f64> {
        match self.attributes.get(name) {
            None => Ok(default),
            Some(Attribute::Float(value)) if !value.is_nan() => Ok(*value),
            Some(Attribute::Int(value)) => Ok(*value as f64),
            Some(other) => Err(other.invalid(name, "a number")),
        }
    }

    /// Returns a text, if the node has the attribute.
    ///
    /// # Errors
    /// As [`Node::int`].
    pub fn text(&self, name: &str) -> Result<Option<&str>> {
        match self.attributes.get(name) {
            None => Ok(None),
            Some(Attribute::Text(value)) => Ok(Some(value)),
            Some(other) => Err(other.invalid(name, "a text")),
        }
    }

    /// Returns a list of integers, if the node has the attribute.
    ///
    /// # Errors
    /// As [`Node::int`].
    pub fn ints(&self, name: &str) -> Result<Option<&[i64]>> {
        match self.attributes.get(name) {
            None => Ok(None),
            Some(Attribute::Ints(values)) => Ok(Some(values)),
            Some(other) => Err(other.invalid(name, "a list of integers")),
        }
    }

    /// Returns a list of numbers, which may be stored as integers, if the node has the attribute.
    ///
    /// # Errors
    /// As [`Node::int`], also for NaN.
    #[expect(clippy::cast_precision_loss, reason = "an integer in place of a number is small")]
    pub fn floats(&self, name: &str) -> Result<Option<Vec<f64>>> {
        match self.attributes.get(name) {
            None => Ok(None),
            Some(Attribute::Floats(values)) if !values.iter().any(|value| value.is_nan()) => {
                Ok(Some(values.clone()))
            }
            Some(Attribute::Ints(values)) => Ok(Some(values.iter().map(|value| *value as f64).collect())),
            Some(other) => Err(other.invalid(name, "a list of numbers")),
        }
    }

    /// Returns a list of texts, if the node has the attribute.
    ///
    /// # Errors
    /// As [`Node::int`].
    pub fn texts(&self, name: &str) -> Result<Option<&[String]>> {
        match self.attributes.get(name) {
            None => Ok(None),
            Some(Attribute::Texts(values)) => Ok(Some(values)),
            // An empty list is read back as one of integers.
            Some(Attribute::Ints(values)) if values.is_empty() => Ok(Some(&[])),
            Some(other) => Err(other.invalid(name, "a list of texts")),
        }
    }
}
