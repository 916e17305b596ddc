//! Shortens text to columns of the terminal.

use std::borrow::Cow;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Returns how many columns of the terminal a text takes.
pub(super) fn columns_of(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

/// Shortens a text to so many columns of the terminal: its beginning, `…`, its end. An escape such as `\u{202e}` is
/// shown whole or not at all.
pub(super) fn cut(text: &str, columns: usize) -> Cow<'_, str> {
    if fits(text, columns) {
        return Cow::Borrowed(text);
    }
    let (head, tail) = (columns / 2, columns.saturating_sub(1 + columns / 2));
    let start = beginning(text, head);
    let end = ending(text, tail, start.len());
    Cow::Owned(format!("{start}…{end}"))
}

/// Shortens a text to so many columns of the terminal: its beginning and `…`.
pub(super) fn cut_end(text: &str, columns: usize) -> Cow<'_, str> {
    if fits(text, columns) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}…", beginning(text, columns.saturating_sub(1))))
}

fn fits(text: &str, columns: usize) -> bool {
    text.len() <= columns || columns_of(text) <= columns
}

/// The longest beginning of whole units that takes no more than `room` columns.
fn beginning(text: &str, mut room: usize) -> &str {
    let mut rest = text;
    while let Some((unit, after)) = split_unit(rest) {
        let Some(left) = room.checked_sub(columns_of(unit)) else { break };
        (room, rest) = (left, after);
    }
    text.get(..text.len() - rest.len()).unwrap_or_default()
}

/// The longest ending of whole units after the first `from` bytes that takes no more than `room` columns.
fn ending(text: &str, room: usize, from: usize) -> &str {
    let mut used = 0;
    let chars = text.char_indices().rev().take_while(|(_, c)| {
        used += c.width().unwrap_or(0);
        used <= room
    });
    let mut start = chars.last().map_or(text.len(), |(at, _)| at);
    if text.contains('\\') {
        // Which backslashes begin an escape is known from the beginning on.
        let mut rest = text.get(from..).unwrap_or_default();
        while text.len() - rest.len() < start
            && let Some((_, after)) = split_unit(rest)
        {
            rest = after;
        }
        start = text.len() - rest.len();
    }
    text.get(start..).unwrap_or_default()
}

/// Splits the first character off, or the first escape: `\u{202e}`, `\xff`, `\n`.
fn split_unit(text: &str) -> Option<(&str, &str)> {
    let mut chars = text.chars();
    let first = chars.next()?;
    let len = match (first, chars.next()) {
        ('\\', Some('u')) => escape_in_braces(text).unwrap_or(2),
        ('\\', Some('x'))
            if text.as_bytes().get(2..4).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) =>
        {
            4
        }
        ('\\', Some(next)) if next.is_ascii() => 2,
        _ => first.len_utf8(),
    };
    text.split_at_checked(len)
}

/// The bytes of `\u{…}`, which has at most six digits.
fn escape_in_braces(text: &str) -> Option<usize> {
    let digits = text.strip_prefix("\\u{")?;
    let end = digits.bytes().take(7).position(|byte| byte == b'}')?;
    Some("\\u{}".len() + end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_in_its_middle_to_the_columns_that_it_has() {
        assert_eq!(cut("model.layers.0.weight", 10), "model…ight");
        assert_eq!(cut("model.layers.0.weight", 21), "model.layers.0.weight");
        assert_eq!(cut("model.layers.0.weight", 20), "model.laye….0.weight");
        assert_eq!((cut("abc", 1), cut("abc", 0)), ("…".into(), "…".into()));
        // An ideograph that needs two columns is not halved.
        assert_eq!(cut("重み重み重み", 6), "重…み");
        assert_eq!(cut_end("model.layers", 6), "model…");
        for columns in 1..40 {
            let text = "e\u{301}0123456789layer重み/é0123456789";
            let shown = cut(text, columns);
            assert!(columns_of(&shown) <= columns, "{columns}: {shown}");
        }
    }

    #[test]
    fn an_escape_is_shown_whole_or_not_at_all() {
        let text = "a\\u{202e}b\\xffc\\\\d\\u{1b}\\u{e0041}e\\";
        let units = ["a", "\\u{202e}", "b", "\\xff", "c", "\\\\", "d", "\\u{1b}", "\\u{e0041}", "e", "\\"];
        let endings: Vec<String> = (0..=units.len()).map(|first| units[first..].concat()).collect();
        let beginnings: Vec<String> = (0..=units.len()).map(|end| units[..end].concat()).collect();
        for columns in 1..text.len() {
            let shown = cut(text, columns);
            let (start, end) = shown.split_once('…').unwrap();
            assert!(beginnings.iter().any(|whole| whole == start), "{columns}: {shown}");
            assert!(endings.iter().any(|whole| whole == end), "{columns}: {shown}");
            assert!(columns_of(&shown) <= columns, "{columns}: {shown}");
            let shown = cut_end(text, columns);
            assert!(beginnings.iter().any(|whole| Some(&whole[..]) == shown.strip_suffix('…')), "{shown}");
        }
        // What only begins like one is text.
        assert_eq!(cut("\\u{1234567}\\", 6), "\\u{…}\\");
    }
}
