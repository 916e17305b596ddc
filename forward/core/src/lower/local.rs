//! Values within a node that is lowered to several kernels.

use super::broadcast::{broadcast_pair, broadcast_strides};
use super::copies::permuted;
use super::lowering::{Info, Load, Lowering, Operand, elements};
use super::products;
use super::strides::{merge_axes, row_major};
use super::table;
use crate::Kernel;
use crate::kernel::{Binary, Compare, Function, Pairwise, Reduce, Reduction, Relation, Select, Unary};
use crate::value::Numbers;
use ckpt_api::Result;

/// A row-major value within a node.
#[derive(Clone, Debug)]
pub(super) struct Local {
    pub(super) operand: Operand,
    pub(super) info: Info,
}

impl Local {
    pub(super) fn new(operand: Operand, shape: Vec<usize>, numbers: Numbers) -> Self {
        Local { operand, info: Info { shape, numbers } }
    }

    pub(super) fn shape(&self) -> &[usize] {
        &self.info.shape
    }

    /// The same elements in another shape of as many.
    pub(super) fn reshaped(&self, shape: impl Into<Vec<usize>>) -> Self {
        let info = Info { shape: shape.into(), numbers: self.info.numbers };
        Local { operand: self.operand, info }
    }
}

impl Lowering<'_> {
    /// Returns an input as a value within the node.
    pub(super) fn local(&self, index: usize) -> Result<Local> {
        Ok(Local { operand: Operand::Input(index), info: self.input(index)?.clone() })
    }

    /// Creates a value within the node.
    pub(super) fn made(&mut self, shape: impl Into<Vec<usize>>, numbers: Numbers) -> Result<Local> {
        let info = Info { shape: shape.into(), numbers };
        Ok(Local { operand: self.temporary(info.shape.clone(), numbers)?, info })
    }

    /// Returns a real number as a value without axes.
    pub(super) fn number(&mut self, value: f64) -> Local {
        let operand = self.load(Load::Constant { value, len: 1 });
        Local { operand, info: Info { shape: Vec::new(), numbers: Numbers::Real } }
    }

    /// Returns the integers `first`, `first + step` and so on, on one axis.
    pub(super) fn range(&mut self, first: i64, step: i64, len: usize) -> Local {
        let operand = self.load(Load::Range { first, step, len });
        Local { operand, info: Info { shape: vec![len], numbers: Numbers::Integer } }
    }

    /// Computes a function of each element.
    pub(super) fn apply(&mut self, function: Function, x: &Local) -> Result<Local> {
        let y = self.made(x.shape(), x.info.numbers)?;
        self.call(Kernel::Unary(Unary { len: x.info.len(), function }), [x.operand], y.operand);
        Ok(y)
    }

    /// Computes a function of two values, broadcast as in ONNX.
    pub(super) fn combine(&mut self, function: Pairwise, a: &Local, b: &Local) -> Result<Local> {
        let shape = broadcast_pair(a.shape(), b.shape())?;
        let own = [a, b].map(|value| broadcast_strides(value.shape(), &shape));
        let (merged, strides) = merge_axes(&shape, [&own[0], &own[1]])?;
        let y = self.made(shape, a.info.numbers)?;
        let kernel = Binary { shape: merged, strides, function };
        self.call(Kernel::Binary(kernel), [a.operand, b.operand], y.operand);
        Ok(y)
    }

    /// Compares two values, broadcast as in ONNX.
    pub(super) fn relate(&mut self, relation: Relation, a: &Local, b: &Local) -> Result<Local> {
        let shape = broadcast_pair(a.shape(), b.shape())?;
        let own = [a, b].map(|value| broadcast_strides(value.shape(), &shape));
        let (merged, strides) = merge_axes(&shape, [&own[0], &own[1]])?;
        let y = self.made(shape, Numbers::Integer)?;
        let kernel = Compare { shape: merged, strides, relation };
        self.call(Kernel::Compare(kernel), [a.operand, b.operand], y.operand);
        Ok(y)
    }

    /// Chooses between two values, broadcast as in ONNX.
    pub(super) fn choose(&mut self, condition: &Local, a: &Local, b: &Local) -> Result<Local> {
        let shape = broadcast_pair(&broadcast_pair(condition.shape(), a.shape())?, b.shape())?;
        let own = [condition, a, b].map(|value| broadcast_strides(value.shape(), &shape));
        let (merged, strides) = merge_axes(&shape, [&own[0], &own[1], &own[2]])?;
        let y = self.made(shape, a.info.numbers)?;
        let kernel = Select { shape: merged, strides };
        self.call(Kernel::Select(kernel), [condition.operand, a.operand, b.operand], y.operand);
        Ok(y)
    }

    /// Reorders axes: axis `k` of the result is axis `order[k]`.
    pub(super) fn transposed(&mut self, x: &Local, order: &[usize]) -> Result<Local> {
        if order.is_sorted() {
            return Ok(x.clone());
        }
        let own = row_major(x.shape());
        let shape: Vec<usize> = order.iter().map(|axis| x.shape()[*axis]).collect();
        let strides: Vec<usize> = order.iter().map(|axis| own[*axis]).collect();
        self.viewed(x, shape, &strides)
    }

    /// Copies a strided view of a value.
    pub(super) fn viewed(&mut self, x: &Local, shape: Vec<usize>, strides: &[usize]) -> Result<Local> {
        let y = self.made(shape, x.info.numbers)?;
        permuted(self, x.operand, y.shape(), strides, y.operand)?;
        Ok(y)
    }

    /// Reduces the last `count` axes.
    pub(super) fn reduced(&mut self, function: Reduction, x: &Local, count: usize) -> Result<Local> {
        let (kept, last) = x.shape().split_at(x.shape().len().saturating_sub(count));
        let (rows, len) = (elements(kept)?, elements(last)?);
        let y = self.made(kept, x.info.numbers)?;
        self.call(Kernel::Reduce(Reduce { rows, len, function }), [x.operand], y.operand);
        Ok(y)
    }

    /// Looks up indices along an axis, in whose place the axis of `indices` comes.
    pub(super) fn looked_up(&mut self, x: &Local, axis: usize, indices: &Local) -> Result<Local> {
        let count = indices.info.len();
        let shape = [&x.shape()[..axis], &[count], &x.shape()[axis + 1..]].concat();
        let y = self.made(shape, x.info.numbers)?;
        table::along(self, (x.operand, x.shape()), axis, (indices.operand, count), y.operand)?;
        Ok(y)
    }

    /// Multiplies the matrices in the last two axes, as ONNX's `MatMul`.
    pub(super) fn multiplied(&mut self, a: &Local, b: &Local) -> Result<Local> {
        let (shape, kernel) = products::matrices(&a.info, &b.info)?;
        let y = self.made(shape, a.info.numbers)?;
        self.call(Kernel::MatMul(kernel), [a.operand, b.operand], y.operand);
        Ok(y)
    }

    /// Makes a value an output of the node, in this shape of as many elements.
    pub(super) fn finish(&mut self, value: &Local, shape: impl Into<Vec<usize>>) -> Result<()> {
        let shape = shape.into();
        let output = self.output(shape, value.info.numbers)?;
        let Operand::Temporary(index) = value.operand else {
            return permuted(self, value.operand, &[value.info.len()], &[1], output);
        };
        // The output takes the place of the temporary value.
        for call in &mut self.lowered.calls {
            let operands = call.operands.iter_mut().chain([&mut call.output]);
            operands.filter(|operand| **operand == value.operand).for_each(|operand| *operand = output);
        }
        if let Some(unused) = self.lowered.temporaries.get_mut(index) {
            unused.shape = vec![0];
        }
        Ok(())
    }
}
