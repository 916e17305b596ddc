//! Text and numbers, as a page shows them.

use crate::words::plain;

/// Text that cannot be taken for markup, without control characters.
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

/// A name, in the typeface of names.
pub(crate) fn code(name: &str) -> String {
    format!("<code>{}</code>", escaped(name))
}

/// Three digits.
pub(crate) fn number(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value.is_infinite() => "infinite".to_owned(),
        value if value.is_nan() => "no number".to_owned(),
        value if (1e-3..1e4).contains(&value.abs()) => {
            // Whole digits are no decimals.
            let digits = value.abs().log10().floor() as i32;
            let decimals = usize::try_from(2 - digits).unwrap_or(0);
            format!("{value:.decimals$}")
        }
        value => format!("{value:.2e}"),
    }
}
