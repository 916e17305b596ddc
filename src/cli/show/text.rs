//! A tensor as NumPy prints an array.

use super::element::{Element, Elements};
use crate::cli::cut::{columns_of, cut};
use crate::cli::render;
use crate::cli::width::{Width, folded};
use ckpt_api::{Quantization, Result, Tensor};
use ckpt_engine::source::{Source, TensorRef};
use ckpt_engine::words::quantized;
use std::fmt::Write;
use std::ops::Range;

/// Elements that are shown whole; of more, the first and last of each axis.
const MOST: u64 = 1000;
/// Bytes of a string that is read to be shown, and columns of its text.
const LONGEST: u64 = 16 << 20;
const COLUMNS: usize = 60;

/// Describes a tensor, or these `rows` of it, and shows its values.
pub(super) fn text(
    source: &Source,
    shown: &TensorRef<'_>,
    rows: Option<&Range<u64>>,
    width: Width,
) -> Result<String> {
    let tensor = source.checkpoint().tensor(shown.name()).map(|(_, tensor)| tensor);
    let scale = tensor.and_then(Tensor::scale).filter(|_| !shown.dtype().is_float());
    let affine = shown.quantization().and_then(Quantization::affine);
    let dtype = quantized(shown.dtype(), scale, affine);
    let rows = rows.map(|rows| format!(", rows {}..{}", rows.start, rows.end)).unwrap_or_default();
    let mut text = format!("{}: {dtype} {}{rows}\n", render::plain(shown.name()), shown.shape());
    let elements = shown.shape().elements();
    let view = View::of(shown.shape());
    let cells = view.read(shown)?;
    // Strings differ too much in length to stand in columns.
    let is_aligned = shown.dtype().bytes().is_some();
    view.print(&cells, is_aligned, width, &mut text);
    if (cells.len() as u64) < elements {
        let left = "--rows A..B shows some rows, --format json all";
        text += &folded(format!("… {} of {elements} elements: {left}\n", cells.len()));
    }
    Ok(text)
}

/// Which entries of each axis are shown.
#[derive(Debug, PartialEq)]
struct View {
    axes: Vec<Shown>,
}

/// The entries of one axis that are shown: all, or as many first as last ones.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shown {
    len: u64,
    /// First entries that are shown, and last ones; of all that are.
    first: u64,
    last: u64,
}

impl Shown {
    fn count(self) -> u64 {
        self.first + self.last
    }

    /// The index of an entry that is shown.
    fn index(self, shown: u64) -> u64 {
        if shown < self.first { shown } else { self.len - self.count() + shown }
    }
}

impl View {
    /// Shows as many entries of each axis as fit. Where there are so many axes that none fit, shows the first elements
    /// in one row.
    fn of(shape: &[u64]) -> Self {
        let whole = |len: u64| Shown { len, first: len, last: 0 };
        let elements = shape.iter().fold(1u64, |product, len| product.saturating_mul(*len));
        if elements <= MOST {
            return View { axes: shape.iter().map(|len| whole(*len)).collect() };
        }
        for edge in [3, 2, 1] {
            let shown = |len: &u64| {
                if *len > 2 * edge { Shown { len: *len, first: edge, last: edge } } else { whole(*len) }
            };
            let axes: Vec<Shown> = shape.iter().map(shown).collect();
            if axes.iter().fold(1u64, |product, axis| product.saturating_mul(axis.count())) <= MOST {
                return View { axes };
            }
        }
        View { axes: vec![Shown { len: elements, first: 6, last: 0 }] }
    }

    /// Calls `act` with the position of each element that is shown, as entries of each axis.
    fn for_each(&self, mut act: impl FnMut(&[u64]) -> Result<()>) -> Result<()> {
        if self.axes.iter().any(|axis| axis.count() == 0) {
            return Ok(());
        }
        let mut position = vec![0; self.axes.len()];
        loop {
            act(&position)?;
            let mut entries = position.iter_mut().zip(&self.axes).rev();
            loop {
                let Some((entry, axis)) = entries.next() else { return Ok(()) };
                *entry += 1;
                if *entry < axis.count() {
                    break;
                }
                *entry = 0;
            }
        }
    }

    /// Reads what is shown, and of the rest as little as can be: of rows, the first and the last.
    fn read(&self, tensor: &TensorRef<'_>) -> Result<Vec<String>> {
        let mut cells = Vec::new();
        let mut elements = None;
        // Elements that were passed.
        let mut at = 0;
        self.for_each(|position| {
            let entries = position.iter().zip(&self.axes);
            let index = entries.fold(0, |sum: u64, (entry, axis)| sum * axis.len + axis.index(*entry));
            // Rows after those that are left out are read on their own.
            let after_gap = self.axes.first().zip(position.split_first()).filter(|(axis, (row, within))| {
                **row == axis.first
                    && within.iter().all(|entry| *entry == 0)
                    && self.axes.len() == tensor.shape().rank()
            });
            if let Some((axis, (row, _))) = after_gap {
                let start = axis.index(*row);
                at = start * super::output::stride(tensor, 1);
                elements = Some(Elements::new(&tensor.rows(start..axis.len)?, LONGEST)?);
            } else if elements.is_none() {
                elements = Some(Elements::new(tensor, LONGEST)?);
            }
            if let Some(elements) = &mut elements {
                elements.skip(index - at)?;
                cells.extend(elements.next()?.as_ref().map(cell));
                at = index + 1;
            }
            Ok(())
        })?;
        Ok(cells)
    }

    /// Prints cells in brackets, a line for each row, as NumPy does.
    fn print(&self, cells: &[String], is_aligned: bool, width: Width, text: &mut String) {
        let rank = self.axes.len();
        if cells.is_empty() {
            *text += "[]\n";
            return;
        }
        let widest = cells.iter().map(|cell| columns_of(cell)).max().filter(|_| is_aligned).unwrap_or(0);
        let limit = width.columns();
        let open_end = rank > 0 && self.axes.iter().all(|axis| axis.last == 0 && axis.first < axis.len);
        let (mut cells, mut used) = (cells.iter(), 0);
        let mut is_first = true;
        let _ = self.for_each(|position| {
            let Some(cell) = cells.next() else { return Ok(()) };
            // Brackets that open here, and an axis of which entries before this one are left out.
            let opened = position.iter().rev().take_while(|entry| **entry == 0).count();
            let counted =
                rank.checked_sub(opened + 1).and_then(|axis| self.axes.get(axis).zip(position.get(axis)));
            let is_after_gap =
                counted.is_some_and(|(axis, entry)| *entry == axis.first && axis.count() < axis.len);
            if opened > 0 && !is_first {
                let indent = " ".repeat(rank - opened);
                let lines = "\n".repeat(opened);
                let gap = if is_after_gap { format!("{lines}{indent}...") } else { String::new() };
                *text += &format!("{gap}{lines}{indent}");
                used = 0;
            }
            if opened > 0 {
                *text += &"[".repeat(opened);
                used = rank;
            }
            let between = match (is_first || opened > 0, is_after_gap) {
                (true, _) => "",
                (false, true) => " ... ",
                (false, false) => " ",
            };
            let needed = widest.max(columns_of(cell));
            let ends = position.iter().zip(&self.axes).rev();
            let closed = ends.take_while(|(entry, axis)| **entry + 1 == axis.count()).count();
            let end = if closed > 0 && open_end { " ..." } else { "" };
            if used + between.len() + needed + end.len() + closed > limit && used > rank {
                let indent = " ".repeat(rank);
                let gap = between.trim_end();
                if used + gap.len() > limit {
                    let _ = write!(text, "\n{indent}{}", gap.trim_start());
                } else {
                    *text += gap;
                }
                let _ = write!(text, "\n{indent}");
                used = rank;
            } else {
                *text += between;
                used += between.len();
            }
            let _ = write!(text, "{cell:>widest$}");
            used += needed;
            is_first = false;
            *text += end;
            *text += &"]".repeat(closed);
            Ok(())
        });
        text.push('\n');
    }
}

fn cell(element: &Element) -> String {
    match element {
        Element::Float(_, text) => text.clone(),
        Element::Int(number) => number.to_string(),
        Element::Bool(true) => "true".to_owned(),
        Element::Bool(false) => "false".to_owned(),
        Element::Complex([real, imaginary]) => {
            let sign = if imaginary.starts_with('-') { "" } else { "+" };
            format!("{real}{sign}{imaginary}j")
        }
        Element::Bytes(bytes) => {
            let text = match std::str::from_utf8(bytes) {
                Ok(text) => format!("\"{}\"", render::plain(&text.escape_debug().to_string())),
                Err(_) => format!("b\"{}\"", bytes.escape_ascii()),
            };
            cut(&text, COLUMNS).into_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(shape: &[u64], columns: usize) -> String {
        let (view, mut cells, mut text) = (View::of(shape), Vec::new(), String::new());
        view.for_each(|position| {
            let entries = position.iter().zip(&view.axes);
            cells.push(entries.fold(0, |sum, (entry, axis)| sum * axis.len + axis.index(*entry)).to_string());
            Ok(())
        })
        .unwrap();
        view.print(&cells, true, Width::Columns(columns), &mut text);
        text
    }

    #[test]
    fn small_arrays_are_shown_whole_as_numpy_prints_them() {
        assert_eq!(printed(&[], 80), "0\n");
        assert_eq!(printed(&[0, 3], 80), "[]\n");
        assert_eq!(printed(&[3], 80), "[0 1 2]\n");
        assert_eq!(printed(&[4, 3], 80), "[[ 0  1  2]\n [ 3  4  5]\n [ 6  7  8]\n [ 9 10 11]]\n");
        assert_eq!(printed(&[2, 1, 2], 80), "[[[0 1]]\n\n [[2 3]]]\n");
    }

    #[test]
    fn rows_that_are_too_long_go_on_under_themselves() {
        assert_eq!(printed(&[2, 6], 12), "[[ 0  1  2\n   3  4  5]\n [ 6  7  8\n   9 10 11]]\n");
    }

    #[test]
    fn of_large_arrays_the_first_and_last_entries_of_each_axis_are_shown() {
        assert_eq!(printed(&[2000], 80), "[   0    1    2 ... 1997 1998 1999]\n");
        let matrix = "[[   0    1    2 ...   97   98   99]\n [ 100  101  102 ...  197  198  199]\n \
                      [ 200  201  202 ...  297  298  299]\n ...\n [9700 9701 9702 ... 9797 9798 9799]\n \
                      [9800 9801 9802 ... 9897 9898 9899]\n [9900 9901 9902 ... 9997 9998 9999]]\n";
        assert_eq!(printed(&[100, 100], 80), matrix);
        // So many axes that even two entries of each are too many.
        assert_eq!(printed(&[2; 40], 80), "[0 1 2 3 4 5 ...]\n");
    }
}
