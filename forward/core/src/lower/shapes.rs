//! Lowers operators that change the shape of a value, or repeat its elements.

use super::attributes::{lacks, no_axis, resolve_axis};
use super::broadcast::{broadcast_pair, broadcast_strides};
use super::copies::{copy_as, permuted};
use super::lowering::{Info, Load, Lowering, Operand, elements, misfit, show};
use super::strides::row_major;
use crate::value::Numbers;
use ckpt_api::{Attribute, Error, Result};

/// The axes of `rank` axes that attribute `axes` names, in ascending order; `None` if the node lacks it.
pub(super) fn axes(lowering: &Lowering, info: &Info, rank: usize) -> Result<Option<Vec<usize>>> {
    let Some(given) = lowering.node.ints("axes")? else { return Ok(None) };
    let axes = given.iter().map(|axis| resolve_axis(*axis, rank).ok_or_else(|| no_axis("axes", *axis, info)));
    let mut axes = axes.collect::<Result<Vec<_>>>()?;
    axes.sort_unstable();
    match axes.windows(2).any(|pair| pair[0] == pair[1]) {
        true => Err(Attribute::Ints(given.to_vec()).invalid("axes", "each axis once")),
        false => Ok(Some(axes)),
    }
}

pub(super) fn squeeze(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["axes"])?;
    let [x] = lowering.exactly()?;
    let removed = axes(lowering, x, x.shape.len())?;
    let is_removed = |axis: usize, len: usize| match &removed {
        Some(removed) => removed.contains(&axis),
        None => len == 1,
    };
    let own = || x.shape.iter().copied().enumerate();
    if own().any(|(axis, len)| len != 1 && is_removed(axis, len)) {
        return Err(misfit(&x.shape, "a length of 1 on each axis that is removed"));
    }
    let shape = own().filter(|(axis, len)| !is_removed(*axis, *len)).map(|(_, len)| len).collect();
    copy_as(lowering, x, shape)
}

pub(super) fn unsqueeze(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["axes"])?;
    let [x] = lowering.exactly()?;
    let count = lowering.node.ints("axes")?.map_or(0, <[i64]>::len);
    let rank = x.shape.len() + count;
    let new = axes(lowering, x, rank)?.ok_or_else(|| lacks("axes"))?;
    let mut own = x.shape.iter().copied();
    let shape = (0..rank).map(|axis| if new.contains(&axis) { 1 } else { own.next().unwrap_or(1) });
    let shape = shape.collect();
    copy_as(lowering, x, shape)
}

pub(super) fn expand(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["shape"])?;
    let [x] = lowering.exactly()?;
    let given = lowering.node.ints("shape")?.ok_or_else(|| lacks("shape"))?;
    let lens = given.iter().map(|len| usize::try_from(if *len == -1 { 1 } else { *len }).ok());
    let lens: Option<Vec<usize>> = lens.collect();
    let lens = lens.ok_or_else(|| Attribute::Ints(given.to_vec()).invalid("shape", "lengths, or -1"))?;
    let shape = broadcast_pair(&x.shape, &lens)?;
    elements(&shape)?;
    let strides = broadcast_strides(&x.shape, &shape);
    let output = lowering.output(shape.clone(), x.numbers)?;
    permuted(lowering, Operand::Input(0), &shape, &strides, output)
}

pub(super) fn tile(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["repeats"])?;
    let [x] = lowering.exactly()?;
    let given = lowering.node.ints("repeats")?.ok_or_else(|| lacks("repeats"))?;
    let repeats: Option<Vec<usize>> = given.iter().map(|count| usize::try_from(*count).ok()).collect();
    let repeats = repeats.filter(|repeats| repeats.len() == x.shape.len()).ok_or_else(|| {
        let expected = format!("a number of repetitions for each axis of {}", show(&x.shape));
        Attribute::Ints(given.to_vec()).invalid("repeats", expected)
    })?;
    // Each axis is two: the repetitions, and the axis itself.
    let (mut doubled, mut strides, mut shape) = (Vec::new(), Vec::new(), Vec::new());
    for ((len, stride), count) in x.shape.iter().zip(row_major(&x.shape)).zip(repeats) {
        doubled.extend([count, *len]);
        strides.extend([0, stride]);
        shape.push(elements(&[count, *len])?);
    }
    elements(&shape)?;
    let output = lowering.output(shape, x.numbers)?;
    permuted(lowering, Operand::Input(0), &doubled, &strides, output)
}

/// Lowers a value without inputs.
pub(super) fn constant(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["value_float", "value_int", "value_floats", "value_ints", "shape"])?;
    lowering.allow_roles(&["value"])?;
    lowering.exactly::<0>()?;
    let node = lowering.node;
    let (shape, numbers, operand) = match node.attributes.keys().find(|name| *name != "shape") {
        Some(_) if lowering.node.parameters.contains_key("value") => {
            return Err(Error::corrupt("a constant has a tensor or an attribute, not both"));
        }
        Some(name) if name == "value_int" => {
            let value = integers(name, &[node.int(name, 0)?])?;
            (Vec::new(), Numbers::Integer, lowering.load(Load::Integers(value)))
        }
        Some(name) if name == "value_float" => {
            let value = node.float(name, 0.0)?;
            (Vec::new(), Numbers::Real, lowering.load(Load::Constant { value, len: 1 }))
        }
        Some(name) if name == "value_ints" => {
            let values = integers(name, node.ints(name)?.unwrap_or_default())?;
            let shape = constant_shape(lowering, values.len())?;
            (shape, Numbers::Integer, lowering.load(Load::Integers(values)))
        }
        Some(name) => {
            let values = node.floats(name)?.unwrap_or_default();
            let shape = constant_shape(lowering, values.len())?;
            (shape, Numbers::Real, lowering.load(Load::Reals(values)))
        }
        None => lowering.stored("value")?,
    };
    let output = lowering.output(shape.clone(), numbers)?;
    let len = elements(&shape)?;
    permuted(lowering, operand, &[len], &[1], output)
}

fn integers(name: &str, given: &[i64]) -> Result<Vec<i32>> {
    let values: Option<Vec<i32>> = given.iter().map(|value| i32::try_from(*value).ok()).collect();
    values.ok_or_else(|| Attribute::Ints(given.to_vec()).invalid(name, "integers of 32 bits"))
}

/// The attribute `shape` of a constant of `len` elements; one axis without it.
fn constant_shape(lowering: &Lowering, len: usize) -> Result<Vec<usize>> {
    let Some(stated) = lowering.node.ints("shape")? else { return Ok(vec![len]) };
    let shape: Option<Vec<usize>> = stated.iter().map(|len| usize::try_from(*len).ok()).collect();
    let fits = shape.filter(|shape| elements(shape).is_ok_and(|elements| elements == len));
    fits.ok_or_else(|| {
        Attribute::Ints(stated.to_vec()).invalid("shape", format!("a shape of {len} elements"))
    })
}

/// Lowers the lengths of axes, which are known.
pub(super) fn lengths(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["start", "end"])?;
    lowering.allow_roles(&[])?;
    let [x] = lowering.exactly()?;
    let rank = i64::try_from(x.shape.len()).unwrap_or(i64::MAX);
    let place = |name: &str, default: i64| -> Result<usize> {
        let at = lowering.node.int(name, default)?;
        let at = if at < 0 { at.saturating_add(rank) } else { at }.clamp(0, rank);
        Ok(usize::try_from(at).unwrap_or(0))
    };
    let (start, end) = (place("start", 0)?, place("end", rank)?);
    let lens = x.shape.get(start..end.max(start)).unwrap_or_default();
    let lens: Option<Vec<i32>> = lens.iter().map(|len| i32::try_from(*len).ok()).collect();
    let lens = lens.ok_or_else(|| Error::limit("an axis is too long for integers of 32 bits"))?;
    let count = lens.len();
    let operand = lowering.load(Load::Integers(lens));
    let output = lowering.output(vec![count], Numbers::Integer)?;
    permuted(lowering, operand, &[count], &[1], output)
}

/// Lowers integers in steps.
pub(super) fn range(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["start", "limit", "delta"])?;
    lowering.allow_roles(&[])?;
    lowering.exactly::<0>()?;
    let int = |name: &str| match lowering.node.attributes.contains_key(name) {
        true => lowering.node.int(name, 0),
        false => Err(lacks(name)),
    };
    let (first, limit, step) = (int("start")?, int("limit")?, int("delta")?);
    if step == 0 {
        return Err(Attribute::Int(0).invalid("delta", "a step other than 0"));
    }
    let distance = i128::from(limit) - i128::from(first);
    let size = i128::from(step.unsigned_abs());
    let span = if step > 0 { distance } else { -distance }.max(0);
    let len = usize::try_from((span + size - 1) / size).unwrap_or(usize::MAX);
    elements(&[len])?;
    let operand = lowering.load(Load::Range { first, step, len });
    let output = lowering.output(vec![len], Numbers::Integer)?;
    permuted(lowering, operand, &[len], &[1], output)
}
