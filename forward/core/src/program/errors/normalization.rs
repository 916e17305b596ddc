//! Follows errors through kernels that relate the elements of a row to each other, to the first order.

use super::bounded::Bounded;
use crate::kernel::{LayerNorm, Softmax};

/// Returns what errors of `x`, the scale and the bias do to `y = (x − m)·r·s + b`, where `r = 1/√(v + ε)`.
///
/// With `n = (x − m)·r`, the derivative of `nᵢ` by `xⱼ` is `r·(δᵢⱼ − 1/len − nᵢ·nⱼ/len)`. So with the errors `e` of `x`,
/// `nᵢ` is off by at most `r·(eᵢ + mean(e) + |nᵢ|·mean(|n|·e))`.
#[expect(clippy::cast_precision_loss, reason = "lengths are below 2^53")]
pub(super) fn layer_norm(norm: &LayerNorm, operands: &[&Bounded]) -> Vec<f64> {
    let values = |index: usize| operands.get(index).map(|by| by.value.to_f64()).unwrap_or_default();
    let errors = |index: usize| operands.get(index).map_or(&[][..], |by| &by.error);
    let (x, scale) = (values(0), values(1));
    let (of_x, of_scale, of_bias) = (errors(0), errors(1), errors(2));
    let (len, count) = (norm.len.max(1), norm.len.max(1) as f64);
    let mut total = Vec::with_capacity(x.len());
    for (row, errors) in x.chunks_exact(len).zip(of_x.chunks_exact(len)) {
        let mean = row.iter().sum::<f64>() / count;
        let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
        let gain = 1.0 / (variance + norm.epsilon).sqrt();
        let normal = |x: &f64| ((x - mean) * gain).abs();
        let of_mean = errors.iter().sum::<f64>() / count;
        let of_variance = row.iter().zip(errors).map(|(x, error)| normal(x) * error).sum::<f64>() / count;
        for (place, (x, error)) in row.iter().zip(errors).enumerate() {
            let at = |values: &[f64]| values.get(place).copied().unwrap_or(0.0);
            let of_normal = gain * (error + of_mean + normal(x) * of_variance);
            total.push(at(&scale).abs() * of_normal + normal(x) * at(of_scale) + at(of_bias));
        }
    }
    total
}

/// Returns what errors of the logits do to the probabilities `y`, or to their logarithms.
///
/// The derivative of `ln yᵢ` by `xⱼ` is `δᵢⱼ − yⱼ`. So with the errors `e` of `x`, `ln yᵢ` is off by at most
/// `eᵢ + Σ yⱼ·eⱼ`, and `yᵢ` by `yᵢ` times that.
pub(super) fn softmax(softmax: &Softmax, x: &Bounded, y: &[f64]) -> Vec<f64> {
    let Softmax { outer, len, inner, log } = *softmax;
    let mut total = vec![0.0; y.len()];
    for row in 0..outer * inner {
        let first = row / inner * len * inner + row % inner;
        let places = || (0..len).map(|i| first + i * inner);
        let error = |place: usize| x.error.get(place).copied().unwrap_or(0.0);
        let share = |place: usize| {
            let y = y.get(place).copied().unwrap_or(0.0);
            if log { y.exp() } else { y }
        };
        let weighted: f64 = places().map(|place| share(place) * error(place)).sum();
        for place in places() {
            let own = error(place) + weighted;
            if let Some(slot) = total.get_mut(place) {
                *slot = if log { own } else { share(place) * own };
            }
        }
    }
    total
}
