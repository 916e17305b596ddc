//! The numbers that belong to blocks of a tensor's elements, read as they are needed.

use super::elementwise::apply_elementwise;
use super::files::{ComputedNumbers, Handle};
use super::memory::to_usize;
use crate::layout::{Step, steps};
use crate::resources::COMPUTED_ELEMENTS;
use crate::transform::{Arithmetic, Buffer, affine_each, castable, with_blocks, with_each};
use ckpt_api::{
    BlockIndex, BlockNumbers, BlockReduction, DType, Encoding, Error, Extent, Operation, Result, Shape,
};

/// Opens a stored extent whose checksum is right: its file, and where it begins there.
pub(super) type Verified<'v, 'a> = &'v dyn Fn(&Extent) -> Result<(Handle<'a>, u64)>;

/// Changes runs of a tensor's elements by the numbers of their blocks.
pub(super) struct BlockReader<'a> {
    numbers: Box<dyn ComputedNumbers + 'a>,
    /// The shape of the tensor of elements.
    shape: Shape,
    block: Vec<u64>,
    /// Blocks on each axis.
    blocks: Shape,
    /// An axis, and the block of each of its indices.
    index: Option<(usize, Vec<u32>)>,
    /// How many numbers are read at once: neighbors are needed next.
    ahead: u64,
    /// Numbers that were read last: the position of the first, and their values.
    held: (u64, Vec<f32>),
    /// The numbers of a row, in the order of its elements.
    gathered: Vec<f32>,
    bytes: Vec<u8>,
}

/// How many numbers are read at once: those that are stored. Of numbers that take all elements of their blocks, those whose blocks
/// have as many elements together as a piece: whole rows of blocks, if these have several rows.
fn ahead(blocks: &BlockNumbers) -> u64 {
    let reductions = blocks.numbers.operations.iter().filter_map(|operation| match operation {
        Operation::Reduce(reduction) => Some(reduction),
        _ => None,
    });
    let reductions: Vec<&BlockReduction> = reductions.collect();
    let at_once = |elements: u64| COMPUTED_ELEMENTS.checked_div(elements).unwrap_or(1).max(1);
    match reductions[..] {
        [] => COMPUTED_ELEMENTS / 4,
        [BlockReduction { shape: [_, columns], block: [height, width], .. }] if *height > 1 => {
            at_once(columns.saturating_mul(*height)).saturating_mul(columns.div_ceil((*width).max(1)))
        }
        _ => {
            let elements = reductions.iter().flat_map(|reduction| reduction.block);
            at_once(elements.fold(1, u64::saturating_mul))
        }
    }
}

impl<'a> BlockReader<'a> {
    pub(super) fn open(
        verified: Verified<'_, 'a>,
        blocks: &BlockNumbers,
        numbers: Box<dyn ComputedNumbers + 'a>,
    ) -> Result<Self> {
        let index = blocks.index.as_ref().map(|index| read_index(verified, index, &blocks.shape));
        Ok(BlockReader {
            numbers,
            shape: blocks.shape.clone(),
            block: blocks.block.clone(),
            blocks: blocks.blocks()?,
            index: index.transpose()?,
            ahead: ahead(blocks),
            held: (0, Vec::new()),
            gathered: Vec::new(),
            bytes: Vec::new(),
        })
    }

    /// Changes `elements`, in row-major order from number `first` on, each by the number of its block. Returns whether a finite
    /// number became one that is not.
    pub(super) fn apply(
        &mut self,
        arithmetic: Arithmetic,
        first: u64,
        elements: &mut [[u8; 4]],
    ) -> Result<bool> {
        // A tensor without axes is one row of one column.
        let columns = self.shape.last().copied().unwrap_or(1);
        let block = self.block.last().copied().unwrap_or(1);
        let in_row = self.blocks.last().copied().unwrap_or(1);
        let is_gathered = self.index.as_ref().is_some_and(|(axis, _)| axis + 1 == self.shape.rank());
        let (mut at, mut rest, mut overflows) = (first, elements, false);
        while !rest.is_empty() {
            let (row, column) = (at / columns, at % columns);
            let take = (columns - column).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(to_usize(take)?);
            let row = self.row_of(row)? * in_row;
            if is_gathered {
                self.gather(row, in_row, to_usize(column)?..to_usize(column + take)?)?;
                overflows |= with_each(arithmetic, now, &self.gathered);
            } else {
                let count = (column + take).div_ceil(block) - column / block;
                let numbers = self.read(row + column / block, count)?;
                overflows |= match block {
                    1 => with_each(arithmetic, now, numbers),
                    _ => with_blocks(arithmetic, now, numbers, to_usize(block)?, to_usize(column % block)?),
                };
            }
            (at, rest) = (at + take, later);
        }
        Ok(overflows)
    }

    /// Whether its blocks are those of `other`, one for each column of a row.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let is_gathered = self.index.as_ref().is_some_and(|(axis, _)| axis + 1 == self.shape.rank());
        let own = (&self.shape, &self.block, &self.index);
        self.block.last() == Some(&1) && !is_gathered && own == (&other.shape, &other.block, &other.index)
    }

    /// Subtracts from `elements` the numbers of this one, and multiplies them by those of `scales`, whose blocks are the same.
    /// As [`BlockReader::apply`].
    pub(super) fn apply_affine(
        &mut self,
        scales: &mut Self,
        first: u64,
        elements: &mut [[u8; 4]],
    ) -> Result<bool> {
        let columns = self.shape.last().copied().unwrap_or(1);
        let (mut at, mut rest, mut overflows) = (first, elements, false);
        while !rest.is_empty() {
            let (row, column) = (at / columns, at % columns);
            let take = (columns - column).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(to_usize(take)?);
            let from = self.row_of(row)? * columns + column;
            overflows |= affine_each(now, self.read(from, take)?, scales.read(from, take)?);
            (at, rest) = (at + take, later);
        }
        Ok(overflows)
    }

    /// The row of numbers that belongs to a row of elements: rows have all indices but the one on the last axis.
    fn row_of(&self, mut row: u64) -> Result<u64> {
        let (mut of_numbers, mut stride) = (0, 1);
        let axes = self.shape.iter().zip(&self.block).zip(self.blocks.iter()).enumerate();
        for (axis, ((len, block), blocks)) in axes.rev().skip(1) {
            let own = row % len;
            let block = match &self.index {
                Some((indexed, index)) if *indexed == axis => u64::from(
                    *index.get(to_usize(own)?).ok_or_else(|| Error::defect("an index has no block"))?,
                ),
                _ => own / block,
            };
            of_numbers += block * stride;
            row /= len;
            stride *= blocks;
        }
        Ok(of_numbers)
    }

    /// Brings the numbers of a row, from `first` on, into the order of these columns.
    fn gather(&mut self, first: u64, in_row: u64, columns: std::ops::Range<usize>) -> Result<()> {
        self.read(first, in_row)?;
        let (start, held) = (to_usize(first - self.held.0)?, &self.held.1);
        let index = self.index.as_ref().and_then(|(_, index)| index.get(columns)).unwrap_or_default();
        self.gathered.clear();
        let own = |block: &u32| held.get(start + *block as usize).copied().unwrap_or(f32::NAN);
        self.gathered.extend(index.iter().map(own));
        Ok(())
    }

    /// Returns `count` numbers from number `first` on.
    fn read(&mut self, first: u64, count: u64) -> Result<&[f32]> {
        let held = self.held.0..self.held.0 + self.held.1.len() as u64;
        if !held.contains(&first) || first + count > held.end {
            let end = (first + count.max(self.ahead)).min(self.blocks.elements());
            self.bytes.resize(to_usize(end.saturating_sub(first).saturating_mul(4))?, 0);
            self.numbers.read_at(first.saturating_mul(4), &mut self.bytes)?;
            let floats = self.bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
            self.held.0 = first;
            self.held.1.clear();
            self.held.1.extend(floats);
        }
        let from = to_usize(first - self.held.0)?;
        let numbers = self.held.1.get(from..from + to_usize(count)?);
        numbers.ok_or_else(|| Error::defect("a block has no number"))
    }
}

/// Reads the block of each index of an axis.
fn read_index(verified: Verified<'_, '_>, index: &BlockIndex, shape: &Shape) -> Result<(usize, Vec<u32>)> {
    let (stored, start) = verified(&index.stored)?;
    let mut bytes = vec![0; to_usize(index.stored.len)?];
    stored.read_at(start, &mut bytes)?;
    let size = to_usize(index.encoding.dtype.bytes().unwrap_or(1))?;
    let is_big = index.encoding.endian == ckpt_api::Endian::Big;
    let number = |(position, bytes): (usize, &[u8])| {
        let mut all = [0; 8];
        let own = bytes.iter().rev().copied();
        match is_big {
            true => all.iter_mut().zip(own).for_each(|(to, from)| *to = from),
            false => all.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from),
        }
        let number = u64::from_le_bytes(all);
        // A negative number is a large one here.
        u32::try_from(number).ok().filter(|number| u64::from(*number) < index.blocks).ok_or_else(|| {
            let found = match index.encoding.dtype {
                DType::I32 => i64::from(number as u32 as i32).to_string(),
                _ => (number as i64).to_string(),
            };
            Error::corrupt("an index of blocks names a block that does not exist")
                .tensor(&index.name)
                .field(format!("element {position}"))
                .found(found)
                .expected(format!("0 to {}", index.blocks.saturating_sub(1)))
        })
    };
    let blocks: Vec<u32> = bytes.chunks_exact(size.max(1)).enumerate().map(number).collect::<Result<_>>()?;
    match shape.get(index.axis) {
        Some(len) if *len == blocks.len() as u64 => Ok((index.axis, blocks)),
        _ => Err(Error::defect("an index of blocks does not fit its axis")),
    }
}

/// The steps from stored elements to little-endian 32-bit floats, in the same order.
pub(super) fn to_floats(stored: &Encoding) -> Result<Vec<Step>> {
    let stored = stored.clone().with_order(vec![0]).with_tiles(Vec::new());
    let floats = Encoding::new(DType::F32, vec![0]);
    let is_long = matches!(stored.dtype, DType::I64 | DType::U64);
    if castable(stored.dtype, DType::F32) || !(is_long || castable(stored.dtype, DType::F64)) {
        return steps(&stored, &floats, 0, false, &[]);
    }
    // Integers that not every float holds: through larger floats they are rounded once.
    let exact = Encoding::new(DType::F64, vec![0]);
    if is_long {
        // Scaled integers, such as biases, that seldom need more than 32 bits: one that does is refused.
        let short = Encoding::new(DType::I32, vec![0]);
        let first = steps(&stored, &short, 0, false, &[])?;
        let rest = [steps(&short, &exact, 0, false, &[])?, steps(&exact, &floats, 0, false, &[])?];
        return Ok([first, rest.concat()].concat());
    }
    let first = steps(&stored, &exact, 0, false, &[])?;
    Ok([first, steps(&exact, &floats, 0, false, &[])?].concat())
}

/// Brings stored elements, of which the first is number `first`, into 32-bit floats.
pub(super) fn elements_to_floats(
    steps: &[Step],
    first: u64,
    bytes: &mut Buffer,
    spare: &mut Buffer,
) -> Result<()> {
    apply_elementwise(steps, first, 0, bytes, spare).map(drop)
}
