//! The smallest and the largest number of blocks, and what scales are made of them.

use super::simd::vectorized;

/// The smallest and the largest number of a block, and whether all are numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Extremes {
    least: f32,
    most: f32,
    /// 0, or NaN if one of them is none.
    flaw: f32,
}

impl Default for Extremes {
    /// Those of no numbers.
    fn default() -> Self {
        Extremes { least: f32::INFINITY, most: f32::NEG_INFINITY, flaw: 0.0 }
    }
}

/// Numbers whose extremes do not wait for each other.
const LANES: usize = 16;

impl Extremes {
    /// Takes a part of a row, little-endian numbers from `column` on, into its blocks of `width` columns.
    pub(crate) fn add_line(line: &[[u8; 4]], (column, width): (usize, usize), blocks: &mut [Extremes]) {
        let width = width.max(1);
        let head = (width - column % width).min(line.len());
        let (first, rest) = line.split_at(head);
        vectorized(
            #[inline(always)]
            || {
                let parts = std::iter::once(first).chain(rest.chunks(width));
                for (part, block) in parts.zip(blocks.iter_mut().skip(column / width)) {
                    block.add(part);
                }
            },
        );
    }

    #[inline(always)]
    fn add(&mut self, numbers: &[[u8; 4]]) {
        let mut lanes = [*self; LANES];
        let (groups, rest) = numbers.as_chunks::<LANES>();
        for group in groups {
            for (lane, bytes) in lanes.iter_mut().zip(group) {
                lane.take(f32::from_le_bytes(*bytes));
            }
        }
        for bytes in rest {
            self.take(f32::from_le_bytes(*bytes));
        }
        for lane in &lanes {
            self.least = if lane.least < self.least { lane.least } else { self.least };
            self.most = if lane.most > self.most { lane.most } else { self.most };
            self.flaw += lane.flaw;
        }
    }

    #[inline(always)]
    fn take(&mut self, number: f32) {
        self.least = if number < self.least { number } else { self.least };
        self.most = if number > self.most { number } else { self.most };
        // Finite numbers and infinities leave 0.
        self.flaw += if number.is_nan() { number } else { 0.0 };
    }

    /// The largest magnitude; NaN if one of them is no number.
    pub(crate) fn magnitude(&self) -> f32 {
        self.least.abs().max(self.most.abs()) + self.flaw
    }
}

/// The scale and the offset of integers of `bits` bits, as [`ckpt_api::Reduction`] defines them.
pub(crate) fn affine(bits: u32, extremes: &Extremes) -> (f32, f32) {
    const LEAST_STEP: f32 = 1e-7;
    let Extremes { least, most, .. } = *extremes;
    let integers = ((1_u32 << bits.min(8)) - 1) as f32;
    let step = ((most - least) / integers).max(LEAST_STEP);
    let (edge, step) = match least.abs() > most.abs() {
        true => (least, step),
        false => (most, -step),
    };
    let count = (edge / step).round_ties_even();
    if count == 0.0 { (step, 0.0) } else { (edge / count, edge) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: &[f32], width: usize, column: usize) -> Vec<Extremes> {
        let bytes: Vec<[u8; 4]> = numbers.iter().map(|number| number.to_le_bytes()).collect();
        let mut blocks = vec![Extremes::default(); (column + numbers.len()).div_ceil(width)];
        Extremes::add_line(&bytes, (column, width), &mut blocks);
        blocks
    }

    #[test]
    fn each_block_has_its_own_extremes_and_the_first_may_have_begun_before() {
        let numbers: Vec<f32> = (0..100).map(|at| (at * 37 % 101) as f32 - 50.0).collect();
        for (width, column) in [(64, 0), (64, 30), (7, 5), (200, 3), (1, 0)] {
            for (at, block) in of(&numbers, width, column).iter().enumerate() {
                let own = numbers.iter().enumerate().filter(|(index, _)| (index + column) / width == at);
                let own: Vec<f32> = own.map(|(_, number)| *number).collect();
                let extreme = |other: fn(f32, f32) -> f32| own.iter().copied().reduce(other).unwrap();
                assert_eq!((block.least, block.most), (extreme(f32::min), extreme(f32::max)));
                assert_eq!(block.magnitude(), own.iter().fold(0.0, |most: f32, own| most.max(own.abs())));
            }
        }
    }

    #[test]
    fn a_block_with_an_element_that_is_no_number_has_no_magnitude() {
        let blocks = of(&[1.0, f32::NAN, -3.0, 2.0], 2, 0);
        assert!(blocks[0].magnitude().is_nan() && blocks[1].magnitude() == 3.0);
        assert_eq!(of(&[1.0, f32::NEG_INFINITY], 2, 0)[0].magnitude(), f32::INFINITY);
    }

    #[test]
    fn the_number_of_the_largest_magnitude_is_a_multiple_of_the_scale() {
        let scale = |numbers: &[f32]| affine(4, &of(numbers, 64, 0)[0]);
        assert_eq!(scale(&[0.0; 5]), (-1e-7, 0.0));
        assert_eq!(scale(&[-1.0, 0.5]), (0.1, -1.0));
        assert_eq!(scale(&[1.0, -0.5]), (-0.1, 1.0));
        assert_eq!(scale(&[2.0, 2.0]).1, 2.0);
    }
}
