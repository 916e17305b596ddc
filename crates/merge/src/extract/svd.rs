//! The largest singular values of a matrix that is read row by row, a few times.
//!
//! Subspace iteration: an orthonormal basis `W` of some columns becomes that of `MᵀM · W`, which leads to the right singular vectors
//! of the largest values. Rows of `M` are needed one at a time, so the memory is that of a few columns.

use ckpt_api::{Kept, Result};

/// Vectors beside those that are asked for, which make these converge faster.
const MORE: usize = 16;
/// How many times the basis is improved.
const ITERATIONS: usize = 6;
/// Sweeps over a symmetric matrix that make it diagonal.
const SWEEPS: usize = 30;
/// Columns that are shorter than this part of what they were are none.
const VANISHED: f64 = 1e-12;

/// A matrix whose rows are read in order, any number of times.
pub(super) trait Rows {
    /// The number of rows and columns.
    fn shape(&self) -> [usize; 2];

    /// Hands out each row.
    fn each(&self, row: &mut dyn FnMut(usize, &[f32])) -> Result<()>;
}

/// `left · right` is near a matrix: both have the square roots of its singular values.
#[derive(Debug)]
pub(super) struct Factors {
    /// One row for each row of the matrix.
    pub(super) left: Vec<f32>,
    /// `rank` rows.
    pub(super) right: Vec<f32>,
}

/// Vectors of one length, side by side: row `i` has element `i` of each.
struct Columns {
    len: usize,
    count: usize,
    numbers: Vec<f64>,
}

/// The factors of this rank, which is at most the number of rows and of columns, that are nearest to a matrix. The first basis has
/// signs that are drawn by `key`.
pub(super) fn factors(matrix: &dyn Rows, rank: usize, key: u64) -> Result<Factors> {
    let [rows, columns] = matrix.shape();
    let count = (rank + MORE).min(rows).min(columns);
    let signs = Kept::drawn(key, 0.5);
    let sign = |index: usize| if signs.keeps(index as u64, 0.0) { 1.0 } else { -1.0 };
    let mut basis = Columns { len: columns, count, numbers: (0..columns * count).map(sign).collect() };
    basis.orthonormalize();
    for _ in 0..ITERATIONS {
        let mut next = Columns::zero(columns, count);
        let mut image = vec![0.0; count];
        matrix.each(&mut |_, row| {
            basis.image(row, &mut image);
            next.add(row, &image);
        })?;
        next.orthonormalize();
        basis = next;
    }
    let mut images = Columns::zero(rows, count);
    matrix.each(&mut |index, row| basis.image(row, images.row_mut(index)))?;
    // Of the images, M · W = U · S · Vᵀ: their products with each other have S² as eigenvalues.
    let (values, vectors) = eigen(images.products(), count);
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    order.truncate(rank);
    let mut left = vec![0.0; rows * rank];
    let mut right = vec![0.0; rank * columns];
    for (term, chosen) in order.into_iter().enumerate() {
        let vector: Vec<f64> = (0..count).map(|index| vectors[index * count + chosen]).collect();
        let value = values[chosen].max(0.0).sqrt();
        let root = value.sqrt();
        // U · √S = M · W · V / √S
        let scale = if root > 0.0 { 1.0 / root } else { 0.0 };
        for row in 0..rows {
            left[row * rank + term] = (dot(images.row(row), &vector) * scale) as f32;
        }
        for column in 0..columns {
            right[term * columns + column] = (dot(basis.row(column), &vector) * root) as f32;
        }
    }
    Ok(Factors { left, right })
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl Columns {
    fn zero(len: usize, count: usize) -> Self {
        Columns { len, count, numbers: vec![0.0; len * count] }
    }

    fn row(&self, index: usize) -> &[f64] {
        &self.numbers[index * self.count..(index + 1) * self.count]
    }

    fn row_mut(&mut self, index: usize) -> &mut [f64] {
        &mut self.numbers[index * self.count..(index + 1) * self.count]
    }

    /// The products of a vector with all columns.
    fn image(&self, vector: &[f32], image: &mut [f64]) {
        image.fill(0.0);
        for (number, row) in vector.iter().zip(self.numbers.chunks_exact(self.count)) {
            let number = f64::from(*number);
            image.iter_mut().zip(row).for_each(|(sum, own)| *sum += number * own);
        }
    }

    /// Adds the product of a vector and an image.
    fn add(&mut self, vector: &[f32], image: &[f64]) {
        for (number, row) in vector.iter().zip(self.numbers.chunks_exact_mut(self.count)) {
            let number = f64::from(*number);
            row.iter_mut().zip(image).for_each(|(sum, own)| *sum += number * own);
        }
    }

    /// The products of all columns with each other.
    fn products(&self) -> Vec<f64> {
        let mut products = vec![0.0; self.count * self.count];
        for row in self.numbers.chunks_exact(self.count) {
            for (own, sums) in row.iter().zip(products.chunks_exact_mut(self.count)) {
                sums.iter_mut().zip(row).for_each(|(sum, other)| *sum += own * other);
            }
        }
        products
    }

    /// Makes the columns orthogonal to each other, and of length 1; those that are sums of others become 0.
    fn orthonormalize(&mut self) {
        for column in 0..self.count {
            let before = self.length(column);
            // Once more for what rounding left.
            for _ in 0..2 {
                for other in 0..column {
                    let shared = self.shared(column, other);
                    for row in self.numbers.chunks_exact_mut(self.count) {
                        row[column] -= shared * row[other];
                    }
                }
            }
            let length = self.length(column);
            let scale = if length > before * VANISHED && length > 0.0 { 1.0 / length } else { 0.0 };
            for row in 0..self.len {
                self.row_mut(row)[column] *= scale;
            }
        }
    }

    fn shared(&self, a: usize, b: usize) -> f64 {
        self.numbers.chunks_exact(self.count).map(|row| row[a] * row[b]).sum()
    }

    fn length(&self, column: usize) -> f64 {
        self.shared(column, column).sqrt()
    }
}

/// The eigenvalues of a symmetric matrix, and their vectors as columns: Jacobi's rotations.
fn eigen(mut matrix: Vec<f64>, size: usize) -> (Vec<f64>, Vec<f64>) {
    let mut vectors = vec![0.0; size * size];
    (0..size).for_each(|index| vectors[index * size + index] = 1.0);
    for _ in 0..SWEEPS {
        let mut is_diagonal = true;
        for p in 0..size {
            for q in p + 1..size {
                let (pp, qq, pq) = (matrix[p * size + p], matrix[q * size + q], matrix[p * size + q]);
                if pq.abs() <= f64::EPSILON * (pp * qq).abs().sqrt() {
                    continue;
                }
                is_diagonal = false;
                let theta = (qq - pp) / (2.0 * pq);
                let tangent = theta.signum() / (theta.abs() + theta.hypot(1.0));
                let cosine = 1.0 / tangent.hypot(1.0);
                let sine = tangent * cosine;
                for k in 0..size {
                    rotate(&mut matrix, [k * size + p, k * size + q], cosine, sine);
                }
                for k in 0..size {
                    rotate(&mut matrix, [p * size + k, q * size + k], cosine, sine);
                    rotate(&mut vectors, [k * size + p, k * size + q], cosine, sine);
                }
            }
        }
        if is_diagonal {
            break;
        }
    }
    ((0..size).map(|index| matrix[index * size + index]).collect(), vectors)
}

fn rotate(numbers: &mut [f64], [a, b]: [usize; 2], cosine: f64, sine: f64) {
    let (first, second) = (numbers[a], numbers[b]);
    numbers[a] = cosine * first - sine * second;
    numbers[b] = sine * first + cosine * second;
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Held {
        columns: usize,
        numbers: Vec<f32>,
    }

    impl Rows for Held {
        fn shape(&self) -> [usize; 2] {
            [self.numbers.len() / self.columns, self.columns]
        }

        fn each(&self, row: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
            self.numbers.chunks_exact(self.columns).enumerate().for_each(|(index, own)| row(index, own));
            Ok(())
        }
    }

    fn number(seed: usize) -> f32 {
        ((seed * 7919 + 13) as f32 * 0.618_034).fract() - 0.5
    }

    fn product(left: &[f32], right: &[f32], [rows, rank, columns]: [usize; 3]) -> Vec<f32> {
        let element = |index: usize| {
            let term = |k: usize| left[index / columns * rank + k] * right[k * columns + index % columns];
            (0..rank).map(term).sum()
        };
        (0..rows * columns).map(element).collect()
    }

    fn error(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    }

    #[test]
    fn a_matrix_of_low_rank_is_the_product_of_its_factors() {
        for [rows, columns] in [[60, 40], [40, 60], [5, 70]] {
            let left: Vec<f32> = (0..rows * 3).map(number).collect();
            let right: Vec<f32> = (0..3 * columns).map(|seed| number(seed + 1_000_000)).collect();
            let numbers = product(&left, &right, [rows, 3, columns]);
            let found = factors(&Held { columns, numbers: numbers.clone() }, 4, 1).unwrap();
            let back = product(&found.left, &found.right, [rows, 4, columns]);
            assert!(error(&numbers, &back) < 1e-6, "{}", error(&numbers, &back));
        }
    }

    #[test]
    fn the_largest_singular_values_are_kept() {
        // Diagonal, so that the values are known.
        let mut numbers = vec![0.0; 50 * 50];
        (0..50).for_each(|index| {
            numbers[index * 51] = if index % 10 == 3 { 4.0 - index as f32 / 20.0 } else { 0.01 }
        });
        let found = factors(&Held { columns: 50, numbers }, 3, 1).unwrap();
        let back = product(&found.left, &found.right, [50, 3, 50]);
        for index in 0..50 {
            let expected = if [3, 13, 23].contains(&index) { 4.0 - index as f32 / 20.0 } else { 0.0 };
            assert!((back[index * 51] - expected).abs() < 1e-5, "{index}: {}", back[index * 51]);
        }
    }

    #[test]
    fn nothing_is_left_of_a_matrix_of_zeros() {
        let found = factors(&Held { columns: 4, numbers: vec![0.0; 12] }, 2, 1).unwrap();
        assert!(found.left.iter().chain(&found.right).all(|number| *number == 0.0));
    }
}
