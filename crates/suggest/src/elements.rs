//! Sums over the elements of a tensor that are the same in any order of the elements.
//!
//! Two tensors with equal sums have the same elements. Sums over parts of a tensor, such as its rows, show in which
//! order the other tensor has these parts.

use ckpt_api::DType;

/// Adds a hash of every element, so that the order does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sum(u64);

impl Sum {
    pub(super) fn all(sums: &[Sum]) -> Self {
        let mut all = Sum::default();
        sums.iter().for_each(|sum| all.add(*sum));
        all
    }

    pub(super) fn add(&mut self, other: Sum) {
        self.0 = self.0.wrapping_add(other.0);
    }
}

/// The bytes of an element; `None` for elements of variable length.
pub(super) fn element_bytes(dtype: DType) -> Option<usize> {
    dtype.bytes().and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0)
}

/// Returns the sum of these elements of `size` bytes.
pub(super) fn sum(bytes: &[u8], size: usize) -> Sum {
    Sum(bytes.chunks_exact(size).fold(0, |sum, element| sum.wrapping_add(hash(element))))
}

/// SplitMix64's finalizer, a word of the element at a time.
fn hash(element: &[u8]) -> u64 {
    element.chunks(8).fold(0x9e37_79b9_7f4a_7c15, |state, word| {
        let word = word.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let state = (state ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^ state >> 31
    })
}

/// For each axis, the sum of the elements at each index.
pub(super) struct AxisSums {
    size: usize,
    axes: Vec<AxisSum>,
}

struct AxisSum {
    /// The index of the next element.
    index: usize,
    sums: Vec<Sum>,
}

impl AxisSums {
    /// The most indices on all axes together: 32 MiB.
    const MAX_INDICES: u64 = 1 << 22;

    /// Returns `None` for elements of variable length, no axes, an empty tensor, and axes with more indices than the
    /// limit.
    pub(super) fn new(dtype: DType, shape: &[u64]) -> Option<Self> {
        let size = element_bytes(dtype)?;
        if shape.is_empty() || shape.contains(&0) || Self::are_too_long(shape) {
            return None;
        }
        let axes = shape.iter().map(|len| {
            let len = usize::try_from(*len).ok()?;
            Some(AxisSum { index: 0, sums: vec![Sum::default(); len] })
        });
        Some(AxisSums { size, axes: axes.collect::<Option<_>>()? })
    }

    /// Whether the axes have more indices than the limit.
    pub(super) fn are_too_long(shape: &[u64]) -> bool {
        let all = shape.iter().try_fold(0u64, |all, len| all.checked_add(*len));
        all.is_none_or(|all| all > Self::MAX_INDICES)
    }

    /// Adds the next elements, in row-major order.
    pub(super) fn read(&mut self, mut bytes: &[u8]) {
        while let Some((row, rest)) = self.rest_of_row(bytes) {
            let mut all = Sum::default();
            if let Some(last) = self.axes.last_mut() {
                let sums = last.sums.get_mut(last.index..).unwrap_or_default();
                for (sum, element) in sums.iter_mut().zip(row.chunks_exact(self.size)) {
                    let one = Sum(hash(element));
                    sum.add(one);
                    all.add(one);
                }
            }
            for axis in self.axes.iter_mut().rev().skip(1) {
                axis.sums.get_mut(axis.index).into_iter().for_each(|sum| sum.add(all));
            }
            self.advance(row.len() / self.size);
            bytes = rest;
        }
    }

    /// Splits off the elements that belong to the current row.
    fn rest_of_row<'b>(&self, bytes: &'b [u8]) -> Option<(&'b [u8], &'b [u8])> {
        let last = self.axes.last()?;
        let left = last.sums.len().checked_sub(last.index)?.checked_mul(self.size)?;
        let whole = bytes.len() - bytes.len() % self.size;
        bytes.split_at_checked(left.min(whole)).filter(|(row, _)| !row.is_empty())
    }

    /// Moves so many elements further, at most to the end of the row.
    fn advance(&mut self, mut by: usize) {
        for axis in self.axes.iter_mut().rev() {
            axis.index = axis.index.saturating_add(by);
            if axis.index < axis.sums.len() {
                return;
            }
            (axis.index, by) = (0, 1);
        }
    }

    /// Returns the sums of each axis.
    pub(super) fn finish(self) -> Vec<Vec<Sum>> {
        self.axes.into_iter().map(|axis| axis.sums).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_do_not_depend_on_the_order_of_the_elements() {
        assert_eq!(sum(&[1, 0, 2, 0, 2, 0], 2), sum(&[2, 0, 1, 0, 2, 0], 2));
        for other in [[1, 0, 1, 0, 2, 0], [1, 0, 2, 0, 3, 0], [0, 1, 2, 0, 2, 0]] {
            assert_ne!(sum(&[1, 0, 2, 0, 2, 0], 2), sum(&other, 2));
        }
        assert_ne!(sum(&[0; 16], 16), sum(&[0; 8], 8));
    }

    #[test]
    fn sums_of_an_axis_are_those_of_its_slices_however_the_bytes_come() {
        let bytes: Vec<u8> = (0..24).collect();
        let of = |elements: &[u8]| sum(elements, 1);
        let pick =
            |keep: &dyn Fn(u8) -> bool| bytes.iter().copied().filter(|k| keep(*k)).collect::<Vec<u8>>();
        for piece in [1, 5, 24] {
            let mut sums = AxisSums::new(DType::U8, &[2, 3, 4]).unwrap();
            bytes.chunks(piece).for_each(|bytes| sums.read(bytes));
            let sums = sums.finish();
            let expected: [Vec<Sum>; 3] = [
                (0..2).map(|i| of(&pick(&|k| k / 12 == i))).collect(),
                (0..3).map(|i| of(&pick(&|k| k / 4 % 3 == i))).collect(),
                (0..4).map(|i| of(&pick(&|k| k % 4 == i))).collect(),
            ];
            assert_eq!(sums, expected);
        }
    }

    #[test]
    fn axes_that_would_take_much_memory_have_no_sums() {
        assert!(AxisSums::new(DType::F32, &[1 << 40, 2]).is_none());
        assert!(AxisSums::new(DType::F32, &[u64::MAX, u64::MAX]).is_none());
        assert!(AxisSums::new(DType::F32, &[0, 2]).is_none());
        assert!(AxisSums::new(DType::String, &[2]).is_none());
    }
}
