//! The class of a layer, and its options.

use super::model::Layer;
use serde_json::{Map, Value};

/// Why a layer cannot be understood, as a clause: what its options are, or are not.
pub(super) type Reason = String;

impl Layer {
    /// Whether the class is one of Keras's own.
    pub fn is_builtin(&self) -> bool {
        let own = |module: &str| {
            ["keras", "tf_keras", "tensorflow.keras", "tensorflow.python.keras"].iter().any(|root| {
                module.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
        };
        let is_custom = |name: &str| name.contains('>');
        (self.module.is_empty() || own(&self.module))
            && !is_custom(&self.class)
            && !self.registered_name.as_deref().is_some_and(is_custom)
    }

    /// Whether this is an operation of `keras.ops` and not a layer.
    pub fn is_operation(&self) -> bool {
        self.module.starts_with("keras.src.ops") || self.module.starts_with("keras.ops")
    }

    /// Whether the layer's weights are trained: the option `trainable`.
    pub fn is_trainable(&self) -> bool {
        self.flag("trainable", true)
    }

    pub(super) fn option(&self, key: &str) -> Option<&Value> {
        self.config.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn flag(&self, key: &str, default: bool) -> bool {
        is_on(&self.config, key, default)
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.option(key).and_then(Value::as_str)
    }

    /// Returns a size that the layer must have.
    pub(super) fn size(&self, key: &str) -> Result<u64, Reason> {
        self.option(key)
            .and_then(Value::as_u64)
            .filter(|size| *size > 0)
            .ok_or_else(|| format!("its option '{key}' is no size"))
    }

    /// Returns an integer; `default` if it is not stated.
    pub(super) fn int(&self, key: &str, default: i64) -> Result<i64, Reason> {
        match self.option(key) {
            None => Ok(default),
            Some(value) => value.as_i64().ok_or_else(|| format!("its option '{key}' is no integer")),
        }
    }

    /// Returns a number; `default` if it is not stated.
    pub(super) fn float(&self, key: &str, default: f64) -> Result<f64, Reason> {
        match self.option(key) {
            None => Ok(default),
            // A number that Keras takes from an array.
            Some(Value::Object(map)) => {
                let value = map.get("config").and_then(|config| config.get("value")).and_then(Value::as_f64);
                value.ok_or_else(|| format!("its option '{key}' is no number"))
            }
            Some(value) => value.as_f64().ok_or_else(|| format!("its option '{key}' is no number")),
        }
    }

    /// Returns sizes, one for each side; a single number stands for all sides.
    pub(super) fn sides(&self, key: &str, sides: usize, default: Option<u64>) -> Result<Vec<u64>, Reason> {
        let invalid = || format!("its option '{key}' is not a size for each of {sides} sides");
        match (self.option(key), default) {
            (None, Some(default)) => Ok(vec![default; sides]),
            (None, None) => Err(invalid()),
            (Some(Value::Array(items)), _) => {
                let sizes = items.iter().map(|item| item.as_u64().filter(|size| *size > 0));
                let sizes = sizes.collect::<Option<Vec<u64>>>();
                sizes.filter(|sizes| sizes.len() == sides).ok_or_else(invalid)
            }
            (Some(value), _) => {
                let size = value.as_u64().filter(|size| *size > 0).ok_or_else(invalid)?;
                Ok(vec![size; sides])
            }
        }
    }

    /// Returns integers; one alone is a list of one.
    pub(super) fn ints(&self, key: &str) -> Result<Option<Vec<i64>>, Reason> {
        self.option(key).map(ints).map_or(Ok(None), |ints| {
            ints.map(Some).ok_or_else(|| format!("its option '{key}' is not a list of integers"))
        })
    }

    /// Returns numbers; one alone is a list of one.
    pub(super) fn floats(&self, key: &str) -> Result<Option<Vec<f64>>, Reason> {
        let Some(value) = self.option(key) else { return Ok(None) };
        let mut found = Vec::new();
        let mut open = vec![value];
        while let Some(value) = open.pop() {
            match value {
                Value::Array(items) => open.extend(items.iter().rev()),
                Value::Number(number) => found.extend(number.as_f64()),
                _ => return Err(format!("its option '{key}' is not a list of numbers")),
            }
        }
        Ok(Some(found))
    }

    /// Whether the layer's images have their channels first.
    pub(super) fn is_channels_first(&self) -> bool {
        self.text("data_format") == Some("channels_first") || self.text("dim_ordering") == Some("th")
    }

    /// The name of the layer's type of numbers or policy: `float32`, `bfloat16`, `mixed_float16`.
    pub(super) fn policy(&self) -> Option<&str> {
        let dtype = self.option("dtype")?;
        dtype.as_str().or_else(|| dtype.get("config")?.get("name")?.as_str())
    }

    /// How the weights are stored if they are not plain numbers: `int8`, `int4/128`, `float8`.
    pub(super) fn quantization(&self) -> Option<&str> {
        self.option("dtype")?.get("config")?.get("mode")?.as_str()
    }

    /// Returns the layer that this one wraps, or its cell.
    pub(super) fn wrapped(&self, key: &str) -> Option<Layer> {
        Layer::parse(self.option(key)?)
    }

    /// Reads a layer that is no model, without its calls.
    pub(super) fn parse(value: &Value) -> Option<Layer> {
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        let class = text("class_name")?.to_owned();
        let config = match value.get("config") {
            Some(Value::Object(config)) => config.clone(),
            _ => Map::new(),
        };
        let own = config.get("name").and_then(Value::as_str);
        let name = text("name").or(own).unwrap_or_default().to_owned();
        Some(Layer {
            name,
            class,
            model: None,
            module: text("module").unwrap_or_default().to_owned(),
            registered_name: text("registered_name").map(str::to_owned),
            shared_object: value.get("shared_object_id").and_then(Value::as_u64),
            config,
            calls: Vec::new(),
        })
    }

    /// Returns the lengths of the axes that a layer states of its input.
    pub(super) fn stated_shape(&self) -> Option<Vec<Option<u64>>> {
        ["batch_shape", "batch_input_shape"].iter().find_map(|key| lens(self.option(key)?))
    }
}

/// Reads lengths of axes; `null` is free.
pub(super) fn lens(value: &Value) -> Option<Vec<Option<u64>>> {
    let lens = value.as_array()?.iter().map(|len| match len {
        Value::Null => Some(None),
        len => len.as_u64().map(Some),
    });
    lens.collect()
}

fn ints(value: &Value) -> Option<Vec<i64>> {
    match value {
        Value::Array(items) => items.iter().map(Value::as_i64).collect(),
        value => value.as_i64().map(|value| vec![value]),
    }
}

/// A setting that is true or false; Keras 1 wrote numbers.
pub(super) fn is_on(config: &Map<String, Value>, key: &str, default: bool) -> bool {
    match config.get(key) {
        Some(Value::Bool(value)) => *value,
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        _ => default,
    }
}
