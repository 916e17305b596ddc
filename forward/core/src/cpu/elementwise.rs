//! Kernels that compute each element from the elements at the same place.

use super::moves::each_row_of;
use super::number::{Number, Real, Stored};
use super::parallel;
use crate::kernel::{Binary, Compare, Function, Pairwise, Relation, Select};
use multiversion::multiversion;

/// Elements that are computed at a time: they stay in the L1 cache.
const BLOCK: usize = 512;

/// For each element, the multiplications that take as long as reading and writing it.
pub(super) const COST: usize = 4;

/// Real numbers with functions of many at a time.
pub(super) trait Elementwise: Real {
    /// Replaces each number by the bits that [`real`] gives; `None` for a function of integers only.
    fn map(function: Function, values: &mut [Self]) -> Option<()> {
        for value in values {
            *value = real(function, *value)?;
        }
        Some(())
    }
}

impl Elementwise for f64 {}

macro_rules! vectorized {
    ($($name:ident: $pattern:pat => $function:expr,)*) => {
        impl Elementwise for f32 {
            fn map(function: Function, values: &mut [f32]) -> Option<()> {
                match function {
                    $($pattern => $name(values),)*
                    _ => values.iter_mut().try_for_each(|value| real(function, *value).map(|y| *value = y)),
                }
            }
        }

        $(#[multiversion(targets("x86_64+avx+avx2+avx512f+avx512vl", "x86_64+avx+avx2"))]
        fn $name(values: &mut [f32]) -> Option<()> {
            values.iter_mut().try_for_each(|value| real($function, *value).map(|y| *value = y))
        })*
    };
}

vectorized! {
    relu: Function::Relu => Function::Relu,
    gelu_by_erf: Function::Gelu { tanh: false } => Function::Gelu { tanh: false },
    gelu_by_tanh: Function::Gelu { tanh: true } => Function::Gelu { tanh: true },
    every_sigmoid: Function::Sigmoid => Function::Sigmoid,
    every_tanh: Function::Tanh => Function::Tanh,
    every_exp: Function::Exp => Function::Exp,
    every_erf: Function::Erf => Function::Erf,
    every_sqrt: Function::Sqrt => Function::Sqrt,
}

pub(super) fn unary<T: Stored<A>, A: Elementwise>(function: Function, x: &[T], y: &mut [T]) -> Option<()> {
    let x = x.get(..y.len())?;
    parallel::rows(y, 1, x.len().saturating_mul(COST), |first, y| {
        let mut buffer = [A::ZERO; BLOCK];
        for (x, y) in x[first..].chunks(BLOCK).zip(y.chunks_mut(BLOCK)) {
            let buffer = &mut buffer[..y.len()];
            buffer.iter_mut().zip(x).for_each(|(value, x)| *value = x.widen());
            A::map(function, buffer)?;
            for (y, value) in y.iter_mut().zip(buffer) {
                *y = T::narrow(*value)?;
            }
        }
        Some(())
    })
}

/// Computes a function of real numbers; `None` for a function of integers only.
#[inline(always)]
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
        Function::Tan => x.tan(),
        Function::Asin => x.asin(),
        Function::Acos => x.acos(),
        Function::Atan => x.atan(),
        Function::Sinh => x.sinh(),
        Function::Cosh => x.cosh(),
        Function::Asinh => x.asinh(),
        Function::Acosh => x.acosh(),
        Function::Atanh => x.atanh(),
        Function::Erf => x.erf(),
        Function::Floor => x.floor(),
        Function::Ceil => x.ceil(),
        Function::Round => x.round_ties_even(),
        Function::ToFloat16 => x.to_float16(),
        Function::ToBfloat16 => x.to_bfloat16(),
        Function::ToShort(short) => x.to_short(short),
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

#[inline(always)]
fn sigmoid<A: Real>(x: A) -> A {
    let (one, power) = (A::constant(1.0), x.abs().neg().exp());
    let above = if x < A::ZERO { power } else { one };
    above.div(one.add(power))
}

#[inline(always)]
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
    // A loop for each function, which can be vectorized.
    match binary.function {
        Pairwise::Add => numbers(binary, a, b, y, A::add),
        Pairwise::Subtract => numbers(binary, a, b, y, A::sub),
        Pairwise::Multiply => numbers(binary, a, b, y, A::mul),
        Pairwise::Divide => numbers(binary, a, b, y, A::div),
        Pairwise::Power => numbers(binary, a, b, y, A::pow),
        Pairwise::Maximum => numbers(binary, a, b, y, A::greater),
        Pairwise::Minimum => numbers(binary, a, b, y, A::lesser),
        Pairwise::Modulo => numbers(binary, a, b, y, A::modulo),
        Pairwise::Remainder => numbers(binary, a, b, y, A::rem),
        function => numbers(binary, a, b, y, |a: A, b: A| a.bits(b, function)),
    }
}

fn numbers<T: Stored<A>, A: Number>(
    binary: &Binary,
    a: &[T],
    b: &[T],
    y: &mut [T],
    function: impl Fn(A, A) -> A + Sync,
) -> Option<()> {
    pairs(&binary.shape, &binary.strides, (a, b), y, |a, b| T::narrow(function(a.widen(), b.widen())))
}

pub(super) fn compare<T: PartialOrd + Copy + Sync>(
    compare: &Compare,
    a: &[T],
    b: &[T],
    y: &mut [i32],
) -> Option<()> {
    let Compare { shape, strides, relation } = compare;
    match relation {
        Relation::Equal => pairs(shape, strides, (a, b), y, |a, b| Some(i32::from(a == b))),
        Relation::Less => pairs(shape, strides, (a, b), y, |a, b| Some(i32::from(a < b))),
        Relation::LessOrEqual => pairs(shape, strides, (a, b), y, |a, b| Some(i32::from(a <= b))),
    }
}

pub(super) fn select<T: Copy + Send + Sync>(
    select: &Select,
    condition: &[i32],
    a: &[T],
    b: &[T],
    y: &mut [T],
) -> Option<()> {
    let strides = select.strides.each_ref().map(Vec::as_slice);
    parallel::rows(y, 1, y.len().saturating_mul(COST), |start, y| {
        each_row_of(start..start + y.len(), &select.shape, strides, |row, first, steps| {
            for (i, y) in y[row.start - start..row.end - start].iter_mut().enumerate() {
                let [condition_at, a_at, b_at]: [usize; 3] =
                    std::array::from_fn(|operand| first[operand] + i * steps[operand]);
                *y = if condition[condition_at] != 0 { a[a_at] } else { b[b_at] };
            }
            Some(())
        })
    })
}

/// Computes each element of `y` from two; `None` if one cannot be computed.
fn pairs<T: Copy + Sync, Y: Send>(
    shape: &[usize],
    strides: &[Vec<usize>; 2],
    (a, b): (&[T], &[T]),
    y: &mut [Y],
    compute: impl Fn(T, T) -> Option<Y> + Sync,
) -> Option<()> {
    let strides = strides.each_ref().map(Vec::as_slice);
    parallel::rows(y, 1, y.len().saturating_mul(COST), |start, y| {
        each_row_of(start..start + y.len(), shape, strides, |row, [a_first, b_first], steps| {
            let y = &mut y[row.start - start..row.end - start];
            let (len, a, b) = (y.len(), &a[a_first..], &b[b_first..]);
            // Broadcast and neighboring elements need no multiplication, and can be vectorized.
            match steps {
                [1, 1] => each(y.iter_mut().zip(a[..len].iter().zip(&b[..len])), |(a, b)| compute(*a, *b)),
                [1, 0] => {
                    let b = b[0];
                    each(y.iter_mut().zip(&a[..len]), |a| compute(*a, b))
                }
                [0, 1] => {
                    let a = a[0];
                    each(y.iter_mut().zip(&b[..len]), |b| compute(a, *b))
                }
                [a_step, b_step] => each(y.iter_mut().zip(0..), |i| compute(a[i * a_step], b[i * b_step])),
            }
        })
    })
}

/// Stores what `compute` makes of each element's operands.
#[inline(always)]
pub(super) fn each<'y, Y: 'y, O>(
    elements: impl Iterator<Item = (&'y mut Y, O)>,
    compute: impl Fn(O) -> Option<Y>,
) -> Option<()> {
    for (y, operands) in elements {
        *y = compute(operands)?;
    }
    Some(())
}
