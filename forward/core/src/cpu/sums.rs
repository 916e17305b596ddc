//! Sums of real numbers and integers: of columns that indices select, and of rows.

use super::number::{Number, Stored};
use super::parallel;
use crate::kernel::{Reduce, Reduction, Scan, SparseSum};

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

pub(super) fn reduce<T: Stored<A>, A: Number>(reduce: &Reduce, x: &[T], y: &mut [T]) -> Option<()> {
    parallel::rows(y, 1, x.len(), |first, y| {
        for (row, y) in (first..).zip(y) {
            let elements = x[row * reduce.len..][..reduce.len].iter().map(|x| x.widen());
            *y = T::narrow(match reduce.function {
                Reduction::Sum => elements.fold(A::ZERO, A::add),
                Reduction::Mean => elements.fold(A::ZERO, A::add).div(A::length(reduce.len)),
                Reduction::Product => elements.fold(A::constant(1.0), A::mul),
                Reduction::Maximum => elements.reduce(A::greater)?,
                Reduction::Minimum => elements.reduce(A::lesser)?,
            })?;
        }
        Some(())
    })
}

pub(super) fn scan<T: Stored<A>, A: Number>(scan: &Scan, x: &[T], y: &mut [T]) -> Option<()> {
    let Scan { len, inner, exclusive, reverse, product, .. } = *scan;
    for (x, y) in x.chunks_exact((len * inner).max(1)).zip(y.chunks_exact_mut((len * inner).max(1))) {
        for column in 0..inner {
            let mut sum = if product { A::constant(1.0) } else { A::ZERO };
            for i in 0..len {
                let at = if reverse { len - 1 - i } else { i } * inner + column;
                let next = if product { sum.mul(x[at].widen()) } else { sum.add(x[at].widen()) };
                y[at] = T::narrow(if exclusive { sum } else { next })?;
                sum = next;
            }
        }
    }
    Some(())
}
