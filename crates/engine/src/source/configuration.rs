//! The configuration beside a checkpoint, such as `config.json`.

use ckpt_api::{ArchitectureFile, Error, Input, Limit, Limits, Result};
use serde_json::Value;
use std::borrow::Cow;

/// The configuration of a model.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The file's name, or what people call its origin.
    pub name: String,
    json: Value,
}

impl Configuration {
    /// A configuration that something else than a file states: `name` is what people call it.
    pub fn new(name: impl Into<String>, json: Value) -> Self {
        Configuration { name: name.into(), json }
    }

    /// Reads the first of these files that exists beside `input`.
    ///
    /// # Errors
    /// Whatever keeps the file from being read; [`ckpt_api::Kind::Corrupt`] if it is no JSON.
    pub fn beside(input: &Input, names: &[String], limits: &Limits) -> Result<Option<Self>> {
        let Some(name) = names.iter().find(|name| input.has_file(name)) else { return Ok(None) };
        let shown = input.display(name);
        let file = input.file(name)?;
        limits.check(Limit::TextBytes, file.len()).map_err(|error| error.file(shown.as_str()))?;
        let invalid = |found: String| {
            Error::corrupt("the configuration is not valid JSON").file(shown.as_str()).found(found)
        };
        let text =
            String::from_utf8(file.bytes(0, file.len())?).map_err(|error| invalid(error.to_string()))?;
        let text = without_infinities(&text);
        // Counts the tokens before memory is allocated for each.
        let parsed = ArchitectureFile::from_json_within(&text, limits).and_then(|file| file.parse());
        let json = parsed.map_err(|error| {
            invalid(error.context().found.unwrap_or("another syntax").to_owned()).caused_by(error)
        })?;
        Ok(Some(Configuration { name: name.clone(), json }))
    }

    /// The whole configuration.
    pub fn root(&self) -> &Value {
        &self.json
    }

    /// The number at a key, if it is an integer that is 0 or more.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.get(key)?.as_u64()
    }

    /// The text at a key.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.get(key)?.as_str().map(str::to_owned)
    }

    /// The value at a key; dots lead into objects, and before a number into lists.
    pub fn get(&self, key: &str) -> Option<&Value> {
        key.split('.').try_fold(&self.json, |json, part| match json {
            Value::Array(items) => items.get(part.parse::<usize>().ok()?),
            _ => json.get(part),
        })
    }
}

/// The text with `null` for numbers that Python writes and JSON does not have: `Infinity`, `-Infinity` and `NaN`.
fn without_infinities(text: &str) -> Cow<'_, str> {
    const NUMBERS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];
    if !NUMBERS.iter().any(|number| text.contains(number)) {
        return Cow::Borrowed(text);
    }
    let mut result = String::with_capacity(text.len());
    let (mut rest, mut is_in_text) = (text, false);
    while let Some(first) = rest.chars().next() {
        let number = NUMBERS.iter().find(|number| !is_in_text && rest.starts_with(**number));
        let len = match (number, first) {
            (Some(number), _) => {
                result.push_str("null");
                number.len()
            }
            (None, '\\') if is_in_text => {
                let pair: usize = rest.chars().take(2).map(char::len_utf8).sum();
                result.push_str(rest.get(..pair).unwrap_or_default());
                pair
            }
            (None, first) => {
                is_in_text ^= first == '"';
                result.push(first);
                first.len_utf8()
            }
        };
        rest = rest.get(len..).unwrap_or_default();
    }
    Cow::Owned(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_only_python_has_are_null_and_texts_stay() {
        let python = r#"{"a": [0.0, Infinity], "b": -Infinity, "Infinity": "NaN \" NaN", "c": NaN}"#;
        let json = r#"{"a": [0.0, null], "b": null, "Infinity": "NaN \" NaN", "c": null}"#;
        assert_eq!(without_infinities(python), json);
        assert_eq!(without_infinities(r#"{"a": 1}"#), r#"{"a": 1}"#);
        assert_eq!(without_infinities("\"Infinity\\"), "\"Infinity\\");
    }
}
