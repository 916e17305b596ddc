//! Sizes as people write them.

/// Parses `123`, `64k`, `256m`, `2g` (also `KiB`, `MiB`, `GiB`, `kb`, …; all in steps of 1024).
///
/// ```
/// assert_eq!(ckpt_api::parse_size("64k"), Some(65536));
/// assert_eq!(ckpt_api::parse_size("2GiB"), Some(2 << 30));
/// assert_eq!(ckpt_api::parse_size("-1"), None);
/// ```
pub fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor: u64 = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_overflows_is_no_size() {
        assert_eq!(parse_size("99999999999g"), None);
        assert_eq!(parse_size("5q"), None);
        assert_eq!(parse_size(""), None);
    }
}
