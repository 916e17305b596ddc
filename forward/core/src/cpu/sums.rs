//! Kernels of real numbers and integers: sums of columns, elementwise arithmetic.

use super::number::{Number, Stored};
use super::parallel;
use crate::kernel::{Binary, Function, Pairwise, SparseSum};

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
