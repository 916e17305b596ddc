//! Follows rounding errors through the kernels of a node.

use super::bounded::{Bounded, Fetch, compute};
use super::normalization;
use super::recurrence::{self, Numbers};
use super::rounding::{UNIT, of_intermediates, of_layer_norm, of_one, of_softmax, slope, step, summands};
use crate::kernel::{
    Binary, Border, Copy, Kernel, Pairwise, Recurrence, Reduction, Scatter, Unary, Update, View,
};
use crate::lower::{Call, Info, Load, Lowered, Operand, Task};
use crate::value;
use crate::{Array, Element};
use ckpt_api::{Error, Result};

/// Whether a node's kernels round intermediate results that are not only summed: then absolute values do not bound its
/// errors.
pub(super) fn is_needed(lowered: &Lowered) -> bool {
    let is_nonlinear = |call: &Call| match &call.task {
        Task::Kernel(kernel) => matches!(
            kernel,
            Kernel::Unary(_)
                | Kernel::Binary(_)
                | Kernel::LayerNorm(_)
                | Kernel::Softmax(_)
                | Kernel::Recurrence(_)
        ),
        Task::Reference(_) => false,
    };
    lowered.calls.len() > 1 && lowered.calls.iter().any(is_nonlinear)
}

/// Returns the bounds on the errors of each of a node's outputs. `inputs` are those that are present, in order.
///
/// # Errors
/// Those of the kernels, and of `load`.
pub(super) fn errors(lowered: &Lowered, inputs: &[Option<Array>], load: Fetch) -> Result<Vec<Vec<f64>>> {
    let inputs = inputs.iter().map(|input| input.clone().map(Bounded::exact)).collect();
    Ok(follow(lowered, inputs, load)?.into_iter().map(|output| output.error).collect())
}

/// Returns a node's outputs with bounds on their errors, if its inputs have errors.
///
/// # Errors
/// Those of the kernels, and of `load`.
pub(super) fn follow(lowered: &Lowered, inputs: Vec<Option<Bounded>>, load: Fetch) -> Result<Vec<Bounded>> {
    let zeros = |info: &Info| {
        let element = if info.numbers == value::Numbers::Integer { Element::I32 } else { Element::F64 };
        Bounded::exact(Array::zeros(element, info.len()))
    };
    let mut held = Held {
        inputs,
        loads: lowered.loads.iter().map(|from| loaded(from, load)).collect::<Result<_>>()?,
        temporaries: lowered.temporaries.iter().map(zeros).collect(),
        outputs: lowered.outputs.iter().map(zeros).collect(),
    };
    for call in &lowered.calls {
        let Task::Kernel(kernel) = &call.task else {
            return Err(Error::unsupported("no error bound is known for an operator that a codec defines")
                .help("set a tolerance to use instead of the computed bound"));
        };
        let operands = call.operands.iter().map(|operand| held.get(*operand)).collect::<Result<Vec<_>>>()?;
        let before = held.get(call.output)?;
        let value = compute(kernel, &operands.iter().map(|o| &o.value).collect::<Vec<_>>(), &before.value)?;
        let error = match &value {
            Array::I32(integers) => vec![0.0; integers.len()],
            reals => propagated(kernel, &operands, before, &reals.as_f64())?,
        };
        *held.slot(call.output)? = Bounded { value, error };
    }
    Ok(held.outputs)
}

/// A constant that binary32 does not hold is rounded.
#[expect(clippy::cast_possible_truncation, reason = "this tests whether binary32 holds the number")]
fn loaded(from: &Load, load: Fetch) -> Result<Bounded> {
    let (value, error) = load(from)?;
    if let Some(error) = error {
        return Ok(Bounded { value, error });
    }
    let rounds = matches!(from, Load::Constant { .. } | Load::Reals(_));
    let own = |x: &f64| if rounds && f64::from(*x as f32) != *x { x.abs() } else { 0.0 };
    let error = value.as_f64().iter().map(own).collect();
    Ok(Bounded { value, error })
}

/// The buffers of a node.
struct Held {
    inputs: Vec<Option<Bounded>>,
    loads: Vec<Bounded>,
    temporaries: Vec<Bounded>,
    outputs: Vec<Bounded>,
}

impl Held {
    fn get(&self, operand: Operand) -> Result<&Bounded> {
        let found = match operand {
            Operand::Input(index) => self.inputs.get(index).and_then(Option::as_ref),
            Operand::Parameter(index) => self.loads.get(index),
            Operand::Temporary(index) => self.temporaries.get(index),
            Operand::Output(index) => self.outputs.get(index),
        };
        found.ok_or_else(no_operand)
    }

    fn slot(&mut self, operand: Operand) -> Result<&mut Bounded> {
        let found = match operand {
            Operand::Temporary(index) => self.temporaries.get_mut(index),
            Operand::Output(index) => self.outputs.get_mut(index),
            _ => None,
        };
        found.ok_or_else(no_operand)
    }
}

fn no_operand() -> Error {
    Error::unsupported("a node lacks an operand of its kernels")
}

/// Bounds the error of a kernel's result `y` by those of its operands and its own.
fn propagated(kernel: &Kernel, operands: &[&Bounded], before: &Bounded, y: &[f64]) -> Result<Vec<f64>> {
    let first = *operands.first().ok_or_else(no_operand)?;
    match kernel {
        Kernel::Copy(_) | Kernel::Gather(_) | Kernel::Select(_) => moved(kernel, operands, before),
        Kernel::Pad(pad) => {
            let mut pad = pad.clone();
            if matches!(pad.border, Border::Value(_)) {
                pad.border = Border::Value(0.0);
            }
            moved(&Kernel::Pad(pad), operands, before)
        }
        Kernel::Unary(unary) => Ok(of_unary(unary, first, y)),
        Kernel::Binary(binary) => of_binary(binary, operands, y),
        Kernel::LayerNorm(norm) => {
            let by = |index: usize| operands.get(index).map(|by| by.value.to_f64()).unwrap_or_default();
            let own = of_layer_norm(norm, &first.value.as_f64(), &by(1), &by(2));
            let own = with_own(own, summands(&Task::Kernel(kernel.clone())), y);
            Ok(plus(own, normalization::layer_norm(norm, operands)))
        }
        Kernel::Softmax(softmax) => {
            let own = of_softmax(softmax, &first.value.as_f64());
            let own = with_own(own, summands(&Task::Kernel(kernel.clone())), y);
            Ok(plus(own, normalization::softmax(softmax, first, y)))
        }
        Kernel::Recurrence(kernel) => of_recurrence(kernel, operands),
        Kernel::Scatter(scatter) => of_updates(scatter, operands, before, y),
        Kernel::Reduce(reduce) if matches!(reduce.function, Reduction::Maximum | Reduction::Minimum) => {
            let mut widest = reduce.clone();
            widest.function = Reduction::Maximum;
            moved(&Kernel::Reduce(widest), operands, before)
        }
        Kernel::Scan(scan) if scan.product => of_products(kernel, operands, before, y),
        _ => of_sums(kernel, operands, before, y),
    }
}

fn plus(own: Vec<f64>, propagated: Vec<f64>) -> Vec<f64> {
    own.into_iter().zip(propagated).map(|(own, more)| own + more).collect()
}

/// `2·√k·S + 2|y|`.
#[expect(clippy::cast_precision_loss, reason = "numbers of summands are below 2^53")]
fn with_own(sums: Vec<f64>, summands: usize, y: &[f64]) -> Vec<f64> {
    let factor = 2.0 * (summands as f64).sqrt();
    let is_exact = summands == 0;
    sums.iter().zip(y).map(|(sum, y)| if is_exact { 0.0 } else { factor * sum + 2.0 * y.abs() }).collect()
}

/// The errors move as the elements do.
fn moved(kernel: &Kernel, operands: &[&Bounded], before: &Bounded) -> Result<Vec<f64>> {
    let errors: Vec<Array> = operands.iter().map(|operand| operand.errors()).collect();
    Ok(compute(kernel, &errors.iter().collect::<Vec<_>>(), &Array::F64(before.error.clone()))?.to_f64())
}

/// The errors of a sum of products: those of each operand, times the sizes of the others, and the sum's own.
fn of_sums(kernel: &Kernel, operands: &[&Bounded], before: &Bounded, y: &[f64]) -> Result<Vec<f64>> {
    let sizes: Vec<Array> = operands.iter().map(|operand| operand.sizes()).collect();
    let blank = Array::zeros(Element::F64, before.value.len());
    let own = compute(kernel, &sizes.iter().collect::<Vec<_>>(), &blank)?.to_f64();
    let mut total = with_own(own, summands(&Task::Kernel(kernel.clone())), y);
    for (index, operand) in operands.iter().enumerate() {
        if operand.error.iter().all(|error| *error == 0.0) {
            continue;
        }
        let errors = operand.errors();
        // A bias, after the two factors, is added once: with its own errors only.
        let none = |other: &Bounded| match &other.value {
            Array::I32(integers) => Array::I32(integers.clone()),
            reals => Array::zeros(Element::F64, reals.len()),
        };
        let by: Vec<Array> = operands
            .iter()
            .zip(&sizes)
            .enumerate()
            .map(|(place, (other, sizes))| match place {
                place if place == index => errors.clone(),
                0 | 1 if index < 2 => sizes.clone(),
                _ => none(other),
            })
            .collect();
        let made = compute(kernel, &by.iter().collect::<Vec<_>>(), &blank)?;
        total.iter_mut().zip(made.as_f64().iter()).for_each(|(total, more)| *total += more);
    }
    Ok(total)
}

/// The errors of elements that are updated: they move with them, or are those of the sums and products.
fn of_updates(scatter: &Scatter, operands: &[&Bounded], before: &Bounded, y: &[f64]) -> Result<Vec<f64>> {
    let kernel = match scatter.function {
        None => return moved(&Kernel::Scatter(scatter.clone()), operands, before),
        Some(Update::Maximum | Update::Minimum) => {
            let widest = Scatter { function: Some(Update::Maximum), ..scatter.clone() };
            return moved(&Kernel::Scatter(widest), operands, before);
        }
        Some(Update::Add | Update::Multiply) => Kernel::Scatter(scatter.clone()),
    };
    of_products(&kernel, operands, before, y)
}

/// The errors of sums and products of any of the operands' elements.
fn of_products(kernel: &Kernel, operands: &[&Bounded], before: &Bounded, y: &[f64]) -> Result<Vec<f64>> {
    // What sums and products of sizes gain where each size is larger by its error.
    let enlarged = |operand: &&Bounded| match operand.sizes() {
        Array::I32(integers) => Array::I32(integers),
        sizes => {
            let sizes = sizes.to_f64().into_iter().zip(&operand.error);
            Array::F64(sizes.map(|(size, error)| size + error * UNIT).collect())
        }
    };
    let run = |operands: Vec<Array>| compute(kernel, &operands.iter().collect::<Vec<_>>(), &before.value);
    let sizes = run(operands.iter().map(|operand| operand.sizes()).collect())?.to_f64();
    let grown = run(operands.iter().map(enlarged).collect())?.to_f64();
    let own = with_own(sizes.clone(), summands(&Task::Kernel(kernel.clone())), y);
    let gains = grown.into_iter().zip(sizes).map(|(grown, size)| (grown - size).max(0.0) / UNIT);
    Ok(own.into_iter().zip(gains).map(|(own, gain)| own + gain).collect())
}

fn of_recurrence(kernel: &Recurrence, operands: &[&Bounded]) -> Result<Vec<f64>> {
    let mut left = operands
        .iter()
        .map(|operand| Numbers { values: operand.value.to_f64(), errors: operand.error.clone() });
    let mut next = |is_there: bool| -> Result<Option<Numbers>> {
        if is_there { left.next().map(Some).ok_or_else(no_operand) } else { Ok(None) }
    };
    let from = recurrence::Operands {
        x: next(true)?.ok_or_else(no_operand)?,
        weight: next(true)?.ok_or_else(no_operand)?,
        bias: next(kernel.bias)?,
        hidden: next(kernel.initial_hidden)?,
        cell: next(kernel.initial_cell)?,
    };
    recurrence::errors(kernel, &from)
}

fn of_unary(unary: &Unary, x: &Bounded, y: &[f64]) -> Vec<f64> {
    let function = unary.function;
    let values = x.value.as_f64();
    let own = values.iter().zip(y).map(|(x, y)| y.abs() + of_intermediates(function, x.abs(), y.abs()));
    let own = with_own(own.collect(), of_one(function), y);
    let terms = values.iter().zip(&x.error).zip(y).zip(own);
    terms
        .map(|(((x, error), y), own)| match *error == 0.0 {
            true => own,
            false => slope(function, *x, *y) * error + own + step(function, *y),
        })
        .collect()
}

fn of_binary(binary: &Binary, operands: &[&Bounded], y: &[f64]) -> Result<Vec<f64>> {
    let [a, b] = operands else { return Err(no_operand()) };
    let side = |operand: &Bounded, strides: &[usize]| -> Result<(Vec<f64>, Vec<f64>)> {
        let spread = |values: &[f64]| expanded(&binary.shape, strides, values, y.len());
        Ok((spread(&operand.value.as_f64())?, spread(&operand.error)?))
    };
    let ((a, of_a), (b, of_b)) = (side(a, &binary.strides[0])?, side(b, &binary.strides[1])?);
    let mut errors = Vec::with_capacity(y.len());
    for ((y, (a, of_a)), (b, of_b)) in y.iter().zip(a.iter().zip(&of_a)).zip(b.iter().zip(&of_b)) {
        let weighted = |factor: f64, error: f64| if error == 0.0 { 0.0 } else { factor.abs() * error };
        errors.push(match binary.function {
            Pairwise::Add | Pairwise::Subtract => of_a + of_b + 2.0 * y.abs(),
            Pairwise::Multiply => weighted(*b, *of_a) + weighted(*a, *of_b) + 2.0 * y.abs(),
            Pairwise::Divide => weighted(1.0 / b, *of_a) + weighted(y / b, *of_b) + 2.0 * y.abs(),
            Pairwise::Power => {
                weighted(b * y / a, *of_a) + weighted(y * a.abs().ln(), *of_b) + 18.0 * y.abs()
            }
            Pairwise::Maximum | Pairwise::Minimum => of_a.max(*of_b),
            Pairwise::Modulo | Pairwise::Remainder => of_a + weighted(a / b, *of_b) + 2.0 * y.abs(),
            // Of integers, which are exact.
            _ => 0.0,
        });
    }
    Ok(errors)
}

/// A strided view as a row-major value.
fn expanded(shape: &[usize], strides: &[usize], values: &[f64], len: usize) -> Result<Vec<f64>> {
    let mut step = 1;
    let mut own = vec![0; shape.len()];
    for (stride, len) in own.iter_mut().zip(shape).rev() {
        *stride = step;
        step *= (*len).max(1);
    }
    let from = View { offset: 0, strides: strides.to_vec() };
    let to = View { offset: 0, strides: own };
    let copy = Kernel::Copy(Copy { shape: shape.to_vec(), from, to });
    Ok(compute(&copy, &[&Array::F64(values.to_vec())], &Array::zeros(Element::F64, len))?.to_f64())
}
