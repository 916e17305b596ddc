//! Lowers products of two values.

use super::broadcast::{broadcast_pair, broadcast_strides};
use super::lowering::{Info, Lowering, Operand, misfit};
use super::strides::{merge_axes, row_major};
use crate::Kernel;
use crate::kernel::MatMul;
use ckpt_api::Result;

/// Lowers the products of the matrices in the last two axes.
pub(super) fn mat_mul(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&[])?;
    lowering.allow_roles(&[])?;
    let [a, b] = lowering.exactly()?;
    lowering.check_numbers(b, a.numbers)?;
    let (shape, kernel) = matrices(a, b)?;
    let output = lowering.output(shape, a.numbers)?;
    lowering.call(Kernel::MatMul(kernel), [Operand::Input(0), Operand::Input(1)], output);
    Ok(())
}

/// Returns the shape of the products of two values' matrices, and the kernel that computes them.
pub(super) fn matrices(a: &Info, b: &Info) -> Result<(Vec<usize>, MatMul)> {
    let is_matrix = |info: &Info| info.shape.len() > 1;
    let (left, right) = (Matrices::rows(a)?, Matrices::columns(b)?);
    if left.own[1] != right.own[0] {
        return Err(misfit(&b.shape, format!("{} rows, one for each column of {:?}", left.own[1], a.shape)));
    }
    let batch = broadcast_pair(&left.batch, &right.batch)?;
    let [rows, inner, columns] = [left.own[0], left.own[1], right.own[1]];
    let mut shape = batch.clone();
    shape.extend(is_matrix(a).then_some(rows));
    shape.extend(is_matrix(b).then_some(columns));
    let over = |matrices: &Matrices| {
        let each = matrices.own[0] * matrices.own[1];
        let own = broadcast_strides(&matrices.batch, &batch);
        own.into_iter().map(|stride| stride * each).collect::<Vec<_>>()
    };
    let (batch, [a_batch, b_batch]) = merge_axes(&batch, [&over(&left), &over(&right)])?;
    let a = [a_batch, row_major(&left.own)].concat();
    let b = [b_batch, row_major(&right.own)].concat();
    Ok((shape, MatMul { batch, rows, inner, columns, a, b }))
}

/// A value as a batch of matrices.
struct Matrices {
    batch: Vec<usize>,
    own: [usize; 2],
}

impl Matrices {
    /// A vector is one row.
    fn rows(info: &Info) -> Result<Self> {
        match info.shape[..] {
            [ref batch @ .., rows, columns] => Ok(Matrices { batch: batch.to_vec(), own: [rows, columns] }),
            [len] => Ok(Matrices { batch: Vec::new(), own: [1, len] }),
            [] => Err(misfit(&info.shape, "at least one axis")),
        }
    }

    /// A vector is one column.
    fn columns(info: &Info) -> Result<Self> {
        match info.shape[..] {
            [len] => Ok(Matrices { batch: Vec::new(), own: [len, 1] }),
            _ => Self::rows(info),
        }
    }
}
