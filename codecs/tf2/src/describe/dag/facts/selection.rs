//! What operations select of axes.

use super::super::value::{Int, Ints};
use super::fact::Fact;
use crate::describe::node::attribute;
use crate::proto::NodeDef;
use crate::proto::attr_value::Value;

/// One item of what a `StridedSlice` selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::describe::dag) enum Selection {
    /// A range of an axis; an open end reaches to the end in the direction of the step.
    Range { axis: usize, begin: Option<i64>, end: Option<i64>, step: i64 },
    /// One index of an axis, which is removed.
    Index { axis: usize, at: i64 },
    /// A new axis of length 1.
    New,
}

/// Reads the specification of a `StridedSlice` of a value with `dims`.
pub(in crate::describe::dag) fn selections(
    op: &NodeDef,
    dims: &[Int],
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
    let whole = |axis| Selection::Range { axis, begin: None, end: None, step: 1 };
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
            let bound = |mask: i64, list: &Ints| match list.values[at] {
                _ if is_set(mask, at) => Some(None),
                Int::Known(value) => Some(Some(value)),
                // Up to the whole length.
                free if free.is(len) && step > 0 => Some(None),
                _ => None,
            };
            // A range that begins at the whole length is empty.
            let begin = bound(begin_mask, &begins)?;
            if begin.is_none() && !is_set(begin_mask, at) {
                return None;
            }
            found.push(Selection::Range { axis, begin, end: bound(end_mask, &ends)?, step });
        }
        axis += 1;
    }
    found.extend((axis..dims.len()).map(whole));
    Some(found)
}

/// Returns the first index and the number of indices that a range selects of an axis of known length; one below 0
/// counts as 0.
pub(in crate::describe::dag) fn range(
    len: i64,
    begin: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> (i64, i64) {
    let len = len.max(0);
    let wrap = |at: i64| if at < 0 { at.saturating_add(len) } else { at };
    if step > 0 {
        let begin = begin.map_or(0, |at| wrap(at).clamp(0, len));
        let end = end.map_or(len, |at| wrap(at).clamp(0, len));
        (begin, (end - begin).max(0).saturating_add(step - 1) / step)
    } else {
        let begin = begin.map_or(len - 1, |at| wrap(at).clamp(-1, len - 1));
        let end = end.map_or(-1, |at| wrap(at).clamp(-1, len - 1));
        let step = step.saturating_neg();
        (begin, (begin - end).max(0).saturating_add(step - 1) / step)
    }
}
