//! Text and numbers as markup.

use ckpt_engine::words::{self, plain};
use std::borrow::Cow;

/// Characters of one text from a file that a page shows.
const MAX_TEXT: usize = 400;

/// Escapes markup and control characters.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Returns a name in the typeface of names.
pub fn code(name: &str) -> String {
    format!("<code>{}</code>", escaped(&visible(name)))
}

/// A name; in quotation marks if there is nothing to see.
pub fn visible(name: &str) -> Cow<'_, str> {
    if name.trim().is_empty() { format!("'{name}'").into() } else { name.into() }
}

/// Returns a whole number with its thousands apart.
pub fn whole(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Returns a number of things with its thousands apart: `1 layer`, `20,000 layers`.
pub fn counted(number: usize, what: &str) -> String {
    format!("{} {what}{}", whole(number as u64), if number == 1 { "" } else { "s" })
}

/// Returns a number with three digits at most; of whole numbers, the thousands of large ones apart.
pub fn number(value: f64) -> String {
    if value.is_infinite() {
        return "infinite".to_owned();
    }
    let shown = words::number(value, 3);
    match shown.parse() {
        Ok(large @ 10_000..) => whole(large),
        _ => shown,
    }
}

/// Cuts a text that is too long for a page, and adds its length.
pub fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.chars().count()).into(),
        None => text.into(),
    }
}
