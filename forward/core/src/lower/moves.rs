//! Lowers operators that move elements.

use super::attributes::{lacks, no_axis, resolve_axis};
use super::copies::{copy, copy_as, permuted};
use super::lowering::{Info, Load, Lowering, Operand, elements, misfit, show};
use super::strides::{check_rank, row_major};
use super::table;
use crate::Kernel;
use crate::kernel::{Border, Pad, View};
use crate::value::Numbers;
use ckpt_api::{Attribute, Error, Result, Setting, text};

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
    let wanted = lowering.node.ints("shape")?.ok_or_else(|| lacks("shape"))?;
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
    let (mut seen, mut reversed) = (vec![false; shape.len()], Vec::new());
    for (((start, end), axis), step) in starts.iter().zip(ends).zip(&axes).zip(&steps) {
        let at = resolve_axis(*axis, shape.len()).filter(|at| !std::mem::replace(&mut seen[*at], true));
        let at = at.ok_or_else(|| no_axis("axes", *axis, x))?;
        let taken = Taken::of(*start, *end, *step, x.shape[at])
            .ok_or_else(|| Attribute::Ints(steps.clone()).invalid("steps", "integers other than 0"))?;
        shape[at] = taken.count;
        if taken.count > 0 {
            offset += taken.first * strides[at];
        }
        strides[at] = strides[at].saturating_mul(taken.step);
        reversed.extend((taken.is_reversed && taken.count > 1).then_some(at));
    }
    let output = lowering.output(shape.clone(), x.numbers)?;
    let from = (Operand::Input(0), View { offset, strides });
    let Some((last, others)) = reversed.split_last() else {
        let to = View { offset: 0, strides: row_major(&shape) };
        return copy(lowering, &shape, from, (output, to));
    };
    let to = View { offset: 0, strides: row_major(&shape) };
    let mut turned = lowering.temporary(shape.clone(), x.numbers)?;
    copy(lowering, &shape, from, (turned, to))?;
    for axis in others {
        let next = lowering.temporary(shape.clone(), x.numbers)?;
        reverse(lowering, turned, &shape, *axis, next)?;
        turned = next;
    }
    reverse(lowering, turned, &shape, *last, output)
}

/// Copies a row-major value with the elements on an axis in reverse order.
pub(super) fn reverse(
    lowering: &mut Lowering,
    value: Operand,
    shape: &[usize],
    axis: usize,
    output: Operand,
) -> Result<()> {
    let len = shape[axis];
    let last = i64::try_from(len).unwrap_or(i64::MAX) - 1;
    let indices = lowering.load(Load::Range { first: last, step: -1, len });
    table::along(lowering, (value, shape), axis, (indices, len), output)
}

/// The places of an axis that a slice takes.
struct Taken {
    /// The least one.
    first: usize,
    step: usize,
    count: usize,
    /// Whether the greatest one comes first.
    is_reversed: bool,
}

impl Taken {
    /// Negative starts and ends count from the end; those beyond the axis are its end. `None` for a step of 0.
    fn of(start: i64, end: i64, step: i64, len: usize) -> Option<Self> {
        let signed = i64::try_from(len).ok()?;
        let is_reversed = step < 0;
        // Going backwards, the place before the first one is the end.
        let (least, most) = if is_reversed { (-1, signed - 1) } else { (0, signed) };
        let place = |index: i64| {
            let index = if index < 0 { index.saturating_add(signed) } else { index };
            index.clamp(least, most)
        };
        let (start, end) = (place(start), place(end));
        let (from, to) = if is_reversed { (end + 1, start + 1) } else { (start, end) };
        let step = usize::try_from(step.unsigned_abs()).ok().filter(|step| *step > 0)?;
        let span = usize::try_from((to - from).max(0)).ok()?;
        let count = span.div_ceil(step);
        let first = match is_reversed {
            // The first place taken is the last one of the span.
            true => usize::try_from(to).ok()?.checked_sub(1 + count.saturating_sub(1).saturating_mul(step)),
            false => usize::try_from(from).ok(),
        };
        Some(Taken { first: first.unwrap_or(0), step, count, is_reversed })
    }
}

pub(super) fn pad(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["pads", "mode", "value"])?;
    let [x] = lowering.exactly()?;
    let border = border(lowering, x)?;
    let pads = lowering.node.ints("pads")?.ok_or_else(|| lacks("pads"))?;
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
    if !matches!(border, Border::Value(_)) && x.len() == 0 && !shape.contains(&0) {
        return Err(misfit(&x.shape, "an element to repeat"));
    }
    let output = lowering.output(shape.clone(), x.numbers)?;
    let kernel = merge_unpadded(&x.shape, &shape, before, border)?;
    lowering.call(Kernel::Pad(kernel), [Operand::Input(0)], output);
    Ok(())
}

/// What is around a value. Fails if the source does not record that.
fn border(lowering: &Lowering, x: &Info) -> Result<Border> {
    match lowering.node.text("mode")? {
        None | Some("constant") => {}
        Some("edge") => return Ok(Border::Nearest),
        Some("reflect") => return Ok(Border::Mirrored),
        Some("wrap") => return Ok(Border::Around),
        Some("unspecified") => {
            return Err(Error::usage(
                "the source does not record how its convolutions pad the border of the image",
            )
            .help(text![
                "state it: ",
                Setting::READ_OPTION.of("border=zero"),
                " or ",
                Setting::READ_OPTION.of("border=clamp")
            ]));
        }
        Some(other) => {
            return Err(Error::unsupported("this padding mode is not supported")
                .found(format!("'{other}'"))
                .expected("constant, edge, reflect or wrap"));
        }
    }
    let value = lowering.node.float("value", 0.0)?;
    let is_integer = value.fract() == 0.0 && value.abs() < f64::from(i32::MAX);
    match x.numbers == Numbers::Integer && !is_integer {
        true => Err(Attribute::Float(value).invalid("value", "an integer of 32 bits")),
        false => Ok(Border::Value(value)),
    }
}

/// Merges neighboring axes that are not padded.
fn merge_unpadded(input: &[usize], output: &[usize], before: &[i64], border: Border) -> Result<Pad> {
    let mut pad = Pad { input: Vec::new(), output: Vec::new(), before: Vec::new(), border };
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
