//! Folds the integer arithmetic that computes shapes, indices and masks.

use super::super::constant;
use super::super::value::{Int, Ints, product, resolve};
use super::attributes::{dtype, int, keeps_dims};
use super::fact::Fact;
use super::selection::{Selection, range, selections};
use super::shapes::squeezed;
use crate::proto::NodeDef;
use std::rc::Rc;

/// Returns the integers of each result of an operation; nothing if it is not folded, or has more than `limit` integers.
pub(super) fn fold(op: &NodeDef, inputs: &[&Fact], limit: usize) -> Vec<Rc<Ints>> {
    let kind = op.op.as_str();
    let found = match kind {
        "Unpack" => return unpack(op, inputs).unwrap_or_default(),
        "ShapeN" => inputs.iter().map(|fact| shape_of(fact)).collect::<Option<Vec<_>>>(),
        _ => one(op, kind, inputs, limit).map(|ints| vec![wrapped(op, ints)]),
    };
    found.unwrap_or_default()
}

/// Wraps the results of arithmetic and casts around, as integers of their type do.
fn wrapped(op: &NodeDef, ints: Rc<Ints>) -> Rc<Ints> {
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
    let wrap = |value: Int| match value {
        Int::Known(value) => {
            let low = value & ((1 << bits) - 1);
            let is_negative = is_signed && low >> (bits - 1) == 1;
            Int::Known(if is_negative { low - (1 << bits) } else { low })
        }
        // A length has 32 bits.
        free if bits == 32 => free,
        _ => Int::Unknown,
    };
    let is_same = |value: &Int| match (*value, wrap(*value)) {
        (Int::Known(a), Int::Known(b)) => a == b,
        (Int::Known(_), _) | (_, Int::Known(_) | Int::Unknown) => false,
        _ => true,
    };
    if ints.values.iter().all(is_same) {
        return ints;
    }
    let values = ints.values.iter().map(|value| wrap(*value)).collect();
    Rc::new(Ints { shape: ints.shape.clone(), values })
}

fn one(op: &NodeDef, kind: &str, inputs: &[&Fact], limit: usize) -> Option<Rc<Ints>> {
    let ints = |at: usize| inputs.get(at).and_then(|fact| fact.ints.clone());
    let pair = |of: &dyn Fn(Int, Int) -> Int| elementwise(&*ints(0)?, &*ints(1)?, limit, of);
    match kind {
        "Const" => constant::ints(op, limit),
        "Shape" => shape_of(inputs.first()?),
        "Rank" => Some(Ints::scalar(Int::Known(i64::try_from(inputs.first()?.dims.as_ref()?.len()).ok()?))),
        "Size" => Some(Ints::scalar(product(inputs.first()?.dims.as_ref()?))),
        "AddV2" | "Add" => pair(&Int::add),
        "Sub" => pair(&Int::sub),
        "Mul" => pair(&Int::mul),
        "FloorDiv" => pair(&Int::floor_div),
        "FloorMod" => pair(&Int::floor_mod),
        "Maximum" => pair(&|a, b| extreme(a, b, true)),
        "Minimum" => pair(&|a, b| extreme(a, b, false)),
        "Less" => pair(&|a, b| a.compare(b, |a, b| a < b)),
        "LessEqual" => pair(&|a, b| a.compare(b, |a, b| a <= b)),
        "Greater" => pair(&|a, b| a.compare(b, |a, b| a > b)),
        "GreaterEqual" => pair(&|a, b| a.compare(b, |a, b| a >= b)),
        "Equal" => pair(&|a, b| a.compare(b, |a, b| a == b)),
        "NotEqual" => pair(&|a, b| a.compare(b, |a, b| a != b)),
        "LogicalAnd" => pair(&|a, b| a.compare(b, |a, b| a != 0 && b != 0)),
        "LogicalOr" => pair(&|a, b| a.compare(b, |a, b| a != 0 || b != 0)),
        "LogicalNot" => map(&*ints(0)?, |value| match value {
            Int::Known(value) => Int::Known(i64::from(value == 0)),
            _ => Int::Unknown,
        }),
        "Neg" => map(&*ints(0)?, |value| value.mul(Int::Known(-1))),
        "OnesLike" => map(&*ints(0)?, |_| Int::Known(1)),
        "ZerosLike" => map(&*ints(0)?, |_| Int::Known(0)),
        "Cast" => cast(op, &*ints(0)?),
        "Pack" => pack(op, inputs, limit),
        "ConcatV2" => concat(inputs, limit),
        "StridedSlice" => strided_slice(op, inputs),
        "GatherV2" => gather(&*ints(0)?, &*ints(1)?, ints(2)?.only()?.known()?, limit),
        "Prod" => reduce(op, &*ints(0)?, &*ints(1)?, Int::mul),
        "Sum" => reduce(op, &*ints(0)?, &*ints(1)?, Int::add),
        "Max" => reduce(op, &*ints(0)?, &*ints(1)?, |a, b| extreme(a, b, true)),
        "Min" => reduce(op, &*ints(0)?, &*ints(1)?, |a, b| extreme(a, b, false)),
        "All" => reduce(op, &*ints(0)?, &*ints(1)?, |a, b| a.compare(b, |a, b| a != 0 && b != 0)),
        "Any" => reduce(op, &*ints(0)?, &*ints(1)?, |a, b| a.compare(b, |a, b| a != 0 || b != 0)),
        "Range" => steps(&[ints(0)?.only()?, ints(1)?.only()?, ints(2)?.only()?], limit),
        "Fill" => {
            let (dims, value) = (ints(0)?, ints(1)?.only()?);
            let shape = lens(&dims.values)?;
            let count = count(&shape, limit)?;
            Some(Rc::new(Ints { shape, values: vec![value; count] }))
        }
        "Reshape" => reshape(&*ints(0)?, &ints(1)?.known()?),
        "BroadcastTo" => {
            let (value, shape) = (ints(0)?, lens(&ints(1)?.values)?);
            let at = positions(&shape, &broadcast_strides(&value.shape, &shape)?, 0, limit)?;
            picked(&value, shape, &at)
        }
        "ExpandDims" => {
            let (value, axis) = (ints(0)?, ints(1)?.only()?.known()?);
            let axis = resolve(axis, value.shape.len() + 1)?;
            let mut shape = value.shape.clone();
            shape.insert(axis, 1);
            Some(Rc::new(Ints { shape, values: value.values.clone() }))
        }
        "Squeeze" => {
            let value = ints(0)?;
            let dims: Vec<Int> = inputs.first()?.dims.clone()?;
            let kept = squeezed(op, &dims)?;
            let shape = kept.iter().map(|axis| value.shape.get(*axis).copied()).collect::<Option<_>>()?;
            Some(Rc::new(Ints { shape, values: value.values.clone() }))
        }
        "SelectV2" => select(&*ints(0)?, &*ints(1)?, &*ints(2)?, limit),
        "MatrixBandPart" => band(&*ints(0)?, ints(1)?.only()?.known()?, ints(2)?.only()?.known()?),
        _ => None,
    }
}

fn shape_of(fact: &Fact) -> Option<Rc<Ints>> {
    fact.dims.as_ref().map(|dims| Ints::vector(dims.clone()))
}

fn extreme(a: Int, b: Int, greatest: bool) -> Int {
    match (a, b) {
        (Int::Known(a), Int::Known(b)) => Int::Known(if greatest { a.max(b) } else { a.min(b) }),
        (a, b) if a.is(b) => a,
        _ => Int::Unknown,
    }
}

fn map(ints: &Ints, of: impl Fn(Int) -> Int) -> Option<Rc<Ints>> {
    let values = ints.values.iter().map(|value| of(*value)).collect();
    Some(Rc::new(Ints { shape: ints.shape.clone(), values }))
}

/// Casts between types of integers; to truth values, what is not 0 becomes 1.
fn cast(op: &NodeDef, ints: &Ints) -> Option<Rc<Ints>> {
    match dtype(op, "DstT")? {
        3..=6 | 9 | 17 => map(ints, |value| value),
        10 => map(ints, |value| match value {
            Int::Known(value) => Int::Known(i64::from(value != 0)),
            _ => Int::Unknown,
        }),
        _ => None,
    }
}

fn count(shape: &[usize], limit: usize) -> Option<usize> {
    let count = shape.iter().try_fold(1usize, |product, len| product.checked_mul(*len))?;
    (count <= limit && shape.len() <= 32).then_some(count)
}

fn lens(values: &[Int]) -> Option<Vec<usize>> {
    values.iter().map(|value| value.known().and_then(|len| usize::try_from(len).ok())).collect()
}

fn row_major(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1isize; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(isize::try_from(shape[axis]).unwrap_or(isize::MAX));
    }
    strides
}

fn broadcast_strides(own: &[usize], shape: &[usize]) -> Option<Vec<isize>> {
    let added = shape.len().checked_sub(own.len())?;
    let strides = row_major(own);
    let stride = |axis: usize| match axis.checked_sub(added) {
        None => Some(0),
        Some(at) if own[at] == 1 => Some(0),
        Some(at) => (own[at] == shape[axis]).then_some(strides[at]),
    };
    (0..shape.len()).map(stride).collect()
}

/// Returns the positions that a strided view of `shape` takes.
fn positions(shape: &[usize], strides: &[isize], offset: isize, limit: usize) -> Option<Vec<usize>> {
    let total = count(shape, limit)?;
    let mut found = Vec::with_capacity(total);
    let mut index = vec![0usize; shape.len()];
    let mut at = offset;
    for _ in 0..total {
        found.push(usize::try_from(at).ok()?);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            at = at.checked_add(strides[axis])?;
            if index[axis] < shape[axis] {
                break;
            }
            at = at.checked_sub(strides[axis].checked_mul(isize::try_from(shape[axis]).ok()?)?)?;
            index[axis] = 0;
        }
    }
    Some(found)
}

fn picked(ints: &Ints, shape: Vec<usize>, at: &[usize]) -> Option<Rc<Ints>> {
    let values = at.iter().map(|at| ints.values.get(*at).copied()).collect::<Option<_>>()?;
    Some(Rc::new(Ints { shape, values }))
}

fn broadcast_shape(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let len = |own: &[usize], axis: usize| match (axis + own.len()).checked_sub(rank) {
        Some(at) => own[at],
        None => 1,
    };
    let pair = |axis| match (len(a, axis), len(b, axis)) {
        (1, other) | (other, 1) => Some(other),
        (a, b) => (a == b).then_some(a),
    };
    (0..rank).map(pair).collect()
}

fn elementwise(a: &Ints, b: &Ints, limit: usize, of: &dyn Fn(Int, Int) -> Int) -> Option<Rc<Ints>> {
    let shape = broadcast_shape(&a.shape, &b.shape)?;
    let at = |own: &Ints| positions(&shape, &broadcast_strides(&own.shape, &shape)?, 0, limit);
    let (left, right) = (at(a)?, at(b)?);
    let values = left.iter().zip(&right).map(|(x, y)| Some(of(*a.values.get(*x)?, *b.values.get(*y)?)));
    let values = values.collect::<Option<_>>()?;
    Some(Rc::new(Ints { shape, values }))
}

fn select(condition: &Ints, a: &Ints, b: &Ints, limit: usize) -> Option<Rc<Ints>> {
    let shape = broadcast_shape(&broadcast_shape(&condition.shape, &a.shape)?, &b.shape)?;
    let at = |own: &Ints| positions(&shape, &broadcast_strides(&own.shape, &shape)?, 0, limit);
    let (which, left, right) = (at(condition)?, at(a)?, at(b)?);
    let choose = |((which, left), right): ((&usize, &usize), &usize)| {
        let (a, b) = (*a.values.get(*left)?, *b.values.get(*right)?);
        Some(match condition.values.get(*which)?.known() {
            Some(0) => b,
            Some(_) => a,
            None if a.is(b) => a,
            None => Int::Unknown,
        })
    };
    let values = which.iter().zip(&left).zip(&right).map(choose).collect::<Option<_>>()?;
    Some(Rc::new(Ints { shape, values }))
}

fn pack(op: &NodeDef, inputs: &[&Fact], limit: usize) -> Option<Rc<Ints>> {
    let items: Vec<Rc<Ints>> = inputs.iter().map(|fact| fact.ints.clone()).collect::<Option<_>>()?;
    let first = items.first()?;
    let axis = resolve(int(op, "axis").unwrap_or(0), first.shape.len() + 1)?;
    let inner = first.shape.get(axis..)?.iter().product();
    let mut shape = first.shape.clone();
    shape.insert(axis, items.len());
    joined(&items.iter().map(|item| (&**item, inner)).collect::<Vec<_>>(), shape, axis, limit)
}

fn concat(inputs: &[&Fact], limit: usize) -> Option<Rc<Ints>> {
    let (axis, items) = inputs.split_last()?;
    let items: Vec<Rc<Ints>> = items.iter().map(|fact| fact.ints.clone()).collect::<Option<_>>()?;
    let first = items.first()?;
    let axis = resolve(axis.ints.as_ref()?.only()?.known()?, first.shape.len())?;
    let mut shape = first.shape.clone();
    shape[axis] = items.iter().try_fold(0usize, |sum, item| sum.checked_add(*item.shape.get(axis)?))?;
    let runs = items.iter().map(|item| Some((&**item, item.shape.get(axis..)?.iter().product())));
    joined(&runs.collect::<Option<Vec<_>>>()?, shape, axis, limit)
}

/// Interleaves runs of items before `axis`.
fn joined(items: &[(&Ints, usize)], shape: Vec<usize>, axis: usize, limit: usize) -> Option<Rc<Ints>> {
    let total = count(&shape, limit)?;
    let outer: usize = shape.get(..axis)?.iter().product();
    let mut values = Vec::with_capacity(total);
    for row in 0..outer {
        for (item, run) in items {
            values.extend_from_slice(item.values.get(row * run..(row + 1) * run)?);
        }
    }
    (values.len() == total).then(|| Rc::new(Ints { shape, values }))
}

fn unpack(op: &NodeDef, inputs: &[&Fact]) -> Option<Vec<Rc<Ints>>> {
    let ints = inputs.first()?.ints.clone()?;
    let axis = resolve(int(op, "axis").unwrap_or(0), ints.shape.len())?;
    let mut shape = ints.shape.clone();
    let len = shape.remove(axis);
    let mut strides = row_major(&ints.shape);
    let stride = strides.remove(axis);
    let item = |at: usize| {
        let offset = stride.checked_mul(isize::try_from(at).ok()?)?;
        picked(&ints, shape.clone(), &positions(&shape, &strides, offset, ints.values.len())?)
    };
    (0..len).map(item).collect()
}

fn strided_slice(op: &NodeDef, inputs: &[&Fact]) -> Option<Rc<Ints>> {
    let ints = inputs.first()?.ints.clone()?;
    let dims = inputs.first()?.dims.as_ref()?;
    let own = row_major(&ints.shape);
    let (mut shape, mut strides, mut offset) = (Vec::new(), Vec::new(), 0isize);
    for selection in selections(op, dims, inputs)? {
        match selection {
            Selection::New => {
                shape.push(1);
                strides.push(0);
            }
            Selection::Index { axis, at } => {
                let at = resolve(at, *ints.shape.get(axis)?)?;
                offset = offset.checked_add(own.get(axis)?.checked_mul(isize::try_from(at).ok()?)?)?;
            }
            Selection::Range { axis, begin, end, step } => {
                let len = i64::try_from(*ints.shape.get(axis)?).ok()?;
                let (first, count) = range(len, begin, end, step);
                let stride = *own.get(axis)?;
                if count > 0 {
                    offset = offset.checked_add(stride.checked_mul(isize::try_from(first).ok()?)?)?;
                }
                shape.push(usize::try_from(count).ok()?);
                strides.push(stride.checked_mul(isize::try_from(step).ok()?)?);
            }
        }
    }
    let at = positions(&shape, &strides, offset, ints.values.len())?;
    picked(&ints, shape, &at)
}

fn gather(data: &Ints, indices: &Ints, axis: i64, limit: usize) -> Option<Rc<Ints>> {
    let axis = resolve(axis, data.shape.len())?;
    let (outer, rest) = data.shape.split_at(axis);
    let (len, inner) = rest.split_first()?;
    let shape = [outer, &indices.shape, inner].concat();
    count(&shape, limit)?;
    let (rows, run): (usize, usize) = (outer.iter().product(), inner.iter().product());
    let mut values = Vec::new();
    for row in 0..rows {
        for index in &indices.values {
            let at = usize::try_from(index.known()?).ok().filter(|at| at < len)?;
            let begin = row.checked_mul(*len)?.checked_add(at)?.checked_mul(run)?;
            values.extend_from_slice(data.values.get(begin..begin + run)?);
        }
    }
    Some(Rc::new(Ints { shape, values }))
}

fn reduce(op: &NodeDef, ints: &Ints, axes: &Ints, of: impl Fn(Int, Int) -> Int) -> Option<Rc<Ints>> {
    let rank = ints.shape.len();
    let axes = axes.known()?.into_iter().map(|axis| resolve(axis, rank)).collect::<Option<Vec<_>>>()?;
    // Only what shape arithmetic needs: all axes.
    if (0..rank).any(|axis| !axes.contains(&axis)) {
        return None;
    }
    let start = match op.op.as_str() {
        "Prod" | "All" => Int::Known(1),
        "Sum" | "Any" => Int::Known(0),
        _ => *ints.values.first()?,
    };
    let value = ints.values.iter().fold(start, |sum, value| of(sum, *value));
    let shape = if keeps_dims(op) { vec![1; rank] } else { Vec::new() };
    Some(Rc::new(Ints { shape, values: vec![value] }))
}

fn steps([start, end, step]: &[Int; 3], limit: usize) -> Option<Rc<Ints>> {
    let (start, end, step) = (start.known()?, end.known()?, step.known()?);
    let count = match step {
        0 => return None,
        step if step > 0 => (i128::from(end) - i128::from(start) + i128::from(step) - 1) / i128::from(step),
        step => (i128::from(start) - i128::from(end) - i128::from(step) - 1) / -i128::from(step),
    };
    let count = usize::try_from(count.max(0)).ok().filter(|count| *count <= limit)?;
    let value = |at: usize| Some(Int::Known(start.checked_add(step.checked_mul(i64::try_from(at).ok()?)?)?));
    (0..count).map(value).collect::<Option<_>>().map(Ints::vector)
}

fn reshape(ints: &Ints, wanted: &[i64]) -> Option<Rc<Ints>> {
    let known: i64 =
        wanted.iter().filter(|len| **len != -1).try_fold(1i64, |product, len| product.checked_mul(*len))?;
    let total = i64::try_from(ints.values.len()).ok()?;
    let open = total.checked_div(known).unwrap_or(0);
    let shape: Vec<usize> = wanted
        .iter()
        .map(|len| usize::try_from(if *len == -1 { open } else { *len }).ok())
        .collect::<Option<_>>()?;
    let fits = count(&shape, ints.values.len())? == ints.values.len();
    fits.then(|| Rc::new(Ints { shape, values: ints.values.clone() }))
}

/// Keeps `lower` diagonals below the main one and `upper` above it; all if negative.
fn band(ints: &Ints, lower: i64, upper: i64) -> Option<Rc<Ints>> {
    let [.., rows, columns] = ints.shape[..] else { return None };
    let keep = |at: usize| {
        let (row, column) = (at / columns % rows, at % columns);
        let (row, column) = (i64::try_from(row).ok()?, i64::try_from(column).ok()?);
        Some((lower < 0 || row - column <= lower) && (upper < 0 || column - row <= upper))
    };
    let value = |(at, value): (usize, &Int)| Some(if keep(at)? { *value } else { Int::Known(0) });
    let values = ints.values.iter().enumerate().map(value).collect::<Option<_>>()?;
    Some(Rc::new(Ints { shape: ints.shape.clone(), values }))
}
