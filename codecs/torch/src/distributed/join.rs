//! Chunks that follow each other in the order in which a tensor is stored.

use ckpt_api::{Extent, Region, Shape};
use std::ops::Range;

/// Sorts extents whose boxes together are the tensor in stored order, and drops the boxes: the concatenation is the
/// tensor, which can be read as a stream. Leaves all others as they are. `order` has the axes, the slowest first.
pub(super) fn join(extents: &mut Vec<Extent>, shape: &Shape, order: &[usize]) {
    let run = |extent: &Extent| {
        let region = extent.region().filter(|_| extent.compression().is_none())?;
        Some((run(region, shape, order)?, extent.clone()))
    };
    let Some(mut runs) = extents.iter().map(run).collect::<Option<Vec<(Range<u64>, Extent)>>>() else {
        return;
    };
    runs.sort_by_key(|(run, _)| run.start);
    let end = runs.iter().try_fold(0, |end, (run, _)| (run.start == end).then_some(run.end));
    if end == Some(shape.elements()) {
        *extents = runs.into_iter().map(|(_, extent)| extent.with_region(None)).collect();
    }
}

/// The elements of a box in the order in which the tensor is stored; `None` if others are between them.
fn run(region: &Region, shape: &Shape, order: &[usize]) -> Option<Range<u64>> {
    let (mut first, mut unit, mut is_part) = (0u64, 1u64, false);
    for axis in order.iter().rev() {
        let (start, len, whole) = (*region.start.get(*axis)?, *region.shape.get(*axis)?, *shape.get(*axis)?);
        let is_inside = start.checked_add(len).is_some_and(|end| end <= whole);
        if !is_inside || (is_part && len != 1) {
            return None;
        }
        is_part |= len != whole;
        first = first.checked_add(start.checked_mul(unit)?)?;
        unit = unit.checked_mul(whole)?;
    }
    Some(first..first.checked_add(region.shape.elements())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::FileId;

    /// Joins boxes of a matrix of 4 rows and 6 columns, which are at the offsets 0, 1, …; returns the offsets in order, or
    /// `None` if the boxes stay.
    fn joined(boxes: &[([u64; 2], [u64; 2])], order: [usize; 2]) -> Option<Vec<u64>> {
        let extent = |(number, (start, shape)): (usize, &([u64; 2], [u64; 2]))| {
            let region = Region { start: start.to_vec(), shape: Shape::new(*shape).unwrap() };
            Extent::new(FileId(0), number as u64, 4 * shape[0] * shape[1]).with_region(region)
        };
        let mut extents: Vec<Extent> = boxes.iter().enumerate().map(extent).collect();
        join(&mut extents, &Shape::new([4u64, 6]).unwrap(), &order);
        let is_joined = extents.iter().all(|extent| extent.region().is_none());
        assert_eq!(is_joined, extents.iter().any(|extent| extent.region().is_none()));
        is_joined.then(|| extents.iter().map(|extent| extent.offset).collect())
    }

    const ROWS: [([u64; 2], [u64; 2]); 3] = [([3, 0], [1, 6]), ([0, 0], [1, 6]), ([1, 0], [2, 6])];
    const COLUMNS: [([u64; 2], [u64; 2]); 2] = [([0, 2], [4, 4]), ([0, 0], [4, 2])];

    #[test]
    fn rows_are_joined_in_their_order() {
        assert_eq!(joined(&ROWS, [0, 1]), Some(vec![1, 2, 0]));
        let parts_of_rows = [([0, 0], [1, 6]), ([1, 0], [1, 2]), ([1, 2], [1, 4]), ([2, 0], [2, 6])];
        assert_eq!(joined(&parts_of_rows, [0, 1]), Some(vec![0, 1, 2, 3]));
    }

    #[test]
    fn columns_are_joined_where_they_are_stored_one_after_the_other() {
        assert_eq!(joined(&COLUMNS, [0, 1]), None);
        assert_eq!(joined(&COLUMNS, [1, 0]), Some(vec![1, 0]));
        assert_eq!(joined(&ROWS, [1, 0]), None);
    }

    #[test]
    fn boxes_that_overlap_or_lack_elements_or_lie_outside_stay() {
        assert_eq!(joined(&ROWS[..2], [0, 1]), None);
        assert_eq!(joined(&[ROWS[0], ROWS[1], ROWS[2], ROWS[0]], [0, 1]), None);
        assert_eq!(joined(&[([0, 0], [4, 5]), ([0, 5], [4, 1])], [0, 1]), None);
        assert_eq!(joined(&[([0, 0], [3, 6]), ([3, 0], [2, 6])], [0, 1]), None);
        assert_eq!(joined(&[([0, 0], [4, 6]), ([u64::MAX, 0], [1, 6])], [0, 1]), None);
    }
}
