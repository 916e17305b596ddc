//! Boxes of a target's blocks: a box of elements, with so many neighbors along the fastest axis as one.

use ckpt_api::{Region, Shape};

/// What a target stores together: one element, or the elements of a block along its fastest axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockUnits {
    axis: usize,
    elements: u64,
}

impl BlockUnits {
    /// Units of so many neighbors along the last axis of `order`.
    pub(crate) fn new(order: &[usize], elements: u64) -> Self {
        BlockUnits { axis: order.last().copied().unwrap_or(0), elements: elements.max(1) }
    }

    /// A box of elements as one of units; `None` if it begins or ends within one.
    pub(crate) fn of_elements(self, region: &Region) -> Option<Region> {
        if self.elements == 1 {
            return Some(region.clone());
        }
        let divided = |number: u64| number.is_multiple_of(self.elements).then(|| number / self.elements);
        let mut start = region.start.clone();
        let first = start.get_mut(self.axis)?;
        *first = divided(*first)?;
        let mut lens = region.shape.to_vec();
        let len = lens.get_mut(self.axis)?;
        *len = divided(*len)?;
        Some(Region { start, shape: Shape::new(lens).ok()? })
    }

    /// A box of units as one of elements.
    pub(crate) fn to_elements(self, mut region: Region) -> Region {
        if self.elements == 1 {
            return region;
        }
        let mut lens = region.shape.to_vec();
        for number in [region.start.get_mut(self.axis), lens.get_mut(self.axis)].into_iter().flatten() {
            *number = number.saturating_mul(self.elements);
        }
        // A part of a shape that fits fits too.
        region.shape = Shape::new(lens).unwrap_or_default();
        region
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: &[u64], shape: &[u64]) -> Region {
        Region { start: start.to_vec(), shape: Shape::new(shape).unwrap() }
    }

    #[test]
    fn a_box_of_whole_blocks_is_one_of_units_and_back() {
        let units = BlockUnits::new(&[2, 0, 1], 4);
        let (elements, blocks) = (region(&[1, 8, 0], &[2, 12, 5]), region(&[1, 2, 0], &[2, 3, 5]));
        assert_eq!(units.of_elements(&elements), Some(blocks.clone()));
        assert_eq!(units.to_elements(blocks), elements);
        assert_eq!(BlockUnits::new(&[2, 0, 1], 1).of_elements(&elements), Some(elements.clone()));
        assert_eq!(BlockUnits::new(&[], 1).to_elements(region(&[], &[])), region(&[], &[]));
    }

    #[test]
    fn a_box_that_begins_or_ends_within_a_block_is_none_of_units() {
        let units = BlockUnits::new(&[0, 1], 4);
        assert_eq!(units.of_elements(&region(&[0, 2], &[3, 4])), None);
        assert_eq!(units.of_elements(&region(&[0, 4], &[3, 6])), None);
        assert_eq!(BlockUnits::new(&[], 4).of_elements(&region(&[], &[])), None);
    }
}
