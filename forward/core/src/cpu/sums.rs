//! Kernels of real numbers and integers: products, sums of columns, elementwise arithmetic.

use super::number::{Number, Stored};
use super::parallel;
use crate::kernel::{Binary, Conv, Function, Gemm, GemmStrides, Pairwise, SparseSum};

/// Columns of a panel: for each row, as many sums stay in registers.
const PANEL: usize = 8;

/// Rows that share a pass over a panel.
const ROWS: usize = 4;

/// Copies the weight to panels of [`PANEL`] columns, padded, so that the innermost loop reads neighbors.
fn panels<T: Copy + Default>(weight: &[T], gemm: &Gemm) -> Vec<T> {
    let GemmStrides { bucket, inner, output } = gemm.weight;
    let mut panels =
        Vec::with_capacity(gemm.buckets.max(1) * gemm.inner * gemm.outputs.next_multiple_of(PANEL));
    for set in 0..gemm.buckets.max(1) {
        for first in (0..gemm.outputs).step_by(PANEL) {
            for k in 0..gemm.inner {
                panels.extend((first..first + PANEL).map(|o| match o < gemm.outputs {
                    true => weight[set * bucket + k * inner + o * output],
                    false => T::default(),
                }));
            }
        }
    }
    panels
}

pub(super) fn gemm<T: Stored<A> + Default, A: Number>(
    gemm: &Gemm,
    x: &[T],
    weight: &[T],
    bias: Option<&[T]>,
    bucket: Option<&[i32]>,
    y: &mut [T],
) -> Option<()> {
    let panels = panels(weight, gemm);
    let set_len = gemm.inner * gemm.outputs.next_multiple_of(PANEL);
    let set_of = |row: usize| bucket.map_or(Some(0), |chosen| usize::try_from(chosen[row]).ok());
    let work = gemm.rows.saturating_mul(set_len);
    parallel::rows(y, gemm.outputs, work, |first, y| {
        let count = y.len() / gemm.outputs;
        let mut at = 0;
        while at < count {
            let row = first + at;
            let set = set_of(row)?;
            let same = at + ROWS <= count && (row + 1..row + ROWS).all(|row| set_of(row) == Some(set));
            let rows = if same { ROWS } else { 1 };
            let from = Block {
                x: &x[row * gemm.inner..][..rows * gemm.inner],
                panels: &panels[set * set_len..][..set_len],
                bias: bias
                    .zip(gemm.bias)
                    .map(|(bias, strides)| (&bias[set * strides.bucket..], strides.output)),
            };
            let y = &mut y[at * gemm.outputs..][..rows * gemm.outputs];
            if same {
                from.multiply::<ROWS, A>(gemm, y)?
            } else {
                from.multiply::<1, A>(gemm, y)?
            }
            at += rows;
        }
        Some(())
    })
}

/// Rows that are multiplied with the same matrix.
struct Block<'a, T> {
    x: &'a [T],
    panels: &'a [T],
    bias: Option<(&'a [T], usize)>,
}

impl<T: Copy> Block<'_, T> {
    fn multiply<const R: usize, A: Number>(&self, gemm: &Gemm, y: &mut [T]) -> Option<()>
    where
        T: Stored<A>,
    {
        let Gemm { inner, outputs, .. } = *gemm;
        for first in (0..outputs).step_by(PANEL) {
            let panel = &self.panels[first * inner..][..inner * PANEL];
            let mut sums = [[A::ZERO; PANEL]; R];
            for (k, weights) in panel.chunks_exact(PANEL).enumerate() {
                for (r, sums) in sums.iter_mut().enumerate() {
                    let x = self.x[r * inner + k].widen();
                    for (sum, weight) in sums.iter_mut().zip(weights) {
                        *sum = sum.add(x.mul(weight.widen()));
                    }
                }
            }
            for (sums, y) in sums.iter().zip(y.chunks_exact_mut(outputs)) {
                for ((o, y), sum) in y.iter_mut().enumerate().skip(first).zip(sums) {
                    *y = T::narrow(match self.bias {
                        Some((bias, stride)) => sum.add(bias[o * stride].widen()),
                        None => *sum,
                    })?;
                }
            }
        }
        Some(())
    }
}

/// The operands of a [`SparseSum`].
pub(super) struct Sparse<'a, T> {
    pub(super) index: &'a [i32],
    pub(super) weight: &'a [T],
    pub(super) factoriser: Option<&'a [T]>,
    pub(super) bias: Option<&'a [T]>,
    pub(super) bucket: Option<&'a [i32]>,
}

pub(super) fn sparse_sum<T: Stored<A>, A: Number>(
    sum: &SparseSum,
    from: &Sparse<T>,
    y: &mut [T],
) -> Option<()> {
    let work = sum.rows.saturating_mul(sum.slots).saturating_mul(sum.outputs);
    parallel::rows(y, sum.outputs, work, |first, y| {
        let mut sums = vec![A::ZERO; sum.outputs];
        for (row, y) in (first..).zip(y.chunks_exact_mut(sum.outputs)) {
            sparse_row(sum, from, row, &mut sums)?;
            for (y, s) in y.iter_mut().zip(&sums) {
                *y = T::narrow(*s)?;
            }
        }
        Some(())
    })
}

fn sparse_row<T: Stored<A>, A: Number>(
    sum: &SparseSum,
    from: &Sparse<T>,
    row: usize,
    sums: &mut [A],
) -> Option<()> {
    let chosen = match from.bucket {
        Some(bucket) => usize::try_from(bucket[row]).ok()?,
        None => 0,
    };
    for (o, s) in sums.iter_mut().enumerate() {
        *s = match (from.bias, sum.bias) {
            (Some(bias), Some([bucket, output])) => bias[chosen * bucket + o * output].widen(),
            _ => A::ZERO,
        };
    }
    for index in &from.index[row * sum.slots..][..sum.slots] {
        let Ok(index) = usize::try_from(*index) else { continue };
        let (set, feature) = (index / sum.features, index % sum.features);
        let first = set * sum.weight[0] + feature * sum.weight[1];
        for (o, s) in sums.iter_mut().enumerate() {
            let mut weight = from.weight[first + o * sum.weight[2]].widen();
            if let (Some(factoriser), Some([stride, output])) = (from.factoriser, sum.factoriser) {
                weight = weight.add(factoriser[feature * stride + o * output].widen());
            }
            *s = s.add(weight);
        }
    }
    Some(())
}

pub(super) fn conv<T: Stored<A>, A: Number>(
    conv: &Conv,
    x: &[T],
    weight: &[T],
    bias: Option<&[T]>,
    y: &mut [T],
) -> Option<()> {
    let places = conv.window.places();
    let taps = conv.inputs / conv.groups * conv.window.kernel.iter().product::<usize>();
    let work = conv.batch.saturating_mul(conv.outputs).saturating_mul(places).saturating_mul(taps);
    parallel::rows(y, places, work, |first, y| {
        let mut sums = vec![A::ZERO; places];
        for (plane, y) in (first..).zip(y.chunks_exact_mut(places)) {
            let (image, output) = (plane / conv.outputs, plane % conv.outputs);
            sums.fill(A::ZERO);
            convolve(conv, x, weight, (image, output), &mut sums);
            let bias = bias.map(|bias| bias[output].widen());
            for (y, sum) in y.iter_mut().zip(&sums) {
                *y = T::narrow(bias.map_or(*sum, |bias| sum.add(bias)))?;
            }
        }
        Some(())
    })
}

/// Computes one output channel of one image: the taps of the kernel in order, each on all places at once.
fn convolve<T: Stored<A>, A: Number>(
    conv: &Conv,
    x: &[T],
    weight: &[T],
    (image, output): (usize, usize),
    sums: &mut [A],
) {
    let window = &conv.window;
    let [height, width] = window.input;
    let inputs = conv.inputs / conv.groups;
    let group = output / (conv.outputs / conv.groups);
    let [so, si, sy, sx] = conv.weight;
    for input in 0..inputs {
        let plane = (image * conv.inputs + group * inputs + input) * height * width;
        for ky in 0..window.kernel[0] {
            let rows = window.covered(0, ky);
            for kx in 0..window.kernel[1] {
                let columns = window.covered(1, kx);
                let Some(first) = window.place(1, columns.start, kx).filter(|_| !columns.is_empty()) else {
                    continue;
                };
                let weight = weight[output * so + input * si + ky * sy + kx * sx].widen();
                for row in rows.clone() {
                    let Some(py) = window.place(0, row, ky) else { continue };
                    let x = &x[plane + py * width + first..];
                    let sums = &mut sums[row * window.output[1]..][columns.clone()];
                    // A stride of 1 allows vector instructions.
                    if window.stride[1] == 1 {
                        tap(sums, x.iter(), weight);
                    } else {
                        tap(sums, x.iter().step_by(window.stride[1]), weight);
                    }
                }
            }
        }
    }
}

fn tap<'x, T: Stored<A> + 'x, A: Number>(sums: &mut [A], x: impl Iterator<Item = &'x T>, weight: A) {
    for (sum, x) in sums.iter_mut().zip(x) {
        *sum = sum.add(x.widen().mul(weight));
    }
}

pub(super) fn binary<T: Stored<A>, A: Number>(binary: &Binary, a: &[T], b: &[T], y: &mut [T]) -> Option<()> {
    let [a_strides, b_strides] = &binary.strides;
    super::moves::each_row(
        &binary.shape,
        [a_strides, b_strides],
        |row, [a_first, b_first], [a_step, b_step]| {
            for (i, y) in y[row].iter_mut().enumerate() {
                let (a, b) = (a[a_first + i * a_step].widen(), b[b_first + i * b_step].widen());
                *y = T::narrow(match binary.function {
                    Pairwise::Add => a.add(b),
                    Pairwise::Multiply => a.mul(b),
                })?;
            }
            Some(())
        },
    )
}

/// Computes a function of an integer; `None` for a function of real numbers only, `Some(None)` for a result beyond 32
/// bits.
pub(super) fn integer(function: Function, x: i32) -> Option<Option<i32>> {
    let x = i64::from(x);
    let y = match function {
        Function::Relu => x.max(0),
        Function::Clip { min, max } => {
            let (min, max) = (i64::constant(min.ceil()), i64::constant(max.floor()));
            if x < min { min } else { x.min(max) }
        }
        Function::Square => x.saturating_mul(x),
        Function::Scale { multiply, divide } => {
            x.saturating_mul(i64::from(multiply)).checked_div(i64::from(divide))?
        }
        _ => return None,
    };
    Some(i32::try_from(y).ok())
}
