//! How far two arrays are apart: in one pass, aware of NaN and infinity.

use serde::Serialize;
use std::collections::BTreeMap;

/// How far an array is from a reference. Sums and maxima are over the elements where both are finite; the others count in
/// [`Metrics::not_finite`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Metrics {
    /// Elements.
    pub elements: u64,
    /// Elements whose bits differ; two NaN are equal.
    pub differing: u64,
    /// Elements of which one is NaN or infinite, and the other is not the same.
    pub not_finite: u64,
    /// Largest `|e|`, with `e = found − reference`.
    pub max_absolute: f64,
    /// Largest `|e| / |reference|`, where the reference is not 0.
    pub max_relative: f64,
    /// `√(Σe² / elements)`.
    pub rms: f64,
    /// `‖e‖₂ / ‖reference‖₂`; `None` where the reference is 0 and the array is not.
    pub relative_l2: Option<f64>,
    /// `max|e| / max|reference|`; `None` where the reference is 0 and the array is not.
    pub relative_max: Option<f64>,
    /// Cosine of the angle between the two; `None` where one is 0.
    pub cosine: Option<f64>,
    /// Most numbers of the narrower of both types between two elements, and one; `None` for integers.
    pub max_ulp: Option<u64>,
    /// Where `max_absolute` is, or else the first element that is not finite in one of them alone; `None` where all are
    /// equal.
    #[serde(rename = "where")]
    pub place: Option<Place>,
}

/// An element that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Place {
    /// Its index on each axis.
    pub index: Vec<u64>,
    /// The reference's value, as text: it may be NaN.
    pub reference: String,
    /// The value found, as text.
    pub found: String,
}

/// How many errors are of which magnitude.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Histogram {
    /// Elements without an error.
    pub exact: u64,
    /// Elements with `10^exponent ≤ |e| < 10^(exponent + 1)`, ascending, without empty ones.
    pub decades: Vec<Decade>,
    /// Elements of which one is NaN or infinite, and the other is not the same.
    pub not_finite: u64,
}

/// Errors of one magnitude.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Decade {
    /// Of ten.
    pub exponent: i32,
    /// How many elements.
    pub count: u64,
}

/// The type in which units in the last place are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// binary32: values are rounded to it before they are counted.
    Single,
    /// binary64.
    Double,
    /// Whole numbers: none are counted.
    Integer,
}

/// Takes elements one after the other.
#[derive(Clone, Debug)]
pub struct Measure {
    precision: Precision,
    metrics: Metrics,
    decades: BTreeMap<i32, u64>,
    squares: Squares,
    largest_reference: f64,
    place: Option<(u64, f64, f64)>,
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

impl Measure {
    /// Before the first element.
    pub fn new(precision: Precision) -> Self {
        Measure {
            precision,
            metrics: Metrics::default(),
            decades: BTreeMap::new(),
            squares: Squares::default(),
            largest_reference: 0.0,
            place: None,
        }
    }

    /// The next element: what it should be, and what it is.
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
                    self.place = Some((position, reference, found));
                }
                self.metrics.not_finite += 1;
            }
            return;
        }
        let error = (found - reference).abs();
        // The difference of two finite numbers may be none.
        let error = if error.is_finite() { error } else { f64::MAX };
        if error > self.metrics.max_absolute || (self.place.is_none() && !same) {
            self.place = Some((position, reference, found));
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

    /// What was found. `shape` is that of the arrays.
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
        self.metrics.place = self.place.map(|(position, reference, found)| Place {
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

/// Exponent of the power of ten at or below a positive number.
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

/// How many numbers lie between two, and one.
fn distance(a: f64, b: f64, precision: Precision) -> Option<u64> {
    // Two's complement, so that neighbors differ by one, also around 0.
    let ordered = |bits: i64, sign: i64| if bits < 0 { sign.wrapping_sub(bits) } else { bits };
    match precision {
        Precision::Integer => None,
        Precision::Double => {
            let place = |value: f64| ordered(value.to_bits().cast_signed(), i64::MIN);
            Some(place(a).abs_diff(place(b)))
        }
        #[expect(clippy::cast_possible_truncation, reason = "rounding to binary32 is what is counted in")]
        Precision::Single => {
            let place =
                |value: f64| ordered(i64::from((value as f32).to_bits().cast_signed()), i64::from(i32::MIN));
            Some(place(a).abs_diff(place(b)))
        }
    }
}

/// A position, row-major, as an index on each axis.
pub(super) fn index(position: u64, shape: &[usize]) -> Vec<u64> {
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

/// The shortest text that reads as this number.
#[expect(clippy::cast_possible_truncation, reason = "what was rounded to binary32 is shown as binary32")]
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
        let mut measure = Measure::new(Precision::Single);
        reference.iter().zip(found).for_each(|(a, b)| measure.add(*a, *b));
        measure.finish(&[reference.len()])
    }

    #[test]
    fn equal_arrays_have_no_error_and_no_place() {
        let (metrics, histogram) =
            measured(&[1.0, f64::NAN, f64::INFINITY, 0.0], &[1.0, f64::NAN, f64::INFINITY, 0.0]);
        assert_eq!((metrics.differing, metrics.not_finite, metrics.place), (0, 0, None));
        assert_eq!((metrics.relative_l2, metrics.cosine, metrics.max_ulp), (Some(0.0), Some(1.0), Some(0)));
        assert_eq!(histogram, Histogram { exact: 4, decades: vec![], not_finite: 0 });
    }

    #[test]
    fn each_figure_is_what_its_formula_says() {
        let (metrics, histogram) = measured(&[3.0, -4.0, 0.0], &[3.0, -4.5, 0.25]);
        assert_eq!((metrics.max_absolute, metrics.max_relative), (0.5, 0.125));
        let norm = (0.5f64 * 0.5 + 0.25 * 0.25).sqrt();
        assert!((metrics.rms - norm / 3f64.sqrt()).abs() < 1e-15);
        assert!((metrics.relative_l2.unwrap() - norm / 5.0).abs() < 1e-15);
        assert_eq!(metrics.relative_max, Some(0.125));
        let cosine = (9.0 + 18.0) / (5.0 * (9.0f64 + 20.25 + 0.0625).sqrt());
        assert!((metrics.cosine.unwrap() - cosine).abs() < 1e-15);
        let place = metrics.place.unwrap();
        assert_eq!((place.index, place.reference, place.found), (vec![1], "-4".into(), "-4.5".into()));
        assert_eq!(histogram.exact, 1);
        assert_eq!(histogram.decades, [Decade { exponent: -1, count: 2 }]);
    }

    #[test]
    fn a_nan_or_infinity_that_the_other_has_not_is_counted_and_spoils_no_other_figure() {
        let (metrics, histogram) =
            measured(&[1.0, f64::NAN, f64::INFINITY, f64::INFINITY], &[1.5, 2.0, 3.0, f64::NEG_INFINITY]);
        assert_eq!((metrics.not_finite, histogram.not_finite, metrics.differing), (3, 3, 4));
        assert_eq!(metrics.max_absolute, 0.5);
        assert_eq!(metrics.place.unwrap().index, [0]);
        let (metrics, _) = measured(&[1.0, f64::NAN], &[1.0, 0.0]);
        let place = metrics.place.unwrap();
        assert_eq!((place.index, place.reference), (vec![1], "NaN".to_owned()));
    }

    #[test]
    fn nothing_overflows_and_what_is_tiny_is_not_lost() {
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
    fn zeros_of_either_sign_differ_in_their_bits_alone() {
        let (metrics, histogram) = measured(&[0.0], &[-0.0]);
        assert_eq!((metrics.differing, metrics.max_absolute, histogram.exact), (1, 0.0, 1));
        assert!(metrics.place.is_some());
    }

    #[test]
    fn decades_begin_at_powers_of_ten() {
        for (error, exponent) in
            [(1.0, 0), (9.999_999_999_999_998, 0), (10.0, 1), (1e-7, -7), (1e-300, -300), (1e300, 300)]
        {
            assert_eq!(decade(error), exponent, "{error}");
        }
    }

    #[test]
    fn a_position_is_shown_as_an_index() {
        assert_eq!(index(7, &[2, 5]), [1, 2]);
        assert_eq!(index(0, &[]), [0; 0]);
    }

    proptest! {
        /// Against sums written down directly.
        #[test]
        fn figures_agree_with_their_formulas(pairs in prop::collection::vec((-1e3f64..1e3, -1e3f64..1e3), 1..50)) {
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
