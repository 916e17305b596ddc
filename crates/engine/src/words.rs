//! Text for people: counts, sizes, lists, and text from files.

pub use ckpt_api::count;
use ckpt_api::{Affine, DType, Loss};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};
use std::num::NonZeroU32;

/// The form of a verb for a number of things: `one` for 1, `several` otherwise.
pub fn verb(number: usize, one: &'static str, several: &'static str) -> &'static str {
    if number == 1 { one } else { several }
}

/// Formats bytes as two hexadecimal digits each.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses what [`hex`] makes of a SHA-256: 64 digits in lower case.
pub fn parse_sha256(text: &str) -> Option<[u8; 32]> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
    let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? * 16 + digit(*low)?).ok();
    let bytes: Vec<u8> = pairs.iter().take(33).map(byte).collect::<Option<_>>()?;
    bytes.try_into().ok().filter(|_| rest.is_empty())
}

/// A name in quotation marks, as [`printable`] shows it.
pub fn quote(name: &str) -> String {
    format!("'{}'", printable(name))
}

/// A name on one line: shortened, its invisible characters escaped.
pub fn printable(name: &str) -> String {
    const SHOWN: usize = 160;
    let mut text: String = name.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if name.chars().nth(SHOWN).is_some() {
        text.push('…');
    }
    text
}

/// Text from a file, without characters that could steer a terminal or hide a part of it.
pub fn plain(text: &str) -> Cow<'_, str> {
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

/// Whether `is` holds of every byte. Asks of a whole chunk at a time, without a branch for each byte: texts can be
/// long.
pub fn all_bytes(text: &str, is: impl Fn(u8) -> bool) -> bool {
    text.as_bytes().chunks(64).all(|chunk| chunk.iter().fold(true, |all, byte| all & is(*byte)))
}

/// Control characters, and what is not seen: marks that reorder what follows, ends of lines, letters without width.
pub fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{e0000}'..='\u{e007f}')
}

/// A number as people write it, of so many significant digits at most: `320`, `0.75`, `-1.2e-7`.
pub fn number(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let places = digits.saturating_sub(1);
    let shown = format!("{value:.places$e}");
    let Some((mantissa, exponent)) = shown.split_once('e') else {
        // NaN and infinities.
        return value.to_string();
    };
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    match exponent.parse::<i32>() {
        Ok(exponent @ -4..=5) => {
            let decimals = usize::try_from(i64::try_from(places).unwrap_or(0) - i64::from(exponent));
            trimmed(&format!("{value:.*}", decimals.unwrap_or(0)))
        }
        _ => format!("{}e{exponent}", trimmed(mantissa)),
    }
}

/// Bytes in units of 1024, three significant digits.
pub fn bytes(count: u64) -> Size {
    Size(count)
}

/// A number of bytes, as people read it.
pub struct Size(u64);

impl Display for Size {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["MiB", "GiB", "TiB", "PiB", "EiB"];
        let Size(count) = *self;
        if count < 1024 {
            return write!(f, "{count} B");
        }
        let (mut unit, mut name) = (1u128 << 10, "KiB");
        // Tenths and hundredths are of a unit; 128 bits hold both.
        let rounded = |unit: u128, parts: u128| (u128::from(count) * parts + unit / 2) / unit;
        for next in UNITS {
            // What is nearer to 1024 of a unit than to 1023 is shown as 1.00 of the next.
            if rounded(unit, 1) < 1024 {
                break;
            }
            (unit, name) = (unit << 10, next);
        }
        match (rounded(unit, 100), rounded(unit, 10)) {
            (hundredths @ ..1000, _) => write!(f, "{}.{:02} {name}", hundredths / 100, hundredths % 100),
            (_, tenths @ ..1000) => write!(f, "{}.{} {name}", tenths / 10, tenths % 10),
            _ => write!(f, "{} {name}", rounded(unit, 1)),
        }
    }
}

/// The details of losses, each once, with its subjects.
pub fn notes_on_losses(losses: &[Loss]) -> Vec<String> {
    const SHOWN: usize = 8;
    let mut subjects: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for loss in losses {
        let place = *places.entry(loss.detail.as_str()).or_insert(subjects.len());
        if place == subjects.len() {
            subjects.push((loss.detail.as_str(), Vec::new()));
        }
        if let Some((_, own)) = subjects.get_mut(place) {
            own.push(&loss.subject);
        }
    }
    let note = |(detail, own): (&str, Vec<&str>)| format!("{}: {detail}", ckpt_api::first_few(&own, SHOWN));
    subjects.into_iter().map(note).collect()
}

/// A dtype with the scale of its integers: `i16 at 255`.
pub fn dtype(dtype: DType, scale: Option<NonZeroU32>) -> String {
    scale.map_or_else(|| dtype.to_string(), |scale| format!("{dtype} at {scale}"))
}

/// A dtype with what its integers stand for: `i16 at 255`, `qi8 (scale 0.5, zero point 3)`.
pub fn quantized(own: DType, scale: Option<NonZeroU32>, affine: Option<&Affine>) -> String {
    affine.map_or_else(|| dtype(own, scale), |affine| format!("{own} ({affine})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_as_people_write_them() {
        let values = [
            320.0,
            0.0,
            -0.0625,
            1.0,
            0.431_512_3,
            5.25,
            123_456.7,
            999_999.0,
            1e6,
            1.234_56e-7,
            -1e-4,
            9.999_999,
            f64::NAN,
            f64::NEG_INFINITY,
            f64::MAX,
        ];
        let expected = [
            "320",
            "0",
            "-0.0625",
            "1",
            "0.43151",
            "5.25",
            "123457",
            "1e6",
            "1e6",
            "1.2346e-7",
            "-0.0001",
            "10",
            "NaN",
            "-inf",
            "1.7977e308",
        ];
        assert_eq!(values.map(|value| number(value, 5)), expected);
        assert_eq!(number(123_456.0, 2), "123456");
    }

    #[test]
    fn sizes_have_three_digits_and_units_of_1024() {
        let sizes = [
            0,
            1023,
            1024,
            10_234,
            10_235,
            102_348,
            102_349,
            1_048_063,
            1_048_064,
            1 << 20,
            2 << 30,
            u64::MAX,
        ];
        let shown = sizes.map(|size| bytes(size).to_string());
        let expected = [
            "0 B", "1023 B", "1.00 KiB", "9.99 KiB", "10.0 KiB", "99.9 KiB", "100 KiB", "1023 KiB",
            "1.00 MiB", "1.00 MiB", "2.00 GiB", "16.0 EiB",
        ];
        assert_eq!(shown, expected);
    }
}
