//! The configuration beside a checkpoint, such as `config.json`.

use ckpt_api::{ArchitectureFile, Error, Input, Limit, Limits, Result};
use serde_json::Value;

/// The configuration of a model.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The file's name.
    pub name: String,
    json: Value,
}

impl Configuration {
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
