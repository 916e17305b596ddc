//! Integers that are known before a graph runs, perhaps up to the length of a free axis.

use std::iter::{Product, Sum};
use std::ops::{Add, Mul, Neg, Sub};

/// The length of an axis, or an integer that is computed from lengths.
///
/// Arithmetic that overflows, or that leaves the form `plus + times · length`, gives [`Length::Unknown`].
///
/// ```
/// use ckpt_graph::Length;
/// let batch = Length::free(0);
/// assert_eq!((batch * 6 + 12).floor_div(Length::Known(6)), batch + 2);
/// assert_eq!(batch - batch, Length::Known(0));
/// assert_eq!(batch * batch, Length::Unknown);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Length {
    /// A number.
    Known(i64),
    /// `plus + times · n`, where `n` is the length of a free axis; `times` is not 0.
    Free {
        /// The number of the axis.
        axis: usize,
        /// The factor of its length.
        times: i64,
        /// What is added.
        plus: i64,
    },
    /// Nothing is known. [`Length::is`] no other length, not even itself.
    Unknown,
}

impl Length {
    /// Returns the length of a free axis.
    pub const fn free(axis: usize) -> Self {
        Length::Free { axis, times: 1, plus: 0 }
    }

    /// Returns the number, if it is one.
    pub const fn known(self) -> Option<i64> {
        match self {
            Length::Known(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the number as a length of the contract: `None` for one that is free, unknown or negative.
    pub fn size(self) -> Option<u64> {
        self.known().and_then(|len| u64::try_from(len).ok())
    }

    /// Whether both are equal whatever the lengths of free axes are.
    pub fn is(self, other: Length) -> bool {
        self == other && self != Length::Unknown
    }

    fn of(axis: usize, times: Option<i64>, plus: Option<i64>) -> Self {
        match (times, plus) {
            (Some(0), Some(plus)) => Length::Known(plus),
            (Some(times), Some(plus)) => Length::Free { axis, times, plus },
            _ => Length::Unknown,
        }
    }

    /// Returns the quotient, rounded down; for a divisor below 1, it is unknown.
    #[must_use]
    pub fn floor_div(self, other: Length) -> Length {
        match other {
            Length::Known(..=0) => Length::Unknown,
            _ => self.quotient(other, i64::checked_div_euclid),
        }
    }

    /// Returns the quotient, rounded towards zero.
    #[must_use]
    pub fn divide(self, other: Length) -> Length {
        self.quotient(other, i64::checked_div)
    }

    fn quotient(self, other: Length, of_known: fn(i64, i64) -> Option<i64>) -> Length {
        match (self, other) {
            (a, Length::Known(1)) => a,
            (Length::Known(a), Length::Known(b)) => of_known(a, b).map_or(Length::Unknown, Length::Known),
            (a, b) if a.is(b) => Length::Known(1),
            (Length::Free { axis, times, plus }, Length::Known(by))
                if times.checked_rem(by) == Some(0) && plus.checked_rem(by) == Some(0) =>
            {
                Length::of(axis, times.checked_div(by), plus.checked_div(by))
            }
            _ => Length::Unknown,
        }
    }

    /// Returns what [`Length::floor_div`] leaves.
    #[must_use]
    pub fn floor_mod(self, other: Length) -> Length {
        match (self, other) {
            (Length::Known(a), Length::Known(by)) if by > 0 => Length::Known(a.rem_euclid(by)),
            (Length::Free { times, plus, .. }, Length::Known(by)) if by > 0 && times % by == 0 => {
                Length::Known(plus.rem_euclid(by))
            }
            _ => Length::Unknown,
        }
    }

    /// Returns 1 or 0 for whether a relation holds of two numbers.
    #[must_use]
    pub fn compare(self, other: Length, holds: impl Fn(i64, i64) -> bool) -> Length {
        match (self, other) {
            (Length::Known(a), Length::Known(b)) => Length::Known(i64::from(holds(a, b))),
            // The comparison of a value with itself.
            (a, b) if a.is(b) => Length::Known(i64::from(holds(0, 0))),
            _ => Length::Unknown,
        }
    }
}

impl From<u64> for Length {
    fn from(len: u64) -> Self {
        i64::try_from(len).map_or(Length::Unknown, Length::Known)
    }
}

impl From<usize> for Length {
    fn from(len: usize) -> Self {
        i64::try_from(len).map_or(Length::Unknown, Length::Known)
    }
}

impl From<Option<u64>> for Length {
    fn from(len: Option<u64>) -> Self {
        len.map_or(Length::Unknown, Length::from)
    }
}

impl Add for Length {
    type Output = Length;

    fn add(self, other: Length) -> Length {
        match (self, other) {
            (Length::Known(a), Length::Known(b)) => a.checked_add(b).map_or(Length::Unknown, Length::Known),
            (Length::Free { axis, times, plus }, Length::Known(value))
            | (Length::Known(value), Length::Free { axis, times, plus }) => {
                Length::of(axis, Some(times), plus.checked_add(value))
            }
            (Length::Free { axis: a, times: b, plus: c }, Length::Free { axis, times, plus })
                if a == axis =>
            {
                Length::of(axis, b.checked_add(times), c.checked_add(plus))
            }
            _ => Length::Unknown,
        }
    }
}

impl Mul for Length {
    type Output = Length;

    fn mul(self, other: Length) -> Length {
        match (self, other) {
            (Length::Known(a), Length::Known(b)) => a.checked_mul(b).map_or(Length::Unknown, Length::Known),
            (Length::Free { axis, times, plus }, Length::Known(by))
            | (Length::Known(by), Length::Free { axis, times, plus }) => {
                Length::of(axis, times.checked_mul(by), plus.checked_mul(by))
            }
            _ => Length::Unknown,
        }
    }
}

impl Neg for Length {
    type Output = Length;

    fn neg(self) -> Length {
        self * Length::Known(-1)
    }
}

impl Sub for Length {
    type Output = Length;

    fn sub(self, other: Length) -> Length {
        self + -other
    }
}

impl Add<i64> for Length {
    type Output = Length;

    fn add(self, other: i64) -> Length {
        self + Length::Known(other)
    }
}

impl Sub<i64> for Length {
    type Output = Length;

    fn sub(self, other: i64) -> Length {
        self - Length::Known(other)
    }
}

impl Mul<i64> for Length {
    type Output = Length;

    fn mul(self, other: i64) -> Length {
        self * Length::Known(other)
    }
}

impl Sum for Length {
    fn sum<I: Iterator<Item = Length>>(all: I) -> Length {
        all.fold(Length::Known(0), Length::add)
    }
}

impl<'a> Product<&'a Length> for Length {
    fn product<I: Iterator<Item = &'a Length>>(all: I) -> Length {
        all.fold(Length::Known(1), |product, len| product * *len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_length_keeps_its_form_through_sums_and_products_with_numbers() {
        let len = (Length::free(3) + 2) * 4;
        assert_eq!(len, Length::Free { axis: 3, times: 4, plus: 8 });
        assert_eq!(len - Length::free(3) * 4, Length::Known(8));
        assert_eq!(Length::free(3) + Length::free(4), Length::Unknown);
        assert_eq!(Length::free(3) * Length::Known(0), Length::Known(0));
    }

    #[test]
    fn a_quotient_is_known_if_it_is_for_every_length() {
        let len = Length::free(0) * 6 + 3;
        assert_eq!(len.floor_div(Length::Known(3)), Length::free(0) * 2 + 1);
        assert_eq!(len.floor_div(Length::Known(2)), Length::Unknown);
        assert_eq!(len.divide(len), Length::Known(1));
        assert_eq!(len.floor_mod(Length::Known(6)), Length::Known(3));
    }

    #[test]
    fn quotients_of_negative_numbers_are_rounded_down_or_towards_zero() {
        assert_eq!(Length::Known(-7).floor_div(Length::Known(2)), Length::Known(-4));
        assert_eq!(Length::Known(-7).divide(Length::Known(2)), Length::Known(-3));
    }

    #[test]
    fn what_overflows_or_divides_by_zero_is_unknown() {
        let most = Length::Known(i64::MAX);
        for length in [most + 1, most * 2, Length::free(0) * i64::MAX * 2, most.divide(Length::Known(0))] {
            assert_eq!(length, Length::Unknown);
        }
        assert_eq!(Length::Known(i64::MIN).divide(Length::Known(-1)), Length::Unknown);
        assert_eq!(Length::from(u64::MAX), Length::Unknown);
    }

    #[test]
    fn an_unknown_length_is_not_itself() {
        assert!(!Length::Unknown.is(Length::Unknown));
        assert!(Length::free(1).is(Length::free(1)) && !Length::free(1).is(Length::free(2)));
        assert_eq!(Length::free(1).compare(Length::free(1), |a, b| a <= b), Length::Known(1));
        assert_eq!(Length::free(1).compare(Length::free(2), |a, b| a <= b), Length::Unknown);
    }
}
