//! What a strided slice of TensorFlow selects.

use crate::integers::{Integers, Selection};
use crate::length::Length;

/// The most bounds of a slice: a mask has a bit for each.
const MOST_BOUNDS: usize = 32;

/// The bounds of a strided slice, and the masks that change what they mean, a bit for each bound.
#[derive(Clone, Copy, Debug)]
pub struct StridedSlice<'a> {
    /// The first index of each axis.
    pub begins: &'a Integers,
    /// The index before which each ends.
    pub ends: &'a Integers,
    /// From one index to the next.
    pub steps: &'a Integers,
    /// Bounds of which the first index is the axis's own.
    pub begin_mask: i64,
    /// Bounds of which the end is the axis's own.
    pub end_mask: i64,
    /// The bound that stands for all axes that the others leave.
    pub ellipsis_mask: i64,
    /// Bounds that stand for new axes of length 1.
    pub new_axis_mask: i64,
    /// Bounds that stand for one index, whose axis is removed.
    pub shrink_axis_mask: i64,
}

impl StridedSlice<'_> {
    /// Returns what is selected of each axis of a value with `dims`; `None` if the bounds do not fit it, or depend on its free
    /// lengths in another way than as the whole length.
    pub fn selections(&self, dims: &[Length]) -> Option<Vec<Selection>> {
        let StridedSlice { begins, ends, steps, ellipsis_mask, new_axis_mask, .. } = *self;
        let count = begins.values.len();
        if count > MOST_BOUNDS || ends.values.len() != count || steps.values.len() != count {
            return None;
        }
        let taken =
            (0..count).filter(|at| !is_set(ellipsis_mask, *at) && !is_set(new_axis_mask, *at)).count();
        let mut left = dims.len().checked_sub(taken)?;
        let (mut found, mut axis) = (Vec::new(), 0);
        let whole = |axis| Selection::Range { axis, begin: 0, end: i64::MAX, step: 1 };
        for at in 0..count {
            if is_set(ellipsis_mask, at) {
                found.extend((axis..axis + left).map(whole));
                axis += std::mem::take(&mut left);
                continue;
            }
            if is_set(new_axis_mask, at) {
                found.push(Selection::New);
                continue;
            }
            found.push(self.bound(at, axis, *dims.get(axis)?)?);
            axis += 1;
        }
        found.extend((axis..dims.len()).map(whole));
        Some(found)
    }

    /// What bound `at` selects of an axis of this length.
    fn bound(&self, at: usize, axis: usize, len: Length) -> Option<Selection> {
        let begin = *self.begins.values.get(at)?;
        if is_set(self.shrink_axis_mask, at) {
            return Some(Selection::Index { axis, at: begin.known()? });
        }
        let step = self.steps.values.get(at)?.known().filter(|step| *step != 0)?;
        let (first, last) = if step > 0 { (0, i64::MAX) } else { (-1, i64::MIN) };
        let begin = if is_set(self.begin_mask, at) { first } else { begin.known()? };
        let end = match *self.ends.values.get(at)? {
            _ if is_set(self.end_mask, at) => last,
            Length::Known(value) => value,
            // Up to the whole length.
            free if free.is(len) && step > 0 => last,
            _ => return None,
        };
        Some(Selection::Range { axis, begin, end, step })
    }
}

fn is_set(mask: i64, at: usize) -> bool {
    mask >> at & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(values: &[i64]) -> Integers {
        Integers::vector(values.iter().copied().map(Length::Known).collect())
    }

    #[test]
    fn an_ellipsis_stands_for_the_axes_that_other_bounds_leave() {
        let (begins, ends, steps) = (vector(&[1, 0, 2, 0]), vector(&[2, 0, 5, 0]), vector(&[1, 1, 2, 1]));
        let slice = StridedSlice {
            begins: &begins,
            ends: &ends,
            steps: &steps,
            begin_mask: 0,
            end_mask: 0,
            ellipsis_mask: 2,
            new_axis_mask: 8,
            shrink_axis_mask: 1,
        };
        let dims = [Length::free(0), Length::Known(4), Length::Known(6)];
        let expected = [
            Selection::Index { axis: 0, at: 1 },
            Selection::Range { axis: 1, begin: 0, end: i64::MAX, step: 1 },
            Selection::Range { axis: 2, begin: 2, end: 5, step: 2 },
            Selection::New,
        ];
        assert_eq!(slice.selections(&dims).unwrap(), expected);
        assert_eq!(slice.selections(&dims[..1]), None);
    }

    #[test]
    fn a_mask_takes_the_end_of_the_axis_in_the_direction_of_the_step() {
        let (bounds, back) = (vector(&[3]), vector(&[-1]));
        let slice = StridedSlice {
            begins: &bounds,
            ends: &bounds,
            steps: &back,
            begin_mask: 1,
            end_mask: 1,
            ellipsis_mask: 0,
            new_axis_mask: 0,
            shrink_axis_mask: 0,
        };
        let all = Selection::Range { axis: 0, begin: -1, end: i64::MIN, step: -1 };
        assert_eq!(slice.selections(&[Length::free(0)]).unwrap(), [all]);
    }
}
