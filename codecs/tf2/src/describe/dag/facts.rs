//! What is known of each value before anything is lowered: its shape, and its integers where they are folded.

use super::super::node::{attribute, flag, lengths, text};
use super::arithmetic;
use super::constant;
use super::reach::{Dag, DagNode, Edge, What};
use super::shapes;
use super::value::{BATCH, Dims, Int, Ints};
use crate::proto::attr_value::Value;
use crate::proto::{NodeDef, TensorShapeProto};
use std::rc::Rc;

/// Limit on the integers of one folded value.
pub(super) const MAX_INTS: usize = 1 << 16;

/// Limit on the integers of all folded values.
const MAX_TOTAL: usize = 1 << 20;

/// Limit on the integers that folding takes and makes.
const MAX_WORK: usize = 1 << 23;

/// Limit on the lengths of all shapes.
const MAX_DIMS: usize = 1 << 20;

/// Limit on the axes of a value.
const MAX_RANK: usize = 32;

/// A value's shape and integers.
#[derive(Clone, Debug, Default)]
pub(super) struct Fact {
    /// `None` if not even the number of axes is known.
    pub dims: Option<Dims>,
    /// The integers or truth values, if they are known up to free lengths.
    pub ints: Option<Rc<Ints>>,
}

/// The facts of all nodes of a graph.
pub(super) struct Facts {
    of: Vec<Vec<Fact>>,
    /// The fact of a value that does not exist.
    nothing: Fact,
}

impl Facts {
    /// Infers the facts. `inputs` are the stated shapes of the inputs, `variable` returns the shape of a key.
    pub fn infer(dag: &Dag, inputs: &[Option<Dims>], variable: impl Fn(&str) -> Option<Dims>) -> Self {
        let mut facts = Facts { of: Vec::with_capacity(dag.nodes.len()), nothing: Fact::default() };
        let (mut total, mut work, mut lens) = (0usize, 0usize, 0usize);
        for node in &dag.nodes {
            let mut found = match &node.what {
                What::Input(at) => vec![Fact { dims: inputs.get(*at).cloned().flatten(), ints: None }],
                What::Variable(key) => vec![Fact { dims: variable(key), ints: None }],
                What::Op(op) => {
                    let taken = node.inputs.iter().filter_map(|edge| facts.get(*edge).ints.as_ref());
                    work = taken.fold(work, |work, ints| work.saturating_add(ints.values.len()));
                    let room = if work > MAX_WORK { 0 } else { MAX_TOTAL.saturating_sub(total) };
                    facts.of_op(op, node, room)
                }
            };
            for ints in found.iter().filter_map(|fact| fact.ints.as_ref()) {
                total = total.saturating_add(ints.values.len());
            }
            lens = found.iter().fold(lens, |lens, fact| lens + 1 + fact.dims.as_ref().map_or(0, Vec::len));
            if lens > MAX_DIMS {
                found.clear();
            }
            found.shrink_to_fit();
            facts.of.push(found);
        }
        facts
    }

    pub fn get(&self, edge: Edge) -> &Fact {
        self.of.get(edge.node).and_then(|facts| facts.get(edge.output)).unwrap_or(&self.nothing)
    }

    pub fn dims(&self, edge: Edge) -> Option<&Dims> {
        self.get(edge).dims.as_ref()
    }

    fn of_op(&self, op: &NodeDef, node: &DagNode, room: usize) -> Vec<Fact> {
        let inputs: Vec<&Fact> = node.inputs.iter().map(|edge| self.get(*edge)).collect();
        let ints = arithmetic::fold(op, &inputs, room.min(MAX_INTS));
        if !ints.is_empty() {
            let fact = |ints: Rc<Ints>| Fact {
                dims: Some(
                    ints.shape
                        .iter()
                        .map(|len| Int::Known(i64::try_from(*len).unwrap_or(i64::MAX)))
                        .collect(),
                ),
                ints: Some(ints),
            };
            return ints.into_iter().map(fact).collect();
        }
        let inferred = match op.op.as_str() {
            "Const" => vec![constant::shape(op).map(|dims| {
                dims.iter().map(|len| Int::Known(i64::try_from(*len).unwrap_or(i64::MAX))).collect()
            })],
            _ => shapes::infer(op, &inputs),
        };
        let inferred: Vec<_> = inferred.into_iter().map(|dims| dims.map(lengths_of)).collect();
        let claims = claims(op);
        let count = inferred.len().max(claims.len());
        let merged = (0..count).map(|at| {
            let claim = claims.get(at).cloned().flatten();
            match (inferred.get(at).cloned().flatten(), claim) {
                (None, claim) => claim,
                (Some(dims), Some(claim)) if dims.len() == claim.len() => {
                    let merge = |(own, claim): (&Int, &Int)| match own {
                        Int::Unknown => *claim,
                        own => *own,
                    };
                    Some(dims.iter().zip(&claim).map(merge).collect())
                }
                (dims, _) => dims,
            }
        });
        merged.map(|dims| Fact { dims: dims.filter(|dims| dims.len() <= MAX_RANK), ints: None }).collect()
    }
}

/// Returns inferred lengths; those below 0, which only damaged files have, are unknown.
fn lengths_of(dims: Dims) -> Dims {
    let len = |len: Int| if len.known().is_some_and(|len| len < 0) { Int::Unknown } else { len };
    dims.into_iter().map(len).collect()
}

/// Returns the shapes that TensorFlow states of an operation's results. Free lengths are unknown: nothing tells which
/// they are.
fn claims(op: &NodeDef) -> Vec<Option<Dims>> {
    match attribute(op, "_output_shapes") {
        Some(Value::List(list)) => list.shape.iter().map(stated).collect(),
        _ => Vec::new(),
    }
}

/// Returns a stated shape, with unknown lengths.
pub(super) fn stated(shape: &TensorShapeProto) -> Option<Dims> {
    let len = |size: i64| if size < 0 { Int::Unknown } else { Int::Known(size) };
    (!shape.unknown_rank && shape.dim.len() <= 32)
        .then(|| shape.dim.iter().map(|dim| len(dim.size)).collect())
}

/// Returns the shape of input number `at` from its stated shape: each free length gets a number. The first axes of all
/// inputs are the batch.
pub(super) fn input(at: usize, shape: &TensorShapeProto) -> Option<Dims> {
    let base = u32::try_from(at).ok()?.checked_mul(32)?;
    let dims = stated(shape)?.into_iter().enumerate();
    let named = dims.map(|(axis, len)| match (len, axis) {
        (Int::Unknown, 0) => Some(Int::free(BATCH)),
        (Int::Unknown, _) => Some(Int::free(base.checked_add(u32::try_from(axis).ok()?)?)),
        (known, _) => Some(known),
    });
    named.collect()
}

/// One item of what a `StridedSlice` selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// A range of an axis; an open end reaches to the end in the direction of the step.
    Range { axis: usize, begin: Option<i64>, end: Option<i64>, step: i64 },
    /// One index of an axis, which is removed.
    Index { axis: usize, at: i64 },
    /// A new axis of length 1.
    New,
}

/// Reads the specification of a `StridedSlice` of a value with `dims`.
pub(super) fn selections(op: &NodeDef, dims: &[Int], operands: &[&Fact]) -> Option<Vec<Selection>> {
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
pub(super) fn range(len: i64, begin: Option<i64>, end: Option<i64>, step: i64) -> (i64, i64) {
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

/// Returns an integer attribute.
pub(super) fn int(op: &NodeDef, name: &str) -> Option<i64> {
    match attribute(op, name) {
        Some(Value::I(value)) => Some(*value),
        _ => None,
    }
}

/// Returns the number of a type attribute.
pub(super) fn dtype(op: &NodeDef, name: &str) -> Option<i32> {
    match attribute(op, name) {
        Some(Value::Type(value)) => Some(*value),
        _ => None,
    }
}

/// Whether images have their channels last, which is the default.
pub(super) fn is_channels_last(op: &NodeDef) -> bool {
    matches!(text(op, "data_format"), None | Some("NHWC" | "NDHWC" | "NWC"))
}

/// Whether images have their channels before their sides.
pub(super) fn is_channels_first(op: &NodeDef) -> bool {
    matches!(text(op, "data_format"), Some("NCHW" | "NCDHW"))
}

/// Strides, dilations and padding of a convolution or pooling, without the batch and the channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub strides: Vec<u64>,
    pub dilations: Vec<u64>,
    pub padding: Padding,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Padding {
    Same,
    Valid,
    /// Begin and end of each axis.
    Explicit(Vec<[u64; 2]>),
}

/// Reads the window of an operation on images of `rank` axes.
pub(super) fn window(op: &NodeDef, rank: usize) -> Option<Window> {
    let is_last = is_channels_last(op);
    let inner = |name: &str| match lengths(op, name) {
        None => Some(vec![1; rank.checked_sub(2)?]),
        Some(list) => sides(&list, is_last, 1).filter(|inner| inner.len() + 2 == rank),
    };
    let padding = match text(op, "padding") {
        Some("SAME") => Padding::Same,
        Some("VALID") => Padding::Valid,
        Some("EXPLICIT") => {
            let list = lengths(op, "explicit_paddings")?;
            let pairs: Vec<[u64; 2]> = list.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
            Padding::Explicit(sides(&pairs, is_last, [0, 0]).filter(|_| pairs.len() == rank)?)
        }
        _ => return None,
    };
    let window = Window { strides: inner("strides")?, dilations: inner("dilations")?, padding };
    let is_positive = window.strides.iter().chain(&window.dilations).all(|value| *value > 0);
    is_positive.then_some(window)
}

/// Returns the sides of a pooling's window.
pub(super) fn kernel(op: &NodeDef, rank: usize) -> Option<Vec<u64>> {
    let list = lengths(op, "ksize")?;
    let found = sides(&list, is_channels_last(op), 1).filter(|_| list.len() == rank)?;
    found.iter().all(|side| *side > 0).then_some(found)
}

/// Returns what a list has for the sides of images; for the batch and the channels, it must have what is `neutral`.
fn sides<T: Copy + PartialEq>(list: &[T], is_channels_last: bool, neutral: T) -> Option<Vec<T>> {
    match (list, is_channels_last) {
        ([batch, inner @ .., channels], true) | ([batch, channels, inner @ ..], false)
            if *batch == neutral && *channels == neutral =>
        {
            Some(inner.to_vec())
        }
        _ => None,
    }
}

/// Padding before and after one axis, and its resulting length; `None` for what depends on a free length.
pub(super) struct Side {
    pub begin: Option<u64>,
    pub end: Option<u64>,
    pub out: Int,
}

impl Window {
    /// Returns the padding and the resulting length of inner axis `side`; `None` if the window does not fit.
    pub fn side(&self, side: usize, kernel: u64, len: Int) -> Option<Side> {
        let (stride, dilation) = (*self.strides.get(side)?, *self.dilations.get(side)?);
        let reach = kernel.checked_sub(1)?.checked_mul(dilation)?;
        let moved = |padded: u64| (padded.checked_sub(reach)?.checked_sub(1)? / stride).checked_add(1);
        let int = |len: u64| i64::try_from(len).map_or(Int::Unknown, Int::Known);
        let keeps = |added: u64| match (stride, added == reach) {
            (1, true) => len,
            (1, false) => len.add(int(added)).sub(int(reach)),
            _ => Int::Unknown,
        };
        match (&self.padding, len.len()) {
            (Padding::Valid, Some(len)) => Some(Side { begin: Some(0), end: Some(0), out: int(moved(len)?) }),
            (Padding::Valid, None) => Some(Side { begin: Some(0), end: Some(0), out: keeps(0) }),
            (Padding::Explicit(pairs), known) => {
                let [begin, end] = *pairs.get(side)?;
                let out = match known {
                    Some(len) => int(moved(len.checked_add(begin)?.checked_add(end)?)?),
                    None => keeps(begin.checked_add(end)?),
                };
                Some(Side { begin: Some(begin), end: Some(end), out })
            }
            (Padding::Same, Some(len)) => {
                let out = len.div_ceil(stride);
                let covered =
                    out.saturating_sub(1).checked_mul(stride)?.checked_add(reach)?.checked_add(1)?;
                let total = covered.saturating_sub(len);
                Some(Side { begin: Some(total / 2), end: Some(total - total / 2), out: int(out) })
            }
            (Padding::Same, None) if stride == 1 => {
                Some(Side { begin: Some(reach / 2), end: Some(reach - reach / 2), out: len })
            }
            (Padding::Same, None) => Some(Side { begin: None, end: None, out: Int::Unknown }),
        }
    }
}

/// Whether the result of a reduction keeps its axes.
pub(super) fn keeps_dims(op: &NodeDef) -> bool {
    flag(op, "keep_dims") || flag(op, "keepdims")
}
