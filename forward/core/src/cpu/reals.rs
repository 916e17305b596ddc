//! Kernels of real numbers only.

use super::number::{Real, Stored};
use super::parallel;
use crate::kernel::{Affine, LayerNorm, Pool, PoolKind, Softmax, StaticFeatures};

pub(super) fn pool<T: Stored<A>, A: Real>(pool: &Pool, x: &[T], y: &mut [T]) -> Option<()> {
    let window = &pool.window;
    let [planes, rows, columns] = window.output;
    let len = window.input.iter().product::<usize>();
    let work = y.len().saturating_mul(window.kernel.iter().product());
    parallel::rows(y, window.places(), work, |first, y| {
        for (image, y) in (first..).zip(y.chunks_exact_mut(window.places())) {
            let x = &x[image * len..][..len];
            for (place, y) in y.iter_mut().enumerate() {
                let at = [place / columns / rows % planes, place / columns % rows, place % columns];
                *y = T::narrow(pooled(pool, x, at)?)?;
            }
        }
        Some(())
    })
}

/// Computes the output at `place` of an image; `None` for a window without elements.
fn pooled<T: Stored<A>, A: Real>(pool: &Pool, x: &[T], place: [usize; 3]) -> Option<A> {
    let window = &pool.window;
    let [_, height, width] = window.input;
    let places =
        |axis: usize| (0..window.kernel[axis]).filter_map(move |k| window.place(axis, place[axis], k));
    let covered = places(0)
        .flat_map(|z| places(1).map(move |y| z * height + y))
        .flat_map(|row| places(2).map(move |column| x[row * width + column].widen()));
    Some(match &pool.kind {
        PoolKind::Maximum => covered.reduce(A::greater)?,
        PoolKind::Average => {
            let (sum, count) = covered.fold((A::ZERO, 0u32), |(sum, count), x| (sum.add(x), count + 1));
            sum.div(A::constant(f64::from(count)))
        }
        PoolKind::AveragePadded { padded } => {
            let counted = |axis: usize| {
                let start = place[axis] * window.stride[axis];
                let is_within = |k: &usize| start + k * window.dilation[axis] < padded[axis];
                (0..window.kernel[axis]).filter(is_within).count()
            };
            covered.fold(A::ZERO, A::add).div(A::length(counted(0) * counted(1) * counted(2)))
        }
    })
}

/// `by` holds scale, bias, mean and variance.
pub(super) fn affine<T: Stored<A>, A: Real>(
    affine: &Affine,
    x: &[T],
    by: [&[T]; 4],
    y: &mut [T],
) -> Option<()> {
    let epsilon = A::constant(affine.epsilon);
    for (i, (x, y)) in x.iter().zip(y.iter_mut()).enumerate() {
        let channel = i / affine.inner % affine.channels;
        let [scale, bias, mean, variance] = by.map(|values| values[channel].widen());
        let normal = x.widen().sub(mean).div(variance.add(epsilon).sqrt());
        *y = T::narrow(normal.mul(scale).add(bias))?;
    }
    Some(())
}

pub(super) fn layer_norm<T: Stored<A>, A: Real>(
    norm: &LayerNorm,
    x: &[T],
    scale: &[T],
    bias: Option<&[T]>,
    y: &mut [T],
) -> Option<()> {
    let rows = x.chunks_exact(norm.len.max(1)).zip(y.chunks_exact_mut(norm.len.max(1)));
    for (x, y) in rows.take(norm.rows) {
        let sum = x.iter().fold(A::ZERO, |sum, x| sum.add(x.widen()));
        let mean = sum.div(A::length(norm.len));
        let squares = x.iter().map(|x| x.widen().sub(mean)).fold(A::ZERO, |sum, d| sum.add(d.mul(d)));
        let root = squares.div(A::length(norm.len)).add(A::constant(norm.epsilon)).sqrt();
        for (i, (x, y)) in x.iter().zip(y.iter_mut()).enumerate() {
            let scaled = x.widen().sub(mean).div(root).mul(scale[i].widen());
            *y = T::narrow(bias.map_or(scaled, |bias| scaled.add(bias[i].widen())))?;
        }
    }
    Some(())
}

pub(super) fn softmax<T: Stored<A>, A: Real>(softmax: &Softmax, x: &[T], y: &mut [T]) -> Option<()> {
    let Softmax { outer, len, inner, log } = *softmax;
    for row in 0..outer * inner {
        let first = row / inner * len * inner + row % inner;
        let place = |i: usize| first + i * inner;
        let Some(greatest) = (0..len).map(|i| x[place(i)].widen()).reduce(A::greater) else { continue };
        let shifted = |i: usize| x[place(i)].widen().sub(greatest);
        let sum = (0..len).map(|i| shifted(i).exp()).fold(A::ZERO, A::add);
        for i in 0..len {
            y[place(i)] = T::narrow(if log { shifted(i).sub(sum.ln()) } else { shifted(i).exp().div(sum) })?;
        }
    }
    Some(())
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
