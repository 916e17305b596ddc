//! Kernels that move elements.

use crate::kernel::{Copy as CopyKernel, Gather, Pad, View};

/// The next index, the last axis first.
pub(super) fn advance(at: &mut [usize], shape: &[usize]) {
    for (i, len) in at.iter_mut().zip(shape).rev() {
        *i += 1;
        if *i < *len {
            return;
        }
        *i = 0;
    }
}

fn place(view: &View, at: &[usize]) -> usize {
    view.offset + at.iter().zip(&view.strides).map(|(i, stride)| i * stride).sum::<usize>()
}

pub(super) fn copy<T: Copy>(copy: &CopyKernel, x: &[T], y: &mut [T]) {
    let mut at = vec![0; copy.shape.len()];
    for _ in 0..copy.shape.iter().product::<usize>() {
        y[place(&copy.to, &at)] = x[place(&copy.from, &at)];
        advance(&mut at, &copy.shape);
    }
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
