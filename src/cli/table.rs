//! Tables for people, which fit the terminal.
//!
//! Names come from files, and one can be a million characters long: a cell of a [`Column::text`] is cut in its middle
//! where the table would be wider than the terminal, and rows are never padded for it. So a table costs no more than
//! its text.

use super::cut::{columns_of, cut};
use super::width::{Width, fold};
use std::borrow::Cow;
use std::fmt::{Display, Write};

/// A column of a table.
#[derive(Clone, Copy)]
pub(super) struct Column {
    title: &'static str,
    is_cut: bool,
    is_right: bool,
    /// Columns with the largest are left out first; those with 0, last.
    rank: u8,
}

impl Column {
    /// Text from a file, of any length: cut in the middle if there is no room.
    pub(super) const fn text(title: &'static str) -> Self {
        Column { title, is_cut: true, is_right: false, rank: 0 }
    }

    /// One of few words, which are never cut.
    pub(super) const fn word(title: &'static str) -> Self {
        Column { is_cut: false, ..Column::text(title) }
    }

    /// Numbers, aligned to the right and never cut.
    pub(super) const fn number(title: &'static str) -> Self {
        Column { is_right: true, ..Column::word(title) }
    }

    /// Left out if there is no room: the largest rank first, and of one rank the last column.
    pub(super) const fn optional(self, rank: u8) -> Self {
        Column { rank, ..self }
    }

    /// A width of its cells where texts are cut to `limit`.
    fn limited(&self, width: usize, limit: usize) -> usize {
        if self.is_cut { width.min(limit) } else { width }
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

/// A table that is made cell by cell: all text of its cells is in one string, since there can be many thousand rows.
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

    /// Appends the lines of the table, and one on what they leave out.
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
        if is_cut || !left_out.is_empty() {
            let without = if left_out.is_empty() { "" } else { ", without " };
            let notice = format!("  … cut to fit{without}{}: --wide shows all\n", left_out.join(", "));
            fold(&notice, self.width.columns(), 4, out);
        }
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
            Width::Columns(all) => {
                let natural: Vec<usize> = found.iter().map(|(widest, _)| *widest).collect();
                fit(self.columns, &natural, all)
            }
            // Few long cells stick out: to pad all rows for them would cost far more than their text.
            Width::Unlimited => {
                let rows = self.rows.len().max(1);
                found.iter().map(|(widest, sum)| Some((*widest).min((2 * (sum / rows)).max(40)))).collect()
            }
        }
    }
}

/// What a cell that is cut shows at least while another column can be spared for it; less on narrow terminals.
const READABLE: usize = 24;
/// What it shows at least, if more than one column has any room.
const LEAST: usize = 8;

/// Fits columns of these natural widths into `all` columns of a terminal; `None` for those that are left out. The first
/// column always stays.
fn fit(columns: &[Column], natural: &[usize], all: usize) -> Vec<Option<usize>> {
    let shown = choose(columns, natural, all);
    let limit = limit(columns, natural, &shown, all);
    let widths = columns.iter().zip(natural).zip(shown);
    widths.map(|((column, width), shown)| shown.then(|| column.limited(*width, limit))).collect()
}

/// Chooses the columns that are shown.
fn choose(columns: &[Column], natural: &[usize], all: usize) -> Vec<bool> {
    let readable = (all / 4).clamp(LEAST, READABLE);
    let fits = |shown: &[bool], limit: usize| {
        let widths = columns.iter().zip(natural).zip(shown).filter(|(_, shown)| **shown);
        widths.map(|((column, width), _)| 2 + column.limited(*width, limit)).sum::<usize>() <= all
    };
    let with = |mut shown: Vec<bool>, index: usize, is_shown: bool| {
        shown.iter_mut().skip(index).take(1).for_each(|shown| *shown = is_shown);
        shown
    };
    let mut by_rank: Vec<(u8, usize)> =
        columns.iter().map(|column| column.rank).zip(0..columns.len()).skip(1).collect();
    by_rank.sort_unstable();
    let mut shown = vec![true; columns.len()];
    for (rank, index) in by_rank.iter().rev() {
        if fits(&shown, if *rank > 0 { readable } else { LEAST }) {
            break;
        }
        shown = with(shown, *index, false);
    }
    // One that went before a wider one, which had to go as well, can have room that no other needs.
    for (_, index) in by_rank {
        let more = with(shown.clone(), index, true);
        if fits(&more, limit(columns, natural, &shown, all)) {
            shown = more;
        }
    }
    shown
}

/// Returns the width to which the cells of texts are cut where these columns are shown.
fn limit(columns: &[Column], natural: &[usize], shown: &[bool], all: usize) -> usize {
    let (mut fixed, mut texts) = (0, Vec::new());
    for ((column, width), _) in columns.iter().zip(natural).zip(shown).filter(|(_, shown)| **shown) {
        fixed += 2 + if column.is_cut { 0 } else { *width };
        texts.extend(column.is_cut.then_some(*width));
    }
    share(texts, all.saturating_sub(fixed))
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
    use unicode_width::UnicodeWidthStr;

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
            Column::text("axes").optional(1),
            Column::word("role").optional(2),
        ];
        let cells = row(["a/name/of/some/length", "f32", "out in", "optimizer"]);
        let shown = |width| table(&columns, Width::Columns(width), [cells.clone()]);
        assert!(shown(60).ends_with("a/name/of/some/length  f32    out in  optimizer\n"), "{}", shown(60));
        assert!(shown(40).contains("a/name…ength  f32    out in  optimizer\n"), "{}", shown(40));
        assert!(shown(34).contains("out in\n  … cut to fit, without role:\n    --wide"), "{}", shown(34));
        assert!(shown(24).contains("without\n    axes, role: --wide"), "{}", shown(24));
        let all = table(&columns, Width::Unlimited, [cells.clone()]);
        assert_eq!(all, shown(60));
    }

    #[test]
    fn a_column_that_went_before_a_wider_one_stays_where_no_other_needs_its_room() {
        let columns =
            [Column::text("name"), Column::word("check").optional(1), Column::word("op").optional(2)];
        let cells = row(["weight", &"c".repeat(30), "Gemm"]);
        let text = table(&columns, Width::Columns(32), [cells]);
        assert_eq!(
            text,
            "  name    op\n  weight  Gemm\n  … cut to fit, without check:\n    --wide shows all\n"
        );
    }

    #[test]
    fn no_line_is_wider_than_any_terminal_and_the_first_column_stays() {
        let columns =
            [Column::text("name"), Column::text("op"), Column::number("bytes"), Column::word("verdict")];
        let cells = row(["encoder/layer_0/attention/重み", "Gemm", "1.00 KiB", "not-compared"]);
        for width in 16..120 {
            let text = table(&columns, Width::Columns(width), [cells.clone()]);
            assert!(text.lines().all(|line| line.width() <= width), "{width}: {text}");
            assert!(text.lines().nth(1).is_some_and(|line| line.starts_with("  e")), "{width}: {text}");
        }
        let narrow = table(&columns, Width::Columns(34), [cells]);
        assert!(narrow.contains("cut to fit, without verdict:\n"), "{narrow}");
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
