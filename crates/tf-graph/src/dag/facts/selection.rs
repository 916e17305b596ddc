//! What operations select of axes.

use super::fact::Fact;
use crate::node::attribute;
use crate::proto::NodeDef;
use crate::proto::attr_value::Value;
use ckpt_graph::Length;
use ckpt_graph::integers::Selection;

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
    let [begin_mask, end_mask, ellipsis, new, shrink] =
        ["begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"].map(mask);
    let count = begins.values.len();
    if count > 32 || ends.values.len() != count || steps.values.len() != count {
        return None;
    }
    let is_set = |mask: i64, at: usize| mask >> at & 1 == 1;
    let taken = (0..count).filter(|at| !is_set(ellipsis, *at) && !is_set(new, *at)).count();
    let mut left = dims.len().checked_sub(taken)?;
    let (mut found, mut axis) = (Vec::new(), 0);
    let whole = |axis| Selection::Range { axis, begin: 0, end: i64::MAX, step: 1 };
    for at in 0..count {
        if is_set(ellipsis, at) {
            found.extend((axis..axis + left).map(whole));
            axis += std::mem::take(&mut left);
            continue;
        }
        if is_set(new, at) {
            found.push(Selection::New);
            continue;
        }
        let len = *dims.get(axis)?;
        if is_set(shrink, at) {
            found.push(Selection::Index { axis, at: begins.values[at].known()? });
        } else {
            let step = steps.values[at].known().filter(|step| *step != 0)?;
            let (first, last) = if step > 0 { (0, i64::MAX) } else { (-1, i64::MIN) };
            let begin = if is_set(begin_mask, at) { first } else { begins.values[at].known()? };
            let end = match ends.values[at] {
                _ if is_set(end_mask, at) => last,
                Length::Known(value) => value,
                // Up to the whole length.
                free if free.is(len) && step > 0 => last,
                _ => return None,
            };
            found.push(Selection::Range { axis, begin, end, step });
        }
        axis += 1;
    }
    found.extend((axis..dims.len()).map(whole));
    Some(found)
}
