//! What operations select of axes.

use super::fact::Fact;
use crate::node::attribute;
use crate::proto::NodeDef;
use crate::proto::attr_value::Value;
use ckpt_graph::Length;
use ckpt_graph::integers::Selection;
use ckpt_graph::selection::StridedSlice;

/// Reads the specification of a `StridedSlice` of a value with `dims`.
pub(in crate::dag) fn selections(
    op: &NodeDef,
    dims: &[Length],
    operands: &[&Fact],
) -> Option<Vec<Selection>> {
    let list = |at: usize| operands.get(at).and_then(|fact| fact.ints.clone());
    let (begins, ends, steps) = (list(1)?, list(2)?, list(3)?);
    let mask = |name: &str| match attribute(op, name) {
        Some(Value::I(mask)) => *mask,
        _ => 0,
    };
    let [begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask] =
        ["begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"].map(mask);
    let slice = StridedSlice {
        begins: &begins,
        ends: &ends,
        steps: &steps,
        begin_mask,
        end_mask,
        ellipsis_mask,
        new_axis_mask,
        shrink_axis_mask,
    };
    slice.selections(dims)
}
