//! Lowers operators that move elements.

use super::attributes::{no_axis, resolve_axis};
use super::lowering::{Info, Lowering, Operand, elements, misfit, show};
use super::strides::{check_rank, merge_axes, row_major};
use crate::Kernel;
use crate::kernel::{Copy, Pad, View};
use ckpt_api::{Attribute, Error, Result, Setting};

/// Copies `shape` from one strided view to another.
fn copy(
    lowering: &mut Lowering,
    shape: &[usize],
    (input, from): (Operand, View),
    (output, to): (Operand, View),
) -> Result<()> {
    let (shape, [from_strides, to_strides]) = merge_axes(shape, [&from.strides, &to.strides])?;
    let from = View { strides: from_strides, ..from };
    let to = View { strides: to_strides, ..to };
    lowering.call(Kernel::Copy(Copy { shape, from, to }), [input], output);
    Ok(())
}

/// Copies an operand of the given strides to a row-major `output`, which permutes its axes.
pub(super) fn permuted(
    lowering: &mut Lowering,
    input: Operand,
    shape: &[usize],
    strides: &[usize],
    output: Operand,
) -> Result<()> {
    let from = View { offset: 0, strides: strides.to_vec() };
    let to = View { offset: 0, strides: row_major(shape) };
    copy(lowering, shape, (input, from), (output, to))
}

/// Copies the elements of `x` to an output of another shape.
pub(super) fn copy_as(lowering: &mut Lowering, x: &Info, shape: Vec<usize>) -> Result<()> {
    let len = x.len();
    let output = lowering.output(shape, x.numbers)?;
    permuted(lowering, Operand::Input(0), &[len], &[1], output)
}

pub(super) fn identity(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&[])?;
    copied(lowering)
}

/// Copies the only input.
pub(super) fn copied(lowering: &mut Lowering) -> Result<()> {
    let [x] = lowering.exactly()?;
    copy_as(lowering, x, x.shape.clone())
}

pub(super) fn flatten(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["axis"])?;
    let [x] = lowering.exactly()?;
    let axis = lowering.node.int("axis", 1)?;
    // The axis after the last is allowed, too.
    let at = resolve_axis(axis, x.shape.len())
        .or_else(|| usize::try_from(axis).ok().filter(|at| *at == x.shape.len()));
    let (outer, inner) = x.shape.split_at(at.ok_or_else(|| no_axis("axis", axis, x))?);
    let shape = vec![elements(outer)?, elements(inner)?];
    copy_as(lowering, x, shape)
}

pub(super) fn reshape(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["shape", "allowzero"])?;
    let [x] = lowering.exactly()?;
    let wanted = lowering
        .node
        .ints("shape")?
        .ok_or_else(|| Error::corrupt("the layer lacks its attribute 'shape'"))?;
    let refuse =
        || Attribute::Ints(wanted.to_vec()).invalid("shape", format!("a shape of {:?}'s elements", x.shape));
    let keep = !lowering.node.flag("allowzero")?;
    let mut open = None;
    let mut shape = Vec::with_capacity(wanted.len());
    for (axis, len) in wanted.iter().enumerate() {
        shape.push(match *len {
            0 if keep => *x.shape.get(axis).ok_or_else(refuse)?,
            -1 if open.is_none() => {
                open = Some(axis);
                1
            }
            len => usize::try_from(len).map_err(|_| refuse())?,
        });
    }
    if let Some(slot) = open.and_then(|axis| shape.get(axis).map(|_| axis)) {
        let known = elements(&shape)?;
        shape[slot] = x.len().checked_div(known).ok_or_else(refuse)?;
    }
    if elements(&shape)? != x.len() {
        return Err(refuse());
    }
    copy_as(lowering, x, shape)
}

pub(super) fn transpose(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["perm"])?;
    let [x] = lowering.exactly()?;
    let rank = x.shape.len();
    let order = match lowering.node.ints("perm")? {
        None => (0..rank).rev().collect(),
        Some(perm) => {
            let order: Vec<usize> = perm.iter().filter_map(|axis| usize::try_from(*axis).ok()).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            if perm.len() != rank || !sorted.into_iter().eq(0..rank) {
                let expected = format!("an order of {rank} axes");
                return Err(Attribute::Ints(perm.to_vec()).invalid("perm", expected));
            }
            order
        }
    };
    let own = row_major(&x.shape);
    let shape: Vec<usize> = order.iter().map(|axis| x.shape[*axis]).collect();
    let strides: Vec<usize> = order.iter().map(|axis| own[*axis]).collect();
    let output = lowering.output(shape.clone(), x.numbers)?;
    permuted(lowering, Operand::Input(0), &shape, &strides, output)
}

pub(super) fn concat(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["axis"])?;
    let first = lowering.input(0)?;
    let axis = lowering.axis(first, 0)?;
    let inputs = (0..lowering.inputs.len()).map(|index| lowering.input(index)).collect::<Result<Vec<_>>>()?;
    let mut shape = first.shape.clone();
    shape[axis] = 0;
    for input in &inputs {
        let fits = input.shape.len() == shape.len()
            && input.shape.iter().zip(&shape).enumerate().all(|(at, (own, len))| at == axis || own == len);
        if !fits {
            return Err(misfit(&input.shape, format!("{}, but for axis {axis}", show(&first.shape))));
        }
        lowering.check_numbers(input, first.numbers)?;
        shape[axis] = shape[axis]
            .checked_add(input.shape[axis])
            .ok_or_else(|| misfit(&input.shape, "fewer elements"))?;
    }
    let output = lowering.output(shape.clone(), first.numbers)?;
    let strides = row_major(&shape);
    let mut offset = 0;
    for (index, input) in inputs.iter().enumerate() {
        let from = View { offset: 0, strides: row_major(&input.shape) };
        let to = View { offset, strides: strides.clone() };
        copy(lowering, &input.shape, (Operand::Input(index), from), (output, to))?;
        offset += input.shape[axis] * strides[axis];
    }
    Ok(())
}

pub(super) fn split(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["axis", "split"])?;
    let [x] = lowering.exactly()?;
    let axis = lowering.axis(x, 0)?;
    let (len, parts) = (x.shape[axis], lowering.node.outputs.len());
    let lens: Option<Vec<usize>> = match lowering.node.ints("split")? {
        Some(lens) => lens.iter().map(|len| usize::try_from(*len).ok()).collect(),
        None if parts > 0 && len.is_multiple_of(parts) => Some(vec![len / parts; parts]),
        None => None,
    };
    let whole = |lens: &Vec<usize>| {
        lens.len() == parts && lens.iter().try_fold(0usize, |sum, len| sum.checked_add(*len)) == Some(len)
    };
    let lens = lens
        .filter(whole)
        .ok_or_else(|| misfit(&x.shape, format!("an axis {axis} that can be split into {parts} parts")))?;
    let strides = row_major(&x.shape);
    let mut begin = 0;
    for len in lens {
        part(lowering, x, &strides, (axis, begin), len)?;
        begin += len;
    }
    Ok(())
}

/// Copies one part of a split: `len` indices of an axis from `begin` on.
fn part(
    lowering: &mut Lowering,
    x: &Info,
    strides: &[usize],
    (axis, begin): (usize, usize),
    len: usize,
) -> Result<()> {
    let mut shape = x.shape.clone();
    shape[axis] = len;
    let output = lowering.output(shape.clone(), x.numbers)?;
    let from = View { offset: begin * strides[axis], strides: strides.to_vec() };
    let to = View { offset: 0, strides: row_major(&shape) };
    copy(lowering, &shape, (Operand::Input(0), from), (output, to))
}

pub(super) fn slice(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["starts", "ends", "axes", "steps"])?;
    let [x] = lowering.exactly()?;
    let lacks = |name: &str| Error::corrupt(format!("the layer lacks its attribute '{name}'"));
    let starts = lowering.node.ints("starts")?.ok_or_else(|| lacks("starts"))?;
    let ends = lowering.node.ints("ends")?.ok_or_else(|| lacks("ends"))?;
    let axes: Vec<i64> = match lowering.node.ints("axes")? {
        Some(axes) => axes.to_vec(),
        None => (0..).take(starts.len()).collect(),
    };
    let steps = lowering.node.ints("steps")?.map_or_else(|| vec![1; starts.len()], <[i64]>::to_vec);
    if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        return Err(Attribute::Ints(starts.to_vec()).invalid("starts", "as many ends, axes and steps"));
    }
    let (mut shape, mut strides, mut offset) = (x.shape.clone(), row_major(&x.shape), 0);
    let mut seen = vec![false; shape.len()];
    for (((start, end), axis), step) in starts.iter().zip(ends).zip(&axes).zip(&steps) {
        let at = resolve_axis(*axis, shape.len()).filter(|at| !std::mem::replace(&mut seen[*at], true));
        let at = at.ok_or_else(|| no_axis("axes", *axis, x))?;
        let step = usize::try_from(*step).ok().filter(|step| *step > 0).ok_or_else(|| {
            Error::unsupported("only slices with positive steps are supported")
                .found(format!("a step of {step}"))
        })?;
        let [begin, end] = [*start, *end].map(|index| clamp_index(index, x.shape[at]));
        shape[at] = end.saturating_sub(begin).div_ceil(step);
        if shape[at] > 0 {
            offset += begin * strides[at];
        }
        strides[at] = strides[at].saturating_mul(step);
    }
    let output = lowering.output(shape.clone(), x.numbers)?;
    let to = View { offset: 0, strides: row_major(&shape) };
    copy(lowering, &shape, (Operand::Input(0), View { offset, strides }), (output, to))
}

/// Clamps an index to an axis; negative values count from the end.
fn clamp_index(index: i64, len: usize) -> usize {
    let signed = i64::try_from(len).unwrap_or(i64::MAX);
    let index = if index < 0 { index.saturating_add(signed) } else { index };
    usize::try_from(index.clamp(0, signed)).unwrap_or(len)
}

pub(super) fn pad(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["pads", "mode", "value"])?;
    let [x] = lowering.exactly()?;
    let edge = repeats_edge(lowering)?;
    let pads =
        lowering.node.ints("pads")?.ok_or_else(|| Error::corrupt("the layer lacks its attribute 'pads'"))?;
    let refuse = || {
        let expected = format!("a begin for each axis of {:?}, then an end for each", x.shape);
        Attribute::Ints(pads.to_vec()).invalid("pads", expected)
    };
    let rank = x.shape.len();
    let (before, after) =
        pads.split_at_checked(rank).filter(|(_, after)| after.len() == rank).ok_or_else(refuse)?;
    let lengths = x.shape.iter().zip(before.iter().zip(after)).map(|(len, (before, after))| {
        let len = i64::try_from(*len).ok()?.checked_add(*before)?.checked_add(*after)?;
        usize::try_from(len).ok()
    });
    let shape = lengths.collect::<Option<Vec<_>>>().ok_or_else(refuse)?;
    if edge && x.len() == 0 && !shape.contains(&0) {
        return Err(misfit(&x.shape, "an element to repeat"));
    }
    let output = lowering.output(shape.clone(), x.numbers)?;
    let kernel = merge_unpadded(&x.shape, &shape, before, edge)?;
    lowering.call(Kernel::Pad(kernel), [Operand::Input(0)], output);
    Ok(())
}

/// Whether padding repeats the nearest element. Fails for other modes, and for padding with other numbers than 0.
fn repeats_edge(lowering: &Lowering) -> Result<bool> {
    let edge = match lowering.node.text("mode")? {
        None | Some("constant") => false,
        Some("edge") => true,
        Some("unspecified") => {
            return Err(Error::usage(
                "the source does not record how its convolutions pad the border of the image",
            )
            .help(format!(
                "state it: {} or {}",
                Setting::ReadOption("border=zero"),
                Setting::ReadOption("border=clamp")
            )));
        }
        Some(other) => {
            return Err(Error::unsupported("this padding mode is not supported")
                .found(format!("'{other}'"))
                .expected("constant or edge"));
        }
    };
    let value = lowering.node.float("value", 0.0)?;
    if value != 0.0 {
        return Err(
            Error::unsupported("padding with other numbers than 0 is not supported").found(value.to_string())
        );
    }
    Ok(edge)
}

/// Merges neighboring axes that are not padded.
fn merge_unpadded(input: &[usize], output: &[usize], before: &[i64], edge: bool) -> Result<Pad> {
    let mut pad = Pad { input: Vec::new(), output: Vec::new(), before: Vec::new(), edge };
    let mut whole = false;
    for ((input, output), before) in input.iter().zip(output).zip(before) {
        let is_whole = input == output && *before == 0;
        match (pad.input.last_mut(), pad.output.last_mut()) {
            (Some(last_in), Some(last_out)) if whole && is_whole => {
                *last_in *= input;
                *last_out *= output;
            }
            _ => {
                pad.input.push(*input);
                pad.output.push(*output);
                pad.before.push(*before);
            }
        }
        whole = is_whole;
    }
    check_rank(pad.input.len())?;
    Ok(pad)
}
