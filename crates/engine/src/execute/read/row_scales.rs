//! Rows that are scaled to norms of their own.

use super::files::ComputedNumbers;
use super::memory::to_usize;
use crate::resources::COMPUTED_ELEMENTS;
use crate::transform::{SquareSum, each_number};
use ckpt_api::{Error, Result, RowMagnitudes};

/// Scales runs of a matrix's elements, each row by its magnitude over its norm.
pub(super) struct RowScaler<'a> {
    /// The numbers before they are scaled, for rows of which a run is only a part.
    before: Box<dyn ComputedNumbers + 'a>,
    magnitudes: Box<dyn ComputedNumbers + 'a>,
    columns: u64,
    /// The row of which a part was scaled last, and its scale.
    last: Option<(u64, f32)>,
    bytes: Vec<u8>,
}

impl<'a> RowScaler<'a> {
    /// Scales what `before` has, to the norms in `magnitudes`.
    pub(super) fn new(
        rows: &RowMagnitudes,
        before: Box<dyn ComputedNumbers + 'a>,
        magnitudes: Box<dyn ComputedNumbers + 'a>,
    ) -> Self {
        RowScaler { before, magnitudes, columns: rows.columns, last: None, bytes: Vec::new() }
    }

    /// Scales `elements`, in row-major order from number `first` on. Returns whether a finite number became one that is not.
    pub(super) fn apply(&mut self, first: u64, elements: &mut [[u8; 4]]) -> Result<bool> {
        let (mut at, mut rest, mut overflows) = (first, elements, false);
        while !rest.is_empty() {
            let (row, column) = (at / self.columns, at % self.columns);
            let take = (self.columns - column).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(to_usize(take)?);
            let scale = match self.last {
                Some((last, scale)) if last == row => scale,
                _ if take == self.columns => self.scale(row, norm(now))?,
                _ => {
                    let scale = self.scale_of_row(row)?;
                    self.last = Some((row, scale));
                    scale
                }
            };
            overflows |= each_number(now, |number| number * scale);
            (at, rest) = (at + take, later);
        }
        Ok(overflows)
    }

    /// The scale of a row that has this norm.
    fn scale(&self, row: u64, norm: f32) -> Result<f32> {
        let mut magnitude = [0; 4];
        self.magnitudes.read_at(row.saturating_mul(4), &mut magnitude)?;
        Ok(f32::from_le_bytes(magnitude) / norm)
    }

    /// The scale of a row whose numbers are elsewhere.
    fn scale_of_row(&mut self, row: u64) -> Result<f32> {
        let overflow = || Error::defect("a row of computed numbers has no position");
        let start = row.checked_mul(self.columns).ok_or_else(overflow)?;
        let end = start.checked_add(self.columns).ok_or_else(overflow)?;
        let (mut at, mut sum) = (start, SquareSum::default());
        while at < end {
            let take = (end - at).min(COMPUTED_ELEMENTS);
            self.bytes.resize(to_usize(take.saturating_mul(4))?, 0);
            self.before.read_at(at.saturating_mul(4), &mut self.bytes)?;
            sum.add(self.bytes.as_chunks::<4>().0);
            at += take;
        }
        self.scale(row, sum.norm())
    }
}

fn norm(row: &[[u8; 4]]) -> f32 {
    let mut sum = SquareSum::default();
    sum.add(row);
    sum.norm()
}
