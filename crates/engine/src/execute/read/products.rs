//! Products of two matrices that are added to numbers, computed for the range that is read.

use super::files::ComputedNumbers;
use super::memory::to_usize;
use crate::resources::COMPUTED_ELEMENTS;
use crate::transform::{LANES, Product, add_product};
use ckpt_api::{Error, MatrixProduct, Result};
use std::ops::Range;

/// Numbers of the right factor that are held: all of them, or columns from end to end.
const RIGHT: u64 = 8 * COMPUTED_ELEMENTS;
/// Numbers of the left factor that are held.
const LEFT: u64 = COMPUTED_ELEMENTS;

/// Adds the product of two matrices to runs of a matrix's elements.
pub(super) struct ProductReader<'a> {
    columns: u64,
    rank: u64,
    factor: f32,
    left: FactorReader<'a>,
    right: FactorReader<'a>,
}

impl<'a> ProductReader<'a> {
    /// Adds the product of factors with these numbers.
    pub(super) fn new(
        product: &MatrixProduct,
        left: Box<dyn ComputedNumbers + 'a>,
        right: Box<dyn ComputedNumbers + 'a>,
    ) -> Self {
        let MatrixProduct { rows, columns, rank, factor, .. } = *product;
        let [of_left, of_right] = [&product.left, &product.right].map(|factor| factor.is_transposed);
        let of_left = if of_left { Outer::Terms } else { Outer::Lines };
        let of_right = if of_right { Outer::Lines } else { Outer::Terms };
        ProductReader {
            columns,
            rank,
            factor: factor.get(),
            left: FactorReader::new(left, (rows, rank), (of_left, Outer::Lines)),
            right: FactorReader::new(right, (columns, rank), (of_right, Outer::Terms)),
        }
    }

    /// Adds to `elements`, in row-major order from number `first` on. Returns whether a finite number became one that is not.
    pub(super) fn apply(&mut self, first: u64, elements: &mut [[u8; 4]]) -> Result<bool> {
        let most = (RIGHT / self.rank.max(1)).max(1);
        let (mut start, mut overflows) = (0, false);
        while start < self.columns && self.rank > 0 {
            let end = self.columns.min(start.saturating_add(most));
            self.right.hold(start..end)?;
            overflows |= self.apply_columns(first, elements, (start, end))?;
            start = end;
        }
        Ok(overflows)
    }

    /// Adds to those elements that are in these columns, which the right factor holds.
    fn apply_columns(
        &mut self,
        first: u64,
        elements: &mut [[u8; 4]],
        (start, end): (u64, u64),
    ) -> Result<bool> {
        let columns = self.columns;
        let (mut at, mut rest, mut overflows) = (first, elements, false);
        while !rest.is_empty() {
            let (row, column) = (at / columns, at % columns);
            let whole_rows = if column == 0 { rest.len() as u64 / columns } else { 0 };
            let rows = whole_rows.min(LEFT / self.rank.max(1)).max(1);
            // Some whole rows, or a part of one.
            let row_len = if whole_rows > 0 { columns } else { (columns - column).min(rest.len() as u64) };
            let (now, later) = rest.split_at_mut(to_usize(rows * row_len)?);
            let (from, to) = (start.max(column), end.min(column + row_len));
            if from < to {
                let product = Product {
                    factor: self.factor,
                    rank: to_usize(self.rank)?,
                    left: self.left.lines(row, rows)?,
                    right: &self.right.numbers,
                    stride: self.right.stride,
                    column: to_usize(from - start)?,
                };
                let range = (to_usize(from - column)?, to_usize(to - from)?);
                overflows |= add_product(now, to_usize(row_len)?, range, product);
            }
            (at, rest) = (at + rows * row_len, later);
        }
        Ok(overflows)
    }
}

/// Which of a factor's two axes is the outer one: its lines, or the terms of sums. The lines of a left factor are its rows, and
/// those of a right one its columns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outer {
    Lines,
    Terms,
}

/// A factor, of which some lines are held, `rank` numbers each.
struct FactorReader<'a> {
    factor: Box<dyn ComputedNumbers + 'a>,
    lines: u64,
    rank: u64,
    stored: Outer,
    held: Outer,
    /// The lines that are held.
    range: Range<u64>,
    numbers: Vec<f32>,
    /// If terms are the outer axis, numbers from one term to the next.
    stride: usize,
    bytes: Vec<u8>,
}

impl<'a> FactorReader<'a> {
    fn new(
        factor: Box<dyn ComputedNumbers + 'a>,
        (lines, rank): (u64, u64),
        (stored, held): (Outer, Outer),
    ) -> Self {
        let (numbers, bytes) = (Vec::new(), Vec::new());
        FactorReader { factor, lines, rank, stored, held, range: 0..0, numbers, stride: 0, bytes }
    }

    /// The numbers of `count` lines from line `first` on, one line after the other.
    fn lines(&mut self, first: u64, count: u64) -> Result<&[f32]> {
        let end = first + count;
        if first < self.range.start || end > self.range.end {
            // Neighbors are needed next.
            self.hold(first..self.lines.min(end.max(first.saturating_add(LEFT / self.rank.max(1)))))?;
        }
        let rank = to_usize(self.rank)?;
        let at = to_usize(first - self.range.start)? * rank;
        let lines = self.numbers.get(at..at + to_usize(count)? * rank);
        lines.ok_or_else(|| Error::defect("a factor of a product has no such rows"))
    }

    /// Holds these lines.
    fn hold(&mut self, range: Range<u64>) -> Result<()> {
        if self.range == range && !self.numbers.is_empty() {
            return Ok(());
        }
        let (count, rank) = (to_usize(range.end - range.start)?, to_usize(self.rank)?);
        self.stride = count.next_multiple_of(LANES);
        let len = match self.held {
            Outer::Lines => count * rank,
            // Whole lanes are loaded from every column.
            Outer::Terms => self.stride * rank + LANES,
        };
        self.numbers.clear();
        self.numbers.resize(len, 0.0);
        self.range = 0..0;
        match self.stored {
            Outer::Lines => {
                self.read(range.start * self.rank, count * rank)?;
                for (line, terms) in self.bytes.as_chunks::<4>().0.chunks(rank.max(1)).enumerate() {
                    for (term, bytes) in terms.iter().enumerate() {
                        let at = index(self.held, line, term, (rank, self.stride));
                        put(&mut self.numbers, at, bytes);
                    }
                }
            }
            Outer::Terms => {
                for term in 0..rank {
                    self.read(term as u64 * self.lines + range.start, count)?;
                    for (line, bytes) in self.bytes.as_chunks::<4>().0.iter().enumerate() {
                        let at = index(self.held, line, term, (rank, self.stride));
                        put(&mut self.numbers, at, bytes);
                    }
                }
            }
        }
        self.range = range;
        Ok(())
    }

    /// Reads `count` numbers from number `first` on.
    fn read(&mut self, first: u64, count: usize) -> Result<()> {
        self.bytes.resize(count * 4, 0);
        self.factor.read_at(first.saturating_mul(4), &mut self.bytes)
    }
}

/// Where a number is among those that are held.
fn index(held: Outer, line: usize, term: usize, (rank, stride): (usize, usize)) -> usize {
    match held {
        Outer::Lines => line * rank + term,
        Outer::Terms => term * stride + line,
    }
}

fn put(numbers: &mut [f32], at: usize, bytes: &[u8; 4]) {
    if let Some(number) = numbers.get_mut(at) {
        *number = f32::from_le_bytes(*bytes);
    }
}
