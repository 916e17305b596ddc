//! The attributes of a node.

use super::model::cannot_hold;
use ckpt_api::{Attribute, Node, Result};

/// Returns the rows and columns of zeros that a convolution adds on each side. Refuses strides, dilations, groups and
/// sides that differ.
pub(super) fn conv_pad(node: &Node, kernel: u64) -> Result<u64> {
    refuse_others(node, &["strides", "dilations", "group", "kernel_shape", "pads", "auto_pad"])?;
    let refuse = |found: String, expected: &str| Err(cannot_hold(&node.name, &found, expected));
    for name in ["strides", "dilations"] {
        let found = ints(node, name).unwrap_or(&[1, 1]);
        if found != [1, 1] {
            return refuse(format!("{name} {found:?}"), "1");
        }
    }
    match node.attributes.get("group") {
        None | Some(Attribute::Int(1)) => {}
        Some(group) => return refuse(format!("group {group:?}"), "1"),
    }
    let shape = ints(node, "kernel_shape");
    if shape.is_some_and(|shape| shape.iter().any(|side| u64::try_from(*side).ok() != Some(kernel))) {
        return refuse(format!("kernel_shape {shape:?}"), "that of the weight");
    }
    match text(node, "auto_pad") {
        Some("SAME_UPPER" | "SAME_LOWER") => return Ok(kernel / 2),
        None | Some("NOTSET" | "VALID") => {}
        Some(other) => return refuse(format!("auto_pad {other}"), "SAME_UPPER"),
    }
    let pads = ints(node, "pads").unwrap_or(&[0, 0, 0, 0]);
    let pad = match pads {
        [a, b, c, d] if a == b && b == c && c == d => u64::try_from(*a).ok(),
        _ => None,
    };
    pad.map_or_else(|| refuse(format!("pads {pads:?}"), "the same on all four sides"), Ok)
}

/// Returns the width that a Pad adds on each side of an image `[N, C, H, W]`.
pub(super) fn image_pad(node: &Node) -> Result<u64> {
    let pads = ints(node, "pads").unwrap_or_default();
    let pad = match pads {
        [0, 0, top, left, 0, 0, bottom, right] if [left, bottom, right].iter().all(|side| *side == top) => {
            u64::try_from(*top).ok()
        }
        _ => None,
    };
    let expected = "the same on all four sides of the image";
    pad.ok_or_else(|| cannot_hold(&node.name, &format!("Pad {pads:?}"), expected))
}

/// Refuses attributes other than these.
pub(super) fn refuse_others(node: &Node, known: &[&str]) -> Result<()> {
    match node.attributes.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(cannot_hold(&node.name, &format!("{} with attribute '{name}'", node.op), "none")),
        None => Ok(()),
    }
}

/// Returns a list of integers; an empty list for an attribute of another type.
pub(super) fn ints<'a>(node: &'a Node, name: &str) -> Option<&'a [i64]> {
    match node.attributes.get(name)? {
        Attribute::Ints(values) => Some(values),
        _ => Some(&[]),
    }
}

/// Returns a text; a text that no attribute has for an attribute of another type.
pub(super) fn text<'a>(node: &'a Node, name: &str) -> Option<&'a str> {
    match node.attributes.get(name)? {
        Attribute::Text(text) => Some(text),
        _ => Some("of another type"),
    }
}

pub(super) fn float(node: &Node, name: &str) -> Option<f64> {
    match node.attributes.get(name)? {
        Attribute::Float(value) => Some(*value),
        Attribute::Int(value) => Some(*value as f64),
        _ => None,
    }
}
