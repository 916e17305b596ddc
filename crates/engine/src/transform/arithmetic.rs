//! Arithmetic on many 32-bit floats at once.

use super::simd::vectorized;
use ckpt_api::Scalar;
use half::{bf16, f16};

/// Replaces each little-endian number by what `operation` makes of it. Returns whether a finite number became one that
/// is not.
#[inline]
pub(crate) fn each_number(numbers: &mut [[u8; 4]], operation: impl Fn(f32) -> f32) -> bool {
    vectorized(
        #[inline(always)]
        || {
            let mut overflows = false;
            for number in numbers {
                overflows |= replace(number, &operation);
            }
            overflows
        },
    )
}

/// What happens to a number and another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// Combines blocks of `block` neighboring numbers with one of `others` each; `before` of the first block's numbers are before
/// `numbers`. Returns what [`each_number`] returns.
pub(crate) fn with_blocks(
    arithmetic: Arithmetic,
    numbers: &mut [[u8; 4]],
    others: &[f32],
    block: usize,
    before: usize,
) -> bool {
    match arithmetic {
        Arithmetic::Add => blockwise(numbers, others, (block, before), |number, other| number + other),
        Arithmetic::Subtract => blockwise(numbers, others, (block, before), |number, other| number - other),
        Arithmetic::Multiply => blockwise(numbers, others, (block, before), |number, other| number * other),
        Arithmetic::Divide => blockwise(numbers, others, (block, before), |number, other| number / other),
    }
}

/// Combines each run of `run` numbers with the next of `others`, again from the first after the last, in 64 bits; `before`
/// numbers are before `numbers`. Returns what [`each_number`] returns.
pub(crate) fn with_runs(
    numbers: &mut [[u8; 4]],
    others: &[f64],
    run: usize,
    before: u64,
    operation: impl Fn(f64, f64) -> f64,
) -> bool {
    let run = run.max(1);
    let skipped = (before % (run as u64).saturating_mul(others.len() as u64).max(1)) as usize;
    let (first, rest) = numbers.split_at_mut((run - skipped % run).min(numbers.len()));
    let runs = [first].into_iter().chain(rest.chunks_mut(run));
    let mut overflows = false;
    for (numbers, other) in runs.zip(others.iter().cycle().skip(skipped / run)) {
        overflows |= each_number(numbers, |number| operation(f64::from(number), *other) as f32);
    }
    overflows
}

/// Combines each number with its own of `others`. Returns what [`each_number`] returns.
pub(crate) fn with_each(arithmetic: Arithmetic, numbers: &mut [[u8; 4]], others: &[f32]) -> bool {
    match arithmetic {
        Arithmetic::Add => pairwise(numbers, others, |number, other| number + other),
        Arithmetic::Subtract => pairwise(numbers, others, |number, other| number - other),
        Arithmetic::Multiply => pairwise(numbers, others, |number, other| number * other),
        Arithmetic::Divide => pairwise(numbers, others, |number, other| number / other),
    }
}

/// Subtracts from each number its own of `zeros`, and multiplies the difference by its own of `scales`. Returns what
/// [`each_number`] returns.
pub(crate) fn affine_each(numbers: &mut [[u8; 4]], zeros: &[f32], scales: &[f32]) -> bool {
    vectorized(
        #[inline(always)]
        || {
            let mut overflows = false;
            for ((number, zero), scale) in numbers.iter_mut().zip(zeros).zip(scales) {
                overflows |= replace(number, &|number| (number - zero) * scale);
            }
            overflows
        },
    )
}

#[inline]
fn pairwise(numbers: &mut [[u8; 4]], others: &[f32], operation: impl Fn(f32, f32) -> f32) -> bool {
    vectorized(
        #[inline(always)]
        || {
            let mut overflows = false;
            for (number, other) in numbers.iter_mut().zip(others) {
                overflows |= replace(number, &|number| operation(number, *other));
            }
            overflows
        },
    )
}

#[inline]
fn blockwise(
    numbers: &mut [[u8; 4]],
    others: &[f32],
    (block, before): (usize, usize),
    operation: impl Fn(f32, f32) -> f32,
) -> bool {
    vectorized(
        #[inline(always)]
        || {
            let mut overflows = false;
            let (first, rest) = numbers.split_at_mut(block.saturating_sub(before).min(numbers.len()));
            let blocks = [first].into_iter().chain(rest.chunks_mut(block.max(1)));
            for (numbers, other) in blocks.zip(others) {
                for number in numbers {
                    overflows |= replace(number, &|number| operation(number, *other));
                }
            }
            overflows
        },
    )
}

/// Replaces each number, a whole one, by the entry of a table at this index; a number without an entry becomes NaN.
pub(crate) fn look_up(numbers: &mut [[u8; 4]], table: &[f32]) {
    for number in numbers {
        let entry = table.get(f32::from_le_bytes(*number) as usize);
        *number = entry.copied().unwrap_or(f32::NAN).to_le_bytes();
    }
}

/// Replaces each number by how many of `bounds` are less than it; what is no number stays none.
pub(crate) fn count_below(numbers: &mut [[u8; 4]], bounds: &[Scalar]) {
    /// Numbers that are compared with a bound at once.
    const AT_ONCE: usize = 64;
    vectorized(
        #[inline(always)]
        || {
            for numbers in numbers.chunks_mut(AT_ONCE) {
                let (mut own, mut counts) = ([0_f32; AT_ONCE], [0_f32; AT_ONCE]);
                own.iter_mut().zip(&*numbers).for_each(|(own, bytes)| *own = f32::from_le_bytes(*bytes));
                for bound in bounds {
                    let bound = bound.get();
                    for (count, own) in counts.iter_mut().zip(&own) {
                        *count += if *own > bound { 1.0 } else { 0.0 };
                    }
                }
                for ((bytes, own), count) in numbers.iter_mut().zip(&own).zip(&counts) {
                    *bytes = if own.is_nan() { *own } else { *count }.to_le_bytes();
                }
            }
        },
    );
}

/// The exponential, rounded once. The system's own for 32-bit floats differ in the last bit from one system to the next; the
/// one for 64 bits has 29 digits more than the result.
pub(crate) fn exp(number: f32) -> f32 {
    f64::from(number).exp() as f32
}

/// The logarithm, or, if the numbers of a smaller dtype next to it have the same exponential, one of them: it is what the
/// exponential was computed from.
pub(crate) fn log(number: f32) -> f32 {
    let nearest = f64::from(number).ln();
    let short = [bf16::from_f64(nearest).to_f32(), f16::from_f64(nearest).to_f32()];
    short.into_iter().find(|short| exp(*short) == number).unwrap_or(nearest as f32)
}

#[inline(always)]
fn replace(number: &mut [u8; 4], operation: &impl Fn(f32) -> f32) -> bool {
    let before = f32::from_le_bytes(*number);
    let after = operation(before);
    *number = after.to_le_bytes();
    before.is_finite() & !after.is_finite()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(numbers: &[f32]) -> Vec<[u8; 4]> {
        numbers.iter().map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn what_becomes_too_large_is_reported_and_what_was_infinite_is_not() {
        let mut numbers = bytes(&[1.0, f32::INFINITY, f32::NAN]);
        assert!(!each_number(&mut numbers, |number| number * 2.0));
        assert_eq!(numbers[..2], bytes(&[2.0, f32::INFINITY]));
        assert!(each_number(&mut bytes(&[1.0, f32::MAX]), |number| number * 2.0));
    }

    #[test]
    fn runs_take_the_numbers_of_a_list_in_turn_from_any_place_on() {
        // Runs of two: 1 1 3 3 5 5, and again.
        let expected: Vec<f32> = (0..20).map(|at| [1.0, 1.0, 3.0, 3.0, 5.0, 5.0][at % 6]).collect();
        for before in 0..13 {
            let mut numbers = bytes(&[1.0; 7]);
            with_runs(&mut numbers, &[1.0, 3.0, 5.0], 2, before, |number, other| number * other);
            assert_eq!(numbers, bytes(&expected[before as usize..][..7]), "{before}");
        }
        assert!(with_runs(&mut bytes(&[f32::MAX]), &[2.0], 1, 0, |number, other| number * other));
    }

    #[test]
    fn products_of_runs_are_rounded_once() {
        // Of 0.1, 32 bits hold less than 64.
        let mut numbers = bytes(&[9.0]);
        with_runs(&mut numbers, &[0.1], 1, 0, |number, other| number * other);
        assert_eq!(numbers, bytes(&[(9.0 * 0.1_f64) as f32]));
        assert_ne!(numbers, bytes(&[9.0 * 0.1_f32]));
    }

    #[test]
    fn a_bound_counts_if_it_is_less() {
        let bounds = [-1.0, 0.0, 0.5].map(|bound| Scalar::new(bound).unwrap());
        let mut numbers = bytes(&[-2.0, -1.0, -0.5, 0.0, 0.25, 0.5, f32::INFINITY, f32::NAN]);
        count_below(&mut numbers, &bounds);
        assert_eq!(numbers[..7], bytes(&[0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0]));
        assert!(f32::from_le_bytes(numbers[7]).is_nan());
    }

    #[test]
    fn the_exponential_is_the_nearest_float() {
        for (number, bits) in
            [(0.0, 0x3f80_0000), (1.0, 0x402d_f854), (-1.0, 0x3ebc_5ab2), (5.5, 0x4374_b122)]
        {
            assert_eq!(exp(number).to_bits(), bits, "{number}");
        }
        assert_eq!((exp(-200.0), exp(f32::NEG_INFINITY), exp(89.0)), (0.0, 0.0, f32::INFINITY));
    }

    #[test]
    #[cfg_attr(miri, ignore = "every number of 16 bits")]
    fn the_logarithm_of_an_exponential_is_the_number_of_16_bits_that_it_was_computed_from() {
        // Numbers nearer to 0 share an exponential with their neighbors.
        let tested = |number: &f32| (1e-3..60.0).contains(&number.abs());
        for bits in 0..=u16::MAX {
            let both = [bf16::from_bits(bits).to_f32(), f16::from_bits(bits).to_f32()];
            for number in both.into_iter().filter(tested) {
                assert_eq!(log(exp(number)), number);
            }
        }
        assert_eq!((log(1.0), log(0.0)), (0.0, f32::NEG_INFINITY));
        assert!(log(-1.0).is_nan());
    }

    #[test]
    fn every_block_has_its_scale_and_the_first_may_have_begun_before() {
        let scaled = |before, count, scales: &[f32]| {
            let mut numbers = bytes(&vec![1.0; count]);
            assert!(!with_blocks(Arithmetic::Multiply, &mut numbers, scales, 3, before));
            numbers.into_iter().map(f32::from_le_bytes).collect::<Vec<f32>>()
        };
        assert_eq!(scaled(0, 5, &[2.0, 3.0]), [2.0, 2.0, 2.0, 3.0, 3.0]);
        assert_eq!(scaled(2, 5, &[2.0, 3.0, 4.0]), [2.0, 3.0, 3.0, 3.0, 4.0]);
        assert_eq!(scaled(1, 1, &[2.0]), [2.0]);
    }
}
