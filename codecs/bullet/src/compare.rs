//! Whether raw.bin and quantised.bin hold what the weights make.

use crate::architecture::{Architecture, Entry};
use crate::format::{Part, Section, entries};
use crate::parameter::Parameter;
use ckpt_api::{Contents, DType, Error, File, Input, Result, Scaling};
use std::ops::Range;

/// Most numbers of one tensor that are in memory.
const MOST: u64 = 1 << 18;

/// The weights that were read, column by column.
pub(crate) struct Weights<'a> {
    pub(crate) input: &'a Input,
    pub(crate) contents: &'a Contents,
}

/// Compares every entry of a file with what the weights make of it.
///
/// # Errors
/// [`ckpt_api::Kind::Mismatch`], naming the first element that differs; [`ckpt_api::Kind::Usage`] where weights are missing
/// that an entry needs.
pub(crate) fn compare(
    architecture: &Architecture,
    part: Part,
    file: &File,
    sections: &[Section],
    weights: &Weights<'_>,
) -> Result<()> {
    for section in sections {
        let Some(entry) = entries(architecture, part).get(section.entry) else { continue };
        let merged = entry.merge.as_deref().filter(|_| part != Part::Raw);
        let merged = merged.map(|id| weights.matrix(architecture.parameter(id)?)).transpose()?;
        let quantized = part != Part::Raw;
        let mut stored = Stored {
            file,
            entry,
            dtype: if quantized { entry.kind.dtype() } else { DType::F32 },
            scaling: entry.scaling().filter(|_| quantized),
            offset: section.offset,
            element: 0,
        };
        for parameter in architecture.stored_as(entry, part)?.parts {
            let own = weights.matrix(parameter)?;
            let transposed = quantized && entry.transpose;
            for (rows, columns) in boxes(own.rows, own.columns, transposed) {
                let numbers = own.numbers(&rows, &columns)?;
                let shared = match &merged {
                    Some(shared) => shared.repeated(&rows, &columns)?,
                    None => Vec::new(),
                };
                stored.compare(order(&rows, &columns, transposed), &numbers, &shared)?;
            }
        }
    }
    Ok(())
}

/// Whether a 32-bit integer among these is so large that a 32-bit float, divided by a scale, does not lead back to it.
pub(crate) fn has_inexact(file: &File, section: &Section) -> Result<bool> {
    let end = section.offset.saturating_add(section.len);
    let mut at = section.offset;
    while at < end {
        let bytes = file.bytes(at, (end - at).min(MOST * 4))?;
        let mut integers = bytes.as_chunks::<4>().0.iter().map(|bytes| i32::from_le_bytes(*bytes));
        if integers.any(|integer| integer.unsigned_abs() > 1 << 23) {
            return Ok(true);
        }
        at = at.saturating_add(MOST * 4);
    }
    Ok(false)
}

impl Weights<'_> {
    fn matrix(&self, parameter: &Parameter) -> Result<Matrix> {
        let found = self.contents.checkpoint.tensor(&parameter.id);
        let placement = found.and_then(|(id, _)| self.contents.placements.get(id.0));
        let extent = placement.and_then(|placement| placement.extents.first());
        let name = extent.and_then(|extent| self.contents.files.get(extent.file.0));
        let (Some(extent), Some(name)) = (extent, name) else {
            return Err(Error::usage("the files cannot be compared, for weights that one needs are missing")
                .field("check")
                .tensor(&parameter.id)
                .help("raw.bin lacks what is only merged into others, and optimiser_state lacks nothing"));
        };
        let (rows, columns) = parameter.rows_and_columns();
        Ok(Matrix { file: self.input.file(name)?, offset: extent.offset, rows, columns })
    }
}

/// Floats of a file, column by column.
struct Matrix {
    file: File,
    offset: u64,
    rows: u64,
    columns: u64,
}

impl Matrix {
    /// A box of it, column by column.
    fn numbers(&self, rows: &Range<u64>, columns: &Range<u64>) -> Result<Vec<f32>> {
        let whole = *rows == (0..self.rows);
        let each = if whole { columns.end.saturating_sub(columns.start) } else { 1 };
        let mut numbers = Vec::new();
        let mut column = columns.start;
        while column < columns.end {
            // Within the file, as was checked when the tensor was read.
            let first = column.saturating_mul(self.rows).saturating_add(rows.start);
            let count = rows.end.saturating_sub(rows.start).saturating_mul(each);
            let bytes = self
                .file
                .bytes(self.offset.saturating_add(first.saturating_mul(4)), count.saturating_mul(4))?;
            numbers.extend(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
            column = column.saturating_add(each.max(1));
        }
        Ok(numbers)
    }

    /// A box of it repeated again and again from left to right.
    fn repeated(&self, rows: &Range<u64>, columns: &Range<u64>) -> Result<Vec<f32>> {
        let mut numbers = Vec::new();
        let mut column = columns.start;
        while column < columns.end {
            let own = column.checked_rem(self.columns).unwrap_or(0);
            let len = (self.columns - own).min(columns.end - column);
            numbers.extend(self.numbers(rows, &(own..own + len))?);
            column += len;
        }
        Ok(numbers)
    }
}

/// Boxes of which each lies in one piece in stored order: rows, and columns.
fn boxes(rows: u64, columns: u64, transposed: bool) -> impl Iterator<Item = (Range<u64>, Range<u64>)> {
    let (slow, fast) = if transposed { (rows, columns) } else { (columns, rows) };
    let step = (MOST.checked_div(fast).unwrap_or(1)).max(1);
    let pieces = |len: u64, step: u64| {
        (0..len.div_ceil(step)).map(move |k| k * step..(k * step).saturating_add(step).min(len))
    };
    pieces(slow, step).flat_map(move |slow| {
        pieces(fast, MOST).map(move |fast| match transposed {
            true => (slow.clone(), fast),
            false => (fast, slow.clone()),
        })
    })
}

/// For each stored number of a box its position in the box, column by column.
fn order(rows: &Range<u64>, columns: &Range<u64>, transposed: bool) -> impl Iterator<Item = usize> {
    let len = |range: &Range<u64>| usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0);
    let (rows, columns) = (len(rows), len(columns));
    (0..rows.saturating_mul(columns)).map(move |k| match transposed {
        true => k.checked_rem(columns).unwrap_or(0) * rows + k.checked_div(columns).unwrap_or(0),
        false => k,
    })
}

/// An entry as it is stored, from one element on.
struct Stored<'a> {
    file: &'a File,
    entry: &'a Entry,
    dtype: DType,
    scaling: Option<Scaling>,
    /// First byte of the entry.
    offset: u64,
    element: u64,
}

impl Stored<'_> {
    /// Compares the next numbers, which are `own[k] + shared[k]` for each `k` of the order.
    fn compare(&mut self, order: impl Iterator<Item = usize>, own: &[f32], shared: &[f32]) -> Result<()> {
        let size = self.dtype.bytes().unwrap_or(1);
        let start = self.offset.saturating_add(self.element.saturating_mul(size));
        let bytes = self.file.bytes(start, (own.len() as u64).saturating_mul(size))?;
        let elements = bytes.chunks_exact(usize::try_from(size).unwrap_or(1));
        for (stored, k) in elements.zip(order) {
            let number = own.get(k).copied().unwrap_or_default();
            let (found, expected) = (self.value(stored), self.made(number, shared.get(k).copied()));
            let same = match self.scaling {
                // NaN is NaN, and -0 is not 0.
                None => found.to_bits() == expected.to_bits(),
                Some(_) => found == expected,
            };
            if !same {
                let byte = self.offset.saturating_add(self.element.saturating_mul(size));
                return Err(Error::mismatch("the file does not hold what the weights make")
                    .file(self.file.name())
                    .offset(byte)
                    .tensor(&self.entry.id)
                    .field(format!("element {}", self.element))
                    .found(found.to_string())
                    .expected(format!("{expected} as {}, of {number}", self.dtype))
                    .help("the files are of different checkpoints, or the architecture's entry is another's: type, scale, rounding, transpose, merge"));
            }
            self.element = self.element.saturating_add(1);
        }
        Ok(())
    }

    /// What is stored.
    fn value(&self, bytes: &[u8]) -> f64 {
        match (self.dtype, bytes) {
            (DType::I8, [a]) => i8::from_le_bytes([*a]).into(),
            (DType::I16, [a, b]) => i16::from_le_bytes([*a, *b]).into(),
            (DType::I32, [a, b, c, d]) => i32::from_le_bytes([*a, *b, *c, *d]).into(),
            (_, [a, b, c, d]) => f32::from_le_bytes([*a, *b, *c, *d]).into(),
            _ => f64::NAN,
        }
    }

    /// What is to be stored.
    fn made(&self, own: f32, shared: Option<f32>) -> f64 {
        match (self.scaling, shared) {
            (None, _) => shared.map_or(own, |shared| own + shared).into(),
            (Some(scaling), None) => scaling.units(own),
            (Some(scaling), Some(shared)) if scaling.each_term => scaling.units(own) + scaling.units(shared),
            (Some(scaling), Some(shared)) => scaling.units(own + shared),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_the_whole_matrix_in_stored_order() {
        for (rows, columns) in [(1, 1), (3, 2), (2, MOST + 1), (MOST + 1, 2), (1000, 700), (MOST, 1)] {
            for transposed in [false, true] {
                let mut seen = 0u64;
                for (r, c) in boxes(rows, columns, transposed) {
                    assert!((r.end - r.start) * (c.end - c.start) <= MOST);
                    let first =
                        if transposed { r.start * columns + c.start } else { c.start * rows + r.start };
                    assert_eq!(first, seen, "{rows}×{columns} {transposed} {r:?} {c:?}");
                    // In one piece: whole lines, or a part of one.
                    let (slow, fast, len) = if transposed { (&r, &c, columns) } else { (&c, &r, rows) };
                    assert!(*fast == (0..len) || slow.end - slow.start == 1);
                    seen += (r.end - r.start) * (c.end - c.start);
                }
                assert_eq!(seen, rows * columns);
            }
        }
    }
}
