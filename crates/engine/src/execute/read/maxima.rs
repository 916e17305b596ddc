//! The largest magnitudes of the blocks of a stored matrix.

use super::block_numbers::elements_to_floats;
use super::files::Handle;
use super::memory::to_usize;
use crate::layout::Step;
use crate::resources::COMPUTED_ELEMENTS;
use crate::transform::Buffer;
use ckpt_api::{BlockMaxima, Encoding, Error, Result};

/// The stored elements of a matrix.
pub(super) struct Matrix<'m, 'a> {
    pub(super) stored: &'m Handle<'a>,
    /// Where the stored elements begin.
    pub(super) start: u64,
    pub(super) encoding: &'m Encoding,
    /// From stored elements to 32-bit floats.
    pub(super) steps: &'m [Step],
}

impl Matrix<'_, '_> {
    /// Writes the largest magnitude of each block to `out`, from block number `first` on, as 32-bit floats. A block with an
    /// element that is no number has the one that is none.
    ///
    /// Blocks of the same rows are computed together, from pieces of rows.
    pub(super) fn maxima(
        &self,
        maxima: &BlockMaxima,
        first: u64,
        out: &mut [[u8; 4]],
        [elements, spare]: [&mut Buffer; 2],
    ) -> Result<()> {
        let [_, across] = maxima.blocks().filter(|blocks| !blocks.contains(&0)).ok_or_else(no_blocks)?;
        let ([rows, columns], [height, width]) = (maxima.shape, maxima.block);
        let (mut at, mut rest) = (first, out);
        while !rest.is_empty() {
            let (down, block) = (at / across, at % across);
            let take = (across - block).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(to_usize(take)?);
            let mut largest = vec![0_f32; now.len()];
            let (from, to) = (block * width, ((block + take) * width).min(columns));
            let end = ((down + 1) * height).min(rows);
            let is_whole = to - from == columns;
            let mut row = down * height;
            while row < end {
                let taken = if is_whole { (COMPUTED_ELEMENTS / columns).clamp(1, end - row) } else { 1 };
                self.add_rows(
                    row * columns + from,
                    taken,
                    to - from,
                    (width, &mut largest),
                    [&mut *elements, &mut *spare],
                )?;
                row += taken;
            }
            now.iter_mut().zip(&largest).for_each(|(out, number)| *out = number.to_le_bytes());
            (at, rest) = (at + take, later);
        }
        Ok(())
    }

    /// Takes rows of `columns` elements, which follow each other from element `first` on, into the maxima of their blocks.
    fn add_rows(
        &self,
        first: u64,
        rows: u64,
        columns: u64,
        (width, largest): (u64, &mut [f32]),
        [elements, spare]: [&mut Buffer; 2],
    ) -> Result<()> {
        let size = self.encoding.dtype.bytes().ok_or_else(no_blocks)?;
        let (mut done, all) = (0, rows * columns);
        while done < all {
            // A piece ends with a row unless a row is longer than a piece.
            let count = match columns <= COMPUTED_ELEMENTS {
                true => (COMPUTED_ELEMENTS / columns * columns).min(all - done),
                false => COMPUTED_ELEMENTS.min(columns - done % columns),
            };
            let offset = self.start + (first + done) * size;
            elements.resize(to_usize(count * size)?, offset);
            self.stored.read_at(offset, elements)?;
            elements_to_floats(self.steps, first + done, elements, spare)?;
            let floats = elements.as_chunks::<4>().0;
            for (row, line) in floats.chunks(to_usize(columns)?).enumerate() {
                let column = if row == 0 { done % columns } else { 0 };
                add_line(line, (to_usize(column)?, to_usize(width)?), largest);
            }
            done += count;
        }
        Ok(())
    }
}

/// Takes a part of a row, from `column` on, into the maxima of blocks of `width` columns.
fn add_line(line: &[[u8; 4]], (column, width): (usize, usize), largest: &mut [f32]) {
    let head = (width - column % width).min(line.len());
    let (first, rest) = line.split_at(head);
    let parts = std::iter::once(first).chain(rest.chunks(width));
    for (part, largest) in parts.zip(largest.iter_mut().skip(column / width)) {
        let magnitudes = part.iter().map(|bytes| f32::from_le_bytes(*bytes).abs());
        // What is no number stays: no comparison with it holds.
        *largest =
            magnitudes.fold(*largest, |most, next| if next <= most || most.is_nan() { most } else { next });
    }
}

fn no_blocks() -> Error {
    Error::defect("the blocks of a matrix have no maxima")
}
