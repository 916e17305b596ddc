//! Kernels over random odd shapes: what every backend's tests run, against the [`Cpu`].

mod cases;

use crate::{Arithmetic, Array, Backend, Cpu, Element, Kernel};
use ckpt_api::Result;

pub use crate::Random;
pub use cases::cases;

/// One kernel with its operands.
#[derive(Clone, Debug)]
pub struct Case {
    /// What is tried.
    pub kernel: Kernel,
    /// What goes in, with real numbers that binary32 holds, as binary64.
    pub operands: Vec<Array>,
    /// What elements the output has, and how many.
    pub output: (Element, usize),
}

/// How far a backend was from the CPU in the same arithmetic.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Elements compared.
    pub elements: usize,
    /// Elements whose bits differ (a NaN equals every NaN).
    pub different: usize,
    /// The greatest distance in units in the last place; `u64::MAX` where one is NaN and the other not.
    pub ulps: u64,
    /// The greatest distance relative to the greatest absolute value of the output.
    pub relative: f64,
}

/// Runs the case, as any caller of a backend does.
///
/// # Errors
/// The backend's.
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

/// Runs the case on the backend and on the CPU, and compares.
///
/// # Errors
/// Of either.
pub fn compare(backend: &mut dyn Backend, case: &Case) -> Result<Outcome> {
    let expected = run(&mut Cpu::new(backend.arithmetic()), case)?;
    Ok(distance(&expected, &run(backend, case)?))
}

/// The CPU's result for the case.
///
/// # Errors
/// As [`run`].
pub fn expected(arithmetic: Arithmetic, case: &Case) -> Result<Array> {
    run(&mut Cpu::new(arithmetic), case)
}

/// How far `found` is from `expected`; arrays of other types or lengths are as far as can be.
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

/// Representable numbers between the two; −0 and 0 are one apart.
#[expect(clippy::cast_possible_truncation, reason = "elements of this type are held exactly")]
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
