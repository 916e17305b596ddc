//! Tables for people, which fit the terminal.
//!
//! Names come from files, and one can be a million characters long: a cell of a [`Column::text`] is cut in its middle where the
//! table would be wider than the terminal, and rows are never padded for it. So a table costs no more than its text.

use clap::Args;
use std::borrow::Cow;
use std::fmt::{Display, Write};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How tables are laid out.
#[derive(Args)]
pub(super) struct Layout {
    /// Show names whole, and every column, however wide the lines become
    #[arg(long)]
    wide: bool,
}

impl Layout {
    /// The width of tables.
    pub(super) fn width(&self) -> Width {
        if self.wide { Width::Unlimited } else { Width::of_terminal() }
    }
}

/// How wide a table may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// As wide as its text.
    Unlimited,
    /// So many columns of a terminal.
    Columns(usize),
}

impl Width {
    /// Columns where stdout is no terminal.
    const ELSEWHERE: usize = 100;

    /// As wide as the terminal.
    pub(super) fn of_terminal() -> Self {
        let size = terminal_size::terminal_size_of(std::io::stdout());
        let columns = size.map(|(width, _)| usize::from(width.0)).filter(|columns| *columns > 0);
        Width::Columns(columns.unwrap_or(Self::ELSEWHERE))
    }
}

/// A column of a table.
#[derive(Clone, Copy)]
pub(super) struct Column {
    title: &'static str,
    is_cut: bool,
    is_right: bool,
    is_optional: bool,
}

impl Column {
    /// Text from a file, of any length: cut in the middle where there is no room.
    pub(super) const fn text(title: &'static str) -> Self {
        Column { title, is_cut: true, is_right: false, is_optional: false }
    }

    /// One of few words, which are never cut.
    pub(super) const fn word(title: &'static str) -> Self {
        Column { is_cut: false, ..Column::text(title) }
    }

    /// Numbers, aligned to the right and never cut.
    pub(super) const fn number(title: &'static str) -> Self {
        Column { is_right: true, ..Column::word(title) }
    }

    /// Left out where there is no room; of several, the last goes first.
    pub(super) const fn optional(self) -> Self {
        Column { is_optional: true, ..self }
    }
}

/// Returns a table with these rows.
pub(super) fn table(columns: &[Column], width: Width, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new(columns, width);
    for row in rows {
        row.iter().for_each(|cell| table.text(cell));
        table.end_row();
    }
    let mut out = String::new();
    table.append_to(&mut out);
    out
}

/// A table that is made cell by cell: all text of its cells lies in one string, since there can be many thousand rows.
pub(super) struct Table<'a> {
    columns: &'a [Column],
    width: Width,
    text: String,
    /// Bytes of each cell.
    cells: Vec<u32>,
    /// Cells of each row.
    rows: Vec<u8>,
    /// Cells of the row that is not ended.
    column: usize,
    is_cut: bool,
}

impl<'a> Table<'a> {
    /// Returns one without rows.
    pub(super) fn new(columns: &'a [Column], width: Width) -> Self {
        let (text, cells, rows) = (String::new(), Vec::new(), Vec::new());
        let mut table = Table { columns, width, text, cells, rows, column: 0, is_cut: false };
        columns.iter().for_each(|column| table.text(column.title));
        table.end_row();
        table
    }

    /// Adds the next cell of the row; those past the head are left out.
    pub(super) fn cell(&mut self, cell: impl Display) {
        let start = self.text.len();
        let _ = write!(self.text, "{cell}");
        self.end_cell(start);
    }

    /// [`Table::cell`] for what is text already. Keeps no more of it than a line shows.
    pub(super) fn text(&mut self, cell: &str) {
        let start = self.text.len();
        match (self.width, self.columns.get(self.column)) {
            (Width::Columns(width), Some(Column { is_cut: true, .. })) => {
                let shown = cut(cell, width);
                self.is_cut |= matches!(shown, Cow::Owned(_));
                self.text.push_str(&shown);
            }
            _ => self.text.push_str(cell),
        }
        self.end_cell(start);
    }

    fn end_cell(&mut self, start: usize) {
        match u32::try_from(self.text.len() - start) {
            Ok(len) if self.column < self.columns.len() => {
                self.cells.push(len);
                self.column += 1;
            }
            _ => self.text.truncate(start),
        }
    }

    pub(super) fn end_row(&mut self) {
        self.rows.push(u8::try_from(std::mem::take(&mut self.column)).unwrap_or(u8::MAX));
    }

    /// Appends the lines of the table, and one that says what they leave out.
    pub(super) fn append_to(self, out: &mut String) {
        let widths = self.widths();
        out.reserve(self.text.len());
        let mut is_cut = self.is_cut;
        self.for_each_row(|row| {
            // Spaces since the last cell with text: none end a line.
            let mut gap = 0;
            for ((cell, column), width) in row.iter().zip(self.columns).zip(&widths) {
                let Some(width) = *width else { continue };
                let cell = match (column.is_cut, self.width) {
                    (true, Width::Columns(_)) => cut(cell, width),
                    _ => Cow::Borrowed(*cell),
                };
                is_cut |= matches!(cell, Cow::Owned(_));
                let space = width.saturating_sub(columns_of(&cell)) + 2;
                // On either side of a cell at the right, and after one at the left.
                let before = if column.is_right { space } else { 2 };
                gap += before;
                if !cell.is_empty() {
                    spaces(std::mem::take(&mut gap), out);
                    out.push_str(&cell);
                }
                gap += space - before;
            }
            out.push('\n');
        });
        let left_out = self.columns.iter().zip(&widths).filter(|(_, width)| width.is_none());
        let left_out: Vec<&str> = left_out.map(|(column, _)| column.title).collect();
        let _ = match (&left_out[..], is_cut) {
            ([], false) => Ok(()),
            ([], true) => writeln!(out, "  … cut to fit: --wide shows all"),
            (titles, _) => writeln!(out, "  … cut to fit, without {}: --wide shows all", titles.join(", ")),
        };
    }

    fn for_each_row(&self, mut act: impl FnMut(&[&str])) {
        let (mut text, mut cells) = (&self.text[..], self.cells.iter());
        let mut row = Vec::with_capacity(self.columns.len());
        for count in &self.rows {
            row.clear();
            for len in cells.by_ref().take(usize::from(*count)) {
                let (cell, rest) = text.split_at(*len as usize);
                row.push(cell);
                text = rest;
            }
            act(&row);
        }
    }

    /// Returns the width of each column; `None` for those that are left out.
    fn widths(&self) -> Vec<Option<usize>> {
        let mut found = vec![(0usize, 0usize); self.columns.len()];
        self.for_each_row(|row| {
            for ((widest, sum), cell) in found.iter_mut().zip(row) {
                let width = columns_of(cell);
                *widest = width.max(*widest);
                *sum += width;
            }
        });
        match self.width {
            Width::Columns(all) => fit(self.columns, found.iter().map(|(widest, _)| *widest), all),
            // Few long cells stick out: to pad all rows for them would cost far more than their text.
            Width::Unlimited => {
                let rows = self.rows.len().max(1);
                found.iter().map(|(widest, sum)| Some((*widest).min((2 * (sum / rows)).max(40)))).collect()
            }
        }
    }
}

/// Fits columns of these natural widths into `all` columns of a terminal; `None` for those that are left out. Where even what
/// must be shown is wider, so are the lines.
fn fit(columns: &[Column], natural: impl Iterator<Item = usize>, all: usize) -> Vec<Option<usize>> {
    /// What a cell that is cut shows at least.
    const LEAST: usize = 24;
    let mut widths: Vec<Option<usize>> = natural.map(Some).collect();
    loop {
        let (mut fixed, mut texts) = (0, Vec::new());
        for (column, width) in columns.iter().zip(&widths) {
            let Some(width) = *width else { continue };
            fixed += 2 + if column.is_cut { 0 } else { width };
            texts.extend(column.is_cut.then_some(width));
        }
        let room = all.saturating_sub(fixed);
        let least: usize = texts.iter().map(|width| (*width).min(LEAST)).sum();
        let shown = |(column, width): (&Column, &Option<usize>)| column.is_optional && width.is_some();
        let last = columns.iter().zip(&widths).rposition(shown);
        if let (true, Some(last)) = (least > room, last) {
            widths[last..=last].fill(None);
            continue;
        }
        let limit = share(texts, room).max(LEAST);
        for (column, width) in columns.iter().zip(&mut widths) {
            *width = width.map(|width| if column.is_cut { width.min(limit) } else { width });
        }
        return widths;
    }
}

/// Returns the largest limit under which columns of these widths take no more than `room` together.
fn share(mut widths: Vec<usize>, mut room: usize) -> usize {
    widths.sort_unstable();
    let mut left = widths.len();
    for width in widths {
        if width.saturating_mul(left) > room {
            return room / left;
        }
        room -= width;
        left -= 1;
    }
    usize::MAX
}

/// Returns how many columns of the terminal a text takes.
pub(super) fn columns_of(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

/// Shortens a text to so many columns of the terminal: its beginning, `…`, its end.
pub(super) fn cut(text: &str, columns: usize) -> Cow<'_, str> {
    if text.len() <= columns || columns_of(text) <= columns {
        return Cow::Borrowed(text);
    }
    let (head, tail) = (columns / 2, columns.saturating_sub(1 + columns / 2));
    let fits = |room: usize| {
        let mut used = 0;
        move |c: &char| {
            used += c.width().unwrap_or(0);
            used <= room
        }
    };
    let bytes =
        |chars: &mut dyn Iterator<Item = char>, room| chars.take_while(fits(room)).map(char::len_utf8).sum();
    let (start, end): (usize, usize) = (bytes(&mut text.chars(), head), bytes(&mut text.chars().rev(), tail));
    let beginning = text.get(..start).unwrap_or_default();
    let ending = text.get(text.len().saturating_sub(end)..).unwrap_or_default();
    Cow::Owned(format!("{beginning}…{ending}"))
}

fn spaces(mut count: usize, out: &mut String) {
    const MANY: &str = "                                                                ";
    while let Some(rest) = count.checked_sub(MANY.len()) {
        out.push_str(MANY);
        count = rest;
    }
    out.push_str(&MANY[..count]);
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMED: [Column; 3] = [Column::text("a"), Column::number("no"), Column::word("end")];

    fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
        cells.map(str::to_owned).to_vec()
    }

    #[test]
    fn cells_stand_in_columns_and_no_line_ends_with_spaces() {
        let wide = "w".repeat(150);
        let rows = [row(["a", "1", ""]), row(["", "100", "z"]), row([&wide, "", ""])];
        let pad = " ".repeat(149);
        let expected = format!("  a{pad}   no  end\n  a{pad}    1\n  {pad}   100  z\n  {wide}\n");
        assert_eq!(table(&NAMED, Width::Columns(200), rows), expected);
    }

    #[test]
    fn a_cell_is_as_wide_as_the_terminal_shows_it() {
        // Two columns for each ideograph, none for an accent that combines.
        let rows = [row(["重み", "1"]), row(["e\u{301}", "2"]), row(["wxyz", "3"])];
        let expected = "  name  n\n  重み  1\n  e\u{301}     2\n  wxyz  3\n";
        assert_eq!(table(&[Column::text("name"), Column::word("n")], Width::Columns(80), rows), expected);
    }

    #[test]
    fn a_text_is_cut_in_its_middle_to_the_columns_that_it_has() {
        assert_eq!(cut("model.layers.0.weight", 10), "model…ight");
        assert_eq!(cut("model.layers.0.weight", 21), "model.layers.0.weight");
        assert_eq!(cut("model.layers.0.weight", 20), "model.laye….0.weight");
        // An ideograph that needs two columns is not halved.
        assert_eq!(cut("重重重重重", 6), "重…重");
        assert_eq!((cut("abc", 1), cut("abc", 0)), ("…".into(), "…".into()));
        for columns in 1..40 {
            let once = cut("layer重み/é0123456789", columns);
            assert!(once.width() <= columns, "{once}");
            assert_eq!(
                cut(&cut("layer重み/é0123456789layer重み/é0123456789", columns + 9), columns)
                    .chars()
                    .filter(|c| *c == '…')
                    .count(),
                1
            );
        }
    }

    #[test]
    fn a_table_is_no_wider_than_the_terminal_and_says_that_it_was_cut() {
        let long = "n".repeat(300);
        let text = table(&NAMED, Width::Columns(60), [row([&long, "1", "x"]), row(["short", "2", "y"])]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.width() <= 60), "{text}");
        assert!(lines[1].contains("nn…nn") && lines[2].starts_with("  short "), "{text}");
        assert_eq!(lines[3], "  … cut to fit: --wide shows all");
    }

    #[test]
    fn columns_that_can_be_spared_go_from_the_last_where_there_is_no_room() {
        let columns = [
            Column::text("name"),
            Column::word("dtype"),
            Column::text("axes").optional(),
            Column::word("role").optional(),
        ];
        let cells = row(["a/name/of/some/length", "f32", "out in", "optimizer"]);
        let shown = |width| table(&columns, Width::Columns(width), [cells.clone()]);
        assert!(shown(60).ends_with("a/name/of/some/length  f32    out in  optimizer\n"), "{}", shown(60));
        assert!(
            shown(40).contains("out in\n  … cut to fit, without role: --wide shows all\n"),
            "{}",
            shown(40)
        );
        assert!(shown(28).contains("without axes, role"), "{}", shown(28));
        let all = table(&columns, Width::Unlimited, [cells.clone()]);
        assert_eq!(all, shown(60));
    }

    #[test]
    fn one_long_cell_costs_no_more_than_its_text() {
        let long = "n".repeat(1 << 20);
        for (width, most) in
            [(Width::Columns(100), 21_000 * 101), (Width::Unlimited, (1 << 20) + 20_000 * 180)]
        {
            let mut table = Table::new(&NAMED, width);
            for k in 0..20_000 {
                table.cell(k);
                table.cell("1");
                table.text("f32");
                table.end_row();
            }
            table.text(&long);
            table.end_row();
            let mut out = String::new();
            table.append_to(&mut out);
            assert!(out.len() <= most, "{width:?}: {} bytes", out.len());
            assert_eq!(out.contains(&long), width == Width::Unlimited);
        }
    }
}
