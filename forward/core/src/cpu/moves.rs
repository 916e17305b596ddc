//! Kernels that move elements.

use crate::kernel::{Copy as CopyKernel, Gather, Pad};
use std::ops::Range;

/// Advances to the next index, the last axis first.
fn advance(at: &mut [usize], shape: &[usize]) {
    for (i, len) in at.iter_mut().zip(shape).rev() {
        *i += 1;
        if *i < *len {
            return;
        }
        *i = 0;
    }
}

/// Calls `row` for each run along the last axis, with the row-major positions of the run, and its first position and
/// step in each strided view.
pub(super) fn each_row<const N: usize>(
    shape: &[usize],
    strides: [&[usize]; N],
    mut row: impl FnMut(Range<usize>, [usize; N], [usize; N]) -> Option<()>,
) -> Option<()> {
    let (len, outer) = shape.split_last().map_or((1, shape), |(len, outer)| (*len, outer));
    let steps = strides.map(|strides| strides.get(outer.len()).copied().unwrap_or(0));
    let mut at = vec![0; outer.len()];
    for run in 0..outer.iter().product::<usize>() {
        let first = strides.map(|strides| at.iter().zip(strides).map(|(i, stride)| i * stride).sum());
        row(run * len..(run + 1) * len, first, steps)?;
        advance(&mut at, outer);
    }
    Some(())
}

pub(super) fn copy<T: Copy>(copy: &CopyKernel, x: &[T], y: &mut [T]) -> Option<()> {
    let (from, to) = (&copy.from, &copy.to);
    each_row(&copy.shape, [&from.strides, &to.strides], |row, [x_first, y_first], steps| {
        let (x_first, y_first) = (from.offset + x_first, to.offset + y_first);
        match steps {
            [1, 1] => y[y_first..][..row.len()].copy_from_slice(&x[x_first..][..row.len()]),
            [x_step, y_step] => {
                for i in 0..row.len() {
                    y[y_first + i * y_step] = x[x_first + i * x_step];
                }
            }
        }
        Some(())
    })
}

pub(super) fn pad<T: Copy + Default>(pad: &Pad, x: &[T], y: &mut [T]) {
    let mut at = vec![0; pad.output.len()];
    for y in y.iter_mut() {
        let from = at.iter().zip(&pad.before).zip(&pad.input).try_fold(0usize, |from, ((i, before), len)| {
            let last = i64::try_from(*len).unwrap_or(i64::MAX) - 1;
            let i = i64::try_from(*i).unwrap_or(i64::MAX).saturating_sub(*before);
            let i = if pad.edge { i.clamp(0, last.max(0)) } else { i };
            usize::try_from(i).ok().filter(|i| i < len).map(|i| from * len + i)
        });
        *y = from.map_or(T::default(), |from| x[from]);
        advance(&mut at, &pad.output);
    }
}

pub(super) fn gather<T: Copy>(gather: &Gather, table: &[T], index: &[i32], y: &mut [T]) -> Option<()> {
    for (row, index) in index.iter().enumerate().take(gather.rows) {
        let first = usize::try_from(*index).ok()? * gather.strides[0];
        for (c, y) in y[row * gather.columns..][..gather.columns].iter_mut().enumerate() {
            *y = table[first + c * gather.strides[1]];
        }
    }
    Some(())
}
