//! Which elements of a tensor are kept: the largest, or some that are drawn.

use crate::Scalar;
use serde::{Deserialize, Serialize};

/// Draws have so many bits.
const DRAW_BITS: u32 = 53;

/// Which elements of a tensor keep their number; the others become 0. Elements are counted in stored order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Kept {
    /// Those whose magnitude is above `threshold`; of those whose magnitude is the threshold, those up to element `last`.
    Largest {
        /// The least magnitude that is kept, not negative.
        threshold: Scalar,
        /// The last element of just this magnitude that is kept.
        last: u64,
    },
    /// Those whose draw is below `limit`. The draw of element `i` has 53 bits: the upper ones of the mixed number
    /// `key + (i + 1) · 0x9e3779b97f4a7c15` (SplitMix64).
    Drawn {
        /// The beginning of the sequence.
        key: u64,
        /// How many of 2^53 draws are kept.
        limit: u64,
    },
}

impl Kept {
    /// Those that are drawn with this probability, from 0 to 1.
    pub fn drawn(key: u64, probability: f64) -> Self {
        // At most 2^53, which is exact.
        Kept::Drawn { key, limit: (probability.clamp(0.0, 1.0) * (1_u64 << DRAW_BITS) as f64).round() as u64 }
    }

    /// Whether the element with this number is kept.
    ///
    /// ```
    /// use ckpt_api::{Kept, Scalar};
    /// let kept = Kept::Largest { threshold: Scalar::new(0.5).expect("it is finite"), last: 3 };
    /// assert!(kept.keeps(9, -0.75) && kept.keeps(3, -0.5));
    /// assert!(!kept.keeps(4, 0.5) && !kept.keeps(0, 0.25));
    /// ```
    #[inline]
    pub fn keeps(&self, element: u64, number: f32) -> bool {
        match *self {
            Kept::Largest { threshold, last } => {
                // The bits of magnitudes are in their order; what is no number is above all.
                let (own, least) = (number.abs().to_bits(), threshold.get().abs().to_bits());
                own > least || (own == least && element <= last)
            }
            Kept::Drawn { key, limit } => draw(key, element) < limit,
        }
    }
}

/// The draw of an element.
#[inline]
fn draw(key: u64, element: u64) -> u64 {
    let mixed = mix(key.wrapping_add(element.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    mixed >> (u64::BITS - DRAW_BITS)
}

/// SplitMix64's mixing of the bits of a number.
#[inline]
fn mix(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(number: f32) -> Scalar {
        Scalar::new(number).unwrap()
    }

    #[test]
    fn draws_are_those_of_splitmix64() {
        // The first outputs of the reference implementation for the seed 1234567.
        let draws: Vec<u64> = (0..3).map(|element| draw(1_234_567, element)).collect();
        assert_eq!(
            draws,
            [6_457_827_717_110_365_317_u64, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
                .map(|output| output >> 11)
        );
    }

    #[test]
    fn as_many_elements_are_drawn_as_the_probability_says() {
        let count = |probability| {
            let kept = Kept::drawn(7, probability);
            (0..100_000).filter(|element| kept.keeps(*element, 1.0)).count()
        };
        assert_eq!((count(0.0), count(1.0)), (0, 100_000));
        assert!((29_500..30_500).contains(&count(0.3)), "{}", count(0.3));
    }

    #[test]
    fn what_is_no_number_counts_as_the_largest() {
        let kept = Kept::Largest { threshold: scalar(f32::MAX), last: 0 };
        assert!(kept.keeps(5, f32::NAN) && kept.keeps(5, f32::NEG_INFINITY) && !kept.keeps(5, f32::MAX));
    }
}
