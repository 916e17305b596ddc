//! Reading the attributes of a node.

use crate::{Attribute, Error, Node, Result, Text};

impl Attribute {
    /// Returns the error for attribute `name` with this value, where `expected` is needed.
    pub fn invalid(&self, name: &str, expected: impl Into<Text>) -> Error {
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
