//! Copies values from one order of axes to another.

use super::lowering::{Info, Lowering, Operand};
use super::strides::{merge_axes, row_major};
use crate::Kernel;
use crate::kernel::{Copy, View};
use ckpt_api::Result;

/// Copies `shape` from one strided view to another.
pub(super) fn copy(
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
