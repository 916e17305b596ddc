//! The configuration of a model in a Hugging Face directory: `config.json`.

use ckpt_api::{Error, Input, Limits, MetadataMap, MetadataValue, Result};
use ckpt_engine::source::{Configuration, Source};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The file's name.
pub(crate) const FILE: &str = "config.json";
/// The object of a multimodal model that describes its language model: its values come before those of the root.
const TEXT: &str = "text_config";
/// Keys of the base of the rotary frequencies, for all layers and for those with a window.
const THETA: [&str; 3] = ["global_rope_theta", "rope_theta", "rotary_emb_base"];
const LOCAL_THETA: [&str; 2] = ["rope_local_base_freq", "local_rope_theta"];
/// Keys of the part of a head that is rotated.
const ROTARY_PART: [&str; 2] = ["rotary_pct", "partial_rotary_factor"];
/// The parameters of layers that attend to everything, and of those with a window.
const FULL: &str = "full_attention";
const SLIDING: &str = "sliding_attention";

/// The values of `config.json`, with those of the language model laid over them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    values: Map<String, Value>,
    /// The file, as people know it.
    shown: String,
}

impl Config {
    /// Reads the configuration beside a checkpoint; `None` if there is none, or if it is no object.
    ///
    /// # Errors
    /// Whatever keeps the file from being read; [`ckpt_api::Kind::Corrupt`] if it is no JSON.
    pub(crate) fn beside(input: &Input, limits: &Limits) -> Result<Option<Self>> {
        let Some(found) = Configuration::beside(input, &[FILE.to_owned()], limits)? else { return Ok(None) };
        let config = found.root().as_object().map(|values| Config::new(values, input.display(FILE)));
        Ok(config)
    }

    /// The configuration of a checkpoint, with the values that it has now; as [`Config::beside`].
    ///
    /// # Errors
    /// As [`Config::beside`].
    pub(crate) fn of_source(source: &Source) -> Result<Option<Self>> {
        let Some(mut config) = Self::beside(source.input(), source.limits())? else { return Ok(None) };
        for (key, value) in source.reconfigured() {
            config.values.insert(key.clone(), value.clone());
        }
        Ok(Some(config))
    }

    fn new(root: &Map<String, Value>, shown: String) -> Self {
        let mut values = root.clone();
        if let Some(Value::Object(text)) = root.get(TEXT) {
            values.extend(text.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        // The class is that of the whole model.
        if let Some(class) = root.get("architectures") {
            values.insert("architectures".to_owned(), class.clone());
        }
        Config { values, shown }
    }

    /// A configuration of these values.
    pub(crate) fn of(values: &Map<String, Value>) -> Self {
        Config { values: values.clone(), shown: FILE.to_owned() }
    }

    /// The same with another value.
    pub(crate) fn with(&self, key: &str, value: Value) -> Self {
        let mut config = self.clone();
        config.values.insert(key.to_owned(), value);
        config
    }

    /// The same with the values that a family has if none are stated.
    pub(crate) fn with_defaults(&self, defaults: &BTreeMap<String, DefaultValue>) -> Self {
        let mut config = self.clone();
        for (key, default) in defaults.iter().filter(|(key, _)| self.get(key).is_none()) {
            let value = match default {
                DefaultValue::Value(value) => Some(value.clone()),
                DefaultValue::Like { like } => self.get(like).cloned(),
            };
            config.values.extend(value.map(|value| (key.clone(), value)));
        }
        config
    }

    /// The values as JSON.
    pub(crate) fn json(&self) -> Value {
        Value::Object(self.values.clone())
    }

    /// Whether the values of a language model were laid over those of a larger one.
    pub(crate) fn has_text(&self) -> bool {
        self.values.contains_key(TEXT)
    }

    /// The class that loads the model, such as `LlamaForCausalLM`.
    pub(crate) fn class(&self) -> Option<&str> {
        self.values.get("architectures")?.as_array()?.first()?.as_str()
    }

    /// The family, such as `llama`.
    pub(crate) fn model_type(&self) -> Option<&str> {
        self.values.get("model_type")?.as_str()
    }

    /// The first of these keys that has a value; dots lead into objects.
    pub(crate) fn first<S: AsRef<str>>(&self, keys: &[S]) -> Option<&Value> {
        keys.iter().find_map(|key| self.get(key.as_ref()))
    }

    fn get(&self, key: &str) -> Option<&Value> {
        let mut parts = key.split('.');
        let first = self.values.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.get(part)).filter(|value| !value.is_null())
    }

    /// A count.
    pub(crate) fn count<S: AsRef<str>>(&self, keys: &[S]) -> Option<u64> {
        self.first(keys)?.as_u64()
    }

    /// A real number.
    pub(crate) fn number<S: AsRef<str>>(&self, keys: &[S]) -> Option<f64> {
        self.first(keys)?.as_f64()
    }

    /// The parameters of the rotary embedding of layers that attend to everything. Versions 4 and 5 of transformers store
    /// them differently.
    pub(crate) fn rope(&self) -> Rope {
        let mut values = self.rope_parameters().cloned().unwrap_or_default();
        if let Some(Value::Object(full)) = values.get(FULL) {
            return Rope { values: full.clone() };
        }
        if let Some(theta) = self.first(&THETA) {
            values.entry("rope_theta").or_insert_with(|| theta.clone());
        }
        if let Some(kind) = values.get("type").cloned() {
            values.entry("rope_type").or_insert(kind);
        }
        for (key, names) in [
            ("original_max_position_embeddings", &["original_max_position_embeddings"][..]),
            ("partial_rotary_factor", &ROTARY_PART[..]),
        ] {
            if let Some(own) = self.first(names) {
                values.entry(key).or_insert_with(|| own.clone());
            }
        }
        Rope { values }
    }

    /// The base of the rotary frequencies of layers with a window, if it is another one.
    pub(crate) fn sliding_theta(&self) -> Option<f64> {
        let own = self.rope_parameters().and_then(|values| values.get(SLIDING));
        let own = own.and_then(|sliding| sliding.get("rope_theta")).and_then(Value::as_f64);
        own.or_else(|| self.number(&LOCAL_THETA))
    }

    fn rope_parameters(&self) -> Option<&Map<String, Value>> {
        self.first(&["rope_parameters", "rope_scaling"])?.as_object()
    }

    /// The length of a head: stated, or that which the heads divide the embedding into.
    pub(crate) fn head_dim(&self) -> Option<u64> {
        self.count(&["head_dim"]).or_else(|| self.head_width())
    }

    /// The length that the heads divide the embedding into.
    pub(crate) fn head_width(&self) -> Option<u64> {
        let width = self.count(&["hidden_size", "n_embd"])?;
        width.checked_div(self.count(&["num_attention_heads", "n_head"])?)
    }

    /// The error for a value that the file does not have, or has in another form.
    pub(crate) fn lacks<S: AsRef<str>>(&self, keys: &[S], expected: &str) -> Error {
        let keys: Vec<&str> = keys.iter().map(AsRef::as_ref).collect();
        let error = Error::mapping("the configuration does not state what the model needs")
            .file(self.shown.as_str())
            .field(keys.join(" or "))
            .expected(expected);
        match self.first(&keys) {
            Some(value) => error.found(value.to_string().chars().take(80).collect::<String>()),
            None => error.found("nothing"),
        }
    }

    /// The file, as people know it.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }
}

/// A value of `config.json` that it need not state.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum DefaultValue {
    /// That of another key.
    Like {
        /// The key.
        like: String,
    },
    /// This one.
    Value(Value),
}

/// The parameters of a rotary embedding.
#[derive(Clone, Debug)]
pub(crate) struct Rope {
    values: Map<String, Value>,
}

impl Rope {
    /// How the frequencies are scaled, such as `llama3`.
    pub(crate) fn kind(&self) -> Option<&str> {
        self.values.get("rope_type")?.as_str()
    }

    /// One of the parameters.
    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        self.values.get(key)?.as_f64()
    }

    /// A list of the parameters.
    pub(crate) fn list(&self, key: &str) -> Option<&[Value]> {
        self.values.get(key)?.as_array().map(Vec::as_slice)
    }

    /// Whether there are any.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// Adds a key unless there is no value.
pub(crate) fn insert(pairs: &mut MetadataMap, key: String, value: Option<impl Into<MetadataValue>>) {
    if let Some(value) = value {
        pairs.insert(key, value);
    }
}

/// A file of JSON, indented.
///
/// # Errors
/// [`ckpt_api::Kind::Defect`] if the values have no form in JSON.
pub(crate) fn pretty(values: &impl serde::Serialize) -> Result<Vec<u8>> {
    let json = serde_json::to_vec_pretty(values)
        .map_err(|error| Error::defect("a configuration cannot be written").found(error.to_string()))?;
    Ok([json, vec![b'\n']].concat())
}
