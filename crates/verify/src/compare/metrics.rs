//! Measures the error of an array in one pass, aware of NaN and infinity.

use crate::report::{Decade, Histogram, Metrics, WorstElement};
use std::collections::BTreeMap;

/// The type in which units in the last place are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Precision {
    /// binary32: values are rounded to it first.
    Single,
    /// binary64.
    Double,
    /// Integers: not counted.
    Integer,
}

/// Builds [`Metrics`] and a [`Histogram`] from elements, one after the other.
#[derive(Clone, Debug)]
pub struct MetricsBuilder {
    precision: Precision,
    metrics: Metrics,
    decades: BTreeMap<i32, u64>,
    squares: Squares,
    largest_reference: f64,
    /// Position, reference and value of the worst element so far.
    worst: Option<(u64, f64, f64)>,
}

/// Sums of squares, scaled by the largest magnitude, so that none overflows.
#[derive(Clone, Copy, Debug, Default)]
struct Squares {
    error: Scaled,
    reference: Scaled,
    found: Scaled,
    /// `Σ (reference / scale)·(found / scale)` for the scale of both.
    product: f64,
}

/// `scale² · sum`.
#[derive(Clone, Copy, Debug, Default)]
struct Scaled {
    scale: f64,
    sum: f64,
}

impl Scaled {
    fn add(&mut self, value: f64) {
        let value = value.abs();
        if value > self.scale {
            self.sum = self.sum * (self.scale / value).powi(2) + 1.0;
            self.scale = value;
        } else if self.scale > 0.0 {
            self.sum += (value / self.scale).powi(2);
        }
    }

    fn root(self) -> f64 {
        self.scale * self.sum.sqrt()
    }
}

impl MetricsBuilder {
    /// Creates a builder that has seen no element.
    pub fn new(precision: Precision) -> Self {
        MetricsBuilder {
            precision,
            metrics: Metrics::default(),
            decades: BTreeMap::new(),
            squares: Squares::default(),
            largest_reference: 0.0,
            worst: None,
        }
    }

    /// Adds the next element: its reference and the value found.
    pub fn add(&mut self, reference: f64, found: f64) {
        let position = self.metrics.elements;
        self.metrics.elements += 1;
        let same = reference.to_bits() == found.to_bits() || (reference.is_nan() && found.is_nan());
        if !same {
            self.metrics.differing += 1;
        }
        if !(reference.is_finite() && found.is_finite()) {
            if !same {
                if self.metrics.not_finite == 0 && self.metrics.max_absolute == 0.0 {
                    self.worst = Some((position, reference, found));
                }
                self.metrics.not_finite += 1;
            }
            return;
        }
        let error = (found - reference).abs();
        // The difference of two finite numbers may overflow.
        let error = if error.is_finite() { error } else { f64::MAX };
        if error > self.metrics.max_absolute || (self.worst.is_none() && !same) {
            self.worst = Some((position, reference, found));
        }
        self.metrics.max_absolute = self.metrics.max_absolute.max(error);
        if error > 0.0 {
            if reference != 0.0 {
                self.metrics.max_relative =
                    self.metrics.max_relative.max((error / reference.abs()).min(f64::MAX));
            }
            *self.decades.entry(decade(error)).or_default() += 1;
        }
        if let Some(ulp) = distance(reference, found, self.precision) {
            self.metrics.max_ulp = self.metrics.max_ulp.max(Some(ulp));
        }
        self.largest_reference = self.largest_reference.max(reference.abs());
        self.squares.add(reference, found, error);
    }

    /// Returns the measures of all elements, of arrays of this shape.
    pub fn finish(mut self, shape: &[usize]) -> (Metrics, Histogram) {
        let counted = self.metrics.elements - self.metrics.not_finite;
        let (error, reference, found) =
            (self.squares.error.root(), self.squares.reference.root(), self.squares.found.root());
        let ratio = |error: f64, whole: f64| match (error == 0.0, whole == 0.0) {
            (true, _) => Some(0.0),
            (false, true) => None,
            (false, false) => Some((error / whole).min(f64::MAX)),
        };
        if counted > 0 {
            self.metrics.rms = error / (counted as f64).sqrt();
        }
        self.metrics.relative_l2 = ratio(error, reference);
        self.metrics.relative_max = ratio(self.metrics.max_absolute, self.largest_reference);
        self.metrics.cosine =
            (reference > 0.0 && found > 0.0).then(|| if error > 0.0 { self.squares.cosine() } else { 1.0 });
        self.metrics.worst = self.worst.map(|(position, reference, found)| WorstElement {
            index: index(position, shape),
            reference: text(reference, self.precision),
            found: text(found, self.precision),
        });
        let histogram = Histogram {
            exact: counted - self.decades.values().sum::<u64>(),
            decades: self.decades.into_iter().map(|(exponent, count)| Decade { exponent, count }).collect(),
            not_finite: self.metrics.not_finite,
        };
        (self.metrics, histogram)
    }
}

impl Squares {
    fn add(&mut self, reference: f64, found: f64, error: f64) {
        let before = (self.reference.scale, self.found.scale);
        self.error.add(error);
        self.reference.add(reference);
        self.found.add(found);
        let (a, b) = (self.reference.scale, self.found.scale);
        if a > 0.0 && b > 0.0 {
            self.product = self.product * (before.0 / a) * (before.1 / b) + (reference / a) * (found / b);
        }
    }

    fn cosine(self) -> f64 {
        (self.product / (self.reference.sum * self.found.sum).sqrt()).clamp(-1.0, 1.0)
    }
}

/// The exponent of the largest power of ten that is at most `error`, which is positive.
#[expect(clippy::cast_possible_truncation, reason = "exponents of binary64 are below a thousand")]
fn decade(error: f64) -> i32 {
    // The logarithm of a power of ten may be rounded to just below it, or a number just below a power to it.
    let near = error.log10().floor() as i32;
    let power = |exponent: i32| format!("1e{exponent}").parse::<f64>().unwrap_or(0.0);
    if error >= power(near + 1) {
        near + 1
    } else if error < power(near) {
        near - 1
    } else {
        near
    }
}

/// Units in the last place between two numbers.
fn distance(a: f64, b: f64, precision: Precision) -> Option<u64> {
    // Two's complement: neighbors differ by one, also around 0.
    let ordered = |bits: i64, sign: i64| if bits < 0 { sign.wrapping_sub(bits) } else { bits };
    match precision {
        Precision::Integer => None,
        Precision::Double => {
            let place = |value: f64| ordered(value.to_bits().cast_signed(), i64::MIN);
            Some(place(a).abs_diff(place(b)))
        }
        #[expect(clippy::cast_possible_truncation, reason = "the distance is counted in binary32")]
        Precision::Single => {
            let place =
                |value: f64| ordered(i64::from((value as f32).to_bits().cast_signed()), i64::from(i32::MIN));
            Some(place(a).abs_diff(place(b)))
        }
    }
}

/// Converts a row-major position to an index on each axis.
pub(crate) fn index(position: u64, shape: &[usize]) -> Vec<u64> {
    let mut rest = position;
    let mut index: Vec<u64> = Vec::with_capacity(shape.len());
    for len in shape.iter().rev() {
        let len = (*len as u64).max(1);
        index.push(rest % len);
        rest /= len;
    }
    index.reverse();
    index
}

/// The shortest text that is parsed as this number.
#[expect(clippy::cast_possible_truncation, reason = "a number of binary32 is shown as one")]
fn text(value: f64, precision: Precision) -> String {
    let is_single = f64::from(value as f32).to_bits() == value.to_bits();
    match precision {
        Precision::Single if is_single => (value as f32).to_string(),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn measured(reference: &[f64], found: &[f64]) -> (Metrics, Histogram) {
        let mut builder = MetricsBuilder::new(Precision::Single);
        reference.iter().zip(found).for_each(|(a, b)| builder.add(*a, *b));
        builder.finish(&[reference.len()])
    }

    #[test]
    fn equal_arrays_have_no_error_and_no_worst_element() {
        let (metrics, histogram) =
            measured(&[1.0, f64::NAN, f64::INFINITY, 0.0], &[1.0, f64::NAN, f64::INFINITY, 0.0]);
        assert_eq!((metrics.differing, metrics.not_finite, metrics.worst), (0, 0, None));
        assert_eq!((metrics.relative_l2, metrics.cosine, metrics.max_ulp), (Some(0.0), Some(1.0), Some(0)));
        assert_eq!(histogram, Histogram { exact: 4, decades: vec![], not_finite: 0 });
    }

    #[test]
    fn each_measure_follows_its_formula() {
        let (metrics, histogram) = measured(&[3.0, -4.0, 0.0], &[3.0, -4.5, 0.25]);
        assert_eq!((metrics.max_absolute, metrics.max_relative), (0.5, 0.125));
        let norm = (0.5f64 * 0.5 + 0.25 * 0.25).sqrt();
        assert!((metrics.rms - norm / 3f64.sqrt()).abs() < 1e-15);
        assert!((metrics.relative_l2.unwrap() - norm / 5.0).abs() < 1e-15);
        assert_eq!(metrics.relative_max, Some(0.125));
        let cosine = (9.0 + 18.0) / (5.0 * (9.0f64 + 20.25 + 0.0625).sqrt());
        assert!((metrics.cosine.unwrap() - cosine).abs() < 1e-15);
        let worst = metrics.worst.unwrap();
        assert_eq!((worst.index, worst.reference, worst.found), (vec![1], "-4".into(), "-4.5".into()));
        assert_eq!(histogram.exact, 1);
        assert_eq!(histogram.decades, [Decade { exponent: -1, count: 2 }]);
    }

    #[test]
    fn a_nan_or_infinity_on_one_side_is_counted_and_enters_no_other_measure() {
        let (metrics, histogram) =
            measured(&[1.0, f64::NAN, f64::INFINITY, f64::INFINITY], &[1.5, 2.0, 3.0, f64::NEG_INFINITY]);
        assert_eq!((metrics.not_finite, histogram.not_finite, metrics.differing), (3, 3, 4));
        assert_eq!(metrics.max_absolute, 0.5);
        assert_eq!(metrics.worst.unwrap().index, [0]);
        let (metrics, _) = measured(&[1.0, f64::NAN], &[1.0, 0.0]);
        let worst = metrics.worst.unwrap();
        assert_eq!((worst.index, worst.reference), (vec![1], "NaN".to_owned()));
    }

    #[test]
    fn extreme_values_neither_overflow_nor_vanish() {
        let (metrics, _) = measured(&[f64::MAX, f64::MIN], &[f64::MIN, f64::MAX]);
        assert_eq!((metrics.max_absolute, metrics.cosine), (f64::MAX, Some(-1.0)));
        let (metrics, histogram) = measured(&[0.0], &[5e-324]);
        assert_eq!((metrics.max_absolute, metrics.relative_l2, metrics.cosine), (5e-324, None, None));
        assert_eq!(histogram.decades, [Decade { exponent: -324, count: 1 }]);
    }

    #[test]
    fn units_in_the_last_place_are_counted_across_zero() {
        for (a, b, ulp) in [(1.0, 1.0 + f64::from(f32::EPSILON), 1), (-0.0, 0.0, 0), (-1e-45, 1e-45, 2)] {
            assert_eq!(distance(a, b, Precision::Single), Some(ulp), "{a} {b}");
        }
        assert_eq!(distance(-5e-324, 5e-324, Precision::Double), Some(2));
        assert_eq!(distance(1.0, 2.0, Precision::Integer), None);
    }

    #[test]
    fn zeros_of_opposite_sign_differ_bitwise_without_an_error() {
        let (metrics, histogram) = measured(&[0.0], &[-0.0]);
        assert_eq!((metrics.differing, metrics.max_absolute, histogram.exact), (1, 0.0, 1));
        assert!(metrics.worst.is_some());
    }

    #[test]
    fn decades_start_at_powers_of_ten() {
        for (error, exponent) in
            [(1.0, 0), (9.999_999_999_999_998, 0), (10.0, 1), (1e-7, -7), (1e-300, -300), (1e300, 300)]
        {
            assert_eq!(decade(error), exponent, "{error}");
        }
    }

    #[test]
    fn a_position_becomes_an_index_on_each_axis() {
        assert_eq!(index(7, &[2, 5]), [1, 2]);
        assert_eq!(index(0, &[]), [0; 0]);
    }

    proptest! {
        /// Against sums that are written down directly.
        #[test]
        fn measures_agree_with_their_formulas(pairs in prop::collection::vec((-1e3f64..1e3, -1e3f64..1e3), 1..50)) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let (metrics, histogram) = measured(&a, &b);
            let sum = |f: &dyn Fn(f64, f64) -> f64| a.iter().zip(&b).map(|(a, b)| f(*a, *b)).sum::<f64>();
            let (ee, aa, bb, ab) =
                (sum(&|a, b| (a - b).powi(2)), sum(&|a, _| a * a), sum(&|_, b| b * b), sum(&|a, b| a * b));
            prop_assert!((metrics.relative_l2.unwrap() - (ee / aa).sqrt()).abs() <= 1e-12 * (ee / aa).sqrt());
            prop_assert!((metrics.cosine.unwrap() - ab / (aa * bb).sqrt()).abs() < 1e-12);
            let counted = histogram.decades.iter().map(|decade| decade.count).sum::<u64>() + histogram.exact;
            prop_assert_eq!(counted, a.len() as u64);
        }
    }
}
