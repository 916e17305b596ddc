//! Test cases for backends: kernels over random shapes, compared with the [`Cpu`].

mod cases;

use crate::{Arithmetic, Array, Backend, Cpu, Element, Kernel};
use ckpt_api::Result;

pub use crate::Random;
pub use cases::cases;

/// A kernel with its operands.
#[derive(Clone, Debug)]
pub struct Case {
    /// The kernel.
    pub kernel: Kernel,
    /// The operands; real numbers are binary64 that binary32 holds exactly.
    pub operands: Vec<Array>,
    /// Type and number of the output's elements.
    pub output: (Element, usize),
}

/// The distance of a backend's result from the CPU's in the same arithmetic.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Number of elements.
    pub elements: usize,
    /// Elements with different bits; NaN equals NaN.
    pub different: usize,
    /// Largest distance in units in the last place; `u64::MAX` where only one is NaN.
    pub ulps: u64,
    /// Largest distance relative to the largest magnitude of the output.
    pub relative: f64,
}

/// Runs the case on the backend.
///
/// # Errors
/// Those of the backend.
pub fn run(backend: &mut dyn Backend, case: &Case) -> Result<Array> {
    let real = backend.arithmetic().element();
    let mut operands = Vec::with_capacity(case.operands.len());
    for operand in &case.operands {
        operands.push(backend.upload(&operand.clone().into_real(real))?);
    }
    let element = if case.output.0 == Element::I32 { Element::I32 } else { real };
    let output = backend.zeros(element, case.output.1)?;
    backend.run(&case.kernel, &operands, output)?;
    let values = backend.download(output)?;
    operands.iter().chain([&output]).for_each(|buffer| backend.free(*buffer));
    Ok(values)
}

/// Runs the case on the backend and on the CPU, and compares the results.
///
/// # Errors
/// Those of either.
pub fn compare(backend: &mut dyn Backend, case: &Case) -> Result<Outcome> {
    let expected = run(&mut Cpu::new(backend.arithmetic()), case)?;
    Ok(distance(&expected, &run(backend, case)?))
}

/// Runs the case on the CPU.
///
/// # Errors
/// As [`run`].
pub fn expected(arithmetic: Arithmetic, case: &Case) -> Result<Array> {
    run(&mut Cpu::new(arithmetic), case)
}

/// Returns the distance of `found` from `expected`; the largest possible for another type or length.
pub fn distance(expected: &Array, found: &Array) -> Outcome {
    let elements = expected.len();
    if expected.element() != found.element() || found.len() != elements {
        return Outcome { elements, different: elements.max(1), ulps: u64::MAX, relative: f64::INFINITY };
    }
    let (a, b) = (expected.to_f64(), found.to_f64());
    let greatest = a.iter().filter(|a| a.is_finite()).fold(0.0f64, |greatest, a| greatest.max(a.abs()));
    let mut outcome = Outcome { elements, ..Outcome::default() };
    for (a, b) in a.iter().zip(&b) {
        let ulps = ulps(*a, *b, expected.element());
        if ulps > 0 {
            outcome.different += 1;
            outcome.ulps = outcome.ulps.max(ulps);
            let error = if a == b { 0.0 } else { (a - b).abs() / greatest.max(f64::MIN_POSITIVE) };
            outcome.relative = outcome.relative.max(if error.is_nan() { f64::INFINITY } else { error });
        }
    }
    outcome
}

/// Distance in units in the last place; −0 and 0 are one apart.
#[expect(clippy::cast_possible_truncation, reason = "binary64 holds elements of this type exactly")]
fn ulps(a: f64, b: f64, element: Element) -> u64 {
    let ordered =
        |bits: u64, sign: u64| if bits & sign == 0 { i128::from(bits) } else { -i128::from(bits ^ sign) - 1 };
    let key = |x: f64| match element {
        Element::F32 => ordered(u64::from((x as f32).to_bits()), 1 << 31),
        Element::F64 => ordered(x.to_bits(), 1 << 63),
        Element::I32 => x as i128,
    };
    match (a.is_nan(), b.is_nan()) {
        (true, true) => 0,
        (false, false) => u64::try_from((key(a) - key(b)).unsigned_abs()).unwrap_or(u64::MAX),
        _ => u64::MAX,
    }
}
