//! One array held against another, by a rule.

use super::metrics::{Measure, Precision};
use super::parameters::UNIT;
use super::report::{Argmax, Check, Comparison, Verdict};
use crate::diff::Tolerance;
use ckpt_forward::{Array, Element, Magnitude, Value};

/// How far the whole of a result may be off, relative to its size, where no weight has another value.
pub(super) const RELATIVE_L2: f64 = 1e-5;

/// The largest of many errors of random sign is some standard deviations: what holds for the mean square, times this, for the largest.
pub(super) const PEAK: f64 = 4.0;

/// 2⁻¹²⁶, the smallest normal number of binary32: what is less may be held with few bits, or as 0.
const LEAST: f64 = 1.175_494_350_822_287_5e-38;

/// What must hold between two arrays.
#[derive(Clone, Debug)]
pub(super) enum Demand {
    /// Equal bits.
    Bits,
    /// What the user says.
    Given(Tolerance),
    /// The bound for one node.
    Node(Bound),
    /// Relative to the size of the result, end to end.
    Whole { limit: f64, size: Size },
}

/// The bound on each element's error.
#[derive(Clone, Debug, Default)]
pub(super) struct Bound {
    /// From the arithmetic; `None` where the node is exact.
    pub(super) rounding: Option<Magnitude>,
    /// From how weights are stored; empty for none.
    pub(super) storage: Vec<f64>,
}

/// How large a result is, or would be were its summands of random sign: where they cancel, an error is not measured by what is
/// left.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    norm: f64,
    largest: f64,
}

impl Demand {
    /// The error that each element may have, for the largest of a row.
    pub(super) fn allowed(&self, reference: &Value) -> f64 {
        match self {
            Demand::Whole { limit, size } => PEAK * limit * size.largest,
            Demand::Given(tolerance) => {
                tolerance.absolute + tolerance.relative * peak(&reference.array.to_f64())
            }
            Demand::Bits | Demand::Node(_) => 0.0,
        }
    }
}

impl Bound {
    fn of(&self, index: usize, reference: f64) -> f64 {
        let stored = self.storage.get(index).copied().unwrap_or(0.0);
        let Some(rounding) = &self.rounding else { return stored };
        let sum = rounding.sums.get(index).copied().unwrap_or(0.0);
        2.0 * root(rounding.summands) * UNIT * sum + 2.0 * UNIT * reference.abs() + LEAST + stored
    }

    /// The size of a result that this bounds.
    pub(super) fn size(&self, reference: &[f64]) -> Size {
        let expected = self
            .rounding
            .iter()
            .flat_map(|rounding| rounding.sums.iter().map(|sum| sum / root(rounding.summands)));
        let expected: Vec<f64> = expected.collect();
        Size { norm: norm(reference).max(norm(&expected)), largest: peak(reference).max(peak(&expected)) }
    }

    /// By what factor a softmax of `inputs` that gives `reference` may make a relative error larger: it makes no absolute one larger
    /// than half of it, and logits are larger than probabilities.
    pub(super) fn of_softmax(inputs: &[f64], reference: &[f64]) -> f64 {
        let own = norm(reference);
        if own > 0.0 { (norm(inputs) / (2.0 * own)).max(1.0) } else { 1.0 }
    }

    /// What storage does to the whole, relative to its size.
    pub(super) fn relative_storage(&self, size: Size) -> f64 {
        let whole = norm(&self.storage);
        if whole > 0.0 && size.norm > 0.0 { whole / size.norm } else { 0.0 }
    }
}

#[expect(clippy::cast_precision_loss, reason = "numbers of summands are below 2^53")]
fn root(summands: usize) -> f64 {
    (summands.max(1) as f64).sqrt()
}

fn norm(values: &[f64]) -> f64 {
    let scale = peak(values);
    if scale == 0.0 {
        return 0.0;
    }
    let sum: f64 = values.iter().filter(|value| value.is_finite()).map(|value| (value / scale).powi(2)).sum();
    scale * sum.sqrt()
}

fn peak(values: &[f64]) -> f64 {
    values.iter().filter(|value| value.is_finite()).fold(0.0, |most, value| most.max(value.abs()))
}

/// Compares `found` with `reference`, which has as many elements.
pub(super) fn compare(reference: &Value, found: &Value, demand: &Demand) -> Comparison {
    let (a, b) = (reference.array.to_f64(), found.array.to_f64());
    let mut measure = Measure::new(precision(&reference.array, &found.array));
    let mut tally = Tally::default();
    for (index, (reference, found)) in a.iter().zip(&b).enumerate() {
        measure.add(*reference, *found);
        let same = reference == found || (reference.is_nan() && found.is_nan());
        let error = if same { 0.0 } else { (reference - found).abs() };
        match demand {
            Demand::Bits | Demand::Whole { .. } => {}
            Demand::Given(tolerance) => {
                tally.outside += u64::from(!tolerance.allows(*reference, *found));
            }
            Demand::Node(bound) => tally.add(error, bound.of(index, *reference)),
        }
        tally.squares += if error.is_finite() { error * error } else { 0.0 };
        tally.largest = if error.is_finite() { tally.largest.max(error) } else { tally.largest };
    }
    let (metrics, histogram) = measure.finish(&reference.shape);
    #[expect(clippy::cast_precision_loss, reason = "counts for people")]
    let count = |name: &str, count: u64| Check::new(name, count as f64, 0.0);
    let checks = match demand {
        Demand::Bits => vec![count("elements with other bits", metrics.differing)],
        Demand::Given(_) => vec![count("elements outside of atol + rtol·|a|", tally.outside)],
        Demand::Node(bound) => {
            let size = bound.size(&a);
            let limit = RELATIVE_L2 + bound.relative_storage(size);
            let mut checks = vec![Check::new("largest |e| / bound", tally.ratio, 1.0)];
            checks.extend(tally.relative(size, limit).into_iter().take(1));
            checks.push(count("not finite in one alone", metrics.not_finite));
            checks
        }
        Demand::Whole { limit, size } => {
            let mut checks = tally.relative(*size, *limit);
            checks.push(count("not finite in one alone", metrics.not_finite));
            checks
        }
    };
    let verdict = Verdict::of(checks.iter().all(Check::holds));
    Comparison { shape: reference.shape.clone(), metrics, histogram, checks, verdict }
}

/// What is counted on the way.
#[derive(Default)]
struct Tally {
    outside: u64,
    ratio: f64,
    squares: f64,
    largest: f64,
}

impl Tally {
    fn add(&mut self, error: f64, bound: f64) {
        let ratio = match (error == 0.0, bound > 0.0) {
            (true, _) => 0.0,
            (false, true) => error / bound,
            (false, false) => f64::INFINITY,
        };
        self.ratio = if ratio.is_nan() { f64::INFINITY } else { self.ratio.max(ratio) };
    }

    fn relative(&self, size: Size, limit: f64) -> Vec<Check> {
        let ratio = |error: f64, size: f64| match (error == 0.0, size > 0.0) {
            (true, _) => 0.0,
            (false, true) => error / size,
            (false, false) => f64::INFINITY,
        };
        vec![
            Check::new("relative L2", ratio(self.squares.sqrt(), size.norm), limit),
            Check::new("max |e| / max |y|", ratio(self.largest, size.largest), PEAK * limit),
        ]
    }
}

/// Units in the last place are counted in the narrower type of both.
fn precision(a: &Array, b: &Array) -> Precision {
    match (a.element(), b.element()) {
        (Element::I32, Element::I32) => Precision::Integer,
        (Element::F64, Element::F64) => Precision::Double,
        _ => Precision::Single,
    }
}

/// Whether the largest element of each row is the same; `allowed` is the error that each element may have. `None` for
/// what has no rows: images, and rows of one element.
pub(super) fn argmax(reference: &Value, found: &Value, allowed: f64) -> Option<Argmax> {
    let len = *reference.shape.last().filter(|len| **len > 1 && reference.shape.len() == 2)?;
    let (a, b) = (reference.array.to_f64(), found.array.to_f64());
    let mut result = Argmax { rows: 0, agreeing: 0, decided: 0, decided_agreeing: 0 };
    for (a, b) in a.chunks_exact(len).zip(b.chunks_exact(len)) {
        let (best, margin) = first(a);
        let agrees = best == first(b).0;
        let decided = margin > 2.0 * allowed;
        result.rows += 1;
        result.agreeing += usize::from(agrees);
        result.decided += usize::from(decided);
        result.decided_agreeing += usize::from(decided && agrees);
    }
    Some(result)
}

/// For each row (of the last axis) the index of its largest element, the first of equals.
pub fn largest(value: &Value) -> Vec<usize> {
    let len = value.shape.last().copied().unwrap_or(1).max(1);
    value.array.to_f64().chunks_exact(len).map(|row| first(row).0).collect()
}

/// Index of the largest, the first of equals, and how much larger than the next it is.
fn first(row: &[f64]) -> (usize, f64) {
    let mut best = (0, f64::NEG_INFINITY);
    let mut next = f64::NEG_INFINITY;
    for (index, value) in row.iter().enumerate() {
        if *value > best.1 {
            next = best.1;
            best = (index, *value);
        } else if *value > next {
            next = *value;
        }
    }
    (best.0, best.1 - next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(values: &[f64]) -> Value {
        Value::new([values.len()], Array::F64(values.to_vec())).unwrap()
    }

    fn passes(reference: &[f64], found: &[f64], demand: &Demand) -> bool {
        compare(&value(reference), &value(found), demand).verdict.passes()
    }

    #[test]
    fn equal_bits_are_demanded_of_every_element() {
        assert!(passes(&[1.0, f64::NAN], &[1.0, f64::NAN], &Demand::Bits));
        assert!(!passes(&[0.0], &[-0.0], &Demand::Bits));
        assert!(!passes(&[1.0], &[f64::NAN], &Demand::Bits));
    }

    #[test]
    fn a_given_tolerance_has_an_absolute_and_a_relative_part() {
        let demand = Demand::Given(Tolerance { absolute: 0.5, relative: 0.1 });
        assert!(passes(&[10.0, 0.0], &[11.5, -0.5], &demand));
        assert!(!passes(&[10.0], &[11.6], &demand));
        assert!(!passes(&[1.0], &[f64::NAN], &demand));
        assert!(!passes(&[f64::INFINITY], &[1.0], &demand));
        assert!(passes(&[f64::NAN, f64::INFINITY], &[f64::NAN, f64::INFINITY], &demand));
    }

    #[test]
    fn a_given_tolerance_is_relative_to_the_reference() {
        let demand = Demand::Given(Tolerance { absolute: 0.0, relative: 0.1 });
        assert!(passes(&[10.0], &[9.0], &demand));
        assert!(!passes(&[9.0], &[10.0], &demand));
    }

    #[test]
    fn a_node_is_bounded_by_its_summands_and_by_how_weights_are_stored() {
        let rounding = Some(Magnitude { sums: vec![100.0], summands: 4 });
        let bound = Bound { rounding: rounding.clone(), storage: vec![] };
        let most = 2.0 * 2.0 * UNIT * 100.0 + 2.0 * UNIT;
        assert!(passes(&[1.0], &[1.0 + most * 0.999], &Demand::Node(bound.clone())));
        assert!(!passes(&[1.0], &[1.0 + most * 1.001], &Demand::Node(bound)));
        let stored = Bound { rounding, storage: vec![0.25] };
        assert!(passes(&[1.0], &[1.25], &Demand::Node(stored.clone())));
        assert!(!passes(&[1.0], &[1.26], &Demand::Node(stored)));
    }

    #[test]
    fn an_exact_node_has_no_error_at_all() {
        let exact = Demand::Node(Bound::default());
        assert!(passes(&[1.0, 0.0], &[1.0, 0.0], &exact));
        assert!(!passes(&[1.0], &[1.0 + f64::EPSILON], &exact));
    }

    #[test]
    fn errors_of_all_elements_together_are_bounded_by_the_size_of_the_result() {
        let sums = Magnitude { sums: vec![1e6; 100], summands: 1 };
        let bound = Bound { rounding: Some(sums), storage: vec![] };
        // Within the bound of each element, and 1e-5 of what summands of random sign would give.
        assert!(passes(&[1.0; 100], &[1.1; 100], &Demand::Node(bound)));
        let (reference, found) = ([1.0; 4], [1.0 + 2e-5; 4]);
        let whole = |limit| Demand::Whole { limit, size: Bound::default().size(&reference) };
        assert!(passes(&reference, &found, &whole(3e-5)));
        assert!(!passes(&reference, &found, &whole(1e-5)));
    }

    #[test]
    fn the_largest_must_agree_only_where_the_margin_exceeds_the_errors_of_both() {
        let a = Value::new([3, 2], Array::F64(vec![1.0, 2.0, 1.0, 1.01, 5.0, 0.0])).unwrap();
        let b = Value::new([3, 2], Array::F64(vec![1.0, 2.0, 1.01, 1.0, 0.0, 5.0])).unwrap();
        let found = argmax(&a, &b, 0.1).unwrap();
        assert_eq!(found, Argmax { rows: 3, agreeing: 1, decided: 2, decided_agreeing: 1 });
        assert_eq!(argmax(&value(&[1.0]), &value(&[1.0]), 0.0), None);
    }

    #[test]
    fn a_relative_tolerance_lets_the_largest_change_places_with_one_within_it() {
        let (a, b) = (vec![-10.0, 1.0, 1.01], vec![-10.0, 1.02, 1.01]);
        let [a, b] = [a, b].map(|row| Value::new([1, 3], Array::F64(row)).unwrap());
        let decided = |relative| {
            let demand = Demand::Given(Tolerance { absolute: 0.0, relative });
            argmax(&a, &b, demand.allowed(&a)).unwrap().decided
        };
        assert_eq!((decided(0.05), decided(0.0001)), (0, 1));
    }
}
