//! Compares an array with its reference by a criterion.

use super::criterion::{Criterion, Norms, PEAK, RELATIVE_L2};
use super::metrics::{MetricsBuilder, Precision};
use crate::report::{Check, Comparison, Verdict};
use ckpt_forward::{Array, Element, Value};

/// Compares `found` with `reference`, which has as many elements.
pub(crate) fn compare(reference: &Value, found: &Value, criterion: &Criterion) -> Comparison {
    let (a, b) = (reference.array.to_f64(), found.array.to_f64());
    let mut metrics = MetricsBuilder::new(precision(&reference.array, &found.array));
    let mut totals = Totals::default();
    for (index, (reference, found)) in a.iter().zip(&b).enumerate() {
        metrics.add(*reference, *found);
        totals.add(index, *reference, *found, criterion);
    }
    let (metrics, histogram) = metrics.finish(&reference.shape);
    let not_finite = || count("elements that are finite on one side only", metrics.not_finite);
    let checks = match criterion {
        Criterion::Bits => vec![count("elements with different bits", metrics.differing)],
        Criterion::Given(_) => vec![count("elements outside atol + rtol·|a|", totals.outside)],
        Criterion::Node(bound) => {
            let norms = bound.norms(&a);
            let limit = RELATIVE_L2 + bound.relative_storage(norms);
            vec![
                Check::new("largest |e| / bound", totals.ratio, 1.0),
                totals.relative_l2(norms, limit),
                not_finite(),
            ]
        }
        Criterion::Output { limit, norms } => {
            vec![totals.relative_l2(*norms, *limit), totals.relative_max(*norms, *limit), not_finite()]
        }
    };
    let verdict = Verdict::of(checks.iter().all(Check::holds));
    Comparison { shape: reference.shape.clone(), metrics, histogram, checks, verdict }
}

#[expect(clippy::cast_precision_loss, reason = "counts for people")]
fn count(name: &str, count: u64) -> Check {
    Check::new(name, count as f64, 0.0)
}

/// Totals over the elements of a comparison.
#[derive(Default)]
struct Totals {
    /// Elements outside the given tolerance.
    outside: u64,
    /// Largest error relative to its bound.
    ratio: f64,
    /// Sum of the squares of finite errors.
    squares: f64,
    /// Largest finite error.
    largest: f64,
}

impl Totals {
    fn add(&mut self, index: usize, reference: f64, found: f64, criterion: &Criterion) {
        let same = reference == found || (reference.is_nan() && found.is_nan());
        let error = if same { 0.0 } else { (reference - found).abs() };
        match criterion {
            Criterion::Bits | Criterion::Output { .. } => {}
            Criterion::Given(tolerance) => {
                self.outside += u64::from(!tolerance.allows(reference, found));
            }
            Criterion::Node(bound) => {
                let ratio = ratio(error, bound.of(index, reference));
                self.ratio = if ratio.is_nan() { f64::INFINITY } else { self.ratio.max(ratio) };
            }
        }
        if error.is_finite() {
            self.squares += error * error;
            self.largest = self.largest.max(error);
        }
    }

    fn relative_l2(&self, norms: Norms, limit: f64) -> Check {
        Check::new("relative L2", ratio(self.squares.sqrt(), norms.l2), limit)
    }

    fn relative_max(&self, norms: Norms, limit: f64) -> Check {
        Check::new("max |e| / max |y|", ratio(self.largest, norms.max), PEAK * limit)
    }
}

/// An error relative to what it is measured by; infinite where that is 0.
fn ratio(error: f64, by: f64) -> f64 {
    match (error == 0.0, by > 0.0) {
        (true, _) => 0.0,
        (false, true) => error / by,
        (false, false) => f64::INFINITY,
    }
}

/// The narrower type of both, in which units in the last place are counted.
fn precision(a: &Array, b: &Array) -> Precision {
    match (a.element(), b.element()) {
        (Element::I32, Element::I32) => Precision::Integer,
        (Element::F64, Element::F64) => Precision::Double,
        _ => Precision::Single,
    }
}

#[cfg(test)]
mod tests {
    use super::super::criterion::ErrorBound;
    use super::*;
    use crate::parameters::UNIT;
    use ckpt_engine::diff::Tolerance;
    use ckpt_forward::Magnitude;

    fn value(values: &[f64]) -> Value {
        Value::new([values.len()], Array::F64(values.to_vec())).unwrap()
    }

    fn passes(reference: &[f64], found: &[f64], criterion: &Criterion) -> bool {
        compare(&value(reference), &value(found), criterion).verdict.passes()
    }

    #[test]
    fn every_element_must_have_equal_bits() {
        assert!(passes(&[1.0, f64::NAN], &[1.0, f64::NAN], &Criterion::Bits));
        assert!(!passes(&[0.0], &[-0.0], &Criterion::Bits));
        assert!(!passes(&[1.0], &[f64::NAN], &Criterion::Bits));
    }

    #[test]
    fn a_given_tolerance_has_an_absolute_and_a_relative_part() {
        let criterion = Criterion::Given(Tolerance { absolute: 0.5, relative: 0.1 });
        assert!(passes(&[10.0, 0.0], &[11.5, -0.5], &criterion));
        assert!(!passes(&[10.0], &[11.6], &criterion));
        assert!(!passes(&[1.0], &[f64::NAN], &criterion));
        assert!(!passes(&[f64::INFINITY], &[1.0], &criterion));
        assert!(passes(&[f64::NAN, f64::INFINITY], &[f64::NAN, f64::INFINITY], &criterion));
    }

    #[test]
    fn a_given_tolerance_is_relative_to_the_reference() {
        let criterion = Criterion::Given(Tolerance { absolute: 0.0, relative: 0.1 });
        assert!(passes(&[10.0], &[9.0], &criterion));
        assert!(!passes(&[9.0], &[10.0], &criterion));
    }

    #[test]
    fn a_node_is_bounded_by_its_summands_and_by_the_storage_of_its_weights() {
        let rounding = Some(Magnitude { sums: vec![100.0], summands: 4, is_followed: false });
        let bound = ErrorBound { rounding: rounding.clone(), storage: vec![] };
        let most = 2.0 * 2.0 * UNIT * 100.0 + 2.0 * UNIT;
        assert!(passes(&[1.0], &[1.0 + most * 0.999], &Criterion::Node(bound.clone())));
        assert!(!passes(&[1.0], &[1.0 + most * 1.001], &Criterion::Node(bound)));
        let stored = ErrorBound { rounding, storage: vec![0.25] };
        assert!(passes(&[1.0], &[1.25], &Criterion::Node(stored.clone())));
        assert!(!passes(&[1.0], &[1.26], &Criterion::Node(stored)));
    }

    #[test]
    fn an_exact_node_has_no_error() {
        let exact = Criterion::Node(ErrorBound::default());
        assert!(passes(&[1.0, 0.0], &[1.0, 0.0], &exact));
        assert!(!passes(&[1.0], &[1.0 + f64::EPSILON], &exact));
    }

    #[test]
    fn the_errors_of_all_elements_together_are_bounded_by_the_norm_of_the_result() {
        let sums = Magnitude { sums: vec![1e6; 100], summands: 1, is_followed: false };
        let bound = ErrorBound { rounding: Some(sums), storage: vec![] };
        // Within the bound of each element, and 1e-5 of what summands of random sign would give.
        assert!(passes(&[1.0; 100], &[1.1; 100], &Criterion::Node(bound)));
        let (reference, found) = ([1.0; 4], [1.0 + 2e-5; 4]);
        let output = |limit| Criterion::Output { limit, norms: ErrorBound::default().norms(&reference) };
        assert!(passes(&reference, &found, &output(3e-5)));
        assert!(!passes(&reference, &found, &output(1e-5)));
    }
}
