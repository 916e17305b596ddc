//! Keys as text.

/// A key as messages show it: one that is too long for them is cut.
pub(crate) fn shown(key: &[u8]) -> String {
    const MOST: usize = 1000;
    let (mut shown, _) = text(key.get(..MOST).unwrap_or(key));
    if key.len() > MOST {
        shown.push('…');
    }
    shown
}

/// A key as text. Bytes that are no UTF-8 become `\xNN`, and then a backslash becomes two; the second value
/// says whether that was done.
pub(crate) fn text(key: &[u8]) -> (String, bool) {
    if let Ok(text) = std::str::from_utf8(key) {
        return (text.to_owned(), false);
    }
    let mut text = String::new();
    for chunk in key.utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', "\\\\"));
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    (text, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_no_text_is_escaped_so_that_it_can_be_recovered() {
        assert_eq!(text("n\u{e9}\\x".as_bytes()), ("n\u{e9}\\x".to_owned(), false));
        assert_eq!(text(b"a\\\xff\x00"), ("a\\\\\\xff\0".to_owned(), true));
    }
}
