//! Some values of a tensor: the first ones, and an even sample of the rows and columns of a matrix.

use ckpt_api::{DType, Shape};
use ckpt_engine::transform::for_each_number;

/// Some values of a tensor.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Preview {
    /// The first values, in row-major order.
    pub first: Vec<f64>,
    /// Rows and columns of the sample; a tensor of more axes counts as a matrix of its first axis and the others.
    pub sampled: [usize; 2],
    /// The sample in row-major order: 31 stands for 0, 1 and 61 for the largest magnitude of the sample, and 63 for NaN
    /// and infinities. Empty for a tensor that is no matrix, and beyond the first [`Preview::MAPS`] tensors.
    pub levels: Vec<u8>,
    /// The largest magnitude of the sample.
    pub largest: f64,
}

impl Preview {
    /// Most first values.
    pub const FIRST: u64 = 8;
    /// Most rows, and most columns, of a sample.
    pub const SIDE: u64 = 32;
    /// Number of tensors that have samples.
    pub const MAPS: usize = 500;
}

/// Picks the values of a preview from a stream of values.
pub(super) struct Cells {
    /// Rows and columns of the tensor as a matrix, and of the sample.
    all: [u64; 2],
    sampled: [u64; 2],
    /// Number of values that were added.
    position: u64,
    /// Number of sampled values that were picked.
    picked: u64,
    /// Number of first values that were picked.
    shown: u64,
    first: Vec<f64>,
    values: Vec<f64>,
}

impl Cells {
    /// Picks only first values if not `with_map`. Of the elements before `first`, another picks.
    pub(super) fn of(shape: &Shape, with_map: bool, first: u64) -> Self {
        let rows = shape.first().copied().unwrap_or(1);
        let columns = shape.elements().checked_div(rows).unwrap_or(0);
        let is_matrix = with_map && shape.len() > 1 && rows > 1 && columns > 1;
        let all = if is_matrix { [rows, columns] } else { [0, 0] };
        let sampled = all.map(|len| len.min(Preview::SIDE));
        let values = Vec::new();
        let mut cells =
            Cells { all, sampled, position: first, picked: 0, shown: first, first: Vec::new(), values };
        // The sample is sorted by position.
        let (mut low, mut high) = (0, sampled[0].saturating_mul(sampled[1]));
        while low < high {
            let middle = low.midpoint(high);
            match cells.place(middle).is_some_and(|place| place < first) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        cells.picked = low;
        cells
    }

    /// Adds the next values, which are numbers.
    pub(super) fn add(&mut self, dtype: DType, bytes: &[u8]) {
        let size = usize::try_from(dtype.bytes().unwrap_or(1)).unwrap_or(1).max(1);
        let value = |index: u64| {
            let at = usize::try_from(index.checked_sub(self.position)?).ok()?.checked_mul(size)?;
            let mut found = None;
            for_each_number(dtype, bytes.get(at..at.checked_add(size)?)?, |value| found = Some(value));
            found
        };
        while self.shown < Preview::FIRST
            && let Some(next) = value(self.shown)
        {
            self.first.push(next);
            self.shown += 1;
        }
        while let Some(index) = self.place(self.picked)
            && let Some(next) = value(index)
        {
            self.values.push(next);
            self.picked += 1;
        }
        self.position += (bytes.len() / size) as u64;
    }

    /// The position in the tensor of a sampled value; `None` after the last.
    fn place(&self, number: u64) -> Option<u64> {
        let row = number.checked_div(self.sampled[1])?;
        let even = |index: u64, axis: usize| {
            let scaled = u128::from(index) * u128::from(self.all[axis]) / u128::from(self.sampled[axis]);
            u64::try_from(scaled).ok()
        };
        if row >= self.sampled[0] {
            return None;
        }
        even(row, 0)?.checked_mul(self.all[1])?.checked_add(even(number % self.sampled[1], 1)?)
    }

    /// Adds what was picked of the elements that follow.
    pub(super) fn extend(&mut self, next: Cells) {
        self.first.extend(next.first);
        self.values.extend(next.values);
    }

    pub(super) fn finish(self) -> Preview {
        let finite = self.values.iter().filter(|value| value.is_finite());
        let largest = finite.fold(0.0, |most: f64, value| most.max(value.abs()));
        let level = |value: &f64| match value {
            value if !value.is_finite() => 63,
            _ if largest == 0.0 => 31,
            // From 1 to 61.
            value => (31.0 + (30.0 * (value / largest)).round()) as u8,
        };
        Preview {
            first: self.first,
            sampled: self.sampled.map(|len| usize::try_from(len).unwrap_or(0)),
            levels: self.values.iter().map(level).collect(),
            largest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preview(shape: &[u64], with_map: bool) -> Preview {
        let shape = Shape::new(shape.to_vec()).unwrap();
        let mut cells = Cells::of(&shape, with_map, 0);
        let columns = shape.elements() / shape[0];
        let values: Vec<u8> =
            (0..shape.elements()).flat_map(|k| ((k / columns) as f32 - 1.0).to_le_bytes()).collect();
        // In pieces that end anywhere.
        values.chunks(4 * 7).for_each(|chunk| cells.add(DType::F32, chunk));
        cells.finish()
    }

    #[test]
    fn a_sample_of_a_matrix_takes_rows_and_columns_at_equal_distances() {
        let large = preview(&[320, 64], true);
        assert_eq!((large.sampled, large.levels.len(), large.first.len()), ([32, 32], 1024, 8));
        assert_eq!(large.largest, 309.0, "the row 310 is the last of the sample");
        let rows: Vec<u8> = large.levels.chunks(32).map(|row| row[0]).collect();
        assert!(rows.is_sorted() && rows[0] == 31 && rows[31] == 61);
        assert!(large.levels.chunks(32).all(|row| row.iter().all(|level| level == &row[0])));
    }

    #[test]
    fn what_parts_pick_is_together_what_the_whole_picks_wherever_it_is_cut() {
        let shape = Shape::new([40, 70]).unwrap();
        let values: Vec<u8> = (0..2_800).flat_map(|k| (k as f32).to_le_bytes()).collect();
        let pick = |first: usize, end: usize| {
            let mut cells = Cells::of(&shape, true, first as u64);
            cells.add(DType::F32, &values[4 * first..4 * end]);
            cells
        };
        let whole = pick(0, 2_800).finish();
        assert_eq!((whole.first.len(), whole.levels.len()), (8, 1024));
        for cut in [0, 1, 7, 8, 9, 70, 1_000, 2_799, 2_800] {
            let mut both = pick(0, cut);
            both.extend(pick(cut, 2_800));
            assert_eq!(both.finish(), whole, "{cut}");
        }
    }

    #[test]
    fn a_small_matrix_is_shown_whole_and_a_vector_has_first_values_only() {
        let small = preview(&[3, 2], true);
        assert_eq!((small.levels, small.largest), (vec![1, 1, 31, 31, 61, 61], 1.0));
        assert_eq!(small.first, [-1.0, -1.0, 0.0, 0.0, 1.0, 1.0]);
        for without in [preview(&[9], true), preview(&[3, 2], false)] {
            assert!(without.levels.is_empty() && without.first.len() >= 6);
        }
    }
}
