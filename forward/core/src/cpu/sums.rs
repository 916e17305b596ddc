//! Kernels that integers have, too: products, sums of columns, elementwise arithmetic.

use super::number::{Number, Stored};
use crate::kernel::{Binary, Conv, Function, Gemm, GemmStrides, Pairwise, SparseSum};

/// Rows of `weight` one after the other, so that the innermost loop runs over outputs.
fn packed<T: Copy>(weight: &[T], gemm: &Gemm) -> Vec<T> {
    let GemmStrides { bucket, inner, output } = gemm.weight;
    let mut rows = Vec::with_capacity(gemm.buckets.max(1) * gemm.inner * gemm.outputs);
    for set in 0..gemm.buckets.max(1) {
        for k in 0..gemm.inner {
            rows.extend((0..gemm.outputs).map(|o| weight[set * bucket + k * inner + o * output]));
        }
    }
    rows
}

pub(super) fn gemm<T: Stored<A>, A: Number>(
    gemm: &Gemm,
    x: &[T],
    weight: &[T],
    bias: Option<&[T]>,
    bucket: Option<&[i32]>,
    y: &mut [T],
) -> Option<()> {
    let contiguous = gemm.weight.output == 1 && gemm.weight.inner == gemm.outputs;
    let packed = if contiguous { Vec::new() } else { packed(weight, gemm) };
    let set_len = gemm.inner * gemm.outputs;
    let mut sums = vec![A::ZERO; gemm.outputs];
    for row in 0..gemm.rows {
        let set = match bucket {
            Some(chosen) => usize::try_from(chosen[row]).ok()?,
            None => 0,
        };
        let rows = if contiguous {
            &weight[set * gemm.weight.bucket..][..set_len]
        } else {
            &packed[set * set_len..][..set_len]
        };
        sums.fill(A::ZERO);
        for (x, weights) in
            x[row * gemm.inner..][..gemm.inner].iter().zip(rows.chunks_exact(gemm.outputs.max(1)))
        {
            let x = x.widen();
            for (sum, weight) in sums.iter_mut().zip(weights) {
                *sum = sum.add(x.mul(weight.widen()));
            }
        }
        for (o, (y, sum)) in y[row * gemm.outputs..].iter_mut().zip(&sums).enumerate() {
            let sum = match (bias, &gemm.bias) {
                (Some(bias), Some(strides)) => {
                    sum.add(bias[set * strides.bucket + o * strides.output].widen())
                }
                _ => *sum,
            };
            *y = T::narrow(sum)?;
        }
    }
    Some(())
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
    let mut sums = vec![A::ZERO; sum.outputs];
    for row in 0..sum.rows {
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
        for (y, s) in y[row * sum.outputs..].iter_mut().zip(&sums) {
            *y = T::narrow(*s)?;
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
    let window = &conv.window;
    let ([height, width], [rows, columns]) = (window.input, window.output);
    let (inputs, outputs) = (conv.inputs / conv.groups, conv.outputs / conv.groups);
    let mut places = y.iter_mut();
    for image in 0..conv.batch {
        for output in 0..conv.outputs {
            let group = output / outputs;
            for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
                let mut sum = A::ZERO;
                for input in 0..inputs {
                    let plane = (image * conv.inputs + group * inputs + input) * height * width;
                    for ky in 0..window.kernel[0] {
                        let Some(py) = window.place(0, row, ky) else { continue };
                        for kx in 0..window.kernel[1] {
                            let Some(px) = window.place(1, column, kx) else { continue };
                            let [so, si, sy, sx] = conv.weight;
                            let weight = weight[output * so + input * si + ky * sy + kx * sx];
                            sum = sum.add(x[plane + py * width + px].widen().mul(weight.widen()));
                        }
                    }
                }
                if let Some(bias) = bias {
                    sum = sum.add(bias[output].widen());
                }
                *places.next()? = T::narrow(sum)?;
            }
        }
    }
    Some(())
}

pub(super) fn binary<T: Stored<A>, A: Number>(binary: &Binary, a: &[T], b: &[T], y: &mut [T]) -> Option<()> {
    let mut at = vec![0usize; binary.shape.len()];
    for y in y.iter_mut() {
        let place = |strides: &[usize]| at.iter().zip(strides).map(|(i, stride)| i * stride).sum::<usize>();
        let (a, b) = (a[place(&binary.strides[0])].widen(), b[place(&binary.strides[1])].widen());
        *y = T::narrow(match binary.function {
            Pairwise::Add => a.add(b),
            Pairwise::Multiply => a.mul(b),
        })?;
        super::moves::advance(&mut at, &binary.shape);
    }
    Some(())
}

/// The functions of integers; `None` inside for one that integers have not.
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
