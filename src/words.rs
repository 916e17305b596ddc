//! Text for people: counts, sizes, lists, and text from files.

use ckpt_api::DType;
use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::num::NonZeroU32;

/// `1 tensor`, `2 tensors`.
pub(crate) fn count<N: Display + PartialEq + From<u8>>(number: N, what: &str) -> String {
    format!("{number} {what}{}", if number == N::from(1) { "" } else { "s" })
}

/// Formats bytes as two hexadecimal digits each.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A name in quotation marks, as [`printable`] shows it.
pub(crate) fn quote(name: &str) -> String {
    format!("'{}'", printable(name))
}

/// A name on one line: shortened, its invisible characters escaped.
pub(crate) fn printable(name: &str) -> String {
    const SHOWN: usize = 160;
    let mut text: String = name.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if name.chars().nth(SHOWN).is_some() {
        text.push('…');
    }
    text
}

/// Text from a file, without characters that could steer a terminal or hide what it says.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if all_bytes(text, |byte| matches!(byte, b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_control(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Whether `is` holds of every byte. Asks of a whole chunk at a time, without a branch for each byte: texts can be long.
pub(crate) fn all_bytes(text: &str, is: impl Fn(u8) -> bool) -> bool {
    text.as_bytes().chunks(64).all(|chunk| chunk.iter().fold(true, |all, byte| all & is(*byte)))
}

/// Control characters, and what is not seen: marks that reorder what follows, ends of lines, letters without width.
pub(crate) fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{e0000}'..='\u{e007f}')
}

/// Bytes in units of 1000, three significant digits.
pub(crate) fn bytes(count: u64) -> Size {
    Size(count)
}

/// A number of bytes, as people read it.
pub(crate) struct Size(u64);

impl Display for Size {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 4] = ["MB", "GB", "TB", "PB"];
        let Size(count) = *self;
        if count < 1000 {
            return write!(f, "{count} B");
        }
        let (mut unit, mut name) = (1000, "kB");
        for next in UNITS {
            // What is nearer to 1000 of a unit than to 999 is shown as 1.00 of the next.
            if count < 1000 * unit - unit / 2 {
                break;
            }
            (unit, name) = (1000 * unit, next);
        }
        let rounded = |parts: u64| {
            // What saturates has more digits than are shown in parts.
            let product = count.saturating_mul(parts);
            product / unit + u64::from(product % unit >= unit / 2)
        };
        match (rounded(100), rounded(10)) {
            (hundredths @ ..1000, _) => write!(f, "{}.{:02} {name}", hundredths / 100, hundredths % 100),
            (_, tenths @ ..1000) => write!(f, "{}.{} {name}", tenths / 10, tenths % 10),
            _ => write!(f, "{} {name}", rounded(1)),
        }
    }
}

/// A dtype with the scale of its integers: `i16 at 255`.
pub(crate) fn dtype(dtype: DType, scale: Option<NonZeroU32>) -> String {
    scale.map_or_else(|| dtype.to_string(), |scale| format!("{dtype} at {scale}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits() {
        let sizes = [0, 999, 1000, 9_994, 9_995, 99_949, 99_950, 999_499, 999_500, 2 << 30, u64::MAX];
        let shown = sizes.map(|size| bytes(size).to_string());
        let expected = [
            "0 B", "999 B", "1.00 kB", "9.99 kB", "10.0 kB", "99.9 kB", "100 kB", "999 kB", "1.00 MB",
            "2.15 GB", "18447 PB",
        ];
        assert_eq!(shown, expected);
    }
}
