//! Loops over sparse differences of models.

use super::simd::vectorized;
use ckpt_api::Kept;

/// Replaces the numbers that are not kept by 0; the first of them is element `first`.
pub(crate) fn keep(numbers: &mut [[u8; 4]], kept: Kept, first: u64) {
    for (number, element) in numbers.iter_mut().zip(first..) {
        if !kept.keeps(element, f32::from_le_bytes(*number)) {
            *number = [0; 4];
        }
    }
}

/// The sums of a run of elements, in which several tensors may agree.
#[derive(Debug, Default)]
pub(crate) struct Consensus {
    /// All products of an element, whose sum elects a sign.
    elected: Vec<f32>,
    /// Those of the elected sign.
    sums: Vec<f32>,
    /// Their weights.
    weights: Vec<f32>,
}

impl Consensus {
    /// Adds to `numbers` a multiple of what `terms` agree on: each has a weight, and a number for each of `numbers`. Returns
    /// whether a finite number became one that is not.
    pub(crate) fn add_to<'t>(
        &mut self,
        numbers: &mut [[u8; 4]],
        terms: impl Iterator<Item = (f32, &'t [[u8; 4]])> + Clone,
        (is_mean, factor): (bool, f32),
    ) -> bool {
        for sums in [&mut self.elected, &mut self.sums, &mut self.weights] {
            sums.clear();
            sums.resize(numbers.len(), 0.0);
        }
        for (weight, term) in terms.clone() {
            self.elect(weight, term);
        }
        for (weight, term) in terms {
            self.sum(weight, term);
        }
        let sums = self.sums.iter().zip(&self.weights);
        let mut overflows = false;
        for (number, (sum, weight)) in numbers.iter_mut().zip(sums) {
            let own = f32::from_le_bytes(*number);
            let divisor = if is_mean && *weight != 0.0 { *weight } else { 1.0 };
            let result = own + sum / divisor * factor;
            overflows |= own.is_finite() && !result.is_finite();
            *number = result.to_le_bytes();
        }
        overflows
    }

    fn elect(&mut self, weight: f32, term: &[[u8; 4]]) {
        vectorized(
            #[inline(always)]
            || {
                for (elected, number) in self.elected.iter_mut().zip(term) {
                    *elected += f32::from_le_bytes(*number) * weight;
                }
            },
        );
    }

    fn sum(&mut self, weight: f32, term: &[[u8; 4]]) {
        let sums = self.sums.iter_mut().zip(&mut self.weights);
        vectorized(
            #[inline(always)]
            || {
                for ((number, elected), (sum, weights)) in term.iter().zip(&self.elected).zip(sums) {
                    let product = f32::from_le_bytes(*number) * weight;
                    let agrees = if *elected >= 0.0 { product > 0.0 } else { product < 0.0 };
                    *sum += if agrees { product } else { 0.0 };
                    *weights += if agrees { weight } else { 0.0 };
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(numbers: [f32; N]) -> [[u8; 4]; N] {
        numbers.map(f32::to_le_bytes)
    }

    #[test]
    fn elements_that_agree_with_the_elected_sign_are_added() {
        let terms = [(1.0, bytes([1.0, -1.0, 2.0, 0.0])), (0.5, bytes([-4.0, -2.0, 2.0, 0.0]))];
        let sum = |is_mean, factor| {
            let mut numbers = bytes([10.0; 4]);
            let terms = terms.iter().map(|(weight, term)| (*weight, &term[..]));
            assert!(!Consensus::default().add_to(&mut numbers, terms, (is_mean, factor)));
            numbers.map(f32::from_le_bytes)
        };
        // The first element's products, 1 and -2, elect the negative one.
        assert_eq!(sum(false, 1.0), [8.0, 8.0, 13.0, 10.0]);
        assert_eq!(sum(true, 1.0), [6.0, 10.0 - 2.0 / 1.5, 12.0, 10.0]);
        assert_eq!(sum(false, 0.5), [9.0, 9.0, 11.5, 10.0]);
    }

    #[test]
    fn opposite_products_of_one_size_elect_the_positive_one() {
        let mut numbers = bytes([0.0]);
        let terms = [(1.0, bytes([2.0])), (1.0, bytes([-2.0]))];
        let terms = terms.iter().map(|(weight, term)| (*weight, &term[..]));
        Consensus::default().add_to(&mut numbers, terms, (true, 1.0));
        assert_eq!(numbers.map(f32::from_le_bytes), [2.0]);
    }

    #[test]
    fn a_sum_that_is_too_large_is_reported() {
        let mut numbers = bytes([f32::MAX]);
        let terms = [(1.0, bytes([f32::MAX]))];
        let terms = terms.iter().map(|(weight, term)| (*weight, &term[..]));
        assert!(Consensus::default().add_to(&mut numbers, terms, (false, 1.0)));
    }

    #[test]
    fn elements_that_are_not_kept_become_zero() {
        let mut numbers = bytes([0.5, -2.0, -0.5, 1.0]);
        let threshold = ckpt_api::Scalar::new(0.5).unwrap();
        keep(&mut numbers, Kept::Largest { threshold, last: 10 }, 9);
        assert_eq!(numbers.map(f32::from_le_bytes), [0.5, -2.0, 0.0, 1.0]);
    }
}
