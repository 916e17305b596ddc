//! Images with their channels last, as programs have them, and with their channels first, as ONNX's operators take them.

use crate::length::Length;
use crate::shape::Dims;

/// The order in which a graph has the axes of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// The source's order.
    Last,
    /// The source's last axis is the second.
    First,
}

/// Returns the position of an axis if the last axis is moved to the second position.
pub fn position(axis: usize, rank: usize) -> usize {
    match axis {
        0 => 0,
        axis if axis + 1 == rank => 1,
        axis => axis + 1,
    }
}

/// Returns the permutation that moves the last axis to the second position.
pub fn to_first(rank: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rank).collect();
    order.sort_by_key(|axis| position(*axis, rank));
    order
}

/// Returns the permutation that moves the second axis to the last position.
pub fn to_last(rank: usize) -> Vec<usize> {
    (0..rank).map(|axis| position(axis, rank)).collect()
}

/// Returns the lengths of images with their channels last from those of images with their channels first, or the other
/// way around.
pub fn rotated(dims: &[Length], is_to_last: bool) -> Dims {
    let mut dims = dims.to_vec();
    if let Some(range) = dims.get_mut(1..).filter(|range| !range.is_empty()) {
        if is_to_last { range.rotate_left(1) } else { range.rotate_right(1) }
    }
    dims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_permutations_undo_each_other() {
        for rank in 0..6 {
            let (first, last) = (to_first(rank), to_last(rank));
            assert!((0..rank).all(|axis| first[last[axis]] == axis));
        }
        assert_eq!((to_first(4), to_last(4)), (vec![0, 3, 1, 2], vec![0, 2, 3, 1]));
    }

    #[test]
    fn lengths_are_rotated_as_the_permutations_move_them() {
        let dims: Dims = [8_u64, 32, 24, 3].map(Length::from).to_vec();
        let moved: Dims = to_first(4).into_iter().map(|axis| dims[axis]).collect();
        assert_eq!(rotated(&dims, false), moved);
        assert_eq!(rotated(&moved, true), dims);
        assert_eq!(rotated(&[], true), Dims::new());
    }
}
