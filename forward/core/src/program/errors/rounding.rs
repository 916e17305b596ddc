//! What the arithmetic of a kernel rounds, and how its functions enlarge errors.

use crate::kernel::{Function, Gemm, Kernel, LayerNorm, Pairwise, PoolKind, Reduction, Softmax, Update};
use crate::lower::Task;

/// Unit roundoff of binary32.
pub(super) const UNIT: f64 = 1.0 / (1u64 << 24) as f64;

/// In place of `k` for up to two transcendental functions, each within 4 ULP: the bound becomes 18u·S.
const OF_FUNCTIONS: usize = 64;

/// In place of `k` for the six roundings of a batch normalization.
const OF_AFFINE: usize = 9;

/// The number of summands of one element; 0 for a kernel that is exact.
pub(super) fn summands(task: &Task) -> usize {
    let kernel = match task {
        Task::Kernel(kernel) => kernel,
        // One rounding, of a result in binary64, and the effect of rounded inputs and tensors.
        Task::Reference(_) => return OF_FUNCTIONS,
    };
    match kernel {
        Kernel::Copy(_) | Kernel::Pad(_) | Kernel::Gather(_) => 0,
        Kernel::Gemm(Gemm { inner, bias, .. }) => inner + usize::from(bias.is_some()),
        Kernel::Conv(conv) => {
            let taps: usize = conv.window.kernel.iter().product();
            conv.inputs / conv.groups.max(1) * taps + usize::from(conv.bias)
        }
        Kernel::SparseSum(sum) => {
            sum.slots * (1 + usize::from(sum.factoriser.is_some())) + usize::from(sum.bias.is_some())
        }
        Kernel::Pool(pool) if pool.kind == PoolKind::Maximum => 0,
        Kernel::Pool(pool) => {
            let sides = pool.window.kernel.iter().zip(pool.window.input);
            sides.map(|(kernel, input)| *kernel.min(&input)).product()
        }
        Kernel::Reduce(reduce) => match reduce.function {
            Reduction::Maximum | Reduction::Minimum => 0,
            Reduction::Sum | Reduction::Mean | Reduction::Product => reduce.len,
        },
        Kernel::MatMul(product) => product.inner,
        Kernel::Compare(_) | Kernel::Select(_) | Kernel::Ranking(_) => 0,
        Kernel::Scan(scan) => scan.len,
        Kernel::Scatter(scatter) => match scatter.function {
            None | Some(Update::Maximum | Update::Minimum) => 0,
            // All updates may be those of one element.
            Some(Update::Add | Update::Multiply) => scatter.rows.saturating_add(1),
        },
        Kernel::Recurrence(kernel) => OF_FUNCTIONS.max(kernel.hidden),
        Kernel::Affine(_) => OF_AFFINE,
        Kernel::Binary(binary) => match binary.function {
            Pairwise::Maximum | Pairwise::Minimum | Pairwise::Remainder => 0,
            Pairwise::Add | Pairwise::Subtract => 2,
            Pairwise::Multiply | Pairwise::Divide | Pairwise::Modulo => 1,
            Pairwise::Power => OF_FUNCTIONS,
            // Integers are exact.
            _ => 0,
        },
        Kernel::Unary(unary) => of_one(unary.function),
        Kernel::LayerNorm(LayerNorm { len, .. }) | Kernel::Softmax(Softmax { len, .. }) => {
            OF_FUNCTIONS.max(*len)
        }
        Kernel::StaticFeatures(_) => OF_FUNCTIONS,
    }
}

pub(super) fn of_one(function: Function) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "this tests whether binary32 holds the bound")]
    let is_short = |bound: f64| f64::from(bound as f32) == bound;
    match function {
        Function::Relu
        | Function::ThresholdedRelu { .. }
        | Function::Abs
        | Function::Negate
        | Function::Sign
        | Function::Floor
        | Function::Ceil
        | Function::Round
        | Function::ToFloat16
        | Function::ToBfloat16
        | Function::ToShort(_)
        | Function::Not
        | Function::Truncate => 0,
        Function::Clip { min, max } if is_short(min) && is_short(max) => 0,
        Function::Clip { .. } | Function::LeakyRelu { .. } | Function::Square => 1,
        Function::Scale { .. } | Function::Dequantize { .. } => 1,
        Function::Reciprocal | Function::Sqrt => 1,
        Function::Softsign => 2,
        Function::HardSigmoid { .. } => 3,
        Function::HardSwish => 4,
        _ => OF_FUNCTIONS,
    }
}

/// What the errors of intermediate results add to `|y|`, for an input of size `x`.
pub(super) fn of_intermediates(function: Function, x: f64, y: f64) -> f64 {
    match function {
        // The argument's own error is relative to it, and becomes one of the exponential.
        Function::Celu { .. } => x,
        Function::Swish { alpha } => y * (alpha * x).abs(),
        Function::Gelu { .. } | Function::Mish => x,
        Function::HardSigmoid { alpha, beta } => (alpha * x).abs() + beta.abs(),
        Function::HardSwish => x * (x / 6.0 + 0.5),
        _ => 0.0,
    }
}

/// An error of the difference `x − m` is a relative error of its exponential. In the sum, each is weighted by its
/// share.
pub(super) fn of_softmax(softmax: &Softmax, x: &[f64]) -> Vec<f64> {
    let Softmax { outer, len, inner, log } = *softmax;
    let mut sums = vec![0.0; x.len()];
    for row in 0..outer * inner {
        let first = row / inner * len * inner + row % inner;
        let places = || (0..len).map(|i| first + i * inner);
        let at = |place: usize| x.get(place).copied().unwrap_or(f64::NAN);
        let greatest = places().map(at).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = places().map(|place| (at(place) - greatest).exp()).sum();
        let share = |place: usize| (at(place) - greatest).exp() / sum;
        let distance = |place: usize| (at(place) - greatest).abs();
        let weighted: f64 = places().map(|place| share(place) * distance(place)).sum();
        for place in places() {
            let own = 1.0 + distance(place) + weighted;
            if let Some(slot) = sums.get_mut(place) {
                *slot = if log { own + sum.ln().abs() } else { own * share(place) };
            }
        }
    }
    sums
}

/// A deviation has the errors of the element and of the mean; the variance has those of all deviations.
#[expect(clippy::cast_precision_loss, reason = "lengths are below 2^53")]
pub(super) fn of_layer_norm(norm: &LayerNorm, x: &[f64], scale: &[f64], bias: &[f64]) -> Vec<f64> {
    let len = norm.len as f64;
    let mut sums = Vec::with_capacity(x.len());
    for row in x.chunks_exact(norm.len.max(1)) {
        let mean = row.iter().sum::<f64>() / len;
        let size = row.iter().map(|x| x.abs()).sum::<f64>() / len;
        let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / len;
        let squares = (row.iter().map(|x| x * x).sum::<f64>() / len).sqrt();
        let root = (variance + norm.epsilon).sqrt();
        let of_variance = (squares + size) * variance.sqrt() / (variance + norm.epsilon);
        for (x, place) in row.iter().zip(0..) {
            let own = x.abs() + size + (x - mean).abs() * (1.0 + of_variance);
            let at = |values: &[f64]| values.get(place).map_or(0.0, |value: &f64| value.abs());
            sums.push(own / root * at(scale) + at(bias));
        }
    }
    sums
}

/// The image's own channels and the constant are exact. The argument of the sine is at most 10.
#[expect(clippy::cast_precision_loss, reason = "lengths are below 2^53")]
pub(super) fn of_static_features(height: usize, width: usize, len: usize) -> Vec<f64> {
    let plane = (height * width).max(1);
    let magnitude = |i: usize| {
        let (channel, place) = (i / plane % 8, i % plane);
        let u = ((place % width.max(1)) as f64 + 0.5) / width as f64;
        match channel {
            4 => u,
            5 => ((place / width.max(1)) as f64 + 0.5) / height as f64,
            6 => 1.0 + 10.0 * u,
            _ => 0.0,
        }
    };
    (0..len).map(magnitude).collect()
}

/// The distance of the results of two arguments that differ hardly, next to `y`.
pub(super) fn step(function: Function, y: f64) -> f64 {
    match function {
        // The last bit of 11, and the least number; the last bit of 8.
        Function::ToFloat16 => (y.abs() / f64::from(1 << 10)).max(1.0 / f64::from(1 << 24)) / UNIT,
        Function::ToBfloat16 => y.abs() / f64::from(1 << 7) / UNIT,
        Function::ToShort(short) => {
            let last = |exponent: i32| f64::from(exponent).exp2();
            (y.abs() * last(-short.digits)).max(last(short.least - short.digits)) / UNIT
        }
        _ => 0.0,
    }
}

/// A bound on a function's derivative at `x`, if its value is `y`.
pub(super) fn slope(function: Function, x: f64, y: f64) -> f64 {
    match function {
        Function::Square => 2.0 * x.abs(),
        Function::Sqrt => 0.5 / y.abs(),
        Function::Exp => y.abs(),
        Function::Log => 1.0 / x.abs(),
        Function::Reciprocal => y * y,
        Function::Sigmoid => 0.25,
        Function::Tan => 1.0 + y * y,
        Function::Asin | Function::Acos => 1.0 / (1.0 - x * x).sqrt(),
        Function::Sinh => (1.0 + y * y).sqrt(),
        Function::Cosh => y.abs(),
        Function::Acosh => 1.0 / (x * x - 1.0).sqrt(),
        Function::Atanh => 1.0 / (1.0 - x * x),
        Function::Floor | Function::Ceil | Function::Round | Function::Sign => 0.0,
        Function::LeakyRelu { alpha } | Function::Elu { alpha } => alpha.abs().max(1.0),
        Function::Selu { alpha, gamma } => gamma.abs() * alpha.abs().max(1.0),
        Function::HardSigmoid { alpha, .. } => alpha.abs(),
        Function::Swish { alpha } => 1.1 * alpha.abs().max(1.0),
        Function::HardSwish => 1.5,
        Function::Gelu { .. } | Function::Mish | Function::Erf => 1.2,
        Function::Dequantize { divide } => 1.0 / divide.abs(),
        _ => 1.0,
    }
}
