//! Errors for people: a block that states what, where, why and what to do; and the same as JSON.

use super::hex::Excerpt;
use super::render::plain;
use ckpt_api::{Context, Error, Kind};
use clap::builder::styling::{AnsiColor, Style};
use std::borrow::Cow;
use std::fmt::Write;
use std::path::Path;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const STRONG: Style = Style::new().bold();
const QUIET: Style = Style::new().dimmed();
const HELP: Style = AnsiColor::Green.on_default();

/// A line for each fact, styled; a stream for people takes the styles away where they are not wanted.
pub(super) fn block(error: &Error) -> String {
    let mut text = format!(
        "{ERROR}error:{ERROR:#} {STRONG}{}{STRONG:#} {QUIET}[{}]{QUIET:#}",
        plain(&shortened(error.message())),
        error.kind()
    );
    let context = error.context();
    for (label, value) in context.pairs() {
        let style = if label == "help" { HELP } else { QUIET };
        let _ = write!(text, "\n  {style}{label:<9}{style:#} {}", plain(&shortened(&value)));
        if label == "offset" {
            text += &bytes_at(error.kind(), &context).unwrap_or_default();
        }
    }
    text
}

/// No more of a text than somebody reads.
fn shortened(text: &str) -> Cow<'_, str> {
    const READ: usize = 4000;
    match text.char_indices().nth(READ) {
        Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.chars().count()).into(),
        None => text.into(),
    }
}

/// The offset in the notation of the bytes that are there, and those, where they can be read.
fn bytes_at(kind: Kind, context: &Context) -> Option<String> {
    // Of an output that did not come about, the file of this name is an older one; what cannot be read stays so.
    if matches!(kind, Kind::Mismatch | Kind::Io | Kind::Defect) {
        return None;
    }
    let offset = context.offset?;
    let (line, mark) = Excerpt::read(Path::new(context.file?), offset)?.lines();
    let indent = " ".repeat(12);
    let hex = if offset < 10 { String::new() } else { format!(" ({offset:#x})") };
    Some(format!("{hex}\n{indent}{QUIET}{line}{QUIET:#}\n{indent}{ERROR}{mark}{ERROR:#}"))
}

/// One JSON object.
pub(super) fn json(error: &Error) -> String {
    let mut fields: serde_json::Map<String, serde_json::Value> =
        error.context().pairs().map(|(label, value)| (label.to_owned(), value.into_owned().into())).collect();
    fields.insert("kind".to_owned(), serde_json::json!(error.kind()));
    fields.insert("message".to_owned(), error.message().into());
    serde_json::json!({ "error": fields }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As where styles are not wanted.
    fn shown(error: &Error) -> String {
        anstream::adapter::strip_str(&block(error)).to_string()
    }

    #[test]
    fn an_error_is_a_block_with_a_line_for_each_fact() {
        assert_eq!(
            shown(&Error::corrupt("cut short").file("no.nn").offset(3).help("copy it again")),
            "error: cut short [corrupt input]\n  file      no.nn\n  offset    3\n  help      copy it again"
        );
    }

    #[test]
    fn an_offset_comes_with_the_bytes_that_are_there() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"CNN2 and sixteen bytes or more").unwrap();
        let name = file.path().display().to_string();
        let error = Error::corrupt("not so").file(name.as_str()).offset(10).found("7");
        assert_eq!(
            shown(&error),
            format!(
                "error: not so [corrupt input]\n  file      {name}\n  offset    10 (0xa)\n            \
                 00000006  6e 64 20 73 69 78 74 65 65 6e 20 62 79 74 65 73  |nd sixteen bytes|\n            \
                 {}^^\n  found     7",
                " ".repeat(10 + 4 * 3)
            )
        );
        let other = Error::mismatch("not so").file(name.as_str()).offset(10);
        assert!(!shown(&other).contains("6e 64"), "{}", shown(&other));
    }

    #[test]
    fn a_name_without_end_does_not_fill_the_screen() {
        let shown = shown(&Error::corrupt("x").tensor("é".repeat(1 << 20)));
        assert!(shown.len() < 10_000 && shown.ends_with("… (1048576 characters)"), "{}", shown.len());
    }

    #[test]
    fn whatever_an_error_says_cannot_steer_the_terminal() {
        let hostile = "\x1b]0;x\x07\u{9b}2J\r\n\u{202e}";
        let error = Error::corrupt(hostile).file(hostile).field(hostile).tensor(hostile);
        let error = error.found(hostile).expected(hostile).help(hostile);
        let shown = shown(&error);
        assert_eq!(shown.lines().count(), 7);
        assert!(!shown.contains(['\x1b', '\x07', '\u{9b}', '\r', '\u{202e}']), "{shown:?}");
        assert_eq!(
            block(&error).matches('\x1b').count(),
            block(&Error::corrupt("x")).matches('\x1b').count() + 6 * 2
        );
    }
}
