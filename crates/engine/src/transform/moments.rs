//! Counts, range, mean and spread of numbers.

use fearless_simd::prelude::*;
use fearless_simd::{Level, Simd, dispatch, f64x8};

/// Counts of some numbers; range, mean and spread of those that are finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// How many are finite.
    pub finite: u64,
    /// How many are zero.
    pub zeros: u64,
    /// How many are not a number.
    pub nan: u64,
    /// How many are infinite.
    pub infinite: u64,
    /// Infinity if no number is finite. A zero is +0.
    pub min: f64,
    /// Minus infinity if no number is finite. A zero is +0.
    pub max: f64,
    /// 0 if no number is finite.
    pub mean: f64,
    /// Sum of the squared distances from the mean.
    pub squares: f64,
}

/// Most numbers that are taken at once: both passes over them find them in the L1 cache.
pub(super) const BLOCK: usize = 1024;

impl Moments {
    /// Those of no numbers.
    pub const NONE: Moments = Moments {
        finite: 0,
        zeros: 0,
        nan: 0,
        infinite: 0,
        min: f64::INFINITY,
        max: f64::NEG_INFINITY,
        mean: 0.0,
        squares: 0.0,
    };

    /// Those of these numbers. They do not depend on the processor.
    pub fn of(numbers: &[f64]) -> Self {
        numbers.chunks(BLOCK).fold(Moments::NONE, |all, block| all.and(&Self::of_block(block)))
    }

    fn of_block(numbers: &[f64]) -> Self {
        let all = of_finite(numbers);
        // A NaN or an infinity is never lost in a sum.
        if all.mean.is_finite() {
            return all;
        }
        let (mut finite, mut count) = ([0.0; BLOCK], 0);
        for number in numbers {
            if let Some(next) = finite.get_mut(count) {
                *next = *number;
            }
            count += usize::from(number.is_finite());
        }
        let nan = numbers.iter().filter(|number| number.is_nan()).count();
        let infinite = numbers.len() - count - nan;
        Moments {
            nan: nan as u64,
            infinite: infinite as u64,
            ..of_finite(finite.get(..count).unwrap_or_default())
        }
    }

    /// Those of these and other numbers together (Chan et al.): neither large means nor many numbers lose digits.
    #[must_use]
    pub fn and(&self, next: &Moments) -> Self {
        let (before, now) = (self.finite as f64, next.finite as f64);
        let delta = next.mean - self.mean;
        let (mean, squares) = match (self.finite, next.finite) {
            (_, 0) => (self.mean, self.squares),
            (0, _) => (next.mean, next.squares),
            _ => (
                self.mean + delta * now / (before + now),
                self.squares + (next.squares + delta * delta * before * now / (before + now)),
            ),
        };
        Moments {
            finite: self.finite + next.finite,
            zeros: self.zeros + next.zeros,
            nan: self.nan + next.nan,
            infinite: self.infinite + next.infinite,
            min: self.min.min(next.min),
            max: self.max.max(next.max),
            mean,
            squares,
        }
    }
}

/// Those of at most [`BLOCK`] numbers, which are finite; otherwise, the mean is not.
fn of_finite(numbers: &[f64]) -> Moments {
    dispatch!(Level::new(), simd => of_finite_with(simd, numbers))
}

/// Numbers that are added one by one do not fill the processor: so many sums are computed at once.
const LANES: usize = 16;

#[inline(always)]
fn of_finite_with<S: Simd>(simd: S, numbers: &[f64]) -> Moments {
    if numbers.is_empty() {
        return Moments::NONE;
    }
    let (vectors, rest) = numbers.as_chunks::<LANES>();
    let (mut first, mut second) = (Lanes::none(simd), Lanes::none(simd));
    for numbers in vectors {
        let (low, high) = halves(simd, numbers);
        first.add(low);
        second.add(high);
    }
    let lanes = first.and(second);
    let mean = (total(lanes.sum) + rest.iter().sum::<f64>()) / numbers.len() as f64;
    let zero = f64x8::splat(simd, 0.0);
    let (means, mut first, mut second) = (f64x8::splat(simd, mean), zero, zero);
    for numbers in vectors {
        let (low, high) = halves(simd, numbers);
        let (low, high) = (low - means, high - means);
        first += low * low;
        second += high * high;
    }
    let rest_squares = rest.iter().map(|number| (number - mean) * (number - mean)).sum::<f64>();
    let rest_zeros = rest.iter().filter(|number| **number == 0.0).count();
    let (mins, maxs) = (lanes.min.as_slice(), lanes.max.as_slice());
    Moments {
        finite: numbers.len() as u64,
        zeros: u64::from(lanes.zeros) + rest_zeros as u64,
        // Which of two zeros is the smaller one is left open; adding 0 makes them one.
        min: rest.iter().chain(mins).fold(f64::INFINITY, |min, number| min.min(*number)) + 0.0,
        max: rest.iter().chain(maxs).fold(f64::NEG_INFINITY, |max, number| max.max(*number)) + 0.0,
        mean,
        squares: total(first + second) + rest_squares,
        ..Moments::NONE
    }
}

/// Sums and ranges of every eighth number.
struct Lanes<S: Simd> {
    sum: f64x8<S>,
    min: f64x8<S>,
    max: f64x8<S>,
    zeros: u32,
}

impl<S: Simd> Lanes<S> {
    #[inline(always)]
    fn none(simd: S) -> Self {
        let splat = |number| f64x8::splat(simd, number);
        Lanes { sum: splat(0.0), min: splat(f64::INFINITY), max: splat(f64::NEG_INFINITY), zeros: 0 }
    }

    #[inline(always)]
    fn add(&mut self, numbers: f64x8<S>) {
        self.sum += numbers;
        self.min = self.min.min(numbers);
        self.max = self.max.max(numbers);
        self.zeros += numbers.simd_eq(0.0).to_bitmask().count_ones();
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Lanes {
            sum: self.sum + other.sum,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            zeros: self.zeros + other.zeros,
        }
    }
}

#[inline(always)]
fn halves<S: Simd>(simd: S, numbers: &[f64; LANES]) -> (f64x8<S>, f64x8<S>) {
    let (low, high) = numbers.split_at(LANES / 2);
    (f64x8::from_slice(simd, low), f64x8::from_slice(simd, high))
}

#[inline(always)]
fn total<S: Simd>(lanes: f64x8<S>) -> f64 {
    lanes.as_slice().iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each count, range, mean and sum of squares by its definition.
    fn defined(numbers: &[f64]) -> Moments {
        let finite: Vec<f64> = numbers.iter().copied().filter(|number| number.is_finite()).collect();
        let count = |is: fn(&f64) -> bool| numbers.iter().filter(|number| is(number)).count() as u64;
        let mean = finite.iter().sum::<f64>() / finite.len().max(1) as f64;
        Moments {
            finite: finite.len() as u64,
            zeros: count(|number| *number == 0.0),
            nan: count(|number| number.is_nan()),
            infinite: count(|number| number.is_infinite()),
            min: finite.iter().fold(f64::INFINITY, |min, number| min.min(*number)) + 0.0,
            max: finite.iter().fold(f64::NEG_INFINITY, |max, number| max.max(*number)) + 0.0,
            mean,
            squares: finite.iter().map(|number| (number - mean).powi(2)).sum(),
        }
    }

    fn is_close(found: &Moments, defined: &Moments) -> bool {
        let exact = |m: &Moments| Moments { mean: 0.0, squares: 0.0, ..*m };
        let size = defined.min.abs().max(defined.max.abs());
        let mean = (found.mean - defined.mean).abs() <= 1e-12 * size || found.finite == 0;
        // Where the mean's last digit is another one, equal numbers have a distance from it.
        let least = defined.finite as f64 * (1e-14 * size).powi(2);
        let squares = (found.squares - defined.squares).abs() <= 1e-12 * defined.squares + least;
        exact(found) == exact(defined) && mean && (squares || found.finite == 0)
    }

    fn number() -> impl Strategy<Value = f64> {
        prop_oneof![
            8 => -4.0..4.0,
            1 => prop::sample::select(vec![0.0, -0.0, 1e-310, -5e-324, 1e9, f64::NAN, f64::INFINITY, f64::NEG_INFINITY]),
        ]
    }

    proptest! {
        #[test]
        fn moments_are_those_of_their_definitions_wherever_the_numbers_are_cut(
            numbers in prop::collection::vec(number(), 0..80), times in prop::sample::select(vec![1usize, 40]),
            cut: prop::sample::Index,
        ) {
            // More than a block, with finite ones alone and without.
            let numbers = numbers.repeat(times);
            let finite: Vec<f64> = numbers.iter().copied().filter(|number| number.is_finite()).collect();
            for numbers in [numbers, finite] {
                let expected = defined(&numbers);
                let found = Moments::of(&numbers);
                prop_assert!(is_close(&found, &expected), "{:?} {:?}", found, expected);
                let (a, b) = numbers.split_at(cut.index(numbers.len() + 1));
                let joined = Moments::of(a).and(&Moments::of(b));
                prop_assert!(is_close(&joined, &expected), "{:?} {:?}", joined, expected);
            }
        }
    }

    #[test]
    fn a_large_mean_leaves_the_digits_of_the_spread() {
        let len = if cfg!(miri) { 1_200 } else { 10_000 };
        let numbers: Vec<f64> = (0..len).map(|k| 1e9 + f64::from(k % 2)).collect();
        assert_eq!(Moments::of(&numbers).squares, f64::from(len) / 4.0);
    }

    #[test]
    fn a_zero_of_the_range_is_positive() {
        for numbers in [&[-0.0][..], &[0.0, -0.0], &[-0.0; 40]] {
            let found = Moments::of(numbers);
            assert!(found.min.is_sign_positive() && found.max.is_sign_positive(), "{numbers:?}");
            assert_eq!(found.zeros, numbers.len() as u64);
        }
    }

    #[test]
    fn finite_numbers_whose_sum_is_not_are_finite_all_the_same() {
        let found = Moments::of(&[f64::MAX, f64::MAX, -1.0]);
        assert_eq!((found.finite, found.infinite, found.nan, found.max), (3, 0, 0, f64::MAX));
    }
}
