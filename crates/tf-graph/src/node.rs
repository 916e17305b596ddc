//! The attributes of an operation, and how messages name it.

use crate::proto::attr_value::Value;
use crate::proto::{AttrValue, NodeDef};

/// Returns an operation's kind and name, for messages.
pub fn describe(node: &NodeDef) -> String {
    format!("the operation {} ('{}')", node.op, node.name)
}

/// Returns the value of a node's attribute.
pub fn attribute<'a>(node: &'a NodeDef, name: &str) -> Option<&'a Value> {
    node.attr.get(name).and_then(|AttrValue { value }| value.as_ref())
}

/// Returns whether a boolean attribute is set.
pub fn flag(node: &NodeDef, name: &str) -> bool {
    matches!(attribute(node, name), Some(Value::B(true)))
}

/// Returns an attribute that is a string.
pub fn text<'a>(node: &'a NodeDef, name: &str) -> Option<&'a str> {
    match attribute(node, name)? {
        Value::S(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

/// Returns an attribute that is a list of lengths.
pub fn lengths(node: &NodeDef, name: &str) -> Option<Vec<u64>> {
    match attribute(node, name)? {
        Value::List(list) => list.i.iter().map(|value| u64::try_from(*value).ok()).collect(),
        _ => None,
    }
}

/// Returns the shortest decimal number that is the same float32: 0.001 for 0.0010000000475.
pub fn decimal(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}
