//! JSON as Python writes it, with numbers that JSON does not have.

use serde_json::Value;

/// What Python writes for numbers that are none or infinite. `-Infinity` is one with a sign.
const NUMBERS: [&str; 2] = ["NaN", "Infinity"];

/// Parses JSON. Numbers that are none or infinite become texts: `"NaN"`, `"Infinity"`, `"-Infinity"`.
///
/// # Errors
/// Those of `serde_json`, for text that is no JSON of Python either.
pub fn parse(text: &str) -> serde_json::Result<Value> {
    let error = match serde_json::from_str(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    match NUMBERS.iter().any(|number| text.contains(number)) {
        true => serde_json::from_str(&quoted(text, "")).map_err(|_| error),
        false => Err(error),
    }
}

/// Stands before a number that became a text.
const MARK: &str = "\u{f8ff}";

/// Changes JSON of Python, whose numbers stay what they are; `None` for text that is none.
pub fn edited(text: &str, change: impl FnOnce(&mut Value)) -> Option<String> {
    if text.contains(MARK) {
        return None;
    }
    let mut value = serde_json::from_str(text).or_else(|_| serde_json::from_str(&quoted(text, MARK))).ok()?;
    change(&mut value);
    let mut text = value.to_string();
    for number in NUMBERS {
        for sign in ["", "-"] {
            text = text.replace(&format!("\"{MARK}{sign}{number}\""), &format!("{sign}{number}"));
        }
    }
    Some(text)
}

/// Puts quotes, and a mark before the number, around such numbers if they are not within a text.
fn quoted(text: &str, mark: &str) -> String {
    let mut made = String::with_capacity(text.len() + 64);
    let (mut rest, mut is_text) = (text, false);
    while let Some(next) = rest.chars().next() {
        let number = rest.strip_prefix('-').unwrap_or(rest);
        let found = NUMBERS.iter().find(|name| !is_text && number.starts_with(*name));
        let taken = match found {
            Some(name) => rest.len() - number.len() + name.len(),
            // An escaped quote does not end a text.
            None if is_text && next == '\\' => 1 + rest.chars().nth(1).map_or(0, char::len_utf8),
            None => next.len_utf8(),
        };
        is_text ^= next == '"';
        let (part, after) = rest.split_at(taken);
        match found {
            Some(_) => made.extend(["\"", mark, part, "\""]),
            None => made += part,
        }
        rest = after;
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_that_json_does_not_have_become_texts() {
        let parsed = parse(r#"{"a": NaN, "b": [-Infinity, Infinity, 1.5], "-Infinity": "NaN"}"#).unwrap();
        assert_eq!(parsed, json!({ "a": "NaN", "b": ["-Infinity", "Infinity", 1.5], "-Infinity": "NaN" }));
    }

    #[test]
    fn texts_stay_as_they_are() {
        let parsed = parse(r#"{"a": "NaN \" NaN \\", "é": NaN}"#).unwrap();
        assert_eq!(parsed, json!({ "a": "NaN \" NaN \\", "é": "NaN" }));
    }

    #[test]
    fn other_errors_are_those_of_the_text() {
        for text in ["{\"a\": NaN", "NaNs", "{\"a\": nan}", ""] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.to_string(), serde_json::from_str::<Value>(text).unwrap_err().to_string());
        }
    }
}
