//! Compares raw.bin and quantised.bin with the weights that they were made from.

use crate::format::Content;
use crate::net::architecture::Architecture;
use crate::net::parameter::Parameter;
use crate::net::section::Section;
use crate::net::sections::Sections;
use ckpt_api::{Contents, DType, Error, File, Input, Result, Scaling, TensorId};
use std::collections::HashMap;
use std::ops::Range;

/// The most numbers of one tensor in memory.
const MAX_NUMBERS: u64 = 1 << 18;

/// The weights that were read, stored column by column.
pub(super) struct Weights<'a> {
    input: &'a Input,
    contents: &'a Contents,
    names: HashMap<&'a str, TensorId>,
}

/// Compares every entry of a file with what the weights make of it.
///
/// # Errors
/// [`ckpt_api::Kind::Mismatch`], naming the first element that differs; [`ckpt_api::Kind::Usage`] if an entry needs
/// weights that are missing.
pub(super) fn compare(
    architecture: &Architecture,
    content: Content,
    file: &File,
    sections: &Sections<'_>,
    weights: &Weights<'_>,
) -> Result<()> {
    let is_raw = content == Content::Raw;
    for section in &sections.weights {
        let entry = section.entry;
        let merged = entry.merge.as_deref().filter(|_| !is_raw);
        let merged = merged.map(|id| weights.matrix(architecture.parameter(id)?)).transpose()?;
        let is_transposed = entry.transpose && !is_raw;
        let mut stored =
            StoredNumbers { file, section, scaling: entry.scaling().filter(|_| !is_raw), element: 0 };
        for parameter in &section.stored.parts {
            let own = weights.matrix(parameter)?;
            for (rows, columns) in boxes(own.rows, own.columns, is_transposed) {
                let numbers = own.numbers(&rows, &columns)?;
                let added = match &merged {
                    Some(merged) => merged.repeated(&rows, &columns)?,
                    None => Vec::new(),
                };
                stored.compare(order(&rows, &columns, is_transposed), &numbers, &added)?;
            }
        }
    }
    Ok(())
}

impl<'a> Weights<'a> {
    pub(super) fn new(input: &'a Input, contents: &'a Contents) -> Self {
        Weights { input, contents, names: contents.checkpoint.by_name() }
    }

    fn matrix(&self, parameter: &Parameter) -> Result<Matrix> {
        let found = self.names.get(parameter.id.as_str());
        let placement = found.and_then(|id| self.contents.placements.get(id.0));
        let extent = placement.and_then(|placement| placement.extents.first());
        let name = extent.and_then(|extent| self.contents.files.get(extent.file.0));
        let (Some(extent), Some(name)) = (extent, name) else {
            return Err(Error::usage("the files cannot be compared: a weight is missing")
                .field("check")
                .tensor(&parameter.id)
                .help("compare with optimiser_state, which has every weight; raw.bin lacks weights that are merged \
                       into others"));
        };
        let (rows, columns) = parameter.rows_and_columns();
        Ok(Matrix { file: self.input.file(name)?, offset: extent.offset, rows, columns })
    }
}

/// A matrix of 32-bit floats in a file, stored column by column.
struct Matrix {
    file: File,
    offset: u64,
    rows: u64,
    columns: u64,
}

impl Matrix {
    /// Reads a box, column by column.
    fn numbers(&self, rows: &Range<u64>, columns: &Range<u64>) -> Result<Vec<f32>> {
        let has_whole_columns = *rows == (0..self.rows);
        let step = if has_whole_columns { columns.end.saturating_sub(columns.start) } else { 1 };
        let mut numbers = Vec::new();
        let mut column = columns.start;
        while column < columns.end {
            // Reading the tensor checked that it is within the file.
            let first = column.saturating_mul(self.rows).saturating_add(rows.start);
            let count = rows.end.saturating_sub(rows.start).saturating_mul(step);
            let offset = self.offset.saturating_add(first.saturating_mul(4));
            let bytes = self.file.bytes(offset, count.saturating_mul(4))?;
            numbers.extend(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
            column = column.saturating_add(step.max(1));
        }
        Ok(numbers)
    }

    /// Reads a box of the matrix that consists of this one repeated from left to right.
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

/// Divides a matrix into boxes (rows, columns) that are each contiguous in stored order.
fn boxes(rows: u64, columns: u64, is_transposed: bool) -> impl Iterator<Item = (Range<u64>, Range<u64>)> {
    let (slow, fast) = if is_transposed { (rows, columns) } else { (columns, rows) };
    let step = (MAX_NUMBERS.checked_div(fast).unwrap_or(1)).max(1);
    let pieces = |len: u64, step: u64| {
        (0..len.div_ceil(step)).map(move |k| k * step..(k * step).saturating_add(step).min(len))
    };
    pieces(slow, step).flat_map(move |slow| {
        pieces(fast, MAX_NUMBERS).map(move |fast| match is_transposed {
            true => (slow.clone(), fast),
            false => (fast, slow.clone()),
        })
    })
}

/// Returns, for each number of a box in stored order, its index in column order.
fn order(rows: &Range<u64>, columns: &Range<u64>, is_transposed: bool) -> impl Iterator<Item = usize> {
    let len = |range: &Range<u64>| usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0);
    let (rows, columns) = (len(rows), len(columns));
    (0..rows.saturating_mul(columns)).map(move |k| match is_transposed {
        true => k.checked_rem(columns).unwrap_or(0) * rows + k.checked_div(columns).unwrap_or(0),
        false => k,
    })
}

/// The numbers of a section, from one element on.
struct StoredNumbers<'a> {
    file: &'a File,
    section: &'a Section<'a>,
    scaling: Option<Scaling>,
    /// The next element.
    element: u64,
}

impl StoredNumbers<'_> {
    /// Compares the next numbers with `own[k] + added[k]`, for each `k` of the order.
    fn compare(&mut self, order: impl Iterator<Item = usize>, own: &[f32], added: &[f32]) -> Result<()> {
        let size = self.section.dtype.bytes().unwrap_or(1);
        let bytes = self.file.bytes(self.offset(), (own.len() as u64).saturating_mul(size))?;
        let elements = bytes.chunks_exact(usize::try_from(size).unwrap_or(1));
        for (stored, k) in elements.zip(order) {
            let number = own.get(k).copied().unwrap_or_default();
            let (found, expected) = (self.value(stored), self.expected(number, added.get(k).copied()));
            let is_same = match self.scaling {
                // Floats are compared by their bits: NaN is equal to itself, and -0 differs from 0.
                None => found.to_bits() == expected.to_bits(),
                Some(_) => found == expected,
            };
            if !is_same {
                return Err(self.mismatch(found, expected, number));
            }
            self.element = self.element.saturating_add(1);
        }
        Ok(())
    }

    /// The offset of the next element.
    fn offset(&self) -> u64 {
        let size = self.section.dtype.bytes().unwrap_or(1);
        self.section.offset.saturating_add(self.element.saturating_mul(size))
    }

    fn mismatch(&self, found: f64, expected: f64, number: f32) -> Error {
        Error::mismatch("the file does not match the weights")
            .file(self.file.name())
            .offset(self.offset())
            .tensor(&self.section.entry.id)
            .field(format!("element {}", self.element))
            .found(found.to_string())
            .expected(format!("{expected} as {}, from {number}", self.section.dtype))
            .help("the files belong to different checkpoints, or the architecture's entry is wrong: check its type, \
                   scale, rounding, transpose and merge")
    }

    /// Decodes a stored element.
    fn value(&self, bytes: &[u8]) -> f64 {
        match (self.section.dtype, bytes) {
            (DType::I8, [a]) => i8::from_le_bytes([*a]).into(),
            (DType::I16, [a, b]) => i16::from_le_bytes([*a, *b]).into(),
            (DType::I32, [a, b, c, d]) => i32::from_le_bytes([*a, *b, *c, *d]).into(),
            (_, [a, b, c, d]) => f32::from_le_bytes([*a, *b, *c, *d]).into(),
            _ => f64::NAN,
        }
    }

    /// Computes the element that the file must store.
    fn expected(&self, own: f32, added: Option<f32>) -> f64 {
        match (self.scaling, added) {
            (None, _) => added.map_or(own, |added| own + added).into(),
            (Some(scaling), None) => scaling.units(own),
            (Some(scaling), Some(added)) if scaling.each_term => scaling.units(own) + scaling.units(added),
            (Some(scaling), Some(added)) => scaling.units(own + added),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_the_whole_matrix_in_stored_order() {
        for (rows, columns) in
            [(1, 1), (3, 2), (2, MAX_NUMBERS + 1), (MAX_NUMBERS + 1, 2), (1000, 700), (MAX_NUMBERS, 1)]
        {
            for transposed in [false, true] {
                let mut seen = 0u64;
                for (r, c) in boxes(rows, columns, transposed) {
                    assert!((r.end - r.start) * (c.end - c.start) <= MAX_NUMBERS);
                    let first =
                        if transposed { r.start * columns + c.start } else { c.start * rows + r.start };
                    assert_eq!(first, seen, "{rows}×{columns} {transposed} {r:?} {c:?}");
                    // Contiguous: whole rows or columns, or a part of one.
                    let (slow, fast, len) = if transposed { (&r, &c, columns) } else { (&c, &r, rows) };
                    assert!(*fast == (0..len) || slow.end - slow.start == 1);
                    seen += (r.end - r.start) * (c.end - c.start);
                }
                assert_eq!(seen, rows * columns);
            }
        }
    }
}
