//! Attributes of operations.

use crate::node::{attribute, flag, text};
use crate::proto::NodeDef;
use crate::proto::attr_value::Value;

/// Returns an integer attribute.
pub(in crate::dag) fn int(op: &NodeDef, name: &str) -> Option<i64> {
    match attribute(op, name) {
        Some(Value::I(value)) => Some(*value),
        _ => None,
    }
}

/// Returns the number of a type attribute.
pub(in crate::dag) fn dtype(op: &NodeDef, name: &str) -> Option<i32> {
    match attribute(op, name) {
        Some(Value::Type(value)) => Some(*value),
        _ => None,
    }
}

/// Whether images have their channels last, which is the default.
pub(in crate::dag) fn is_channels_last(op: &NodeDef) -> bool {
    matches!(text(op, "data_format"), None | Some("NHWC" | "NDHWC" | "NWC"))
}

/// Whether images have their channels before their sides.
pub(in crate::dag) fn is_channels_first(op: &NodeDef) -> bool {
    matches!(text(op, "data_format"), Some("NCHW" | "NCDHW"))
}

/// Whether the result of a reduction keeps its axes.
pub(in crate::dag) fn keeps_dims(op: &NodeDef) -> bool {
    flag(op, "keep_dims") || flag(op, "keepdims")
}
