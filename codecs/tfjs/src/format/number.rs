//! Numbers of JSON that stand for lengths.

use serde_json::Value;

/// The whole number that a JSON number is, as JavaScript has it: 3.0 is 3; `None` for any other value.
pub(super) fn whole(value: &Value) -> Option<u64> {
    /// Whole numbers up to this one are told apart.
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    if let Some(number) = value.as_u64() {
        return Some(number);
    }
    let number = value.as_f64().filter(|number| (0.0..=LARGEST).contains(number) && number.fract() == 0.0)?;
    format!("{number:.0}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_may_have_a_point_and_others_are_none() {
        let number = |text: &str| whole(&serde_json::from_str(text).unwrap());
        for (text, expected) in [("3", 3), ("3.0", 3), ("1e2", 100), ("0", 0), ("1099511627776", 1 << 40)] {
            assert_eq!(number(text), Some(expected), "{text}");
        }
        for text in ["-1", "1.5", "1e300", "\"3\"", "null", "[3]"] {
            assert_eq!(number(text), None, "{text}");
        }
    }
}
