//! Keys as text.

use std::borrow::Cow;

/// A key as messages show it: one that is too long for them is cut.
pub(crate) fn shown(key: &[u8]) -> String {
    const MOST: usize = 1000;
    let mut shown = text(key.get(..MOST).unwrap_or(key)).into_owned();
    if key.len() > MOST {
        shown.push('…');
    }
    shown
}

/// A key as text. Bytes that are no UTF-8 become `\xNN`, and then a backslash becomes two: only then it is owned.
pub(crate) fn text(key: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(key) {
        return Cow::Borrowed(text);
    }
    let mut text = String::new();
    for chunk in key.utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', "\\\\"));
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    Cow::Owned(text)
}

/// [`text`] of a key that nothing else needs.
pub(crate) fn into_text(key: Box<[u8]>) -> String {
    String::from_utf8(key.into_vec()).unwrap_or_else(|error| text(error.as_bytes()).into_owned())
}

/// The key that [`text`] escaped; `None` where it escaped none so.
pub(crate) fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut key = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, tail)) = rest.split_first() {
        rest = match (byte, tail) {
            (b'\\', [b'\\', tail @ ..]) => {
                key.push(b'\\');
                tail
            }
            (b'\\', [b'x', high, low, tail @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).ok()?;
                key.push(u8::from_str_radix(digits, 16).ok()?);
                tail
            }
            (b'\\', _) => return None,
            _ => {
                key.push(*byte);
                tail
            }
        };
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_no_text_is_escaped_so_that_it_can_be_recovered() {
        assert!(matches!(text("n\u{e9}\\x".as_bytes()), Cow::Borrowed("n\u{e9}\\x")));
        assert_eq!(text(b"a\\\xff\x00"), "a\\\\\\xff\0");
    }

    #[test]
    fn an_escaped_key_comes_back() {
        for key in [&b"a\\\xff\x00"[..], b"\x80\\x80", b"\xe2\x82 \xe2\x82\xac"] {
            let escaped = text(key);
            assert!(matches!(escaped, Cow::Owned(_)));
            assert_eq!(unescape(&escaped).unwrap(), key);
        }
        for text in ["\\", "\\x", "\\x8", "\\xzz", "\\n"] {
            assert_eq!(unescape(text), None, "{text}");
        }
    }
}
