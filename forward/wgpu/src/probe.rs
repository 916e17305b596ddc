//! How closely a device keeps to the operations that its shaders ask for: measured, since drivers do not report it.

use crate::dispatch::{Dispatch, Requirement};
use crate::shader;
use ckpt_forward::{Element, MathMode};

/// Numbers in groups of three, `a`, `b` and `c`: the operand of the probe.
pub const NUMBERS: [f32; 36] = [
    // The product's exact square would show in the sum.
    1.000_244_1,
    1.000_244_1,
    -1.000_488_3, //
    0.1,
    10.0,
    -1.0, //
    3.0,
    0.333_333_34,
    -1.0, //
    // What a reassociated sum would keep.
    1.0,
    1e-9,
    0.0, //
    1e20,
    1.0,
    -1e20, //
    // Quotients and roots that an approximation misses.
    2.0,
    3.0,
    0.5, //
    7.0,
    11.0,
    13.0, //
    1.000_000_1,
    0.999_999_94,
    -1.0, //
    0.7,
    1.3,
    1e-3, //
    9.999_999e-4,
    255.0,
    1.0, //
    1e38,
    3.0,
    7.0, //
    1e-30,
    5.0,
    1e-30,
];

/// Results for each group: a sum of a product, a sum less its first part, a quotient, a root.
const RESULTS: usize = 4;

/// The probe's run.
pub fn dispatch() -> Dispatch {
    let len = NUMBERS.len() / 3 * RESULTS;
    let requirement = |len| Requirement { element: Element::F32, len };
    let threads = u32::try_from(len).unwrap_or(0);
    Dispatch::assemble(shader::PROBE, threads, &[], vec![Some(requirement(NUMBERS.len()))], requirement(len))
}

/// What the results of [`dispatch`] on [`NUMBERS`] show.
pub fn judge(results: &[f32]) -> MathMode {
    let groups = NUMBERS.chunks_exact(3).zip(results.chunks_exact(RESULTS));
    if results.len() != NUMBERS.len() / 3 * RESULTS {
        return MathMode::Fast;
    }
    let mut mode = MathMode::Strict;
    for (numbers, results) in groups {
        let ([a, b, c], [sum, rest, quotient, root]) = (numbers, results) else { return MathMode::Fast };
        let others = [(a + b - a, rest), (a / b, quotient), (a.sqrt(), root)];
        if others.iter().any(|(expected, found)| expected.to_bits() != found.to_bits()) {
            return MathMode::Fast;
        }
        if sum.to_bits() == (a * b + c).to_bits() {
            continue;
        }
        if sum.to_bits() != a.mul_add(*b, *c).to_bits() {
            return MathMode::Fast;
        }
        mode = MathMode::Contracted;
    }
    mode
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(sum: fn(f32, f32, f32) -> f32, rest: fn(f32, f32) -> f32) -> Vec<f32> {
        let groups = NUMBERS.chunks_exact(3);
        groups.flat_map(|n| [sum(n[0], n[1], n[2]), rest(n[0], n[1]), n[0] / n[1], n[0].sqrt()]).collect()
    }

    #[test]
    fn each_mode_is_told_from_the_others() {
        let strict = results(|a, b, c| a * b + c, |a, b| a + b - a);
        assert_eq!(judge(&strict), MathMode::Strict);
        assert_eq!(judge(&results(|a, b, c| a.mul_add(b, c), |a, b| a + b - a)), MathMode::Contracted);
        assert_eq!(judge(&results(|a, b, c| a * b + c, |_, b| b)), MathMode::Fast);
        assert_eq!(judge(&strict[1..]), MathMode::Fast);
        let mut rough = strict;
        rough[2] = f32::from_bits(rough[2].to_bits() + 1);
        assert_eq!(judge(&rough), MathMode::Fast);
    }
}
