//! Products of two matrices that are added to 32-bit floats, and norms of rows.

use super::simd::vectorized;

/// Columns that are computed at once. The rows of a right factor are padded to a multiple of it.
pub(crate) const LANES: usize = 16;
/// Rows that are computed at once: each number of the right factor is loaded for all of them.
const ROWS: usize = 4;

/// What is added: `factor` times the product of two matrices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product<'a> {
    pub(crate) factor: f32,
    pub(crate) rank: usize,
    /// Its rows, `rank` numbers each.
    pub(crate) left: &'a [f32],
    /// `rank` rows, `stride` numbers each, and [`LANES`] numbers more at the end.
    pub(crate) right: &'a [f32],
    pub(crate) stride: usize,
    /// The column of the right factor that belongs to the first column that is changed.
    pub(crate) column: usize,
}

/// Adds a product to `width` columns, from column `start` on, of each row of `row_len` little-endian numbers. Returns whether a
/// finite number became one that is not.
///
/// Every sum begins at 0 and takes its terms in order; no term is fused.
pub(crate) fn add_product(
    numbers: &mut [[u8; 4]],
    row_len: usize,
    (start, width): (usize, usize),
    product: Product<'_>,
) -> bool {
    vectorized(
        #[inline(always)]
        || {
            let mut overflows = false;
            let (row_len, rank) = (row_len.max(1), product.rank.max(1));
            let rows = numbers.chunks_mut(row_len * ROWS).zip(product.left.chunks(rank * ROWS));
            for (rows, left) in rows {
                if rows.len() == row_len * ROWS && left.len() == rank * ROWS {
                    overflows |=
                        add_to_rows::<ROWS>(rows, row_len, (start, width), Product { left, ..product });
                    continue;
                }
                for (row, left) in rows.chunks_mut(row_len).zip(left.chunks(rank)) {
                    overflows |= add_to_rows::<1>(row, row_len, (start, width), Product { left, ..product });
                }
            }
            overflows
        },
    )
}

#[inline(always)]
fn add_to_rows<const N: usize>(
    rows: &mut [[u8; 4]],
    row_len: usize,
    (start, width): (usize, usize),
    product: Product<'_>,
) -> bool {
    let Product { factor, rank, left, right, stride, column } = product;
    let mut overflows = false;
    for first in (0..width).step_by(LANES) {
        let mut sums = [[0.0_f32; LANES]; N];
        for k in 0..rank {
            let at = k * stride + column + first;
            let Some(other) = right.get(at..at + LANES).and_then(|other| other.first_chunk::<LANES>()) else {
                break;
            };
            for (row, sums) in sums.iter_mut().enumerate() {
                let own = left.get(row * rank + k).copied().unwrap_or(f32::NAN);
                for (sum, other) in sums.iter_mut().zip(other) {
                    *sum += own * other;
                }
            }
        }
        let end = (first + LANES).min(width);
        for (row, sums) in rows.chunks_mut(row_len).zip(&sums) {
            let Some(numbers) = row.get_mut(start + first..start + end) else { continue };
            for (number, sum) in numbers.iter_mut().zip(sums) {
                let before = f32::from_le_bytes(*number);
                let after = before + factor * sum;
                *number = after.to_le_bytes();
                overflows |= before.is_finite() & !after.is_finite();
            }
        }
    }
    overflows
}

/// Sums of squares that are computed at once.
const SUMS: usize = 8;

/// The squares of little-endian numbers, summed up in 64-bit floats.
///
/// Number `i` of all that are added counts to sum `i % 8`; the eight sums are added in order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SquareSum {
    sums: [f64; SUMS],
    count: usize,
}

impl SquareSum {
    /// Adds the squares of more numbers.
    pub(crate) fn add(&mut self, numbers: &[[u8; 4]]) {
        let square = |number: &[u8; 4]| {
            let number = f64::from(f32::from_le_bytes(*number));
            number * number
        };
        let before = (SUMS - self.count % SUMS) % SUMS;
        let (first, rest) = numbers.split_at(before.min(numbers.len()));
        let at = self.count % SUMS;
        for (sum, number) in self.sums.iter_mut().skip(at).zip(first) {
            *sum += square(number);
        }
        let sums = &mut self.sums;
        vectorized(
            #[inline(always)]
            || {
                for numbers in rest.chunks(SUMS) {
                    for (sum, number) in sums.iter_mut().zip(numbers) {
                        *sum += square(number);
                    }
                }
            },
        );
        self.count += numbers.len();
    }

    /// The square root of the sum.
    pub(crate) fn norm(&self) -> f32 {
        self.sums.iter().sum::<f64>().sqrt() as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number for each index, of both signs, whose sums are not exact.
    fn number(index: usize) -> f32 {
        ((index * 37 + 11) % 101) as f32 / 7.0 - 6.5
    }

    fn bytes(numbers: &[f32]) -> Vec<[u8; 4]> {
        numbers.iter().map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn a_product_is_added_in_order_whatever_the_rows_and_columns() {
        for (rows, columns, rank) in [(1, 1, 1), (4, 16, 3), (5, 17, 2), (9, 40, 7), (3, 15, 0)] {
            let left: Vec<f32> = (0..rows * rank).map(number).collect();
            let stride = columns + 1;
            let right: Vec<f32> = (0..rank * stride + LANES).map(|index| number(index + 5)).collect();
            let base: Vec<f32> = (0..rows * columns).map(|index| number(index + 3)).collect();
            let mut numbers = bytes(&base);
            let product = Product { factor: 0.3, rank, left: &left, right: &right, stride, column: 1 };
            assert!(!add_product(&mut numbers, columns, (0, columns), product));
            for row in 0..rows {
                for column in 0..columns {
                    let terms = (0..rank).map(|k| left[row * rank + k] * right[k * stride + 1 + column]);
                    let sum = terms.fold(0.0, |sum: f32, term| sum + term);
                    let expected = match rank {
                        // Nothing is added without a rank.
                        0 => base[row * columns + column],
                        _ => base[row * columns + column] + 0.3 * sum,
                    };
                    let found = f32::from_le_bytes(numbers[row * columns + column]);
                    assert_eq!(found.to_bits(), expected.to_bits(), "{rows} × {columns}, rank {rank}");
                }
            }
        }
    }

    #[test]
    fn other_columns_stay_and_what_becomes_too_large_is_reported() {
        let mut numbers = bytes(&[1.0; 10]);
        let right = [2.0; 2 + LANES];
        let product =
            Product { factor: 1.0, rank: 1, left: &[3.0, 4.0], right: &right, stride: 2, column: 0 };
        assert!(!add_product(&mut numbers, 5, (1, 2), product));
        assert_eq!(numbers, bytes(&[1.0, 7.0, 7.0, 1.0, 1.0, 1.0, 9.0, 9.0, 1.0, 1.0]));
        assert!(add_product(&mut numbers, 5, (1, 2), Product { factor: f32::MAX, ..product }));
    }

    #[test]
    fn the_norm_of_a_row_does_not_depend_on_how_it_is_cut() {
        let numbers = bytes(&(0..1000).map(number).collect::<Vec<_>>());
        let mut whole = SquareSum::default();
        whole.add(&numbers);
        for cut in [1, 3, 8, 250, 999] {
            let mut parts = SquareSum::default();
            numbers.chunks(cut).for_each(|part| parts.add(part));
            assert_eq!(parts.norm().to_bits(), whole.norm().to_bits(), "{cut}");
        }
        let mut right_angle = SquareSum::default();
        right_angle.add(&bytes(&[3.0, -4.0]));
        assert_eq!(right_angle.norm(), 5.0);
    }
}
