//! Bytes as text, by RFC 4648 with padding.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The text for `bytes`.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let index = (group >> (18 - 6 * digit)) & 63;
            text.push(match digit > chunk.len() {
                true => '=',
                false => char::from(ALPHABET[index as usize]),
            });
        }
    }
    text
}

/// The bytes of a text as [`encode`] makes it; `None` for any other.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let (groups, rest) = text.as_bytes().as_chunks::<4>();
    let mut bytes = Vec::with_capacity(groups.len() * 3);
    for (number, group) in groups.iter().enumerate() {
        let padding = group.iter().rev().take_while(|byte| **byte == b'=').count();
        if padding > 2 || (padding > 0 && number + 1 < groups.len()) {
            return None;
        }
        let mut value = 0u32;
        for (position, byte) in group.iter().enumerate() {
            value = value << 6 | if position + padding < group.len() { digit(*byte)? } else { 0 };
        }
        let [_, group @ ..] = value.to_be_bytes();
        bytes.extend(group.iter().take(3 - padding));
    }
    rest.is_empty().then_some(bytes)
}

fn digit(byte: u8) -> Option<u32> {
    let (first, value) = match byte {
        b'A'..=b'Z' => (b'A', 0),
        b'a'..=b'z' => (b'a', 26),
        b'0'..=b'9' => (b'0', 52),
        b'+' => return Some(62),
        b'/' => return Some(63),
        _ => return None,
    };
    Some(u32::from(byte - first) + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_as_the_rfc_shows_it() {
        let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (bytes, text) in cases {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).unwrap(), bytes.as_bytes());
        }
    }

    #[test]
    fn every_byte_comes_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&bytes)).unwrap(), bytes);
    }

    #[test]
    fn text_that_was_not_made_so_is_no_bytes() {
        for text in ["Z", "Zg=", "Zg==Zg==", "Z===", "====", "Zm9-", "=Zg="] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
