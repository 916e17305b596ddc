//! Operations on the rows of a matrix: products that are added, and norms.

use crate::{Computed, Error, MatrixFactor, MatrixProduct, Result, RowMagnitudes, Scalar};

/// The most columns of a left factor. A reader holds a few columns of the right one, from end to end.
const MAX_RANK: u64 = 16 << 10;

impl MatrixFactor {
    /// A factor of these numbers, in row-major order.
    pub fn new(numbers: Computed) -> Self {
        MatrixFactor { numbers, is_transposed: false }
    }

    /// A factor of these numbers, in column-major order.
    pub fn transposed(numbers: Computed) -> Self {
        MatrixFactor { numbers, is_transposed: true }
    }
}

impl MatrixProduct {
    /// `factor` times `left` times `right`, for a matrix of this many rows and columns.
    pub fn new(
        name: impl Into<String>,
        [rows, columns]: [u64; 2],
        rank: u64,
        factor: Scalar,
        left: MatrixFactor,
        right: MatrixFactor,
    ) -> Self {
        MatrixProduct { name: name.into(), rows, columns, rank, factor, left, right }
    }

    /// Checks that the factors fit each other and a matrix of so many elements.
    pub(crate) fn check(&self, elements: u64) -> Result<()> {
        let MatrixProduct { rows, columns, rank, .. } = *self;
        let wrong = |found: String, expected: String| {
            Error::corrupt("the factors of a product do not fit the matrix that it is added to")
                .tensor(&self.name)
                .found(found)
                .expected(expected)
        };
        if rows.checked_mul(columns) != Some(elements) {
            return Err(wrong(format!("{rows} × {columns}"), crate::count(elements, "element")));
        }
        if rank > MAX_RANK {
            return Err(Error::unsupported("the rank of a product is too high")
                .tensor(&self.name)
                .found(rank.to_string())
                .expected(format!("at most {MAX_RANK}")));
        }
        for (factor, lens) in [(&self.left, [rows, rank]), (&self.right, [rank, columns])] {
            let found = factor.numbers.elements();
            if lens[0].checked_mul(lens[1]).is_none_or(|expected| found != Some(expected)) {
                let found = found.map(|found| crate::count(found, "element")).unwrap_or_default();
                return Err(wrong(found, format!("{} × {}", lens[0], lens[1])));
            }
        }
        Ok(())
    }
}

impl RowMagnitudes {
    /// The norms of the rows of a matrix.
    pub fn new(name: impl Into<String>, [rows, columns]: [u64; 2], numbers: Computed) -> Self {
        RowMagnitudes { name: name.into(), rows, columns, numbers }
    }

    /// Checks that they fit a matrix of so many elements.
    pub(crate) fn check(&self, elements: u64) -> Result<()> {
        let RowMagnitudes { rows, columns, .. } = *self;
        match rows.checked_mul(columns) == Some(elements) && self.numbers.elements() == Some(rows) {
            true => Ok(()),
            false => Err(Error::corrupt("the norms of rows do not fit the matrix that they belong to")
                .tensor(&self.name)
                .found(self.numbers.elements().map(|found| crate::count(found, "number")).unwrap_or_default())
                .expected(format!("one for each row of {rows} × {columns}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Encoding, Extent, FileId, Operation};

    fn numbers(count: u64) -> Computed {
        Computed::new(Extent::new(FileId(0), 0, count * 4), Encoding::new(DType::F32, vec![0]))
    }

    fn sum(elements: u64, shape: [u64; 2], rank: u64, [left, right]: [u64; 2]) -> Result<Extent> {
        let [left, right] = [left, right].map(|count| MatrixFactor::new(numbers(count)));
        let product = MatrixProduct::new("a", shape, rank, Scalar::new(1.0).unwrap(), left, right);
        numbers(elements).with_operations(vec![Operation::AddProduct(Box::new(product))]).into_extent()
    }

    #[test]
    fn the_factors_of_a_product_fit_its_matrix() {
        assert_eq!(sum(15, [3, 5], 2, [6, 10]).unwrap().stored_ranges().count(), 3);
        assert!(sum(15, [5, 5], 2, [10, 10]).is_err(), "a product of another size");
        assert!(sum(15, [3, 5], 2, [10, 6]).is_err(), "factors in the wrong order");
        assert!(sum(15, [3, 5], 3, [6, 10]).is_err(), "factors of another rank");
        assert!(sum(15, [u64::MAX, 5], 2, [6, 10]).is_err(), "a product too large to count");
    }

    #[test]
    fn a_rank_has_a_bound() {
        let of_rank = |rank| sum(1, [1, 1], rank, [rank, rank]).is_ok();
        assert!(of_rank(MAX_RANK) && !of_rank(MAX_RANK + 1));
    }

    #[test]
    fn every_row_of_a_matrix_has_a_norm_and_operands_have_none() {
        let rows =
            |count, shape| Operation::ScaleRows(Box::new(RowMagnitudes::new("m", shape, numbers(count))));
        let scaled = |operations: Vec<Operation>| numbers(15).with_operations(operations).into_extent();
        assert!(scaled(vec![rows(3, [3, 5])]).is_ok());
        assert!(scaled(vec![rows(5, [3, 5])]).is_err() && scaled(vec![rows(3, [3, 4])]).is_err());
        // Each of them reads what is before it once more.
        assert!(scaled(vec![rows(3, [3, 5]); 3]).is_ok() && scaled(vec![rows(3, [3, 5]); 4]).is_err());
        let operand = numbers(3).with_operations(vec![rows(3, [3, 1])]);
        let nested = Operation::ScaleRows(Box::new(RowMagnitudes::new("m", [3, 5], operand)));
        assert!(scaled(vec![nested]).is_err());
    }
}
