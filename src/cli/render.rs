//! Text for people: tables, sizes, losses.

use crate::words::{all_bytes, is_control};
pub(super) use crate::words::{bytes, plain};
use ckpt_api::{Loss, LossKind};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use unicode_width::UnicodeWidthStr;

/// A text of several lines, in columns or not, without any other control character: the last bar between a file and the terminal. In JSON,
/// where they stand in strings alone, as JSON escapes them.
pub(super) fn harmless(text: &str, json: bool) -> Cow<'_, str> {
    let steers = |c: char| !matches!(c, '\n' | '\t') && is_control(c);
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    if all_bytes(text, is_plain) || !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if !steers(c) => out.push(c),
            c if json => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                let _ = write!(out, "\\u{unit:04x}");
            }),
            c => out.extend(c.escape_unicode()),
        }
    }
    Cow::Owned(out)
}

/// A table with aligned columns; those named in `right` are aligned to the right.
pub(super) fn table(head: &[&str], right: &[usize], rows: &[Vec<String>]) -> String {
    let mut table = Table::new(head, right);
    for row in rows {
        row.iter().for_each(|cell| table.cell(cell));
        table.end_row();
    }
    table.finish()
}

/// A table that is made cell by cell: all text of its cells lies in one string, since there can be many thousand rows.
pub(super) struct Table<'a> {
    right: &'a [usize],
    /// Cells of the head.
    columns: u8,
    text: String,
    /// Bytes of each cell.
    cells: Vec<u32>,
    /// Cells of each row.
    rows: Vec<u8>,
    /// Cells of the row that is not ended.
    column: u8,
}

impl<'a> Table<'a> {
    /// One with this head; columns named in `right` are aligned to the right.
    pub(super) fn new(head: &[&str], right: &'a [usize]) -> Self {
        let columns = u8::try_from(head.len()).unwrap_or(u8::MAX);
        let (text, cells, rows) = (String::new(), Vec::new(), Vec::new());
        let mut table = Table { right, columns, text, cells, rows, column: 0 };
        head.iter().for_each(|cell| table.text(cell));
        table.end_row();
        table
    }

    /// The next cell of the row; those past the head are left out.
    pub(super) fn cell(&mut self, cell: impl Display) {
        let start = self.text.len();
        let _ = write!(self.text, "{cell}");
        self.end_cell(start);
    }

    /// [`Table::cell`] for what is text already.
    pub(super) fn text(&mut self, cell: &str) {
        let start = self.text.len();
        self.text.push_str(cell);
        self.end_cell(start);
    }

    fn end_cell(&mut self, start: usize) {
        match u32::try_from(self.text.len() - start) {
            Ok(len) if self.column < self.columns => {
                self.cells.push(len);
                self.column += 1;
            }
            _ => self.text.truncate(start),
        }
    }

    pub(super) fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.column));
    }

    pub(super) fn finish(self) -> String {
        let mut out = String::new();
        self.append_to(&mut out);
        out
    }

    /// Appends the lines of the table.
    pub(super) fn append_to(self, out: &mut String) {
        // How many columns of the terminal a cell takes.
        let ascii = self.text.is_ascii();
        let columns_of = |cell: &str| if ascii { cell.len() } else { cell.width() };
        let mut columns: Vec<(usize, bool)> =
            (0..self.columns.into()).map(|column| (0, self.right.contains(&column))).collect();
        let (mut text, mut cells) = (&self.text[..], self.cells.iter());
        for row in &self.rows {
            for ((width, _), len) in columns[..usize::from(*row)].iter_mut().zip(&mut cells) {
                let (cell, rest) = text.split_at(*len as usize);
                *width = (*width).max(columns_of(cell));
                text = rest;
            }
        }
        let line: usize = columns.iter().map(|(width, _)| width + 2).sum();
        out.reserve(self.rows.len().saturating_mul(line + 1));
        let (mut text, mut cells) = (&self.text[..], self.cells.iter());
        for row in &self.rows {
            // Spaces since the last cell with text: none end a line.
            let mut gap = 0;
            for ((width, right), len) in columns[..usize::from(*row)].iter().zip(&mut cells) {
                let (cell, rest) = text.split_at(*len as usize);
                let space = width - columns_of(cell) + 2;
                // On either side of a cell at the right, and after one at the left.
                let before = if *right { space } else { 2 };
                gap += before;
                if !cell.is_empty() {
                    spaces(std::mem::take(&mut gap), out);
                    out.push_str(cell);
                }
                gap += space - before;
                text = rest;
            }
            out.push('\n');
        }
    }
}

fn spaces(mut count: usize, out: &mut String) {
    const MANY: &str = "                                                                ";
    while let Some(rest) = count.checked_sub(MANY.len()) {
        out.push_str(MANY);
        count = rest;
    }
    out.push_str(&MANY[..count]);
}

/// Losses by kind, each with how many and the first few.
pub(super) fn losses(losses: &[Loss]) -> String {
    const SHOWN: usize = 3;
    let mut kinds: BTreeMap<LossKind, Vec<&Loss>> = BTreeMap::new();
    for loss in losses {
        kinds.entry(loss.kind).or_default().push(loss);
    }
    let mut text = String::new();
    for (kind, losses) in kinds {
        let mut reasons: Vec<(&str, Vec<&Loss>)> = Vec::new();
        for loss in losses {
            let reason = match reasons.iter().any(|(reason, _)| *reason == loss.detail) {
                false if reasons.len() >= SHOWN => "other reasons",
                _ => &loss.detail,
            };
            match reasons.iter_mut().find(|(own, _)| *own == reason) {
                Some((_, losses)) => losses.push(loss),
                None => reasons.push((reason, vec![loss])),
            }
        }
        for (reason, losses) in reasons {
            let _ = writeln!(text, "  {} ({}): {}", kind.name(), losses.len(), plain(reason));
            let names = losses.iter().map(|loss| plain(&loss.subject));
            let _ = writeln!(text, "      {}", ckpt_api::first_few(names, SHOWN));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_in_columns_and_no_line_ends_with_spaces() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let wide = "w".repeat(150);
        let rows = [row(["a", "1", ""]), row(["", "100", "z"]), row([&wide, "", ""])];
        let pad = " ".repeat(149);
        let expected = format!("  a{pad}   no  end\n  a{pad}    1\n  {pad}   100  z\n  {wide}\n");
        assert_eq!(table(&["a", "no", "end"], &[1], &rows), expected);
    }

    #[test]
    fn a_cell_is_as_wide_as_the_terminal_shows_it() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        // Two columns for each ideograph, none for an accent that combines.
        let rows = [row(["重み", "1"]), row(["e\u{301}", "2"]), row(["wxyz", "3"])];
        let expected = "  name  n\n  重み  1\n  e\u{301}     2\n  wxyz  3\n";
        assert_eq!(table(&["name", "n"], &[], &rows), expected);
    }

    #[test]
    fn control_characters_of_a_file_never_reach_the_terminal() {
        assert_eq!(plain("a\x1b[31m\nb\u{202e}é"), "a\\u{1b}[31m\\u{a}b\\u{202e}é");
        for invisible in
            ['\u{7f}', '\u{9b}', '\u{200b}', '\u{200f}', '\u{2028}', '\u{2069}', '\u{feff}', '\u{e0041}']
        {
            assert_eq!(plain(&invisible.to_string()), invisible.escape_unicode().to_string());
        }
    }

    #[test]
    fn json_that_is_printed_says_the_same_without_control_characters() {
        let text = serde_json::to_string_pretty(&["a\u{9b}\x1b\u{e0041}é\u{7f}"]).unwrap();
        let shown = harmless(&text, true);
        assert!(shown.chars().all(|c| c == '\n' || !is_control(c)), "{shown:?}");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(&shown), read(&text));
        assert_eq!(harmless("a\n\tb\r\n", false), "a\n\tb\\u{d}\n");
    }

    #[test]
    fn losses_of_one_kind_are_told_by_their_reasons() {
        let loss = |subject: &str, reason: &str| Loss::new(LossKind::MetadataDropped, subject, reason);
        let shown = losses(&[loss("a", "no place"), loss("b", "not told"), loss("c", "no place")]);
        let expected =
            "  metadata-dropped (2): no place\n      a, c\n  metadata-dropped (1): not told\n      b\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn losses_past_the_third_reason_stand_under_other_reasons() {
        let loss = |subject: &str, reason: &str| Loss::new(LossKind::Narrowed, subject, reason);
        let reasons = ["r1", "r2", "r3", "r4", "r5", "r3"];
        let all: Vec<Loss> =
            ["a", "b", "c", "d", "e", "f"].iter().zip(reasons).map(|(subject, r)| loss(subject, r)).collect();
        let lines = ["(1): r1", "a", "(1): r2", "b", "(2): r3", "c, f", "(2): other reasons", "d, e"];
        let expected: String = lines
            .as_chunks::<2>()
            .0
            .iter()
            .map(|[reason, names]| format!("  narrowed {reason}\n      {names}\n"))
            .collect();
        assert_eq!(losses(&all), expected);
    }
}
