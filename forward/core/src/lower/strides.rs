//! Strides, and the merging of axes for kernels of few axes.

use crate::kernel::MAX_RANK;
use ckpt_api::{Error, Result};

/// Returns the strides of a row-major value, whose elements can be counted.
pub(super) fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![0; shape.len()];
    let mut step = 1;
    for (stride, len) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        step *= (*len).max(1);
    }
    strides
}

/// Describes the same positions with as few axes as possible: an axis is merged with the one before if all given
/// strides continue evenly.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] if more than [`MAX_RANK`] remain.
pub(super) fn merge_axes<const N: usize>(
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
    check_rank(lens.len())?;
    Ok((lens, steps))
}

/// Fails for more than [`MAX_RANK`] axes.
pub(super) fn check_rank(rank: usize) -> Result<()> {
    match rank {
        0..=MAX_RANK => Ok(()),
        rank => Err(Error::unsupported("a value has more axes than kernels support")
            .found(format!("{rank} axes that cannot be merged"))
            .expected(format!("at most {MAX_RANK}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_with_even_strides_are_merged() {
        let shape = [2, 1, 3, 4];
        let contiguous = row_major(&shape);
        assert_eq!(merge_axes(&shape, [&contiguous]).unwrap(), (vec![24], [vec![1]]));
        let turned = [1, 9, 8, 2];
        let (lens, [a, b]) = merge_axes(&shape, [&contiguous, &turned]).unwrap();
        assert_eq!((lens, a, b), (vec![2, 12], vec![12, 1], vec![1, 2]));
    }

    #[test]
    fn a_broadcast_axis_is_not_merged_with_its_neighbor() {
        let (lens, [a, b]) = merge_axes(&[2, 3], [&[3, 1], &[0, 1]]).unwrap();
        assert_eq!((lens, a, b), (vec![2, 3], vec![3, 1], vec![0, 1]));
    }

    #[test]
    fn more_axes_than_kernels_support_are_refused() {
        let shape = [2; 9];
        let mut backwards = row_major(&shape);
        backwards.reverse();
        assert!(merge_axes(&shape, [&backwards]).is_err());
        assert!(merge_axes(&shape, [&row_major(&shape)]).is_ok());
    }
}
