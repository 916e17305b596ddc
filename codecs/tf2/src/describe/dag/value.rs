//! Integers and lengths of which some are free: those of the batch, and of other axes that the inputs leave open.

use std::rc::Rc;

/// An integer that is known, or grows with one free length.
#[derive(Clone, Copy, Debug)]
pub(super) enum Int {
    Known(i64),
    /// `plus + times · length` of free axis number `axis`; `times` is not 0.
    Free {
        axis: u32,
        times: i64,
        plus: i64,
    },
    /// Equal to nothing, not even to itself.
    Unknown,
}

/// The number of the free axis that is the batch.
pub(super) const BATCH: u32 = 0;

/// Lengths of axes.
pub(super) type Dims = Vec<Int>;

/// Integers or truth values of any shape, row by row.
#[derive(Debug)]
pub(super) struct Ints {
    pub shape: Vec<usize>,
    pub values: Vec<Int>,
}

impl Int {
    pub fn free(axis: u32) -> Self {
        Int::Free { axis, times: 1, plus: 0 }
    }

    pub fn known(self) -> Option<i64> {
        match self {
            Int::Known(value) => Some(value),
            _ => None,
        }
    }

    /// Returns a length that is known.
    pub fn len(self) -> Option<u64> {
        self.known().and_then(|len| u64::try_from(len).ok())
    }

    /// Whether both are certainly equal.
    pub fn is(self, other: Int) -> bool {
        match (self, other) {
            (Int::Known(a), Int::Known(b)) => a == b,
            (Int::Free { axis: a, times: b, plus: c }, Int::Free { axis, times, plus }) => {
                (a, b, c) == (axis, times, plus)
            }
            _ => false,
        }
    }

    fn of(axis: u32, times: Option<i64>, plus: Option<i64>) -> Self {
        match (times, plus) {
            (Some(0), Some(plus)) => Int::Known(plus),
            (Some(times), Some(plus)) => Int::Free { axis, times, plus },
            _ => Int::Unknown,
        }
    }

    pub fn add(self, other: Int) -> Int {
        match (self, other) {
            (Int::Known(a), Int::Known(b)) => a.checked_add(b).map_or(Int::Unknown, Int::Known),
            (Int::Free { axis, times, plus }, Int::Known(value))
            | (Int::Known(value), Int::Free { axis, times, plus }) => {
                Int::of(axis, Some(times), plus.checked_add(value))
            }
            (Int::Free { axis: a, times: b, plus: c }, Int::Free { axis, times, plus }) if a == axis => {
                Int::of(axis, b.checked_add(times), c.checked_add(plus))
            }
            _ => Int::Unknown,
        }
    }

    pub fn sub(self, other: Int) -> Int {
        self.add(other.mul(Int::Known(-1)))
    }

    pub fn mul(self, other: Int) -> Int {
        match (self, other) {
            (Int::Known(a), Int::Known(b)) => a.checked_mul(b).map_or(Int::Unknown, Int::Known),
            (Int::Free { axis, times, plus }, Int::Known(by))
            | (Int::Known(by), Int::Free { axis, times, plus }) => {
                Int::of(axis, times.checked_mul(by), plus.checked_mul(by))
            }
            _ => Int::Unknown,
        }
    }

    pub fn floor_div(self, other: Int) -> Int {
        match (self, other) {
            (a, b) if a.is(b) && a.known() != Some(0) => Int::Known(1),
            (a, Int::Known(1)) => a,
            (Int::Known(a), Int::Known(b)) => {
                let divided = a.checked_div_euclid(b).filter(|_| b > 0);
                divided.map_or(Int::Unknown, Int::Known)
            }
            (Int::Free { axis, times, plus }, Int::Known(by))
                if by > 0 && times % by == 0 && plus % by == 0 =>
            {
                Int::of(axis, Some(times / by), Some(plus / by))
            }
            _ => Int::Unknown,
        }
    }

    pub fn floor_mod(self, other: Int) -> Int {
        match (self, other) {
            (Int::Known(a), Int::Known(b)) if b > 0 => Int::Known(a.rem_euclid(b)),
            (Int::Free { times, plus, .. }, Int::Known(by)) if by > 0 && times % by == 0 => {
                Int::Known(plus.rem_euclid(by))
            }
            _ => Int::Unknown,
        }
    }

    /// Returns 1 or 0 for whether `holds` is true of two known integers.
    pub fn compare(self, other: Int, holds: impl Fn(i64, i64) -> bool) -> Int {
        match (self, other) {
            (Int::Known(a), Int::Known(b)) => Int::Known(i64::from(holds(a, b))),
            // The comparison of a value with itself.
            (a, b) if a.is(b) => Int::Known(i64::from(holds(0, 0))),
            _ => Int::Unknown,
        }
    }
}

impl Ints {
    pub fn vector(values: Vec<Int>) -> Rc<Self> {
        Rc::new(Ints { shape: vec![values.len()], values })
    }

    pub fn scalar(value: Int) -> Rc<Self> {
        Rc::new(Ints { shape: Vec::new(), values: vec![value] })
    }

    /// Returns the integers if all are known.
    pub fn known(&self) -> Option<Vec<i64>> {
        self.values.iter().map(|value| value.known()).collect()
    }

    /// Returns the only integer.
    pub fn only(&self) -> Option<Int> {
        match self.values[..] {
            [value] => Some(value),
            _ => None,
        }
    }
}

/// Returns the product of lengths. A free one times others is free only if they are known.
pub(super) fn product(dims: &[Int]) -> Int {
    dims.iter().fold(Int::Known(1), |product, len| product.mul(*len))
}

/// Returns the shape of the elementwise result of two shapes; `None` if they do not fit.
pub(super) fn broadcast(a: &[Int], b: &[Int]) -> Option<Dims> {
    let rank = a.len().max(b.len());
    let at = |dims: &[Int], axis: usize| match (axis + dims.len()).checked_sub(rank) {
        Some(own) => dims.get(own).copied().unwrap_or(Int::Known(1)),
        None => Int::Known(1),
    };
    let axis = |axis| match (at(a, axis), at(b, axis)) {
        (Int::Known(1), other) | (other, Int::Known(1)) => Some(other),
        (Int::Known(a), Int::Known(b)) => (a == b).then_some(Int::Known(a)),
        // A free length is either that of the other side, or 1.
        (known @ Int::Known(_), _) | (_, known @ Int::Known(_)) => Some(known),
        (Int::Unknown, other) | (other, _) => Some(other),
    };
    (0..rank).map(axis).collect()
}

/// Resolves an axis that may count from the end.
pub(super) fn resolve(axis: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank).ok()?;
    let axis = if axis < 0 { axis.checked_add(rank)? } else { axis };
    usize::try_from(axis).ok().filter(|_| axis < rank)
}

/// Shows a shape, with `?` for what is free.
pub(super) fn show(dims: &[Int]) -> String {
    let dims: Vec<String> =
        dims.iter().map(|dim| dim.known().map_or("?".to_owned(), |len| len.to_string())).collect();
    format!("[{}]", dims.join(", "))
}

/// Returns the lengths of images with the channels last, of those with the channels second; or the other way around.
pub(super) fn rotated(dims: &[Int], to_last: bool) -> Dims {
    let mut dims = dims.to_vec();
    if let Some(range) = dims.get_mut(1..).filter(|range| !range.is_empty()) {
        if to_last { range.rotate_left(1) } else { range.rotate_right(1) }
    }
    dims
}
