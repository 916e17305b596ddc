//! The scales of a tensor's blocks, read as they are needed.

use super::elementwise::apply_elementwise;
use super::files::Handle;
use super::memory::to_usize;
use crate::layout::{Step, steps};
use crate::resources::COMPUTED_ELEMENTS;
use crate::transform::{Buffer, multiply_blocks};
use ckpt_api::{BlockScales, DType, Encoding, Error, Extent, Result, Shape};

/// Opens a stored extent whose checksum is right: its file, and where it begins there.
pub(super) type Verified<'v, 'a> = &'v dyn Fn(&Extent) -> Result<(Handle<'a>, u64)>;

/// Multiplies runs of a tensor's elements by the scales of their blocks.
pub(super) struct ScaleReader<'a> {
    scales: BlockScales,
    stored: Handle<'a>,
    /// Where the stored scales begin.
    start: u64,
    /// Blocks on each axis.
    blocks: Shape,
    /// From stored scales to 32-bit floats.
    steps: Vec<Step>,
    /// Scales that were read last: the number of the first, and their values.
    held: (u64, Vec<f32>),
    bytes: Buffer,
    spare: Buffer,
}

/// Scales read at once: neighbors are needed next.
const AHEAD: u64 = COMPUTED_ELEMENTS / 4;

impl<'a> ScaleReader<'a> {
    pub(super) fn open(verified: Verified<'_, 'a>, scales: &BlockScales) -> Result<Self> {
        let (stored, start) = verified(&scales.stored)?;
        Ok(ScaleReader {
            stored,
            start,
            blocks: scales.blocks()?,
            steps: to_floats(&scales.encoding)?,
            held: (0, Vec::new()),
            bytes: Buffer::default(),
            spare: Buffer::default(),
            scales: scales.clone(),
        })
    }

    /// Multiplies `numbers`, elements in row-major order from number `first` on, each by the scale of its block. Returns
    /// whether a finite number became one that is not.
    pub(super) fn multiply(&mut self, first: u64, numbers: &mut [[u8; 4]]) -> Result<bool> {
        // A tensor without axes is one row of one column.
        let columns = self.scales.shape.last().copied().unwrap_or(1);
        let block = self.scales.block.last().copied().unwrap_or(1);
        let in_row = self.blocks.last().copied().unwrap_or(1);
        let (mut at, mut rest, mut overflows) = (first, numbers, false);
        while !rest.is_empty() {
            let (row, column) = (at / columns, at % columns);
            let take = (columns - column).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(to_usize(take)?);
            let scale = self.row_of(row) * in_row + column / block;
            let count = (column + take).div_ceil(block) - column / block;
            let before = to_usize(column % block)?;
            overflows |= multiply_blocks(now, self.read(scale, count)?, to_usize(block)?, before);
            (at, rest) = (at + take, later);
        }
        Ok(overflows)
    }

    /// The row of scales that belongs to a row of elements: rows have all indices but the one on the last axis.
    fn row_of(&self, mut row: u64) -> u64 {
        let (mut of_scales, mut stride) = (0, 1);
        let axes = self.scales.shape.iter().zip(&self.scales.block).zip(self.blocks.iter());
        for ((len, block), blocks) in axes.rev().skip(1) {
            of_scales += row % len / block * stride;
            row /= len;
            stride *= blocks;
        }
        of_scales
    }

    /// Returns `count` scales from number `first` on.
    fn read(&mut self, first: u64, count: u64) -> Result<&[f32]> {
        let held = self.held.0..self.held.0 + self.held.1.len() as u64;
        if !held.contains(&first) || first + count > held.end {
            let end = (first + count.max(AHEAD)).min(self.blocks.elements());
            let bytes = |scales| {
                let len = self.scales.encoding.stored_len(scales);
                len.ok_or_else(|| Error::defect("stored scales have no length"))
            };
            let (offset, len) = (self.start + bytes(first)?, bytes(end.saturating_sub(first))?);
            self.bytes.resize(to_usize(len)?, offset);
            self.stored.read_at(offset, &mut self.bytes)?;
            apply_elementwise(&self.steps, first, 0, &mut self.bytes, &mut self.spare)?;
            let floats = self.bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
            self.held.0 = first;
            self.held.1.clear();
            self.held.1.extend(floats);
        }
        let from = to_usize(first - self.held.0)?;
        let scales = self.held.1.get(from..from + to_usize(count)?);
        scales.ok_or_else(|| Error::defect("a block has no scale"))
    }
}

/// The steps from stored elements to little-endian 32-bit floats, in the same order.
pub(super) fn to_floats(stored: &Encoding) -> Result<Vec<Step>> {
    let stored = stored.clone().with_order(vec![0]).with_tiles(Vec::new());
    steps(&stored, &Encoding::new(DType::F32, vec![0]), 0, false, &[])
}
