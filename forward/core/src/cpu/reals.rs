//! Kernels of real numbers only.

use super::number::{Real, Stored};
use crate::kernel::{Affine, LayerNorm, Pool, PoolKind, Softmax, StaticFeatures};

pub(super) fn pool<T: Stored<A>, A: Real>(pool: &Pool, x: &[T], y: &mut [T]) -> Option<()> {
    let mut places = y.iter_mut();
    for image in 0..pool.images {
        for row in 0..pool.window.output[0] {
            for column in 0..pool.window.output[1] {
                *places.next()? = T::narrow(pooled(pool, x, image, [row, column])?)?;
            }
        }
    }
    Some(())
}

/// Computes the output at `place` of an image; `None` for a window without elements.
fn pooled<T: Stored<A>, A: Real>(pool: &Pool, x: &[T], image: usize, place: [usize; 2]) -> Option<A> {
    let window = &pool.window;
    let ([height, width], [row, column]) = (window.input, place);
    let covered = (0..window.kernel[0])
        .filter_map(|k| window.place(0, row, k))
        .flat_map(|py| (0..window.kernel[1]).filter_map(move |k| Some((py, window.place(1, column, k)?))))
        .map(|(py, px)| x[(image * height + py) * width + px].widen());
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
            covered.fold(A::ZERO, A::add).div(A::length(counted(0) * counted(1)))
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
