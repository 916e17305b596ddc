//! Arrays of integers that are known before the graph runs: shapes, indices, masks, and the arithmetic on them.
//!
//! Every function that makes an array is given the most elements that it may have, and returns `None` beyond, as it does
//! for operands that do not fit.

use crate::length::Length;
use crate::shape::{MAX_RANK, range, resolve};
use std::rc::Rc;

/// Integers or truth values of any shape, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Integers {
    /// The lengths of its axes.
    pub shape: Vec<usize>,
    /// Its elements.
    pub values: Vec<Length>,
}

impl Integers {
    /// Returns a vector.
    pub fn vector(values: Vec<Length>) -> Self {
        Integers { shape: vec![values.len()], values }
    }

    /// Returns a scalar.
    pub fn scalar(value: Length) -> Self {
        Integers { shape: Vec::new(), values: vec![value] }
    }

    /// Returns an array of one value.
    pub fn filled(shape: Vec<usize>, value: Length, most: usize) -> Option<Self> {
        let values = vec![value; count(&shape, most)?];
        Some(Integers { shape, values })
    }

    /// Returns the numbers from one up to another, in steps.
    pub fn steps(start: i64, end: i64, step: i64, most: usize) -> Option<Self> {
        let distance = match step {
            0 => return None,
            1.. => i128::from(end) - i128::from(start),
            _ => i128::from(start) - i128::from(end),
        };
        let size = i128::from(step.unsigned_abs());
        let count =
            usize::try_from((distance.max(0) + size - 1) / size).ok().filter(|count| *count <= most)?;
        let value = |at| Some(Length::Known(start.checked_add(step.checked_mul(i64::try_from(at).ok()?)?)?));
        (0..count).map(value).collect::<Option<_>>().map(Self::vector)
    }

    /// Returns the numbers if all are known.
    pub fn known(&self) -> Option<Vec<i64>> {
        self.values.iter().map(|value| value.known()).collect()
    }

    /// Returns the only element.
    pub fn only(&self) -> Option<Length> {
        match self.values[..] {
            [value] => Some(value),
            _ => None,
        }
    }

    /// Returns the shape as lengths of the contract.
    pub fn sizes(&self) -> Vec<u64> {
        self.shape.iter().map(|len| *len as u64).collect()
    }

    /// Returns the elements as lengths of axes, if they are such.
    pub fn lens(&self) -> Option<Vec<usize>> {
        self.values.iter().map(|value| usize::try_from(value.known()?).ok()).collect()
    }

    /// Applies a function to each element.
    #[must_use]
    pub fn map(&self, of: impl Fn(Length) -> Length) -> Self {
        Integers { shape: self.shape.clone(), values: self.values.iter().map(|value| of(*value)).collect() }
    }

    /// Applies a function to pairs of elements of two arrays, which are broadcast with each other.
    pub fn zip(&self, other: &Self, most: usize, of: impl Fn(Length, Length) -> Length) -> Option<Self> {
        let shape = broadcast(&self.shape, &other.shape)?;
        let (left, right) = (self.places(&shape, most)?, other.places(&shape, most)?);
        let values = left.iter().zip(&right).map(|(a, b)| Some(of(self.at(*a)?, other.at(*b)?)));
        Some(Integers { values: values.collect::<Option<_>>()?, shape })
    }

    /// Chooses elements of one array where this one is not 0, and of another elsewhere; all are broadcast.
    pub fn select(&self, yes: &Self, no: &Self, most: usize) -> Option<Self> {
        let shape = broadcast(&broadcast(&self.shape, &yes.shape)?, &no.shape)?;
        let (which, left, right) =
            (self.places(&shape, most)?, yes.places(&shape, most)?, no.places(&shape, most)?);
        let choose = |((which, left), right): ((&usize, &usize), &usize)| {
            let (yes, no) = (yes.at(*left)?, no.at(*right)?);
            Some(match self.at(*which)?.known() {
                Some(0) => no,
                Some(_) => yes,
                None if yes.is(no) => yes,
                None => Length::Unknown,
            })
        };
        let values = which.iter().zip(&left).zip(&right).map(choose).collect::<Option<_>>()?;
        Some(Integers { shape, values })
    }

    /// Repeats elements so that the array has a shape.
    pub fn broadcast_to(&self, shape: Vec<usize>, most: usize) -> Option<Self> {
        let places = self.places(&shape, most)?;
        self.picked(shape, &places)
    }

    /// Returns the elements with another shape of as many.
    pub fn with_shape(&self, shape: Vec<usize>) -> Option<Self> {
        let fits = count(&shape, self.values.len())? == self.values.len();
        fits.then(|| Integers { shape, values: self.values.clone() })
    }

    /// Returns the elements with another shape, of which one length may be -1; 0 copies a length if `copies`.
    pub fn reshaped(&self, wanted: &[i64], copies: bool) -> Option<Self> {
        let mut open = None;
        let mut shape = Vec::with_capacity(wanted.len());
        for (at, len) in wanted.iter().enumerate() {
            shape.push(match *len {
                -1 => open.replace(at).is_none().then_some(1)?,
                0 if copies => *self.shape.get(at)?,
                len => usize::try_from(len).ok()?,
            });
        }
        if let Some(open) = open {
            let others = shape.iter().try_fold(1usize, |product, len| product.checked_mul(*len))?;
            *shape.get_mut(open)? = self.values.len().checked_div(others)?;
        }
        self.with_shape(shape)
    }

    /// Reorders axes: axis `k` of the result is axis `order[k]`.
    pub fn transposed(&self, order: &[usize]) -> Option<Self> {
        let own = row_major(&self.shape);
        let strides = order.iter().map(|axis| own.get(*axis).copied()).collect::<Option<Vec<_>>>()?;
        let shape = order.iter().map(|axis| self.shape.get(*axis).copied()).collect::<Option<Vec<_>>>()?;
        let places = positions(&shape, &strides, 0, self.values.len())?;
        (places.len() == self.values.len()).then(|| self.picked(shape, &places))?
    }

    /// Takes a range of an axis, as [`range`] counts it.
    pub fn sliced(&self, axis: usize, begin: i64, end: i64, step: i64) -> Option<Self> {
        self.selected(&[Selection::Range { axis, begin, end, step }])
    }

    /// Takes parts of axes in ascending order; axes that are not named stay whole.
    pub fn selected(&self, selections: &[Selection]) -> Option<Self> {
        let own = row_major(&self.shape);
        let (mut shape, mut strides, mut offset) = (Vec::new(), Vec::new(), 0isize);
        let mut left: Vec<usize> = (0..self.shape.len()).collect();
        let mut move_by = |stride: isize, count: i64| {
            let distance = stride.checked_mul(isize::try_from(count).ok()?)?;
            offset = offset.checked_add(distance)?;
            Some(())
        };
        for selection in selections {
            match *selection {
                Selection::New => {
                    shape.push(1);
                    strides.push(0);
                }
                Selection::Index { axis, at } => {
                    let at = resolve(at, *self.shape.get(axis)?)?;
                    move_by(*own.get(axis)?, i64::try_from(at).ok()?)?;
                    left.retain(|other| *other != axis);
                }
                Selection::Range { axis, begin, end, step } => {
                    let len = i64::try_from(*self.shape.get(axis)?).ok()?;
                    let (first, count) = range(len, begin, end, step)?;
                    let stride = *own.get(axis)?;
                    if count > 0 {
                        move_by(stride, first)?;
                    }
                    // A slice keeps the axis where it is.
                    let before = left.iter().take_while(|other| **other < axis).count();
                    for axis in left.drain(..before) {
                        shape.push(self.shape[axis]);
                        strides.push(own[axis]);
                    }
                    left.retain(|other| *other != axis);
                    shape.push(usize::try_from(count).ok()?);
                    strides.push(stride.checked_mul(isize::try_from(step).ok()?)?);
                }
            }
        }
        for axis in left {
            shape.push(self.shape[axis]);
            strides.push(own[axis]);
        }
        let places = positions(&shape, &strides, offset, self.values.len())?;
        self.picked(shape, &places)
    }

    /// Takes elements of an axis by their places, which count from the end below zero.
    pub fn gathered(&self, indices: &Self, axis: usize, most: usize) -> Option<Self> {
        let (outer, rest) = self.shape.split_at_checked(axis)?;
        let (len, inner) = rest.split_first()?;
        let shape = [outer, &indices.shape, inner].concat();
        count(&shape, most)?;
        let (rows, run): (usize, usize) = (outer.iter().product(), inner.iter().product());
        let mut values = Vec::new();
        for row in 0..rows {
            for index in &indices.values {
                let at = resolve(index.known()?, *len)?;
                let begin = row.checked_mul(*len)?.checked_add(at)?.checked_mul(run)?;
                values.extend_from_slice(self.values.get(begin..begin.checked_add(run)?)?);
            }
        }
        Some(Integers { shape, values })
    }

    /// Joins arrays along an axis.
    pub fn joined(all: &[Rc<Self>], axis: usize, most: usize) -> Option<Self> {
        let mut shape = all.first()?.shape.clone();
        let fits = all.iter().all(|item| item.shape.len() == shape.len());
        *shape.get_mut(axis).filter(|_| fits)? =
            all.iter().try_fold(0usize, |sum, item| sum.checked_add(*item.shape.get(axis)?))?;
        let total = count(&shape, most)?;
        let outer: usize = shape.get(..axis)?.iter().product();
        let mut values = Vec::with_capacity(total);
        for row in 0..outer {
            for item in all {
                let run = item.shape.get(axis..)?.iter().product::<usize>();
                values.extend_from_slice(item.values.get(row.checked_mul(run)?..)?.get(..run)?);
            }
        }
        (values.len() == total).then_some(Integers { shape, values })
    }

    fn at(&self, place: usize) -> Option<Length> {
        self.values.get(place).copied()
    }

    fn picked(&self, shape: Vec<usize>, places: &[usize]) -> Option<Self> {
        let values = places.iter().map(|place| self.at(*place)).collect::<Option<_>>()?;
        Some(Integers { shape, values })
    }

    /// Returns the places of the elements that are at each place of a shape to which the array is broadcast.
    fn places(&self, shape: &[usize], most: usize) -> Option<Vec<usize>> {
        let added = shape.len().checked_sub(self.shape.len())?;
        let strides = row_major(&self.shape);
        let stride = |axis: usize| match axis.checked_sub(added) {
            Some(at) if self.shape[at] != 1 => (self.shape[at] == shape[axis]).then_some(strides[at]),
            _ => Some(0),
        };
        let strides = (0..shape.len()).map(stride).collect::<Option<Vec<_>>>()?;
        positions(shape, &strides, 0, most)
    }
}

/// A part of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// A range of an axis, as [`range`] counts it.
    Range {
        /// The axis.
        axis: usize,
        /// The first index.
        begin: i64,
        /// The index before which it ends.
        end: i64,
        /// From one index to the next.
        step: i64,
    },
    /// One index of an axis, which is removed.
    Index {
        /// The axis.
        axis: usize,
        /// The index, from the end if it is negative.
        at: i64,
    },
    /// A new axis of length 1.
    New,
}

/// Returns the greater or the less of two integers.
pub fn extreme(a: Length, b: Length, is_greatest: bool) -> Length {
    match (a, b) {
        (Length::Known(a), Length::Known(b)) => Length::Known(if is_greatest { a.max(b) } else { a.min(b) }),
        (a, b) if a.is(b) => a,
        _ => Length::Unknown,
    }
}

fn count(shape: &[usize], most: usize) -> Option<usize> {
    let count = shape.iter().try_fold(1usize, |product, len| product.checked_mul(*len))?;
    (count <= most && shape.len() <= MAX_RANK).then_some(count)
}

fn row_major(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1isize; shape.len()];
    let mut stride = 1isize;
    for (own, len) in strides.iter_mut().zip(shape).rev() {
        *own = stride;
        stride = stride.saturating_mul(isize::try_from(*len).unwrap_or(isize::MAX));
    }
    strides
}

/// Returns the shape of two arrays that are broadcast with each other.
fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let len = |own: &[usize], axis: usize| {
        (axis + own.len()).checked_sub(rank).and_then(|at| own.get(at).copied()).unwrap_or(1)
    };
    let pair = |axis| match (len(a, axis), len(b, axis)) {
        (1, other) | (other, 1) => Some(other),
        (a, b) => (a == b).then_some(a),
    };
    (0..rank).map(pair).collect()
}

/// Returns the places that a strided view of `shape` takes.
fn positions(shape: &[usize], strides: &[isize], offset: isize, most: usize) -> Option<Vec<usize>> {
    let total = count(shape, most)?;
    let mut places = Vec::with_capacity(total);
    let mut index = vec![0usize; shape.len()];
    let mut at = offset;
    for _ in 0..total {
        places.push(usize::try_from(at).ok()?);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            at = at.checked_add(strides[axis])?;
            if index[axis] < shape[axis] {
                break;
            }
            at = at.checked_sub(strides[axis].checked_mul(isize::try_from(shape[axis]).ok()?)?)?;
            index[axis] = 0;
        }
    }
    Some(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 64;

    fn array(shape: &[usize], values: impl IntoIterator<Item = i64>) -> Integers {
        Integers { shape: shape.to_vec(), values: values.into_iter().map(Length::Known).collect() }
    }

    #[test]
    fn pairs_are_taken_of_arrays_that_are_broadcast() {
        let sum = array(&[2, 1], [10, 20]).zip(&array(&[3], [1, 2, 3]), MOST, |a, b| a + b);
        assert_eq!(sum, Some(array(&[2, 3], [11, 12, 13, 21, 22, 23])));
        assert_eq!(array(&[2], [1, 2]).zip(&array(&[3], [1, 2, 3]), MOST, |a, _| a), None);
        assert_eq!(array(&[1], [7]).broadcast_to(vec![65], MOST), None);
    }

    #[test]
    fn a_selection_needs_to_know_only_what_differs() {
        let which = Integers::vector(vec![Length::Known(0), Length::Unknown, Length::Unknown]);
        let picked = which.select(&array(&[3], [1, 2, 3]), &array(&[3], [4, 2, 6]), MOST).unwrap();
        assert_eq!(picked.values, [Length::Known(4), Length::Known(2), Length::Unknown]);
    }

    /// The paddings that a program lists last axis first become those of ONNX: begins, then ends.
    #[test]
    fn pairs_that_are_reversed_and_transposed_are_the_pads_of_an_array() {
        let pairs = array(&[8], [0, 0, 1, 2, 3, 4, 0, 0]).reshaped(&[-1, 2], true).unwrap();
        let reversed = pairs.sliced(0, -1, i64::MIN + 1, -1).unwrap();
        let turned = reversed.transposed(&[1, 0]).unwrap();
        assert_eq!(turned, array(&[2, 4], [0, 3, 1, 0, 0, 4, 2, 0]));
        assert_eq!(turned.transposed(&[0, 0]), None);
    }

    #[test]
    fn a_reshape_that_does_not_fit_is_none() {
        let six = array(&[2, 3], 0..6);
        assert_eq!(six.reshaped(&[4, -1], true), None);
        assert_eq!(six.reshaped(&[-1, -1], true), None);
        assert_eq!(six.reshaped(&[0, -1], true), Some(six.clone()));
        assert_eq!(six.reshaped(&[0, -1], false), None);
        assert_eq!(array(&[0], []).reshaped(&[0, 5], false).unwrap().shape, [0, 5]);
    }

    #[test]
    fn a_slice_clamps_its_ends() {
        let ints = array(&[6], 0..6);
        assert_eq!(ints.sliced(0, -2, 99, 1).unwrap(), array(&[2], [4, 5]));
        assert_eq!(array(&[2, 3], 0..6).sliced(1, 2, -9, -2).unwrap(), array(&[2, 2], [2, 0, 5, 3]));
        assert_eq!(ints.sliced(0, 4, 2, 1).unwrap(), array(&[0], []));
        assert_eq!(ints.sliced(0, 0, 6, 0), None);
        assert_eq!(array(&[0], []).sliced(0, -1, -9, -1).unwrap().shape, [0]);
    }

    #[test]
    fn a_selection_removes_and_adds_axes() {
        let ints = array(&[2, 3], 0..6);
        let row = ints.selected(&[Selection::Index { axis: 0, at: -1 }, Selection::New]).unwrap();
        assert_eq!(row, array(&[1, 3], 3..6));
        assert_eq!(ints.selected(&[Selection::Index { axis: 1, at: 3 }]), None);
    }

    #[test]
    fn elements_are_gathered_and_joined_along_an_axis() {
        let ints = array(&[2, 3], 0..6);
        assert_eq!(ints.gathered(&array(&[2], [2, -3]), 1, MOST).unwrap(), array(&[2, 2], [2, 0, 5, 3]));
        assert_eq!(ints.gathered(&array(&[1], [3]), 1, MOST), None);
        let all = [Rc::new(ints.clone()), Rc::new(array(&[2, 1], [8, 9]))];
        assert_eq!(Integers::joined(&all, 1, MOST).unwrap(), array(&[2, 4], [0, 1, 2, 8, 3, 4, 5, 9]));
        assert_eq!(Integers::joined(&all, 0, MOST), None);
    }

    #[test]
    fn steps_are_counted_before_they_are_made() {
        assert_eq!(Integers::steps(5, 0, -2, MOST).unwrap(), array(&[3], [5, 3, 1]));
        assert_eq!(Integers::steps(0, -1, 1, MOST).unwrap(), array(&[0], []));
        assert_eq!(Integers::steps(i64::MIN, i64::MAX, 1, MOST), None);
        assert_eq!(Integers::steps(0, 4, 0, MOST), None);
    }
}
