//! Values of a template's expressions.

use ckpt_api::{Attribute, Error, Result};
use std::fmt;

/// The value of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Bool(bool),
    Int(i64),
    Real(f64),
    Text(String),
    Ints(Vec<i64>),
    Reals(Vec<f64>),
}

impl Value {
    /// Reads what a user sets: a truth value, an integer, a number, or else a text.
    pub(super) fn parse(text: &str) -> Self {
        match text {
            "true" => return Value::Bool(true),
            "false" => return Value::Bool(false),
            _ => {}
        }
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        match (text.parse(), number) {
            (Ok(number), _) => Value::Int(number),
            (_, Some(number)) => Value::Real(number),
            _ => Value::Text(text.to_owned()),
        }
    }

    /// Reads a value of a configuration; `None` for null, lists and objects.
    pub(super) fn from_json(json: &serde_json::Value) -> Option<Self> {
        match json {
            serde_json::Value::Bool(value) => Some(Value::Bool(*value)),
            serde_json::Value::Number(number) => match number.as_i64() {
                Some(number) => Some(Value::Int(number)),
                None => number.as_f64().map(Value::Real),
            },
            serde_json::Value::String(text) => Some(Value::Text(text.clone())),
            _ => None,
        }
    }

    pub(super) fn bool(&self) -> Result<bool> {
        match self {
            Value::Bool(value) => Ok(*value),
            other => Err(other.unfit("true or false")),
        }
    }

    pub(super) fn int(&self) -> Result<i64> {
        match self {
            Value::Int(value) => Ok(*value),
            other => Err(other.unfit("an integer")),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "an integer in place of a number is small")]
    pub(super) fn real(&self) -> Result<f64> {
        match self {
            Value::Int(value) => Ok(*value as f64),
            Value::Real(value) => Ok(*value),
            other => Err(other.unfit("a number")),
        }
    }

    pub(super) fn text(&self) -> Result<&str> {
        match self {
            Value::Text(text) => Ok(text),
            other => Err(other.unfit("a text")),
        }
    }

    /// The value as an attribute of a node.
    pub(super) fn into_attribute(self) -> Attribute {
        match self {
            Value::Bool(value) => Attribute::Int(i64::from(value)),
            Value::Int(value) => Attribute::Int(value),
            Value::Real(value) => Attribute::Float(value),
            Value::Text(text) => Attribute::Text(text),
            Value::Ints(values) => Attribute::Ints(values),
            Value::Reals(values) => Attribute::Floats(values),
        }
    }

    /// The error for a value of another type than `expected`.
    pub(super) fn unfit(&self, expected: &str) -> Error {
        Error::usage("a value of an architecture has the wrong type")
            .found(format!("{} {self}", self.kind()))
            .expected(expected)
    }

    fn kind(&self) -> &'static str {
        match self {
            Value::Bool(_) => "the truth value",
            Value::Int(_) => "the integer",
            Value::Real(_) => "the number",
            Value::Text(_) => "the text",
            Value::Ints(_) => "the integers",
            Value::Reals(_) => "the numbers",
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(value) => value.fmt(f),
            Value::Int(value) => value.fmt(f),
            Value::Real(value) => write!(f, "{value:?}"),
            Value::Text(text) => f.write_str(text),
            Value::Ints(values) => write!(f, "{values:?}"),
            Value::Reals(values) => write!(f, "{values:?}"),
        }
    }
}
