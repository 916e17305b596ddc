//! What a model computes: nodes in order, ONNX operators where they exist. An attribute of a node can be a graph.

use crate::{DType, Op};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// Nodes in an order in which they can run, with named values between them.
///
/// Integer tensors with a [`Quantization`](crate::Quantization) represent real numbers. A node whose inputs are
/// integers computes integers, from the tensors' integers as they are stored. A node whose only inputs are indices,
/// such as [`Op::Gather`], computes integers if its attribute `arithmetic` is `integer`.
///
/// A node may take what [`Op::computed_attributes`] lists as inputs, computed by the graph from the lengths of values,
/// in place of attributes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// The model's name, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What goes in.
    pub inputs: Vec<Value>,
    /// What comes out.
    pub outputs: Vec<Value>,
    /// The steps.
    pub nodes: Vec<Node>,
}

/// A value that flows between nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// Unique name.
    pub name: String,
    /// Length of each axis; `None` if it is free (the batch) or unknown.
    pub shape: Vec<Option<u64>>,
    /// Type of its elements; `None` if the source does not state it: indices are integers then, all else real
    /// numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<DType>,
    /// Name of each axis whose length is free, such as `batch`; empty for another axis. Axes of one name have one length.
    /// No names at all if the source has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<String>,
}

impl Value {
    /// A value whose type is not stated.
    pub fn new(name: impl Into<String>, shape: impl Into<Vec<Option<u64>>>) -> Self {
        Value { name: name.into(), shape: shape.into(), dtype: None, axes: Vec::new() }
    }

    /// The same value with the type of its elements.
    #[must_use]
    pub fn of_type(mut self, dtype: DType) -> Self {
        self.dtype = Some(dtype);
        self
    }

    /// Returns the name of an axis whose length is free, if it has one.
    pub fn axis_name(&self, axis: usize) -> Option<&str> {
        let is_free = self.shape.get(axis).is_some_and(Option::is_none);
        self.axes.get(axis).map(String::as_str).filter(|name| is_free && !name.is_empty())
    }
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// The layer's name; unique.
    pub name: String,
    /// What it computes.
    pub op: Op,
    /// Names of the values it takes.
    pub inputs: Vec<String>,
    /// Names of the values it makes.
    pub outputs: Vec<String>,
    /// Names of its tensors, by role (`weight`, `bias`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// Its attributes, named as ONNX names them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, Attribute>,
}

impl Node {
    /// A node without wiring, for [`Graph::sequential`].
    pub fn new(name: impl Into<String>, op: Op) -> Self {
        Node {
            name: name.into(),
            op,
            inputs: Vec::new(),
            outputs: Vec::new(),
            parameters: BTreeMap::new(),
            attributes: BTreeMap::new(),
        }
    }

    /// The same node with a tensor bound to a role.
    #[must_use]
    pub fn parameter(mut self, role: &str, tensor: impl Into<String>) -> Self {
        self.parameters.insert(role.to_owned(), tensor.into());
        self
    }

    /// The same node with an attribute.
    #[must_use]
    pub fn attribute(mut self, name: &str, value: Attribute) -> Self {
        self.attributes.insert(name.to_owned(), value);
        self
    }
}

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
