//! The kernels that backends implement. Every operator of a graph is lowered to one or a few of them.
//!
//! A kernel is plain data: sizes and strides in elements, row-major by default. Each output element is computed
//! independently, by the operations stated here and in this order, without reassociation and without fused
//! multiply-add. A strict backend therefore agrees with the CPU bit for bit, except for transcendental functions.
//!
//! `T` is the type of numbers in buffers, `A` that of sums and functions ([`Arithmetic`](crate::Arithmetic)); a
//! result is rounded from `A` to `T` once. Sizes may be 0. Strides may be 0 (broadcast). Indices are in range: the
//! runner checks them first.

mod elementwise;
mod operations;
mod recurrence;

pub use elementwise::{Binary, Compare, Function, Pairwise, Relation, Select, Short, Unary};
pub use recurrence::{Cell, Recurrence};

use serde::Serialize;
use std::ops::Range;

/// Most axes of a [`Copy`](struct@Copy), [`Pad`], [`Binary`], [`Compare`] or [`Select`]. More axes are merged where
/// possible, or refused.
pub const MAX_RANK: usize = 8;

/// A kernel. Operands come in the order that each kernel states.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kernel {
    /// See [`Copy`](struct@Copy).
    Copy(Copy),
    /// See [`Pad`].
    Pad(Pad),
    /// See [`Unary`].
    Unary(Unary),
    /// See [`Binary`].
    Binary(Binary),
    /// See [`Compare`].
    Compare(Compare),
    /// See [`Select`].
    Select(Select),
    /// See [`Gemm`].
    Gemm(Gemm),
    /// See [`MatMul`].
    MatMul(MatMul),
    /// See [`Conv`].
    Conv(Conv),
    /// See [`Pool`].
    Pool(Pool),
    /// See [`Affine`].
    Affine(Affine),
    /// See [`LayerNorm`].
    LayerNorm(LayerNorm),
    /// See [`Softmax`].
    Softmax(Softmax),
    /// See [`Reduce`].
    Reduce(Reduce),
    /// See [`Recurrence`].
    Recurrence(Recurrence),
    /// See [`Scan`].
    Scan(Scan),
    /// See [`Ranking`].
    Ranking(Ranking),
    /// See [`Gather`].
    Gather(Gather),
    /// See [`Scatter`].
    Scatter(Scatter),
    /// See [`SparseSum`].
    SparseSum(SparseSum),
    /// See [`StaticFeatures`].
    StaticFeatures(StaticFeatures),
}

/// Moves elements of any type. Operand: `x`. For every index `i` of `shape`:
/// `y[to.offset + Σ iₐ·to.stridesₐ] = x[from.offset + Σ iₐ·from.stridesₐ]`. Other elements of `y` are unchanged, so a
/// concatenation is several copies into one output. Transposes, slices and splits are copies, too.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Copy {
    /// Length of each axis; at most [`MAX_RANK`].
    pub shape: Vec<usize>,
    /// The view that is read.
    pub from: View,
    /// The view that is written.
    pub to: View,
}

/// A strided view of a buffer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct View {
    /// Position of the first element.
    pub offset: usize,
    /// Distance between neighbors on each axis, in elements.
    pub strides: Vec<usize>,
}

/// Pads a tensor. Operand: `x` of shape `input`. On each axis, output index `i` is input index `i − before`; outside
/// the input it is as `border` states; where that is an element of the input, no input axis is empty unless the output
/// is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pad {
    /// Lengths of the input; at most [`MAX_RANK`] axes.
    pub input: Vec<usize>,
    /// Lengths of the output.
    pub output: Vec<usize>,
    /// Elements added before the first on each axis; a negative number cuts elements off.
    pub before: Vec<i64>,
    /// What is outside the input.
    pub border: Border,
}

/// What a [`Pad`] puts outside its input.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Border {
    /// This number; for integers, one of 32 bits.
    Value(f64),
    /// The nearest element.
    Nearest,
    /// The elements in reverse order, without repeating the outermost ones: `… 2 1 | 0 1 2 | 1 0 …`.
    Mirrored,
    /// The elements again: `… 1 2 | 0 1 2 | 0 1 …`.
    Around,
}

/// A matrix product, also of integers. Operands: `x` `[rows, inner]`; `weight`; `bias` if it has strides; `bucket`,
/// one integer for each row, if `buckets` is not 0. `s = 0`, then `s = s + x[r, k]·weight[…]` for ascending `k`;
/// `y[r, o] = s` or `s + bias[…]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gemm {
    /// Rows of `x` and of `y`.
    pub rows: usize,
    /// Number of summands.
    pub inner: usize,
    /// Columns of `y`.
    pub outputs: usize,
    /// Strides of the weight.
    pub weight: GemmStrides,
    /// Strides of the bias, whose `inner` is 0, if there is one.
    pub bias: Option<GemmStrides>,
    /// Parameter sets, of which each row's `bucket` selects one; 0 for a single set without such an operand.
    pub buckets: usize,
}

/// Strides of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GemmStrides {
    /// From one parameter set to the next; 0 if all share one.
    pub bucket: usize,
    /// From one summand to the next.
    pub inner: usize,
    /// From one output to the next.
    pub output: usize,
}

/// Products of the matrices of two values. Operands: `a`, `b`. For each index of `batch`: `y[…, r, c] = s`, with `s =
/// 0`, then `s = s + a[…, r, k]·b[…, k, c]` for ascending `k`. The output is row-major.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MatMul {
    /// Lengths of the axes before the matrices; at most [`MAX_RANK`].
    pub batch: Vec<usize>,
    /// Rows of `a` and of `y`.
    pub rows: usize,
    /// Number of summands.
    pub inner: usize,
    /// Columns of `b` and of `y`.
    pub columns: usize,
    /// Strides of `a`: those of the batch, then row and summand.
    pub a: Vec<usize>,
    /// Strides of `b`: those of the batch, then summand and column.
    pub b: Vec<usize>,
}

/// A cross-correlation of up to three dimensions. Operands: `x` `[batch, inputs, planes, rows, columns]`, `weight`,
/// `bias` (one for each output) if `bias` is set. `s = 0`; for ascending input channel of the output's group, then
/// kernel plane, row and column, if the place is within the image: `s = s + x·w`; `y = s` or `s + bias`. Padding adds
/// nothing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Conv {
    /// Images.
    pub batch: usize,
    /// Groups, which divide `inputs` and `outputs` evenly.
    pub groups: usize,
    /// Input channels, of all groups.
    pub inputs: usize,
    /// Output channels, of all groups.
    pub outputs: usize,
    /// The window.
    pub window: Window,
    /// Strides of the weight: output channel, input channel within the group, kernel plane, row, column.
    pub weight: [usize; 5],
    /// Whether there is a bias.
    pub bias: bool,
}

/// A window that moves over an image; all lengths are `[planes, rows, columns]`, and an image of fewer dimensions has
/// one plane, and one row. Output place `p` covers input places `p·stride − before + k·dilation` for `k` in
/// `0..kernel`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Window {
    /// Input lengths.
    pub input: [usize; 3],
    /// Output lengths.
    pub output: [usize; 3],
    /// Kernel lengths.
    pub kernel: [usize; 3],
    /// Steps.
    pub stride: [usize; 3],
    /// Distance between kernel elements.
    pub dilation: [usize; 3],
    /// Padding before the first element.
    pub before: [usize; 3],
}

/// Pooling over a window. Operand: `x` `[images, planes, rows, columns]`. Every window covers at least one place of the
/// image. `Maximum` is the greatest element, or NaN if one is NaN; an average is the sum in ascending plane, then row,
/// then column, divided by the number of places that count.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pool {
    /// Batch times channels.
    pub images: usize,
    /// The window.
    pub window: Window,
    /// The function.
    pub kind: PoolKind,
}

/// The function of a pooling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolKind {
    /// The greatest element.
    Maximum,
    /// The mean over places within the image.
    Average,
    /// The mean over places within the padded image; a last window may reach beyond it.
    AveragePadded {
        /// Lengths of the padded image, `[planes, rows, columns]`.
        padded: [usize; 3],
    },
}

/// Inference-time batch normalization. Operands: `x` `[outer, channels, inner]`, then `scale`, `bias`, `mean`,
/// `variance`, one for each channel. `y = ((x − mean) / √(variance + epsilon))·scale + bias`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Affine {
    /// Product of the axes before the channels.
    pub outer: usize,
    /// Channels.
    pub channels: usize,
    /// Product of the axes after the channels.
    pub inner: usize,
    /// Added to the variance.
    pub epsilon: f64,
}

/// Layer normalization. Operands: `x` `[rows, len]`, `scale` `[len]`, `bias` `[len]` if `bias` is set.
/// `m = (Σ x)/len`, `v = (Σ (x − m)·(x − m))/len`, both in ascending order;
/// `y = ((x − m) / √(v + epsilon))·scale + bias`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerNorm {
    /// Rows.
    pub rows: usize,
    /// Elements of a row.
    pub len: usize,
    /// Whether there is a bias.
    pub bias: bool,
    /// Added to the variance.
    pub epsilon: f64,
}

/// (T) Softmax over the middle axis. Operand: `x` `[outer, len, inner]`. `m` is the greatest, `s = Σ e^(x − m)` in
/// ascending order; `y = e^(x − m)/s`, or with `log`: `(x − m) − ln s`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Softmax {
    /// Product of the axes before.
    pub outer: usize,
    /// Length of the axis.
    pub len: usize,
    /// Product of the axes after.
    pub inner: usize,
    /// Whether the logarithm is computed.
    pub log: bool,
}

/// One number or integer for each row, from its elements in ascending order. Operand: `x` `[rows, len]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reduce {
    /// Rows.
    pub rows: usize,
    /// Elements of a row; not 0 for a mean, a maximum and a minimum.
    pub len: usize,
    /// The function.
    pub function: Reduction,
}

/// The function of a [`Reduce`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    /// `s = 0`, then `s = s + x`; also of integers.
    Sum,
    /// The sum, divided by the number of elements; of real numbers only.
    Mean,
    /// `p = 1`, then `p = p · x`; also of integers.
    Product,
    /// The greatest, or NaN if one is NaN; also of integers.
    Maximum,
    /// The least, or NaN if one is NaN; also of integers.
    Minimum,
}

/// Sums of the elements so far on the middle axis, also of integers. Operand: `x` `[outer, len, inner]`. `s = 0`; for
/// each element in ascending order, or in descending order with `reverse`: `s = s + x` and `y = s`, or first `y = s`
/// with `exclusive`. With `product`, they are products: `s = 1`, and `s = s · x`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scan {
    /// Product of the axes before.
    pub outer: usize,
    /// Length of the axis.
    pub len: usize,
    /// Product of the axes after.
    pub inner: usize,
    /// Whether an element is not part of its own sum.
    pub exclusive: bool,
    /// Whether the last element comes first.
    pub reverse: bool,
    /// Whether elements are multiplied.
    pub product: bool,
}

/// The places of the greatest or least elements on the middle axis, in the order of their size, as integers. Operand:
/// `x` `[outer, len, inner]`, of any type. `y` is `[outer, count, inner]`. NaN comes before all; of equal elements, the
/// first comes first, or the last with `prefer_last`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranking {
    /// Product of the axes before.
    pub outer: usize,
    /// Length of the axis.
    pub len: usize,
    /// Product of the axes after.
    pub inner: usize,
    /// Number of places; at most `len`.
    pub count: usize,
    /// Which elements come first.
    pub extreme: Extreme,
    /// Which of equal elements comes first.
    pub prefer_last: bool,
}

/// One end of the order of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Extreme {
    /// The greatest.
    Greatest,
    /// The least.
    Least,
}

/// A lookup of rows in a table. Operands: `table`, `index` (integers).
/// `y[r, c] = table[index[r]·strides[0] + c·strides[1]]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gather {
    /// Number of indices.
    pub rows: usize,
    /// Elements of a row.
    pub columns: usize,
    /// Rows of the table.
    pub table: usize,
    /// Strides of the table: row, column.
    pub strides: [usize; 2],
}

/// Rows of a table that are updated, also of integers. Operands: `table` `[table, columns]`, `index` (integers),
/// `updates` `[rows, columns]`. `y = table`; then, for ascending `r`, with `i = index[r]`: `y[i, c] = updates[r, c]`, or
/// a function of `y[i, c]` and `updates[r, c]`, in this order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scatter {
    /// Number of indices.
    pub rows: usize,
    /// Elements of a row.
    pub columns: usize,
    /// Rows of the table.
    pub table: usize,
    /// What becomes of an element and its update; the update itself if it is absent.
    pub function: Option<Update>,
}

/// The function of a [`Scatter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Update {
    /// `y + u`.
    Add,
    /// `y · u`.
    Multiply,
    /// The greater one, `y` of equal ones; NaN if one is NaN.
    Maximum,
    /// The lesser one, `y` of equal ones; NaN if one is NaN.
    Minimum,
}

/// A sum of columns selected by index; also of integers. Operands: `index` `[rows, slots]` (integers; negative ones
/// are skipped), `weight`, `factoriser` and `bias` if they have strides, `bucket` (one integer for each row) if
/// `bias_buckets` is not 0. `s = bias[…]` or 0; for ascending slot: `s = s + w`, where `w` is `weight[…]`, or
/// `weight[…] + factoriser[…]` computed first. Index `f` is feature `f mod features` of set `f div features`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SparseSum {
    /// Rows.
    pub rows: usize,
    /// Indices of a row.
    pub slots: usize,
    /// Columns of `y`.
    pub outputs: usize,
    /// Features of one set.
    pub features: usize,
    /// Number of sets; an index is less than `sets · features`.
    pub sets: usize,
    /// Strides of the weight: set, feature, output.
    pub weight: [usize; 3],
    /// Strides of the factoriser, which all sets share: feature, output.
    pub factoriser: Option<[usize; 2]>,
    /// Strides of the bias: bucket, output.
    pub bias: Option<[usize; 2]>,
    /// Biases, of which `bucket` selects one; 0 without such an operand.
    pub bias_buckets: usize,
}

/// The static features that CNN2 computes from an image. Operand: `x` `[batch, 4, height, width]` (red, green, blue,
/// depth). `y` `[batch, 8, height, width]`: the four, then `u = (column + 0.5)/width`, `v = (row + 0.5)/height`, (T)
/// `sin(10·u)`, and 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StaticFeatures {
    /// Images.
    pub batch: usize,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

impl Kernel {
    /// Returns the kernel's name.
    pub fn name(&self) -> &'static str {
        match self {
            Kernel::Copy(_) => "copy",
            Kernel::Pad(_) => "pad",
            Kernel::Unary(_) => "unary",
            Kernel::Binary(_) => "binary",
            Kernel::Compare(_) => "compare",
            Kernel::Select(_) => "select",
            Kernel::Gemm(_) => "gemm",
            Kernel::MatMul(_) => "mat_mul",
            Kernel::Conv(_) => "conv",
            Kernel::Pool(_) => "pool",
            Kernel::Affine(_) => "affine",
            Kernel::LayerNorm(_) => "layer_norm",
            Kernel::Softmax(_) => "softmax",
            Kernel::Reduce(_) => "reduce",
            Kernel::Recurrence(_) => "recurrence",
            Kernel::Scan(_) => "scan",
            Kernel::Ranking(_) => "ranking",
            Kernel::Gather(_) => "gather",
            Kernel::Scatter(_) => "scatter",
            Kernel::SparseSum(_) => "sparse_sum",
            Kernel::StaticFeatures(_) => "static_features",
        }
    }

    /// Returns which of its functions the kernel computes, if it has several.
    pub fn function(&self) -> Option<String> {
        match self {
            Kernel::Unary(unary) => Some(format!("{:?}", unary.function)),
            Kernel::Binary(binary) => Some(format!("{:?}", binary.function)),
            Kernel::Compare(compare) => Some(format!("{:?}", compare.relation)),
            Kernel::Reduce(reduce) => Some(format!("{:?}", reduce.function)),
            Kernel::Scatter(Scatter { function: Some(function), .. }) => Some(format!("{function:?}")),
            _ => None,
        }
    }

    /// Returns the number of elements that the kernel computes, which is also the number of GPU threads.
    pub fn outputs(&self) -> usize {
        match self {
            Kernel::Copy(copy) => copy.shape.iter().product(),
            Kernel::Pad(pad) => pad.output.iter().product(),
            Kernel::Unary(unary) => unary.len,
            Kernel::Binary(binary) => binary.shape.iter().product(),
            Kernel::Compare(compare) => compare.shape.iter().product(),
            Kernel::Select(select) => select.shape.iter().product(),
            Kernel::Gemm(gemm) => gemm.rows * gemm.outputs,
            Kernel::MatMul(product) => {
                product.batch.iter().product::<usize>() * product.rows * product.columns
            }
            Kernel::Conv(conv) => conv.batch * conv.outputs * conv.window.places(),
            Kernel::Pool(pool) => pool.images * pool.window.places(),
            Kernel::Affine(affine) => affine.outer * affine.channels * affine.inner,
            Kernel::LayerNorm(norm) => norm.rows * norm.len,
            Kernel::Softmax(softmax) => softmax.outer * softmax.len * softmax.inner,
            Kernel::Reduce(reduce) => reduce.rows,
            Kernel::Recurrence(recurrence) => recurrence.batch * recurrence.example(),
            Kernel::Scan(scan) => scan.outer * scan.len * scan.inner,
            Kernel::Ranking(ranking) => ranking.outer * ranking.count * ranking.inner,
            Kernel::Gather(gather) => gather.rows * gather.columns,
            Kernel::Scatter(scatter) => scatter.table * scatter.columns,
            Kernel::SparseSum(sum) => sum.rows * sum.outputs,
            Kernel::StaticFeatures(image) => image.batch * 8 * image.height * image.width,
        }
    }

    /// Whether backends may differ by a few ULP.
    pub fn is_transcendental(&self) -> bool {
        match self {
            Kernel::Unary(unary) => unary.function.is_transcendental(),
            Kernel::Binary(binary) => binary.function == Pairwise::Power,
            Kernel::Softmax(_) | Kernel::StaticFeatures(_) | Kernel::Recurrence(_) => true,
            _ => false,
        }
    }
}

impl Window {
    /// Whether there is one plane, so that a two-dimensional window computes the same.
    pub fn is_flat(&self) -> bool {
        self.input[0] == 1 && self.output[0] == 1 && self.kernel[0] == 1 && self.before[0] == 0
    }

    /// Returns the number of output places.
    pub fn places(&self) -> usize {
        self.output.iter().product()
    }

    /// Returns the output places on `axis` for which kernel element `k` is within the image.
    pub fn covered(&self, axis: usize, k: usize) -> Range<usize> {
        let (stride, shift) = (self.stride[axis].max(1), k * self.dilation[axis]);
        let first = self.before[axis].saturating_sub(shift).div_ceil(stride);
        let behind = (self.input[axis] + self.before[axis]).saturating_sub(shift).div_ceil(stride);
        let behind = behind.min(self.output[axis]);
        first.min(behind)..behind
    }

    /// Returns the kernel elements that are within the image for output place `p` on `axis`.
    pub fn taps(&self, axis: usize, p: usize) -> Range<usize> {
        let (dilation, start) = (self.dilation[axis].max(1), p.saturating_mul(self.stride[axis]));
        let until = |end: usize| end.saturating_sub(start).div_ceil(dilation).min(self.kernel[axis]);
        until(self.before[axis])..until(self.before[axis].saturating_add(self.input[axis]))
    }

    /// Returns the input place that kernel element `k` covers for output place `p` on `axis`; `None` in the padding.
    pub fn place(&self, axis: usize, p: usize, k: usize) -> Option<usize> {
        let place = (p * self.stride[axis] + k * self.dilation[axis]).checked_sub(self.before[axis])?;
        (place < self.input[axis]).then_some(place)
    }
}
