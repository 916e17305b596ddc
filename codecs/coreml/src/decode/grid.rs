//! Groups of a tensor's elements: each axis is divided into as many parts of one length as the grid has on it.

use std::ops::Range;

/// A grid of groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grid {
    /// The shape of the tensor.
    pub(crate) shape: Vec<u64>,
    /// How many groups each axis has: at least one, at most one for each index.
    pub(crate) groups: Vec<u64>,
}

impl Grid {
    /// The grid; `None` if an axis has no group or more than indices.
    pub(crate) fn new(shape: Vec<u64>, groups: Vec<u64>) -> Option<Self> {
        let fits = |(len, groups): (&u64, &u64)| *groups > 0 && *groups <= (*len).max(1);
        let is_whole = shape.len() == groups.len() && shape.iter().zip(&groups).all(fits);
        is_whole.then_some(Grid { shape, groups })
    }

    /// Whether each axis is divided evenly.
    pub(crate) fn is_even(&self) -> bool {
        self.shape.iter().zip(&self.groups).all(|(len, groups)| len.is_multiple_of((*groups).max(1)))
    }

    /// Neighboring elements, in row-major order, that share a group: the first run begins with the first element.
    pub(crate) fn run(&self) -> u64 {
        let mut run = 1u64;
        for (len, groups) in self.shape.iter().zip(&self.groups).rev() {
            if *groups > 1 {
                let part = if len.is_multiple_of(*groups) { len / groups } else { 1 };
                return run.saturating_mul(part).max(1);
            }
            run = run.saturating_mul(*len);
        }
        run.max(1)
    }

    /// The group of an element.
    pub(crate) fn group(&self, element: u64) -> u64 {
        let (mut rest, mut group, mut stride) = (element, 0u64, 1u64);
        for (len, groups) in self.shape.iter().zip(&self.groups).rev() {
            let (own, above) = (rest % (*len).max(1), rest / (*len).max(1));
            rest = above;
            group = group.saturating_add(part(own, *groups, *len).saturating_mul(stride));
            stride = stride.saturating_mul(*groups);
        }
        group
    }

    /// Numbers of groups among which those of these elements are.
    pub(crate) fn span(&self, elements: &Range<u64>) -> Range<u64> {
        let (Some(len), Some(groups)) = (self.shape.first(), self.groups.first()) else { return 0..1 };
        let below = |all: &[u64]| all.iter().skip(1).fold(1u64, |sum, one| sum.saturating_mul(*one));
        let (row, stride) = (below(&self.shape).max(1), below(&self.groups));
        let last = elements.end.saturating_sub(1) / row;
        let (first, last) = (part(elements.start / row, *groups, *len), part(last, *groups, *len));
        first.saturating_mul(stride)..last.saturating_add(1).saturating_mul(stride)
    }
}

/// The part of an axis that an index is in.
fn part(index: u64, groups: u64, len: u64) -> u64 {
    let part = u128::from(index) * u128::from(groups) / u128::from(len.max(1));
    u64::try_from(part).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(shape: &[u64], groups: &[u64]) -> Grid {
        Grid::new(shape.to_vec(), groups.to_vec()).unwrap()
    }

    #[test]
    fn elements_of_a_part_of_each_axis_share_a_group() {
        let own = grid(&[4, 6], &[2, 3]);
        let groups: Vec<u64> = (0..24).map(|element| own.group(element)).collect();
        assert_eq!(groups[..6], [0, 0, 1, 1, 2, 2]);
        assert_eq!(groups[6..12], groups[..6]);
        assert_eq!(groups[12..18], [3, 3, 4, 4, 5, 5]);
        assert_eq!((own.run(), own.is_even()), (2, true));
        assert_eq!((grid(&[4, 6], &[4, 1]).run(), grid(&[4, 6], &[1, 1]).run()), (6, 24));
        assert_eq!(own.span(&(0..12)), 0..3);
        assert_eq!(own.span(&(11..13)), 0..6);
        assert_eq!(grid(&[5], &[2]).run(), 1, "parts of other lengths");
    }

    #[test]
    fn an_axis_without_groups_or_with_too_many_is_no_grid() {
        for groups in [[0, 1], [5, 1], [1, 7]] {
            assert_eq!(Grid::new(vec![4, 6], groups.to_vec()), None);
        }
        assert_eq!(Grid::new(vec![4], vec![1, 1]), None);
    }
}
