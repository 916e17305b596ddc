//! Keys, which are bytes, as text.

use std::borrow::Cow;

/// Bytes of a key that a message shows at most.
pub(crate) const MAX_SHOWN: usize = 1000;

/// Returns a key for a message, cut where it is too long for one.
pub(crate) fn abbreviate(key: &[u8]) -> String {
    let mut text = escape(key.get(..MAX_SHOWN).unwrap_or(key)).into_owned();
    if key.len() > MAX_SHOWN {
        text.push('…');
    }
    text
}

/// Returns a key as text. In a key that is not UTF-8, each invalid byte becomes `\xNN` and each backslash `\\`. The
/// result is owned only then.
pub(crate) fn escape(key: &[u8]) -> Cow<'_, str> {
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

/// Reverses [`escape`] of a key that is not UTF-8. Returns `None` for an invalid escape sequence.
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
    fn only_a_key_that_is_not_utf_8_is_escaped() {
        assert!(matches!(escape("n\u{e9}\\x".as_bytes()), Cow::Borrowed("n\u{e9}\\x")));
        assert_eq!(escape(b"a\\\xff\x00"), "a\\\\\\xff\0");
    }

    #[test]
    fn an_escaped_key_can_be_unescaped() {
        for key in [&b"a\\\xff\x00"[..], b"\x80\\x80", b"\xe2\x82 \xe2\x82\xac"] {
            let escaped = escape(key);
            assert!(matches!(escaped, Cow::Owned(_)));
            assert_eq!(unescape(&escaped).unwrap(), key);
        }
        for text in ["\\", "\\x", "\\x8", "\\xzz", "\\n"] {
            assert_eq!(unescape(text), None, "{text}");
        }
    }
}
