//! Kernels of real numbers only.

use super::elementwise::{COST, Elementwise, each};
use super::number::{Real, Stored};
use super::parallel;
use crate::kernel::{Affine, Function, LayerNorm, Pool, PoolKind, Softmax, StaticFeatures, Window};

pub(super) fn pool<T: Stored<A>, A: Real>(pool: &Pool, x: &[T], y: &mut [T]) -> Option<()> {
    if y.is_empty() {
        return Some(());
    }
    let window = &pool.window;
    let len = window.input.iter().product::<usize>();
    let counts = [0, 1, 2].map(|axis| counts(pool, axis));
    let taps = [0, 1, 2].map(|axis| taps(window, axis));
    let work = taps.iter().fold(y.len(), |work, taps| work.saturating_mul(taps.len()));
    let start = if pool.kind == PoolKind::Maximum { A::constant(f64::NEG_INFINITY) } else { A::ZERO };
    if pool.kind == PoolKind::Maximum && counts.iter().any(|counts| counts.contains(&0)) {
        return None;
    }
    parallel::rows(y, window.places(), work, |first, y| {
        let mut results = vec![start; window.places()];
        for (image, y) in (first..).zip(y.chunks_exact_mut(window.places())) {
            results.fill(start);
            let x = &x[image * len..][..len];
            match pool.kind {
                PoolKind::Maximum => each_tap(window, &taps, x, &mut results, A::greater),
                PoolKind::Average | PoolKind::AveragePadded { .. } => {
                    each_tap(window, &taps, x, &mut results, A::add);
                    divide(&counts, &mut results);
                }
            }
            for (y, result) in y.iter_mut().zip(&results) {
                *y = T::narrow(*result)?;
            }
        }
        Some(())
    })
}

/// The number of kernel elements that count, for each output place on an axis.
fn counts(pool: &Pool, axis: usize) -> Vec<usize> {
    let window = &pool.window;
    let count = |p: usize| match &pool.kind {
        PoolKind::AveragePadded { padded } => {
            let left = padded[axis].saturating_sub(p.saturating_mul(window.stride[axis]));
            left.div_ceil(window.dilation[axis].max(1)).min(window.kernel[axis])
        }
        PoolKind::Maximum | PoolKind::Average => window.taps(axis, p).len(),
    };
    (0..window.output[axis]).map(count).collect()
}

/// The kernel elements on an axis that are within the image for some output place, in order. There are no more of them than
/// output places times places of the image, however long the kernel is.
fn taps(window: &Window, axis: usize) -> Vec<usize> {
    let mut taps: Vec<usize> = Vec::new();
    // The later the output place, the earlier the elements.
    for p in (0..window.output[axis]).rev() {
        let range = window.taps(axis, p);
        let next = taps.last().map_or(0, |last| last + 1);
        taps.extend(range.start.max(next)..range.end);
    }
    taps
}

/// Divides each result by the number of elements that count.
fn divide<A: Real>([planes, rows, columns]: &[Vec<usize>; 3], results: &mut [A]) {
    let counts = planes
        .iter()
        .flat_map(|plane| rows.iter().map(move |row| plane * row))
        .flat_map(|row| columns.iter().map(move |column| row * column));
    results.iter_mut().zip(counts).for_each(|(result, count)| *result = result.div(A::length(count)));
}

/// Folds the taps of the kernel in order, each into all places at once.
fn each_tap<T: Stored<A>, A: Real>(
    window: &Window,
    [planes, rows, columns]: &[Vec<usize>; 3],
    x: &[T],
    results: &mut [A],
    fold: impl Fn(A, A) -> A,
) {
    for (kz, ky) in planes.iter().flat_map(|kz| rows.iter().map(move |ky| (*kz, *ky))) {
        for kx in columns.iter().copied() {
            let columns = window.covered(2, kx);
            let Some(first) = window.place(2, columns.start, kx).filter(|_| !columns.is_empty()) else {
                continue;
            };
            let rows = window.covered(0, kz).flat_map(|z| window.covered(1, ky).map(move |y| (z, y)));
            for (plane, row) in rows {
                let Some((pz, py)) = window.place(0, plane, kz).zip(window.place(1, row, ky)) else {
                    continue;
                };
                let x = &x[(pz * window.input[1] + py) * window.input[2] + first..];
                let row = plane * window.output[1] + row;
                let results = &mut results[row * window.output[2]..][columns.clone()];
                let taken = x.iter().step_by(window.stride[2].max(1));
                results.iter_mut().zip(taken).for_each(|(result, x)| *result = fold(*result, x.widen()));
            }
        }
    }
}

/// `by` holds scale, bias, mean and variance.
pub(super) fn affine<T: Stored<A>, A: Real>(
    affine: &Affine,
    x: &[T],
    by: [&[T]; 4],
    y: &mut [T],
) -> Option<()> {
    let epsilon = A::constant(affine.epsilon);
    let [scale, bias, mean, variance] = by.map(|values| values.iter().map(|x| x.widen()).collect::<Vec<A>>());
    let root: Vec<A> = variance.iter().map(|variance| variance.add(epsilon).sqrt()).collect();
    let normal = |x: &T, c: usize| T::narrow(x.widen().sub(mean[c]).div(root[c]).mul(scale[c]).add(bias[c]));
    let (channels, inner) = (affine.channels, affine.inner);
    // Neighboring channels or neighboring places, whichever there are more of.
    let row = if inner == 1 { channels } else { inner };
    parallel::rows(y, row, x.len().saturating_mul(COST), |first, y| {
        for (place, y) in (first..).zip(y.chunks_exact_mut(row)) {
            let elements = y.iter_mut().zip(&x[place * row..][..row]);
            match inner {
                1 => elements.zip(0..).try_for_each(|((y, x), c)| normal(x, c).map(|normal| *y = normal)),
                _ => {
                    let [scale, bias, mean, root] =
                        [&scale, &bias, &mean, &root].map(|values| values[place % channels]);
                    let normal = |x: &T| T::narrow(x.widen().sub(mean).div(root).mul(scale).add(bias));
                    elements.into_iter().try_for_each(|(y, x)| normal(x).map(|normal| *y = normal))
                }
            }?;
        }
        Some(())
    })
}

pub(super) fn layer_norm<T: Stored<A>, A: Real>(
    norm: &LayerNorm,
    x: &[T],
    scale: &[T],
    bias: Option<&[T]>,
    y: &mut [T],
) -> Option<()> {
    let len = norm.len;
    parallel::rows(y, len, x.len().saturating_mul(COST), |first, y| {
        for (x, y) in x[first * len..].chunks_exact(len).zip(y.chunks_exact_mut(len)) {
            let sum = x.iter().fold(A::ZERO, |sum, x| sum.add(x.widen()));
            let mean = sum.div(A::length(len));
            let squares = x.iter().map(|x| x.widen().sub(mean)).fold(A::ZERO, |sum, d| sum.add(d.mul(d)));
            let root = squares.div(A::length(len)).add(A::constant(norm.epsilon)).sqrt();
            let normal = |x: &T, scale: &T| x.widen().sub(mean).div(root).mul(scale.widen());
            let elements = y.iter_mut().zip(x.iter().zip(scale));
            match bias {
                Some(bias) => {
                    let elements = elements.zip(bias).map(|((y, (x, scale)), bias)| (y, (x, scale, bias)));
                    each(elements, |(x, scale, bias)| T::narrow(normal(x, scale).add(bias.widen())))?;
                }
                None => each(elements, |(x, scale)| T::narrow(normal(x, scale)))?,
            }
        }
        Some(())
    })
}

pub(super) fn softmax<T: Stored<A>, A: Elementwise>(softmax: &Softmax, x: &[T], y: &mut [T]) -> Option<()> {
    let Softmax { len, inner, log, .. } = *softmax;
    let block = len * inner;
    parallel::rows(y, block, x.len().saturating_mul(COST), |first, y| {
        let mut values = vec![A::ZERO; len];
        for (x, y) in x[first * block..].chunks_exact(block).zip(y.chunks_exact_mut(block)) {
            for column in 0..inner {
                let x = x[column..].iter().step_by(inner);
                let Some(greatest) = x.clone().map(|x| x.widen()).reduce(A::greater) else { continue };
                values.iter_mut().zip(x.clone()).for_each(|(value, x)| *value = x.widen().sub(greatest));
                A::map(Function::Exp, &mut values)?;
                let sum = values.iter().copied().fold(A::ZERO, A::add);
                let ln = sum.ln();
                let y = y[column..].iter_mut().step_by(inner);
                match log {
                    true => each(y.zip(x), |x| T::narrow(x.widen().sub(greatest).sub(ln)))?,
                    false => each(y.zip(&values), |value| T::narrow(value.div(sum)))?,
                }
            }
        }
        Some(())
    })
}

pub(super) fn static_features<T: Stored<A>, A: Real>(
    image: &StaticFeatures,
    x: &[T],
    y: &mut [T],
) -> Option<()> {
    let half = A::constant(0.5);
    let plane = image.height * image.width;
    for (i, y) in y.iter_mut().enumerate() {
        let (n, channel, place) = (i / plane / 8, i / plane % 8, i % plane);
        let u = || A::length(place % image.width).add(half).div(A::length(image.width));
        let v = || A::length(place / image.width).add(half).div(A::length(image.height));
        *y = match channel {
            0..4 => x[(n * 4 + channel) * plane + place],
            4 => T::narrow(u())?,
            5 => T::narrow(v())?,
            6 => T::narrow(A::constant(10.0).mul(u()).sin())?,
            _ => T::narrow(A::constant(1.0))?,
        };
    }
    Some(())
}
