//! How wide the lines are that people read.

use super::cut::columns_of;
use clap::Args;
use std::borrow::Cow;
use std::io::IsTerminal;

/// How tables and the texts around them are laid out.
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

    /// [`folded`], unless lines may have any width.
    pub(super) fn folded(&self, text: String) -> String {
        if self.wide { text } else { folded(text) }
    }
}

/// How wide a line may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// As wide as its text.
    Unlimited,
    /// So many columns of a terminal.
    Columns(usize),
}

impl Width {
    /// Columns if the number is unknown.
    const ELSEWHERE: usize = 100;

    /// As wide as the terminal.
    pub(super) fn of_terminal() -> Self {
        Width::Columns(known_columns().unwrap_or(Self::ELSEWHERE))
    }

    /// The number of columns; as many as there can be without a limit.
    pub(super) fn columns(self) -> usize {
        match self {
            Width::Columns(columns) => columns,
            Width::Unlimited => usize::MAX,
        }
    }
}

/// The columns of the terminal that stdout is; if it is none, or does not know its size, those of `COLUMNS`.
fn known_columns() -> Option<usize> {
    let given = || std::env::var("COLUMNS").ok()?.trim().parse().ok();
    columns_of_stdout().filter(|columns| *columns > 0).or_else(given).filter(|columns| *columns > 0)
}

/// Asks for the columns alone: terminals of programs often have these, and no rows.
#[cfg(unix)]
fn columns_of_stdout() -> Option<usize> {
    let stdout = std::io::stdout();
    let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout))?;
    size.ok().map(|size| usize::from(size.ws_col))
}

#[cfg(not(unix))]
fn columns_of_stdout() -> Option<usize> {
    let stdout = std::io::stdout();
    let size = stdout.is_terminal().then(|| terminal_size::terminal_size_of(&stdout))?;
    size.map(|(columns, _)| usize::from(columns.0))
}

/// Breaks the lines of a text where they are wider than the terminal, or than `COLUMNS`. Without both, lines stay
/// whole: programs look for what is in them.
pub(super) fn folded(text: String) -> String {
    match known_columns() {
        Some(columns) => fold_all(&text, columns).into_owned(),
        None => text,
    }
}

/// [`folded`], in so many columns.
pub(super) fn fold_all(text: &str, columns: usize) -> Cow<'_, str> {
    if text.lines().all(|line| columns_of(line) <= columns) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start_matches(' ').len();
        fold(line, columns, indent + HANGING, &mut out);
    }
    Cow::Owned(out)
}

/// Columns by which a line that goes on is indented.
const HANGING: usize = 4;

/// Appends a line, broken at spaces so that each part is no wider than `columns`, unless a single word is. The parts
/// after the first stand behind `indent` spaces.
pub(super) fn fold(line: &str, columns: usize, indent: usize, out: &mut String) {
    if columns_of(line.trim_end_matches('\n')) <= columns {
        out.push_str(line);
        return;
    }
    // Where there is hardly any room, text matters more than its place.
    let indent = indent.min(columns / 3);
    let (mut used, mut is_start) = (0, true);
    for (number, piece) in line.split(' ').enumerate() {
        let width = columns_of(piece.trim_end_matches('\n'));
        // A word that has no room there either is not moved.
        let is_moved = used + 1 + width > columns && indent + width <= columns;
        if !is_start && !piece.is_empty() && is_moved {
            out.truncate(out.trim_end_matches(' ').len());
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            used = indent;
        } else if number > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(piece);
        used += width;
        // Spaces at the start of a line are its indentation.
        is_start &= piece.is_empty();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_spaces_and_go_on_behind_their_indentation() {
        let text = "  rule     bits: every tensor keeps its precision\nshort\n";
        let expected = "  rule     bits: every\n      tensor keeps its\n      precision\nshort\n";
        assert_eq!(fold_all(text, 24), expected);
        assert_eq!(fold_all(text, 80), text);
    }

    #[test]
    fn a_word_that_is_wider_than_the_terminal_stays_whole() {
        let path = "/a/path/that/somebody/copies";
        let text = format!("wrote {path} now");
        assert_eq!(fold_all(&text, 16), format!("wrote {path}\n    now"));
        assert_eq!(fold_all(path, 4), path);
    }

    #[test]
    fn a_folded_line_is_as_wide_as_the_terminal_shows_it() {
        let text = "重み 重み 重み 重み";
        assert!(fold_all(text, 12).lines().all(|line| columns_of(line) <= 12), "{}", fold_all(text, 12));
    }
}
