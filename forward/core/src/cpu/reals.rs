//! Kernels of real numbers only.

use super::number::{Real, Stored};
use crate::kernel::{Affine, Function, LayerNorm, Mean, Pool, PoolKind, Softmax, StaticFeatures};

/// Computes a function; `None` for a function of integers only.
pub(super) fn function<A: Real>(function: Function, x: A) -> Option<A> {
    let (zero, one) = (A::ZERO, A::constant(1.0));
    let is_nan = x.partial_cmp(&x).is_none();
    let select = |condition: bool, a: A, b: A| if condition { a } else { b };
    Some(match function {
        _ if is_nan => x,
        Function::Relu => select(x > zero, x, zero),
        Function::LeakyRelu { alpha } => select(x < zero, A::constant(alpha).mul(x), x),
        Function::Elu { alpha } if x < zero => A::constant(alpha).mul(x.exp_m1()),
        Function::Elu { .. } => x,
        Function::Gelu { tanh } => gelu(x, tanh),
        Function::Softplus => select(x > zero, x, zero).add(zero.sub(x.abs()).exp().ln_1p()),
        Function::Sigmoid if x < zero => x.exp().div(one.add(x.exp())),
        Function::Sigmoid => one.div(one.add(zero.sub(x).exp())),
        Function::Tanh => x.tanh(),
        Function::Clip { min, max } => {
            let (min, max) = (A::constant(min), A::constant(max));
            select(x < min, min, select(x > max, max, x))
        }
        Function::Square => x.mul(x),
        Function::Scale { .. } | Function::Dequantize { .. } => return None,
    })
}

fn gelu<A: Real>(x: A, tanh: bool) -> A {
    let (one, half) = (A::constant(1.0), A::constant(0.5));
    if tanh {
        let cube = A::constant(0.044_715).mul(x).mul(x).mul(x);
        let root = A::constant((2.0 / std::f64::consts::PI).sqrt());
        return half.mul(x).mul(one.add(root.mul(x.add(cube)).tanh()));
    }
    let erf = x.div(A::constant(std::f64::consts::SQRT_2)).erf();
    half.mul(x).mul(one.add(erf))
}

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
        PoolKind::Maximum => covered.reduce(greater)?,
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
            covered.fold(A::ZERO, A::add).div(length(counted(0) * counted(1)))
        }
    })
}

/// The greater of two numbers; NaN if one is NaN.
fn greater<A: Real>(a: A, b: A) -> A {
    let a_is_nan = a.partial_cmp(&a).is_none();
    if a_is_nan || a >= b { a } else { b }
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

#[expect(clippy::cast_precision_loss, reason = "lengths are below 2^53")]
fn length<A: Real>(len: usize) -> A {
    A::constant(len as f64)
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
        let mean = sum.div(length(norm.len));
        let squares = x.iter().map(|x| x.widen().sub(mean)).fold(A::ZERO, |sum, d| sum.add(d.mul(d)));
        let root = squares.div(length(norm.len)).add(A::constant(norm.epsilon)).sqrt();
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
        let Some(greatest) = (0..len).map(|i| x[place(i)].widen()).reduce(greater) else { continue };
        let shifted = |i: usize| x[place(i)].widen().sub(greatest);
        let sum = (0..len).map(|i| shifted(i).exp()).fold(A::ZERO, A::add);
        for i in 0..len {
            y[place(i)] = T::narrow(if log { shifted(i).sub(sum.ln()) } else { shifted(i).exp().div(sum) })?;
        }
    }
    Some(())
}

pub(super) fn mean<T: Stored<A>, A: Real>(mean: &Mean, x: &[T], y: &mut [T]) -> Option<()> {
    for (x, y) in x.chunks_exact(mean.len.max(1)).zip(y.iter_mut()) {
        let sum = x.iter().fold(A::ZERO, |sum, x| sum.add(x.widen()));
        *y = T::narrow(sum.div(length(mean.len)))?;
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
        let u = || length::<A>(place % image.width).add(half).div(length(image.width));
        let v = || length::<A>(place / image.width).add(half).div(length(image.height));
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
