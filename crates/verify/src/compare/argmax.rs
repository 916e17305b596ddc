//! The largest element of each row.

use crate::report::Argmax;
use ckpt_forward::Value;

/// Counts the rows whose largest element stands at the same index in both arrays; each element may be off by `allowed`.
/// Returns `None` for values without rows: images, and rows of one element.
pub(crate) fn argmax(reference: &Value, found: &Value, allowed: f64) -> Option<Argmax> {
    let len = *reference.shape.last().filter(|len| **len > 1 && reference.shape.len() == 2)?;
    let (a, b) = (reference.array.to_f64(), found.array.to_f64());
    let mut result = Argmax { rows: 0, agreeing: 0, decided: 0, decided_agreeing: 0 };
    for (a, b) in a.chunks_exact(len).zip(b.chunks_exact(len)) {
        let (index, margin) = index_and_margin(a);
        // NaN has no order: a row with it on one side has no largest element to agree on.
        let is_nan = |row: &[f64]| row.iter().any(|value| value.is_nan());
        let agrees = index == index_and_margin(b).0 && is_nan(a) == is_nan(b);
        let decided = margin > 2.0 * allowed;
        result.rows += 1;
        result.agreeing += usize::from(agrees);
        result.decided += usize::from(decided);
        result.decided_agreeing += usize::from(decided && agrees);
    }
    Some(result)
}

/// Returns the index of the largest element of each row (of the last axis), the first of equals.
pub fn largest(value: &Value) -> Vec<usize> {
    let len = value.shape.last().copied().unwrap_or(1).max(1);
    value.array.to_f64().chunks_exact(len).map(|row| index_and_margin(row).0).collect()
}

/// The index of the largest element, the first of equals, and its lead over the next.
fn index_and_margin(row: &[f64]) -> (usize, f64) {
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
    use super::super::criterion::Criterion;
    use super::*;
    use ckpt_engine::diff::Tolerance;
    use ckpt_forward::Array;

    #[test]
    fn a_row_with_nan_agrees_with_none_without() {
        let a = Value::new([1, 2], Array::F64(vec![2.0, 1.0])).unwrap();
        let b = Value::new([1, 2], Array::F64(vec![f64::NAN, f64::NAN])).unwrap();
        assert_eq!(argmax(&a, &b, 0.0).unwrap().agreeing, 0);
        assert_eq!(argmax(&b, &b, 0.0).unwrap().agreeing, 1);
    }

    #[test]
    fn the_largest_must_agree_only_where_its_margin_exceeds_the_errors_of_both() {
        let a = Value::new([3, 2], Array::F64(vec![1.0, 2.0, 1.0, 1.01, 5.0, 0.0])).unwrap();
        let b = Value::new([3, 2], Array::F64(vec![1.0, 2.0, 1.01, 1.0, 0.0, 5.0])).unwrap();
        let found = argmax(&a, &b, 0.1).unwrap();
        assert_eq!(found, Argmax { rows: 3, agreeing: 1, decided: 2, decided_agreeing: 1 });
        let row = Value::new([1], Array::F64(vec![1.0])).unwrap();
        assert_eq!(argmax(&row, &row, 0.0), None);
    }

    #[test]
    fn a_relative_tolerance_leaves_rows_undecided_whose_margin_is_within_it() {
        let (a, b) = (vec![-10.0, 1.0, 1.01], vec![-10.0, 1.02, 1.01]);
        let [a, b] = [a, b].map(|row| Value::new([1, 3], Array::F64(row)).unwrap());
        let decided = |relative| {
            let criterion = Criterion::Given(Tolerance { absolute: 0.0, relative });
            argmax(&a, &b, criterion.allowed(&a)).unwrap().decided
        };
        assert_eq!((decided(0.05), decided(0.0001)), (0, 1));
    }
}
