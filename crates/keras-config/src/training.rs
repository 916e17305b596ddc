//! What a model does only in training, which its graph does not show.

use super::layer::is_on;
use serde_json::{Map, Value};

/// Layers that pass their input on when a model is used.
pub(super) const LAYERS: [&str; 30] = [
    "ActivityRegularization",
    "AlphaDropout",
    "AugMix",
    "CutMix",
    "Dropout",
    "GaussianDropout",
    "GaussianNoise",
    "MixUp",
    "RandAugment",
    "RandomBrightness",
    "RandomColorDegeneration",
    "RandomColorJitter",
    "RandomContrast",
    "RandomElasticTransform",
    "RandomErasing",
    "RandomFlip",
    "RandomGaussianBlur",
    "RandomGrayscale",
    "RandomHue",
    "RandomInvert",
    "RandomPerspective",
    "RandomRotation",
    "RandomSaturation",
    "RandomSharpness",
    "RandomShear",
    "RandomTranslation",
    "RandomZoom",
    "SpatialDropout1D",
    "SpatialDropout2D",
    "SpatialDropout3D",
];
/// Ends of settings that are for training.
const SETTINGS: [&str; 2] = ["_regularizer", "_constraint"];
/// Rates of layers that drop values in training.
const RATES: [&str; 2] = ["dropout", "recurrent_dropout"];

/// Returns the layers of a configuration that act only in training or have such settings, in its order: `drop (Dropout)`,
/// `dense (kernel_regularizer)`, `base (not trained)`. Empty for a configuration that is not JSON.
pub fn training_only(config: &str) -> Vec<String> {
    let config = super::json::parse(config).unwrap_or_default();
    let (mut found, mut open) = (Vec::new(), vec![&config]);
    while let Some(value) = open.pop() {
        // Pushed in reverse, values come in the order of the configuration.
        match value {
            Value::Array(values) => open.extend(values.iter().rev()),
            Value::Object(fields) => {
                found.extend(of_layer(fields));
                open.extend(fields.values().rev());
            }
            _ => {}
        }
    }
    found
}

/// A layer that acts only in training, or has such settings.
fn of_layer(layer: &Map<String, Value>) -> Option<String> {
    let class = layer.get("class_name")?.as_str()?;
    let config = layer.get("config")?.as_object()?;
    let name = config.get("name")?.as_str()?;
    if LAYERS.contains(&class) {
        return Some(format!("{name} ({class})"));
    }
    let is_set = |(key, value): &(&String, &Value)| match RATES.contains(&key.as_str()) {
        true => value.as_f64().is_some_and(|rate| rate > 0.0),
        false => !value.is_null() && SETTINGS.iter().any(|end| key.ends_with(end)),
    };
    let mut settings: Vec<&str> = config.iter().filter(is_set).map(|(key, _)| key.as_str()).collect();
    settings.extend((!is_on(config, "trainable", true)).then_some("not trained"));
    (!settings.is_empty()).then(|| format!("{name} ({})", settings.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(layers: Value) -> Vec<String> {
        let config = json!({ "class_name": "Sequential", "config": { "name": "m", "layers": layers } });
        training_only(&config.to_string())
    }

    #[test]
    fn layers_that_act_only_in_training_are_named_in_order() {
        let layer = |class: &str, name: &str| json!({ "class_name": class, "config": { "name": name } });
        let layers = json!([layer("RandomHue", "z"), layer("Dense", "d"), layer("Dropout", "a")]);
        assert_eq!(of(layers), ["z (RandomHue)", "a (Dropout)"]);
    }

    #[test]
    fn settings_that_act_only_in_training_are_named() {
        let config = json!({
            "name": "r", "kernel_regularizer": { "class_name": "L2" }, "bias_regularizer": null,
            "kernel_constraint": { "class_name": "MaxNorm" }, "dropout": 0.1, "recurrent_dropout": 0.0,
        });
        let found = of(json!([{ "class_name": "LSTM", "config": config }]));
        assert_eq!(found, ["r (dropout, kernel_constraint, kernel_regularizer)"]);
    }

    #[test]
    fn a_frozen_layer_is_named() {
        let dense = |trainable: Value| json!({ "class_name": "Dense", "config": { "name": "d", "trainable": trainable } });
        assert_eq!(of(json!([dense(json!(false))])), ["d (not trained)"]);
        assert!(of(json!([dense(json!(true))])).is_empty());
    }

    #[test]
    fn a_model_without_them_names_nothing() {
        assert!(
            of(json!([{ "class_name": "Dense", "config": { "name": "d", "use_bias": true } }])).is_empty()
        );
        assert!(training_only("").is_empty());
    }
}
