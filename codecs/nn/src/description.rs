//! Parses and writes the JSON block, which describes the layers.

use crate::block::Block;
use crate::format::{self, Dialect, Layer, LayerKind};
use crate::training::{self, History};
use ckpt_api::{Error, Loss, LossKind, Result, Rules};
use serde_json::{Map, Value, json};

/// The description of the model in the JSON block.
#[derive(Debug)]
pub(crate) struct Description {
    pub(crate) layers: Vec<Layer>,
    names: Vec<Option<Box<str>>>,
    has_frozen_layers: bool,
    history: Option<History>,
}

impl Description {
    /// Parses the JSON block.
    pub(crate) fn parse(text: &str, rules: &mut Rules) -> Result<Self> {
        let Block { layers, history } = Block::parse(text, rules)?;
        Ok(Description {
            layers: layers.layers,
            names: layers.names,
            has_frozen_layers: layers.has_frozen,
            history,
        })
    }

    /// Returns the `name` of a layer, if it has one.
    pub(crate) fn name(&self, position: usize) -> Option<&str> {
        self.names.get(position)?.as_deref()
    }

    /// Returns whether any layer has `"trainable": false`.
    pub(crate) fn has_frozen_layers(&self) -> bool {
        self.has_frozen_layers
    }

    /// Returns the content of the object `training`, if there is one.
    pub(crate) fn history(&self) -> Option<&History> {
        self.history.as_ref()
    }
}

/// Returns the JSON text that DataCode writes for a net of these layers without training history.
pub(crate) fn untrained(layers: &[Layer], dialect: Dialect) -> String {
    let mut text = r#"{"device":"cpu","layers":["#.to_owned();
    for (position, (layer, name)) in layers.iter().zip(format::layer_names(layers, dialect)).enumerate() {
        text += if position == 0 { "" } else { "," };
        let described = match layer.kind {
            LayerKind::Linear => json!({
                "in_features": layer.inputs, "name": name, "out_features": layer.outputs,
                "trainable": true, "type": layer.kind.name(),
            }),
            kind => json!({ "name": name, "type": kind.name() }),
        };
        text += &described.to_string();
    }
    text += r#"],"training":"#;
    text += &training::untrained().to_string();
    text.push('}');
    text
}

/// Converts the JSON text of these layers to another dialect: compact, with sorted keys. Numbers and unknown keys do
/// not change.
pub(crate) fn convert(
    text: &str,
    layers: &[Layer],
    from: Dialect,
    to: Dialect,
    losses: &mut Vec<Loss>,
) -> Result<String> {
    let mut json: Map<String, Value> = serde_json::from_str(text)
        .map_err(|error| Error::corrupt("the JSON block is not valid").found(error.to_string()))?;
    let (old_names, new_names) = (format::layer_names(layers, from), format::layer_names(layers, to));
    let described = json.get_mut("layers").and_then(Value::as_array_mut);
    for ((layer, old), new) in described.into_iter().flatten().zip(old_names).zip(new_names) {
        let follows_rule = layer.get("name").is_none_or(|name| *name == old);
        if let Some(layer) = layer.as_object_mut().filter(|_| follows_rule) {
            layer.insert("name".into(), new.into());
        }
    }
    let device = json.get("device").filter(|device| to == Dialect::B && **device != "cpu");
    if let Some(device) = device {
        let detail = format!("{device} becomes \"cpu\", the only value in dialect b");
        losses.push(Loss::new(LossKind::MetadataDropped, "nn.device", detail));
    }
    if to == Dialect::B {
        json.insert("device".into(), "cpu".into());
    }
    if let Some(Value::Object(training)) = json.get_mut("training") {
        training::convert(training, to, losses);
    }
    Ok(Value::Object(json).to_string())
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
        let layers = parse(a).unwrap().layers;
        let mut losses = Vec::new();
        let b = convert(a, &layers, Dialect::A, Dialect::B, &mut losses).unwrap();
        assert_eq!(b, a.replace("metal", "cpu").replace("layer2", "layer1"));
        assert_eq!(losses.len(), 1, "{losses:?}");
        let again = convert(&b, &layers, Dialect::B, Dialect::A, &mut losses).unwrap();
        assert_eq!(again, a.replace("metal", "cpu"));
        assert_eq!(losses.len(), 1, "{losses:?}");
    }

    #[test]
    fn the_last_of_two_values_of_a_key_counts() {
        let text = r#"{"training":{"stages":[1]},"layers":[{"type":"GELU"}],"training":null,"layers":[{"name":"x","type":"Tanh","type":"ReLU"}]}"#;
        let description = parse(text).unwrap();
        assert_eq!(description.layers, [Layer { kind: LayerKind::Relu, inputs: 0, outputs: 0 }]);
        assert_eq!((description.name(0), description.history().is_some()), (Some("x"), false));
        assert!(parse(r#"{"layers":[{"type":"ReLU"}],"layers":[{"type":"GELU"}]}"#).is_err());
    }

    #[test]
    fn what_the_codec_does_not_need_must_be_json_too() {
        for own in [
            "1e999".to_owned(),
            "[1,]".to_owned(),
            "\"\\ud800\"".to_owned(),
            "[".repeat(200) + &"]".repeat(200),
        ] {
            for text in [
                format!(r#"{{"layers":[{{"type":"ReLU"}}],"own":{own}}}"#),
                format!(r#"{{"layers":[{{"type":"ReLU","own":{own}}}]}}"#),
                format!(r#"{{"layers":[{{"type":"ReLU"}}]}}{own}"#),
            ] {
                let error = parse(&text).unwrap_err();
                assert_eq!(error.message(), "the JSON block is not valid", "{text}");
            }
        }
    }
}
