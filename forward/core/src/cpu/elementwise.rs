//! Kernels that compute each element from the elements at the same place.

use super::moves::each_row;
use super::number::{Number, Real, Stored};
use crate::kernel::{Binary, Compare, Function, Pairwise, Relation, Select};

/// Computes a function of real numbers; `None` for a function of integers only.
pub(super) fn real<A: Real>(function: Function, x: A) -> Option<A> {
    let (zero, one) = (A::ZERO, A::constant(1.0));
    let is_nan = x.partial_cmp(&x).is_none();
    let select = |condition: bool, a: A, b: A| if condition { a } else { b };
    let scale = |alpha: f64, x: A| A::constant(alpha).mul(x);
    Some(match function {
        _ if is_nan => x,
        Function::Relu => select(x > zero, x, zero),
        Function::LeakyRelu { alpha } => select(x < zero, scale(alpha, x), x),
        Function::Elu { alpha } => elu(alpha, x),
        Function::Selu { alpha, gamma } => scale(gamma, elu(alpha, x)),
        Function::Celu { alpha } if x < zero => scale(alpha, x.div(A::constant(alpha)).exp_m1()),
        Function::Celu { .. } => x,
        Function::Gelu { tanh } => gelu(x, tanh),
        Function::Softplus => softplus(x),
        Function::Softsign => x.div(one.add(x.abs())),
        Function::Sigmoid => sigmoid(x),
        Function::HardSigmoid { alpha, beta } => clip(scale(alpha, x).add(A::constant(beta)), zero, one),
        Function::HardSwish => x.mul(clip(scale(1.0 / 6.0, x).add(A::constant(0.5)), zero, one)),
        Function::Swish { alpha } => x.mul(sigmoid(scale(alpha, x))),
        Function::Mish => x.mul(softplus(x).tanh()),
        Function::Tanh => x.tanh(),
        Function::ThresholdedRelu { alpha } => select(x > A::constant(alpha), x, zero),
        Function::Clip { min, max } => clip(x, A::constant(min), A::constant(max)),
        Function::Abs => x.abs(),
        Function::Negate => x.neg(),
        Function::Sign => select(x > zero, one, select(x < zero, one.neg(), zero)),
        Function::Square => x.mul(x),
        Function::Reciprocal => one.div(x),
        Function::Sqrt => x.sqrt(),
        Function::Exp => x.exp(),
        Function::Log => x.ln(),
        Function::Sin => x.sin(),
        Function::Cos => x.cos(),
        Function::Erf => x.erf(),
        Function::Floor => x.floor(),
        Function::Ceil => x.ceil(),
        Function::Round => x.round_ties_even(),
        Function::Not | Function::Scale { .. } | Function::Dequantize { .. } | Function::Truncate => {
            return None;
        }
    })
}

fn clip<A: Number>(x: A, min: A, max: A) -> A {
    if x < min {
        min
    } else if x > max {
        max
    } else {
        x
    }
}

fn elu<A: Real>(alpha: f64, x: A) -> A {
    if x < A::ZERO { A::constant(alpha).mul(x.exp_m1()) } else { x }
}

fn softplus<A: Real>(x: A) -> A {
    let above = if x > A::ZERO { x } else { A::ZERO };
    above.add(x.abs().neg().exp().ln_1p())
}

fn sigmoid<A: Real>(x: A) -> A {
    let one = A::constant(1.0);
    if x < A::ZERO { x.exp().div(one.add(x.exp())) } else { one.div(one.add(x.neg().exp())) }
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

/// Computes a function of an integer; `None` for a function of real numbers only, `Some(None)` for a result beyond 32
/// bits.
pub(super) fn integer(function: Function, x: i32) -> Option<Option<i32>> {
    let x = i64::from(x);
    let y = match function {
        Function::Relu => x.max(0),
        Function::Clip { min, max } => {
            let (min, max) = (i64::constant(min.ceil()), i64::constant(max.floor()));
            if x < min { min } else { x.min(max) }
        }
        Function::Abs => x.abs(),
        Function::Negate => -x,
        Function::Sign => x.signum(),
        Function::Square => x.saturating_mul(x),
        Function::Not => i64::from(x == 0),
        Function::Scale { multiply, divide } => {
            x.saturating_mul(i64::from(multiply)).checked_div(i64::from(divide))?
        }
        _ => return None,
    };
    Some(i32::try_from(y).ok())
}

pub(super) fn binary<T: Stored<A>, A: Number>(binary: &Binary, a: &[T], b: &[T], y: &mut [T]) -> Option<()> {
    pairs(&binary.shape, &binary.strides, y, |[a_at, b_at]| {
        let (a, b) = (a[a_at].widen(), b[b_at].widen());
        T::narrow(match binary.function {
            Pairwise::Add => a.add(b),
            Pairwise::Subtract => a.sub(b),
            Pairwise::Multiply => a.mul(b),
            Pairwise::Divide => a.div(b),
            Pairwise::Power => a.pow(b),
            Pairwise::Maximum => a.greater(b),
            Pairwise::Minimum => a.lesser(b),
            Pairwise::Modulo => a.modulo(b),
            Pairwise::Remainder => a.rem(b),
        })
    })
}

pub(super) fn compare<T: PartialOrd + Copy>(
    compare: &Compare,
    a: &[T],
    b: &[T],
    y: &mut [i32],
) -> Option<()> {
    pairs(&compare.shape, &compare.strides, y, |[a_at, b_at]| {
        let (a, b) = (a[a_at], b[b_at]);
        Some(i32::from(match compare.relation {
            Relation::Equal => a == b,
            Relation::Less => a < b,
            Relation::LessOrEqual => a <= b,
        }))
    })
}

pub(super) fn select<T: Copy>(
    select: &Select,
    condition: &[i32],
    a: &[T],
    b: &[T],
    y: &mut [T],
) -> Option<()> {
    pairs(&select.shape, &select.strides, y, |[condition_at, a_at, b_at]| {
        Some(if condition[condition_at] != 0 { a[a_at] } else { b[b_at] })
    })
}

/// Computes each element of `y` from the places of its operands; `None` where one cannot be computed.
fn pairs<T, const N: usize>(
    shape: &[usize],
    strides: &[Vec<usize>; N],
    y: &mut [T],
    mut compute: impl FnMut([usize; N]) -> Option<T>,
) -> Option<()> {
    each_row(shape, strides.each_ref().map(Vec::as_slice), |row, first, steps| {
        for (i, y) in y[row].iter_mut().enumerate() {
            *y = compute(std::array::from_fn(|operand| first[operand] + i * steps[operand]))?;
        }
        Some(())
    })
}
