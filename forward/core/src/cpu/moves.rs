//! Kernels that move elements.

use super::number::{Number, Stored};
use super::parallel;
use crate::kernel::{Border, Copy as CopyKernel, Gather, Pad, Scatter, Update};
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

/// Calls `row` for each run along the last axis that has some of the elements of `range`, in row-major order; with the
/// row-major positions of these, and their first position and step in each strided view.
pub(super) fn each_row_of<const N: usize>(
    range: Range<usize>,
    shape: &[usize],
    strides: [&[usize]; N],
    mut row: impl FnMut(Range<usize>, [usize; N], [usize; N]) -> Option<()>,
) -> Option<()> {
    let (len, outer) = shape.split_last().map_or((1, shape), |(len, outer)| (*len, outer));
    if len == 0 || range.is_empty() {
        return Some(());
    }
    let steps = strides.map(|strides| strides.get(outer.len()).copied().unwrap_or(0));
    let (mut at, mut run) = (vec![0; outer.len()], range.start / len);
    for (i, len) in at.iter_mut().zip(outer).rev() {
        (*i, run) = (run % len, run / len);
    }
    let mut start = range.start;
    while start < range.end {
        let skipped = start % len;
        let end = range.end.min(start - skipped + len);
        let first = std::array::from_fn(|view| {
            let outer: usize = at.iter().zip(strides[view]).map(|(i, stride)| i * stride).sum();
            outer + skipped * steps[view]
        });
        row(start..end, first, steps)?;
        advance(&mut at, outer);
        start = end;
    }
    Some(())
}

pub(super) fn copy<T: Copy + Send + Sync>(copy: &CopyKernel, x: &[T], y: &mut [T]) -> Option<()> {
    let (from, to, len) = (&copy.from, &copy.to, copy.shape.iter().product());
    if to.offset == 0 && y.len() == len && is_row_major(&copy.shape, &to.strides) {
        return parallel::rows(y, 1, len, |start, y| {
            each_row_of(start..start + y.len(), &copy.shape, [&from.strides], |row, [first], [step]| {
                let y = &mut y[row.start - start..row.end - start];
                match step {
                    1 => y.copy_from_slice(&x[from.offset + first..][..row.len()]),
                    _ => y.iter_mut().zip(0..).for_each(|(y, i)| *y = x[from.offset + first + i * step]),
                }
                Some(())
            })
        });
    }
    each_row_of(0..len, &copy.shape, [&from.strides, &to.strides], |row, [x_first, y_first], steps| {
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

/// Whether these strides are those of neighboring elements in order.
fn is_row_major(shape: &[usize], strides: &[usize]) -> bool {
    let mut step = 1;
    let mut axes = shape.iter().zip(strides).rev();
    let is_next = |(len, stride): (&usize, &usize)| {
        let own = step;
        step *= len;
        *stride == own
    };
    shape.len() == strides.len() && axes.all(is_next)
}

pub(super) fn pad<T: Stored<A>, A: Number>(pad: &Pad, x: &[T], y: &mut [T]) -> Option<()> {
    if y.is_empty() {
        return Some(());
    }
    let outside = match pad.border {
        Border::Value(value) => Some(T::narrow(A::constant(value))?),
        _ => None,
    };
    let axes = pad.output.iter().zip(&pad.input).zip(&pad.before);
    let places: Vec<Vec<Option<usize>>> =
        axes.map(|((output, input), before)| source_places(pad.border, *output, *input, *before)).collect();
    let Some((columns, outer)) = places.split_last() else {
        y.copy_from_slice(x);
        return Some(());
    };
    let rows = pad.output.split_last().map_or(&[][..], |(_, rows)| rows);
    let len = pad.input.last().copied().unwrap_or(1);
    let mut at = vec![0; outer.len()];
    for y in y.chunks_exact_mut(columns.len()) {
        let row = at.iter().zip(outer).zip(&pad.input).try_fold(0usize, |row, ((i, places), len)| {
            places.get(*i).copied().flatten().map(|place| row * len + place)
        });
        for (y, column) in y.iter_mut().zip(columns) {
            *y = match row.zip(*column) {
                Some((row, column)) => x[row * len + column],
                None => outside?,
            };
        }
        advance(&mut at, rows);
    }
    Some(())
}

/// The place of the input that each place of the output repeats on one axis; `None` for one outside.
fn source_places(border: Border, output: usize, input: usize, before: i64) -> Vec<Option<usize>> {
    let len = i64::try_from(input).unwrap_or(i64::MAX);
    let place = |i: i64| {
        let i = i.saturating_sub(before);
        let i = match border {
            Border::Nearest => i.clamp(0, (len - 1).max(0)),
            Border::Mirrored => {
                let i = i.checked_rem_euclid((2 * (len - 1)).max(1))?;
                i.min(2 * (len - 1) - i)
            }
            Border::Around => i.checked_rem_euclid(len)?,
            Border::Value(_) => i,
        };
        usize::try_from(i).ok().filter(|i| *i < input)
    };
    (0..).take(output).map(place).collect()
}

pub(super) fn gather<T: Copy>(gather: &Gather, table: &[T], index: &[i32], y: &mut [T]) -> Option<()> {
    for (row, index) in index.iter().enumerate().take(gather.rows) {
        let first = usize::try_from(*index).ok()? * gather.strides[0];
        if gather.strides[1] == 1 && gather.columns > 0 {
            y[row * gather.columns..][..gather.columns].copy_from_slice(&table[first..][..gather.columns]);
            continue;
        }
        for (c, y) in y[row * gather.columns..][..gather.columns].iter_mut().enumerate() {
            *y = table[first + c * gather.strides[1]];
        }
    }
    Some(())
}

pub(super) fn scatter<T: Stored<A>, A: Number>(
    scatter: &Scatter,
    table: &[T],
    index: &[i32],
    updates: &[T],
    y: &mut [T],
) -> Option<()> {
    let Scatter { rows, columns, function, .. } = *scatter;
    y.copy_from_slice(table);
    for (row, index) in index.iter().enumerate().take(rows) {
        let first = usize::try_from(*index).ok()? * columns;
        for (y, update) in y[first..][..columns].iter_mut().zip(&updates[row * columns..]) {
            let (own, by) = (y.widen(), update.widen());
            *y = match function {
                None => *update,
                Some(Update::Add) => T::narrow(own.add(by))?,
                Some(Update::Multiply) => T::narrow(own.mul(by))?,
                Some(Update::Maximum) => T::narrow(own.greater(by))?,
                Some(Update::Minimum) => T::narrow(own.lesser(by))?,
            };
        }
    }
    Some(())
}
