//! Text and numbers as markup.

use crate::words::plain;
use std::borrow::Cow;

/// Characters of one text from a file that a page shows.
const MAX_TEXT: usize = 400;

/// Escapes markup and control characters.
pub(crate) fn escaped(text: &str) -> String {
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
pub(crate) fn code(name: &str) -> String {
    format!("<code>{}</code>", escaped(name))
}

/// Returns a whole number with its thousands apart.
pub(crate) fn whole(value: u64) -> String {
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

/// Returns a number with three digits.
pub(crate) fn number(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value.is_infinite() => "infinite".to_owned(),
        value if value.is_nan() => "NaN".to_owned(),
        value if (1e-3..1e4).contains(&value.abs()) => {
            // Digits before the point count, too.
            let digits = value.abs().log10().floor() as i32;
            let decimals = usize::try_from(2 - digits).unwrap_or(0);
            format!("{value:.decimals$}")
        }
        value => format!("{value:.2e}"),
    }
}

/// Cuts a text that is too long for a page, and adds its length.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.chars().count()).into(),
        None => text.into(),
    }
}
