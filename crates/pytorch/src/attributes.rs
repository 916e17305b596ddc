//! The attributes of a node, as numbers.

use ckpt_api::{Attribute, Error, Node, Result};

/// Returns an integer attribute, or `default`.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for a value of another type.
pub(super) fn int(node: &Node, name: &str, default: i64) -> Result<i64> {
    match node.attributes.get(name) {
        None => Ok(default),
        Some(Attribute::Int(value)) => Ok(*value),
        Some(_) => Err(wrong(node, name, "an integer")),
    }
}

/// Returns a number, or `default`.
///
/// # Errors
/// As [`int`].
pub(super) fn float(node: &Node, name: &str, default: f64) -> Result<f64> {
    match node.attributes.get(name) {
        None => Ok(default),
        Some(Attribute::Int(value)) => Ok(*value as f64),
        Some(Attribute::Float(value)) => Ok(*value),
        Some(_) => Err(wrong(node, name, "a number")),
    }
}

/// Returns a text, or `default`.
///
/// # Errors
/// As [`int`].
pub(super) fn text<'n>(node: &'n Node, name: &str, default: &'n str) -> Result<&'n str> {
    match node.attributes.get(name) {
        None => Ok(default),
        Some(Attribute::Text(value)) => Ok(value),
        Some(_) => Err(wrong(node, name, "a text")),
    }
}

/// Returns a list of integers; `None` if the node does not state it.
///
/// # Errors
/// As [`int`].
pub(super) fn ints<'n>(node: &'n Node, name: &str) -> Result<Option<&'n [i64]>> {
    match node.attributes.get(name) {
        None => Ok(None),
        Some(Attribute::Ints(values)) => Ok(Some(values)),
        Some(_) => Err(wrong(node, name, "a list of integers")),
    }
}

/// Returns a list of `count` integers of at least `least`, all `default` unless stated.
///
/// # Errors
/// As [`int`], and for another number of integers, or a smaller one.
pub(super) fn sizes(node: &Node, name: &str, count: usize, least: i64, default: i64) -> Result<Vec<i64>> {
    let Some(values) = ints(node, name)? else { return Ok(vec![default; count]) };
    let is_size = |value: &i64| (least..=i64::from(u32::MAX)).contains(value);
    if values.len() == count && values.iter().all(is_size) {
        return Ok(values.to_vec());
    }
    Err(wrong(node, name, &format!("{count} integers of at least {least}")).found(format!("{values:?}")))
}

fn wrong(node: &Node, name: &str, expected: &str) -> Error {
    Error::usage("an attribute of a layer is not what its operator needs")
        .field(format!("layer '{}', {name}", node.name))
        .expected(expected)
}
