//! Folds the integer arithmetic that computes shapes, indices and masks.

use super::super::constant;
use super::attributes::{dtype, int, keeps_dims};
use super::fact::Fact;
use super::selection::selections;
use super::shapes::squeezed;
use crate::proto::NodeDef;
use ckpt_graph::integers::{Selection, extreme};
use ckpt_graph::shape::{resolve, resolve_all};
use ckpt_graph::{Integers, Length};
use std::ops::Neg;
use std::rc::Rc;

/// Returns the integers of each result of an operation; nothing if it is not folded, or has more than `limit` integers.
pub(super) fn fold(op: &NodeDef, inputs: &[&Fact], limit: usize) -> Vec<Rc<Integers>> {
    let kind = op.op.as_str();
    let found = match kind {
        "Unpack" => unpack(op, inputs),
        "ShapeN" => inputs.iter().map(|fact| shape_of(fact)).collect::<Option<Vec<_>>>(),
        _ => one(op, kind, inputs, limit).map(|ints| vec![wrapped(op, ints)]),
    };
    found.unwrap_or_default().into_iter().map(Rc::new).collect()
}

/// Wraps the results of arithmetic and casts around, as integers of their type do.
fn wrapped(op: &NodeDef, ints: Integers) -> Integers {
    let number = match op.op.as_str() {
        "AddV2" | "Add" | "Sub" | "Mul" | "Neg" | "FloorDiv" | "Prod" | "Sum" => dtype(op, "T"),
        "Cast" => dtype(op, "DstT"),
        "Range" => dtype(op, "Tidx"),
        _ => None,
    };
    // TensorFlow's numbers of the types.
    let (bits, is_signed) = match number {
        Some(3) => (32, true),
        Some(4) => (8, false),
        Some(5) => (16, true),
        Some(6) => (8, true),
        Some(17) => (16, false),
        _ => return ints,
    };
    let wrap = |value: Length| match value {
        Length::Known(value) => {
            let low = value & ((1 << bits) - 1);
            let is_negative = is_signed && low >> (bits - 1) == 1;
            Length::Known(if is_negative { low - (1 << bits) } else { low })
        }
        // A length has 32 bits.
        free if bits == 32 => free,
        _ => Length::Unknown,
    };
    ints.map(wrap)
}

fn one(op: &NodeDef, kind: &str, inputs: &[&Fact], limit: usize) -> Option<Integers> {
    let ints = |at: usize| inputs.get(at).and_then(|fact| fact.ints.as_deref());
    let number = |at: usize| ints(at)?.only()?.known();
    let pair = |of: &dyn Fn(Length, Length) -> Length| ints(0)?.zip(ints(1)?, limit, of);
    let compared = |holds: &dyn Fn(i64, i64) -> bool| pair(&|a, b| a.compare(b, holds));
    let all = |start: Option<Length>, of: &dyn Fn(Length, Length) -> Length| reduce(op, inputs, start, of);
    match kind {
        "Const" => constant::ints(op, limit),
        "Shape" => shape_of(inputs.first()?),
        "Rank" => Some(Integers::scalar(inputs.first()?.dims.as_ref()?.len().into())),
        "Size" => Some(Integers::scalar(inputs.first()?.dims.as_ref()?.iter().product())),
        "AddV2" | "Add" => pair(&|a, b| a + b),
        "Sub" => pair(&|a, b| a - b),
        "Mul" => pair(&|a, b| a * b),
        "FloorDiv" => pair(&Length::floor_div),
        "FloorMod" => pair(&Length::floor_mod),
        "Maximum" => pair(&|a, b| extreme(a, b, true)),
        "Minimum" => pair(&|a, b| extreme(a, b, false)),
        "Less" => compared(&|a, b| a < b),
        "LessEqual" => compared(&|a, b| a <= b),
        "Greater" => compared(&|a, b| a > b),
        "GreaterEqual" => compared(&|a, b| a >= b),
        "Equal" => compared(&|a, b| a == b),
        "NotEqual" => compared(&|a, b| a != b),
        "LogicalAnd" => compared(&|a, b| a != 0 && b != 0),
        "LogicalOr" => compared(&|a, b| a != 0 || b != 0),
        "LogicalNot" => Some(ints(0)?.map(|value| truth(value, |value| value == 0))),
        "Neg" => Some(ints(0)?.map(Length::neg)),
        "OnesLike" => Some(ints(0)?.map(|_| Length::Known(1))),
        "ZerosLike" => Some(ints(0)?.map(|_| Length::Known(0))),
        // Casts between types of integers; to truth values, what is not 0 becomes 1.
        "Cast" => match dtype(op, "DstT")? {
            3..=6 | 9 | 17 => ints(0).cloned(),
            10 => Some(ints(0)?.map(|value| truth(value, |value| value != 0))),
            _ => None,
        },
        "Pack" => pack(op, inputs, limit),
        "ConcatV2" => {
            let (axis, items) = inputs.split_last()?;
            let items: Vec<Rc<Integers>> =
                items.iter().map(|fact| fact.ints.clone()).collect::<Option<_>>()?;
            let axis = resolve(axis.ints.as_ref()?.only()?.known()?, items.first()?.shape.len())?;
            Integers::joined(&items, axis, limit)
        }
        "StridedSlice" => ints(0)?.selected(&selections(op, inputs.first()?.dims.as_ref()?, inputs)?),
        "GatherV2" => {
            let data = ints(0)?;
            data.gathered(ints(1)?, resolve(number(2)?, data.shape.len())?, limit)
        }
        "Prod" => all(Some(Length::Known(1)), &|a, b| a * b),
        "Sum" => all(Some(Length::Known(0)), &|a, b| a + b),
        "Max" => all(None, &|a, b| extreme(a, b, true)),
        "Min" => all(None, &|a, b| extreme(a, b, false)),
        "All" => all(Some(Length::Known(1)), &|a, b| a.compare(b, |a, b| a != 0 && b != 0)),
        "Any" => all(Some(Length::Known(0)), &|a, b| a.compare(b, |a, b| a != 0 || b != 0)),
        "Range" => Integers::steps(number(0)?, number(1)?, number(2)?, limit),
        "Fill" => Integers::filled(ints(0)?.lens()?, ints(1)?.only()?, limit),
        "Reshape" => ints(0)?.reshaped(&ints(1)?.known()?, false),
        "BroadcastTo" => ints(0)?.broadcast_to(ints(1)?.lens()?, limit),
        "ExpandDims" => {
            let (value, axis) = (ints(0)?, number(1)?);
            with_axis(value, resolve(axis, value.shape.len() + 1)?)
        }
        "Squeeze" => {
            let value = ints(0)?;
            let kept = squeezed(op, inputs.first()?.dims.as_ref()?)?;
            value.with_shape(kept.iter().map(|axis| value.shape.get(*axis).copied()).collect::<Option<_>>()?)
        }
        "SelectV2" => ints(0)?.select(ints(1)?, ints(2)?, limit),
        "MatrixBandPart" => band(ints(0)?, number(1)?, number(2)?),
        _ => None,
    }
}

fn shape_of(fact: &Fact) -> Option<Integers> {
    fact.dims.clone().map(Integers::vector)
}

/// Returns 1 or 0 for whether a relation holds of a number.
fn truth(value: Length, holds: impl Fn(i64) -> bool) -> Length {
    value.known().map_or(Length::Unknown, |value| Length::Known(i64::from(holds(value))))
}

/// Adds an axis of length 1.
fn with_axis(ints: &Integers, axis: usize) -> Option<Integers> {
    let mut shape = ints.shape.clone();
    shape.insert(axis, 1);
    ints.with_shape(shape)
}

fn pack(op: &NodeDef, inputs: &[&Fact], limit: usize) -> Option<Integers> {
    let first = inputs.first()?.ints.as_ref()?;
    let axis = resolve(int(op, "axis").unwrap_or(0), first.shape.len() + 1)?;
    let item = |fact: &&Fact| with_axis(fact.ints.as_ref().filter(|ints| ints.shape == first.shape)?, axis);
    let items = inputs.iter().map(|fact| item(fact).map(Rc::new)).collect::<Option<Vec<_>>>()?;
    Integers::joined(&items, axis, limit)
}

fn unpack(op: &NodeDef, inputs: &[&Fact]) -> Option<Vec<Integers>> {
    let ints = inputs.first()?.ints.as_ref()?;
    let axis = resolve(int(op, "axis").unwrap_or(0), ints.shape.len())?;
    let item = |at: usize| ints.selected(&[Selection::Index { axis, at: i64::try_from(at).ok()? }]);
    (0..*ints.shape.get(axis)?).map(item).collect()
}

/// Reduces all axes, which is what arithmetic on shapes needs.
fn reduce(
    op: &NodeDef,
    inputs: &[&Fact],
    start: Option<Length>,
    of: &dyn Fn(Length, Length) -> Length,
) -> Option<Integers> {
    let ints = |at: usize| inputs.get(at).and_then(|fact| fact.ints.as_deref());
    let (value, rank) = (ints(0)?, ints(0)?.shape.len());
    let axes = resolve_all(&ints(1)?.known()?, rank)?;
    if (0..rank).any(|axis| !axes.contains(&axis)) {
        return None;
    }
    let start = start.or(value.values.first().copied())?;
    let result = value.values.iter().fold(start, |result, value| of(result, *value));
    let shape = if keeps_dims(op) { vec![1; rank] } else { Vec::new() };
    Some(Integers { shape, values: vec![result] })
}

/// Keeps `lower` diagonals below the main one and `upper` above it; all if negative.
fn band(ints: &Integers, lower: i64, upper: i64) -> Option<Integers> {
    let [.., rows, columns] = ints.shape[..] else { return None };
    let keep = |at: usize| {
        let (row, column) = (at / columns % rows, at % columns);
        let (row, column) = (i64::try_from(row).ok()?, i64::try_from(column).ok()?);
        Some((lower < 0 || row - column <= lower) && (upper < 0 || column - row <= upper))
    };
    let value = |(at, value): (usize, &Length)| Some(if keep(at)? { *value } else { Length::Known(0) });
    let values = ints.values.iter().enumerate().map(value).collect::<Option<_>>()?;
    Some(Integers { shape: ints.shape.clone(), values })
}
