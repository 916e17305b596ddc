//! Numbers of blocks that are computed from the elements of a matrix: what scales are made of.

use super::files::ComputedNumbers;
use super::memory::to_usize;
use crate::resources::COMPUTED_ELEMENTS;
use crate::transform::{Extremes, affine};
use ckpt_api::{BlockReduction, Error, Reduction, Result};

/// Reads the elements of blocks, and returns the number that each block becomes.
///
/// Blocks of the same rows are computed together, from pieces of rows.
pub(super) struct Reducer<'a> {
    /// The elements of the matrix, in row-major order.
    elements: Box<dyn ComputedNumbers + 'a>,
    reduction: BlockReduction,
    bytes: Vec<u8>,
    extremes: Vec<Extremes>,
}

impl<'a> Reducer<'a> {
    pub(super) fn new(reduction: &BlockReduction, elements: Box<dyn ComputedNumbers + 'a>) -> Self {
        Reducer { elements, reduction: reduction.clone(), bytes: Vec::new(), extremes: Vec::new() }
    }

    /// Fills `out` with the numbers of blocks, from block `first` on, as little-endian 32-bit floats.
    pub(super) fn read(&mut self, first: u64, out: &mut [[u8; 4]]) -> Result<()> {
        let blocks = self.reduction.blocks().filter(|blocks| !blocks.contains(&0));
        let [_, across] = blocks.ok_or_else(no_blocks)?;
        let ([rows, columns], [height, width]) = (self.reduction.shape, self.reduction.block);
        let (mut at, mut rest) = (first, out);
        while !rest.is_empty() {
            let (down, block) = (at / across, at % across);
            let take = (across - block).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(to_usize(take)?);
            self.extremes.clear();
            self.extremes.resize(now.len(), Extremes::default());
            let (from, to) = (block * width, ((block + take) * width).min(columns));
            let end = ((down + 1) * height).min(rows);
            let is_whole = to - from == columns;
            let mut row = down * height;
            while row < end {
                let taken = if is_whole { (COMPUTED_ELEMENTS / columns).clamp(1, end - row) } else { 1 };
                self.add_rows(row * columns + from, taken, to - from)?;
                row += taken;
            }
            let reduction = self.reduction.reduction;
            for (out, extremes) in now.iter_mut().zip(&self.extremes) {
                *out = reduced(reduction, extremes).to_le_bytes();
            }
            (at, rest) = (at + take, later);
        }
        Ok(())
    }

    /// Takes rows of `columns` elements, which follow each other from element `first` on, into their blocks.
    fn add_rows(&mut self, first: u64, rows: u64, columns: u64) -> Result<()> {
        let width = to_usize(self.reduction.block[1])?;
        let (mut done, all) = (0, rows * columns);
        while done < all {
            // A piece ends with a row unless a row is longer than a piece.
            let count = match columns <= COMPUTED_ELEMENTS {
                true => (COMPUTED_ELEMENTS / columns * columns).min(all - done),
                false => COMPUTED_ELEMENTS.min(columns - done % columns),
            };
            self.bytes.resize(to_usize(count * 4)?, 0);
            self.elements.read_at((first + done) * 4, &mut self.bytes)?;
            let floats = self.bytes.as_chunks::<4>().0;
            for (row, line) in floats.chunks(to_usize(columns)?).enumerate() {
                let column = if row == 0 { to_usize(done % columns)? } else { 0 };
                Extremes::add_line(line, (column, width), &mut self.extremes);
            }
            done += count;
        }
        Ok(())
    }
}

/// What a block becomes.
fn reduced(reduction: Reduction, extremes: &Extremes) -> f32 {
    match reduction {
        Reduction::LargestMagnitude => extremes.magnitude(),
        Reduction::AffineScale { bits } => affine(bits, extremes).0,
        Reduction::AffineOffset { bits } => affine(bits, extremes).1,
        // A later version's: no scale that anything could be divided by.
        _ => f32::NAN,
    }
}

fn no_blocks() -> Error {
    Error::defect("the blocks of a matrix have no numbers")
}
