//! Numbers and strings that protocol 0 writes as text.

use super::tree::Decoded;

/// Digits of the longest decimal number, as Python limits it: converting one takes time quadratic in its length.
const MOST_DIGITS: usize = 4300;

/// A decimal number, of any size up to a limit.
pub(crate) enum Decimal {
    Small(i64),
    /// Two's complement, little-endian.
    Large(Vec<u8>),
}

/// Parses a decimal number with an optional sign and, as Python 2 writes it, an `L` at its end.
pub(crate) fn decimal(line: &[u8]) -> Option<Decimal> {
    let text = std::str::from_utf8(line.strip_suffix(b"L").unwrap_or(line)).ok()?;
    if let Ok(number) = text.parse() {
        return Some(Decimal::Small(number));
    }
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    if digits.is_empty() || digits.len() > MOST_DIGITS || !digits.bytes().all(|digit| digit.is_ascii_digit())
    {
        return None;
    }
    let mut bytes: Vec<u8> = Vec::new();
    for digit in digits.bytes() {
        let mut carry = u32::from(digit - b'0');
        for byte in &mut bytes {
            carry += u32::from(*byte) * 10;
            *byte = carry as u8;
            carry >>= 8;
        }
        if carry > 0 {
            bytes.push(carry as u8);
        }
    }
    // Room for the sign.
    bytes.push(0);
    if is_negative {
        let mut carry = 1;
        for byte in &mut bytes {
            carry += u16::from(!*byte);
            *byte = carry as u8;
            carry >>= 8;
        }
    }
    Some(Decimal::Large(bytes))
}

/// Parses a float as Python's `repr` writes it.
pub(crate) fn float(line: &[u8]) -> Option<f64> {
    std::str::from_utf8(line).ok()?.parse().ok()
}

/// Decodes a quoted string of Python 2.
pub(crate) fn quoted(line: &[u8]) -> Option<Decoded> {
    let (quote, rest) = line.split_first()?;
    let (last, inner) = rest.split_last()?;
    if quote != last || !matches!(quote, b'\'' | b'"') {
        return None;
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let (escape, after) = rest.split_first()?;
        rest = after;
        match escape {
            b'\\' | b'\'' | b'"' => out.push(*escape),
            b'a' => out.push(7),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'x' => {
                let (digits, after) = rest.split_at_checked(2)?;
                out.push(u8::try_from(number(digits, 16)?).ok()?);
                rest = after;
            }
            b'0'..=b'7' => {
                let len = 1 + rest.iter().take(2).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
                let from = inner.len() - rest.len() - 1;
                let digits = inner.get(from..from + len)?;
                out.push((number(digits, 8)? & 0xff) as u8);
                rest = rest.get(len - 1..)?;
            }
            // Python keeps the backslash before every other character.
            other => out.extend([b'\\', *other]),
        }
    }
    Some(match String::from_utf8(out) {
        Ok(text) => Decoded::Text(text),
        Err(error) => Decoded::Bytes(error.into_bytes()),
    })
}

/// Decodes a text as Python's codec `raw_unicode_escape` does: `\u` with four hexadecimal digits and `\U` with eight
/// are the character of that number, and every other byte is the character of its own.
pub(crate) fn raw_unicode(line: &[u8]) -> Option<String> {
    let mut out = String::with_capacity(line.len());
    let mut high = None;
    let mut rest = line;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let len = match (byte, after.first()) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => {
                out.push(char::from(*byte));
                continue;
            }
        };
        let (digits, after) = after.get(1..)?.split_at_checked(len)?;
        rest = after;
        let unit = number(digits, 16)?;
        // Python 2 on some systems wrote two halves for one character.
        match (high.take(), unit) {
            (None, 0xd800..0xdc00) => high = Some(unit),
            (Some(high), 0xdc00..0xe000) => {
                out.push(char::from_u32(0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00))?);
            }
            (None, _) => out.push(char::from_u32(unit)?),
            (Some(_), _) => return None,
        }
    }
    high.is_none().then_some(out)
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn large(text: &str) -> Vec<u8> {
        match decimal(text.as_bytes()) {
            Some(Decimal::Large(bytes)) => bytes,
            Some(Decimal::Small(number)) => panic!("{number} is small"),
            None => panic!("{text} is no number"),
        }
    }

    #[test]
    fn decimals_of_any_size_become_their_twos_complement() {
        assert!(matches!(decimal(b"-12L"), Some(Decimal::Small(-12))));
        assert_eq!(large("18446744073709551616"), [0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(large("-18446744073709551616L"), [0, 0, 0, 0, 0, 0, 0, 0, 255, 255]);
        for text in ["", "-", "1x", "1_0", "0x10"] {
            assert!(decimal(text.as_bytes()).is_none(), "{text}");
        }
        assert!(decimal("9".repeat(MOST_DIGITS + 1).as_bytes()).is_none());
    }

    #[test]
    fn strings_of_python_2_are_decoded_by_its_escapes() {
        let text = |line: &[u8]| match quoted(line) {
            Some(Decoded::Text(text)) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(text(br"'a\'b\\n\n\x41\101\0z'"), "a'b\\n\nAA\0z");
        assert!(matches!(quoted(br"'\xff'"), Some(Decoded::Bytes(bytes)) if bytes == [0xff]));
        for line in [&b"'a"[..], b"a", b"'a\"", br"'\x4'", b"'", br"'a\'"] {
            assert!(quoted(line).is_none(), "{line:?}");
        }
    }

    #[test]
    fn unicode_is_decoded_by_its_escapes() {
        assert_eq!(raw_unicode(b"a\xe4\\u20ac\\U0001f600\\ud83d\\ude00\\n").unwrap(), "aä€😀😀\\n");
        for line in [&b"\\u12"[..], b"\\ud83d", b"\\ud83dx\\u0041", b"\\U00110000"] {
            assert!(raw_unicode(line).is_none(), "{line:?}");
        }
    }
}
