//! Parses and writes the JSON block, which describes the layers.

use crate::format::{self, Dialect, Layer, LayerKind};
use crate::training;
use ckpt_api::{Error, Loss, LossKind, Result, Rules};
use serde_json::{Map, Value, json};

/// The JSON block, parsed.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    pub(crate) layers: Vec<Layer>,
    json: Map<String, Value>,
}

impl Description {
    /// Parses the JSON block.
    pub(crate) fn parse(text: &str, rules: &mut Rules) -> Result<Self> {
        let json: Value = serde_json::from_str(text)
            .map_err(|error| Error::corrupt("the JSON block is not valid").found(error.to_string()))?;
        let Value::Object(json) = json else {
            return Err(wrong_type("the JSON block", &json, "an object"));
        };
        if let Some(device) = json.get("device").filter(|device| !device.is_string() && !device.is_null()) {
            rules.mend("device", "it has no effect", wrong_type("device", device, "a text"))?;
        }
        if let Some(other) = json.get("training").filter(|value| !value.is_object() && !value.is_null()) {
            rules.mend("training", "there is no history", wrong_type("training", other, "an object"))?;
        }
        let layers = match json.get("layers") {
            Some(Value::Array(layers)) if !layers.is_empty() => layers,
            Some(Value::Array(_)) | None => {
                let error = Error::corrupt("the JSON block lists no layers").field("layers");
                return Err(error.help("DataCode needs at least one layer"));
            }
            Some(other) => return Err(wrong_type("layers", other, "an array")),
        };
        let layers = layers.iter().enumerate().map(|(index, layer)| parse_layer(index, layer, rules));
        let layers = layers.collect::<Result<_>>()?;
        Ok(Description { layers, json })
    }

    /// Describes these layers as DataCode describes a net without training history.
    pub(crate) fn untrained(layers: &[Layer], dialect: Dialect) -> Self {
        let names = format::layer_names(layers, dialect);
        let described: Vec<Value> = layers
            .iter()
            .zip(names)
            .map(|(layer, name)| match layer.kind {
                LayerKind::Linear => json!({
                    "in_features": layer.inputs, "name": name, "out_features": layer.outputs,
                    "trainable": true, "type": layer.kind.name(),
                }),
                kind => json!({ "name": name, "type": kind.name() }),
            })
            .collect();
        let mut json = Map::new();
        json.insert("device".into(), "cpu".into());
        json.insert("layers".into(), described.into());
        json.insert("training".into(), training::untrained());
        Description { layers: layers.to_vec(), json }
    }

    /// Converts the description to another dialect. Numbers and unknown keys do not change.
    pub(crate) fn convert(&mut self, from: Dialect, to: Dialect, losses: &mut Vec<Loss>) {
        let old_names = format::layer_names(&self.layers, from);
        let new_names = format::layer_names(&self.layers, to);
        let layers = self.json.get_mut("layers").and_then(Value::as_array_mut);
        for ((layer, old), new) in layers.into_iter().flatten().zip(old_names).zip(new_names) {
            let follows_rule = layer.get("name").is_none_or(|name| *name == old);
            if let Some(layer) = layer.as_object_mut().filter(|_| follows_rule) {
                layer.insert("name".into(), new.into());
            }
        }
        let device = self.json.get("device").filter(|device| to == Dialect::B && **device != "cpu");
        if let Some(device) = device {
            let detail = format!("{device} becomes \"cpu\", the only value in dialect b");
            losses.push(Loss::new(LossKind::MetadataDropped, "nn.device", detail));
        }
        if to == Dialect::B {
            self.json.insert("device".into(), "cpu".into());
        }
        if let Some(Value::Object(training)) = self.json.get_mut("training") {
            training::convert(training, to, losses);
        }
    }

    /// Returns the JSON text: compact, with sorted keys and exact numbers.
    pub(crate) fn into_text(self) -> String {
        Value::Object(self.json).to_string()
    }

    /// Returns the `name` of a layer, if it has one.
    pub(crate) fn name(&self, position: usize) -> Option<&str> {
        self.layer_json(position)?.get("name")?.as_str()
    }

    /// Returns whether any layer has `"trainable": false`.
    pub(crate) fn has_frozen_layers(&self) -> bool {
        (0..self.layers.len()).any(|position| {
            self.layer_json(position).and_then(|layer| layer.get("trainable")) == Some(&Value::Bool(false))
        })
    }

    /// Returns the object `training`, if there is one.
    pub(crate) fn training(&self) -> Option<&Map<String, Value>> {
        self.json.get("training")?.as_object()
    }

    fn layer_json(&self, position: usize) -> Option<&Value> {
        self.json.get("layers")?.get(position)
    }
}

fn parse_layer(index: usize, json: &Value, rules: &mut Rules) -> Result<Layer> {
    let field = |key: &str| format!("layers[{index}].{key}");
    let Value::Object(layer) = json else {
        return Err(wrong_type(&format!("layers[{index}]"), json, "an object"));
    };
    let kind = match layer.get("type") {
        Some(Value::String(name)) => LayerKind::from_name(name).ok_or_else(|| {
            Error::unsupported("unknown layer type")
                .field(field("type"))
                .found(format!("\"{}\"", name.escape_debug()))
                .expected(LayerKind::names())
        })?,
        Some(other) => return Err(wrong_type(&field("type"), other, "a text")),
        None => return Err(Error::corrupt("a layer has no type").field(field("type"))),
    };
    if let Some(name) = layer.get("name").filter(|name| !name.is_string()) {
        rules.mend(field("name"), "it has no effect", wrong_type(&field("name"), name, "a text"))?;
    }
    if kind != LayerKind::Linear {
        return Ok(Layer { kind, inputs: 0, outputs: 0 });
    }
    if let Some(flag) = layer.get("trainable").filter(|flag| !flag.is_boolean()) {
        rules.mend(
            field("trainable"),
            "it has no effect",
            wrong_type(&field("trainable"), flag, "true or false"),
        )?;
    }
    let inputs = features(layer.get("in_features"), &field("in_features"))?;
    let outputs = features(layer.get("out_features"), &field("out_features"))?;
    if (inputs == 0) != (outputs == 0) {
        return Err(Error::corrupt("a Linear layer has no features on one side")
            .field(format!("layers[{index}]"))
            .found(format!("in_features {inputs}, out_features {outputs}"))
            .expected("positive numbers, or 0 and 0 for a convolution stored as Linear"));
    }
    Ok(Layer { kind, inputs, outputs })
}

fn features(value: Option<&Value>, field: &str) -> Result<u64> {
    let value = value.ok_or_else(|| {
        Error::corrupt("a Linear layer does not state its size").field(field).expected("a positive integer")
    })?;
    let number = value.as_u64().filter(|number| u32::try_from(*number).is_ok());
    number.ok_or_else(|| wrong_type(field, value, "a positive integer below 2^32"))
}

fn wrong_type(field: &str, found: &Value, expected: &str) -> Error {
    let kind = match found {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(_) => "a text".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    Error::corrupt("the JSON block has a value of the wrong type").field(field).found(kind).expected(expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Kind;

    fn parse(text: &str) -> Result<Description> {
        Description::parse(text, &mut Rules::default())
    }

    #[test]
    fn what_datacode_refuses_is_refused() {
        for (text, kind) in [
            ("{", Kind::Corrupt),
            ("[]", Kind::Corrupt),
            ("{}", Kind::Corrupt),
            (r#"{"layers":[]}"#, Kind::Corrupt),
            (r#"{"layers":{}}"#, Kind::Corrupt),
            (r#"{"layers":[3]}"#, Kind::Corrupt),
            (r#"{"layers":[{}]}"#, Kind::Corrupt),
            (r#"{"layers":[{"type":1}]}"#, Kind::Corrupt),
            (r#"{"layers":[{"type":"GELU"}]}"#, Kind::Unsupported),
            (r#"{"layers":[{"type":"Linear","out_features":2}]}"#, Kind::Corrupt),
            (r#"{"layers":[{"type":"Linear","in_features":3.0,"out_features":2}]}"#, Kind::Corrupt),
            (r#"{"layers":[{"type":"Linear","in_features":-3,"out_features":2}]}"#, Kind::Corrupt),
            (r#"{"layers":[{"type":"Linear","in_features":0,"out_features":2}]}"#, Kind::Corrupt),
            (r#"{"layers":[{"type":"Linear","in_features":4294967296,"out_features":2}]}"#, Kind::Corrupt),
        ] {
            let mut lenient = Rules { lenient: true, ..Rules::default() };
            assert_eq!(parse(text).unwrap_err().kind(), kind, "{text}");
            assert_eq!(Description::parse(text, &mut lenient).unwrap_err().kind(), kind, "{text}");
        }
    }

    #[test]
    fn what_has_no_effect_in_datacode_is_mended_when_lenient() {
        let text = r#"{"device":1,"layers":[{"type":"ReLU","name":2}],"training":[]}"#;
        assert_eq!(parse(text).unwrap_err().kind(), Kind::Corrupt);
        let mut rules = Rules { lenient: true, ..Rules::default() };
        Description::parse(text, &mut rules).unwrap();
        let subjects: Vec<&str> = rules.repairs.iter().map(|repair| repair.subject.as_str()).collect();
        assert_eq!(subjects, ["device", "training", "layers[0].name"]);
    }

    #[test]
    fn deep_nesting_is_an_error_and_no_stack_overflow() {
        let text = format!(r#"{{"layers":{}"#, "[".repeat(1_000_000));
        assert_eq!(parse(&text).unwrap_err().kind(), Kind::Corrupt);
    }

    #[test]
    fn converting_changes_names_and_device_only_and_keeps_numbers_exact() {
        let a = r#"{"device":"metal","layers":[{"in_features":2,"name":"layer0","out_features":2,"type":"Linear"},{"name":"mine","type":"ReLU"},{"in_features":2,"name":"layer2","out_features":1,"type":"Linear"}],"own":[1e-8,0.0010000000474974513,18446744073709551615]}"#;
        let mut description = parse(a).unwrap();
        let mut losses = Vec::new();
        description.convert(Dialect::A, Dialect::B, &mut losses);
        let b = a.replace("metal", "cpu").replace("layer2", "layer1");
        assert_eq!(description.clone().into_text(), b);
        assert_eq!(losses.len(), 1, "{losses:?}");
        description.convert(Dialect::B, Dialect::A, &mut losses);
        assert_eq!(description.clone().into_text(), a.replace("metal", "cpu"));
        assert_eq!(losses.len(), 1, "{losses:?}");
    }
}
