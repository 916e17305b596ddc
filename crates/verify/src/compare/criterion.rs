//! What must hold between a reference and another array.

use crate::parameters::UNIT;
use ckpt_engine::diff::Tolerance;
use ckpt_forward::{Magnitude, Value};

/// Bound on `‖e‖₂/‖y‖₂` where storage changes no weight.
pub(crate) const RELATIVE_L2: f64 = 1e-5;

/// The largest of many errors with random signs is a few standard deviations: this many times the bound on their root
/// mean square.
pub(super) const PEAK: f64 = 4.0;

/// 2⁻¹²⁶, the smallest normal number of binary32. Smaller numbers may lose bits or become 0.
const LEAST: f64 = 1.175_494_350_822_287_5e-38;

/// What must hold between two arrays.
#[derive(Clone, Debug)]
pub(crate) enum Criterion {
    /// Equal bits.
    Bits,
    /// The user's tolerance.
    Given(Tolerance),
    /// The error bound of one node.
    Node(ErrorBound),
    /// A bound on the whole output, relative to its norms.
    Output { limit: f64, norms: Norms },
}

impl Criterion {
    /// Returns the error that the largest element of a row may have.
    pub(crate) fn allowed(&self, reference: &Value) -> f64 {
        match self {
            Criterion::Output { limit, norms } => PEAK * limit * norms.max,
            Criterion::Given(tolerance) => {
                tolerance.absolute + tolerance.relative * max(&reference.array.to_f64())
            }
            Criterion::Bits | Criterion::Node(_) => 0.0,
        }
    }
}

/// Bound on the error of each element of a node's result.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErrorBound {
    /// The arithmetic's part; `None` if the node is exact.
    pub(crate) rounding: Option<Magnitude>,
    /// The part of how weights are stored, one for each element; empty if there is none.
    pub(crate) storage: Vec<f64>,
}

impl ErrorBound {
    /// Returns the bound on the element at `index`.
    pub(super) fn of(&self, index: usize, reference: f64) -> f64 {
        let stored = self.storage.get(index).copied().unwrap_or(0.0);
        let Some(rounding) = &self.rounding else { return stored };
        let sum = rounding.sums.get(index).copied().unwrap_or(0.0);
        2.0 * root(rounding.summands) * UNIT * sum + 2.0 * UNIT * reference.abs() + LEAST + stored
    }

    /// Returns the norms of a result that this bounds.
    pub(crate) fn norms(&self, reference: &[f64]) -> Norms {
        // What was followed is a bound on errors, not a size of summands.
        let sums = self
            .rounding
            .iter()
            .filter(|rounding| !rounding.is_followed)
            .flat_map(|rounding| rounding.sums.iter().map(|sum| sum / root(rounding.summands)));
        let sums: Vec<f64> = sums.collect();
        Norms { l2: norm(reference).max(norm(&sums)), max: max(reference).max(max(&sums)) }
    }

    /// Returns the part of storage in `‖e‖₂/‖y‖₂`, and that of rounding if its errors were followed through several kernels:
    /// their growth is more than a sum has.
    pub(crate) fn relative_storage(&self, norms: Norms) -> f64 {
        let followed = self.rounding.iter().filter(|rounding| rounding.is_followed);
        let rounding: f64 = followed.map(|rounding| 2.0 * UNIT * norm(&rounding.sums)).sum();
        let error = norm(&self.storage) + rounding;
        if error > 0.0 && norms.l2 > 0.0 { error / norms.l2 } else { 0.0 }
    }

    /// Returns the factor by which a softmax may increase a relative error.
    ///
    /// A softmax at least halves absolute errors, but its `inputs` are larger than the probabilities that it returns.
    pub(crate) fn softmax_factor(inputs: &[f64], probabilities: &[f64]) -> f64 {
        let own = norm(probabilities);
        if own > 0.0 { (norm(inputs) / (2.0 * own)).max(1.0) } else { 1.0 }
    }
}

/// The norms that errors of a result are relative to.
///
/// They are at least those of a sum whose summands have random signs: where summands cancel, the little that is left is
/// no measure of their errors.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Norms {
    pub(super) l2: f64,
    pub(super) max: f64,
}

#[expect(clippy::cast_precision_loss, reason = "numbers of summands are below 2^53")]
fn root(summands: usize) -> f64 {
    (summands.max(1) as f64).sqrt()
}

/// The L2 norm of the finite values, without overflow.
fn norm(values: &[f64]) -> f64 {
    let scale = max(values);
    if scale == 0.0 {
        return 0.0;
    }
    let sum: f64 = values.iter().filter(|value| value.is_finite()).map(|value| (value / scale).powi(2)).sum();
    scale * sum.sqrt()
}

/// The largest magnitude of the finite values.
fn max(values: &[f64]) -> f64 {
    values.iter().filter(|value| value.is_finite()).fold(0.0, |max, value| max.max(value.abs()))
}
