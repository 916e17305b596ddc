//! Strides, and axes joined where a kernel has fewer than a graph.

use super::{Error, Result};
use crate::kernel::MAX_RANK;

/// Elements from one index to the next on each axis of a row-major value. The shape can be counted.
pub(super) fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![0; shape.len()];
    let mut step = 1;
    for (stride, len) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        step *= (*len).max(1);
    }
    strides
}

/// The same places with as few axes as possible: an axis joins the one before where both walk on evenly in every one of the
/// given strides.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] where more than [`MAX_RANK`] remain.
pub(super) fn joined<const N: usize>(
    shape: &[usize],
    strides: [&[usize]; N],
) -> Result<(Vec<usize>, [Vec<usize>; N])> {
    let mut lens: Vec<usize> = Vec::new();
    let mut steps: [Vec<usize>; N] = std::array::from_fn(|_| Vec::new());
    if shape.contains(&0) {
        return Ok((vec![0], std::array::from_fn(|_| vec![0])));
    }
    for (axis, len) in shape.iter().enumerate().filter(|(_, len)| **len != 1) {
        let own: [usize; N] = strides.map(|strides| strides.get(axis).copied().unwrap_or(0));
        let even = steps.iter().zip(own).all(|(steps, own)| steps.last() == Some(&(own * len)));
        match lens.last_mut().filter(|_| even) {
            Some(last) => *last *= len,
            None => lens.push(*len),
        }
        for (steps, own) in steps.iter_mut().zip(own) {
            if even {
                steps.pop();
            }
            steps.push(own);
        }
    }
    match lens.len() {
        0..=MAX_RANK => Ok((lens, steps)),
        rank => Err(Error::unsupported("a value has more axes than kernels take")
            .found(format!("{rank} axes that cannot be joined"))
            .expected(format!("at most {MAX_RANK}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_that_walk_on_evenly_are_one() {
        let shape = [2, 1, 3, 4];
        let contiguous = row_major(&shape);
        assert_eq!(joined(&shape, [&contiguous]).unwrap(), (vec![24], [vec![1]]));
        let turned = [1, 9, 8, 2];
        let (lens, [a, b]) = joined(&shape, [&contiguous, &turned]).unwrap();
        assert_eq!((lens, a, b), (vec![2, 12], vec![12, 1], vec![1, 2]));
    }

    #[test]
    fn a_broadcast_axis_does_not_join_its_neighbor() {
        let (lens, [a, b]) = joined(&[2, 3], [&[3, 1], &[0, 1]]).unwrap();
        assert_eq!((lens, a, b), (vec![2, 3], vec![3, 1], vec![0, 1]));
    }

    #[test]
    fn more_axes_than_kernels_take_are_refused() {
        let shape = [2; 9];
        let mut backwards = row_major(&shape);
        backwards.reverse();
        assert!(joined(&shape, [&backwards]).is_err());
        assert!(joined(&shape, [&row_major(&shape)]).is_ok());
    }
}
