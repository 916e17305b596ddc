//! What a Keras model does only in training, which no graph shows.

use ckpt_api::Metadata;
use serde_json::Value;

/// The namespace and the key of a model's configuration.
const KERAS: (&str, &str) = ("keras", "config");
/// Layers that pass their input on when a model is used.
const LAYERS: [&str; 7] = [
    "Dropout",
    "SpatialDropout1D",
    "SpatialDropout2D",
    "SpatialDropout3D",
    "GaussianDropout",
    "GaussianNoise",
    "AlphaDropout",
];
/// Ends of settings that are for training.
const SETTINGS: [&str; 2] = ["_regularizer", "_constraint"];
/// Rates of layers that drop values in training.
const RATES: [&str; 2] = ["dropout", "recurrent_dropout"];
/// Layers that the note names.
const SHOWN: usize = 8;

/// The note on a model's layers and settings that act only in training, if it has any.
pub(crate) fn note(metadata: &Metadata) -> Option<String> {
    let config: Value = serde_json::from_str(metadata.text(KERAS.0, KERAS.1)?).ok()?;
    let (mut found, mut open) = (Vec::new(), vec![&config]);
    while let Some(value) = open.pop() {
        // Pushed in reverse, values come in the order of the configuration.
        match value {
            Value::Array(values) => open.extend(values.iter().rev()),
            Value::Object(fields) => {
                found.extend(of_layer(value));
                open.extend(fields.values().rev());
            }
            _ => {}
        }
    }
    let text = ckpt_api::first_few(&found, SHOWN);
    (!found.is_empty()).then(|| format!("PyTorch gets nothing of what acts only in training: {text}"))
}

/// A layer that acts only in training, or has such settings.
fn of_layer(layer: &Value) -> Option<String> {
    let class = layer.get("class_name")?.as_str()?;
    let config = layer.get("config")?.as_object()?;
    let name = crate::words::printable(config.get("name")?.as_str()?);
    if LAYERS.contains(&class) || class == "ActivityRegularization" {
        return Some(format!("{name} ({class})"));
    }
    let is_set = |(key, value): &(&String, &Value)| match RATES.contains(&key.as_str()) {
        true => value.as_f64().is_some_and(|rate| rate > 0.0),
        false => !value.is_null() && SETTINGS.iter().any(|end| key.ends_with(end)),
    };
    let settings: Vec<&str> = config.iter().filter(is_set).map(|(key, _)| key.as_str()).collect();
    (!settings.is_empty()).then(|| format!("{name} ({})", settings.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn note_of(layers: Value) -> Option<String> {
        let mut metadata = Metadata::default();
        let config = json!({ "class_name": "Sequential", "config": { "name": "m", "layers": layers } });
        metadata.insert(KERAS.0, KERAS.1, config.to_string());
        note(&metadata)
    }

    #[test]
    fn layers_that_act_only_in_training_are_named_in_order() {
        let layer = |class: &str, name: &str| json!({ "class_name": class, "config": { "name": name } });
        let layers = json!([layer("GaussianNoise", "z"), layer("Dense", "d"), layer("Dropout", "a")]);
        let note = note_of(layers).unwrap();
        assert!(note.ends_with("in training: z (GaussianNoise), a (Dropout)"), "{note}");
    }

    #[test]
    fn settings_that_act_only_in_training_are_named() {
        let config = json!({
            "name": "r", "kernel_regularizer": { "class_name": "L2" }, "bias_regularizer": null,
            "kernel_constraint": { "class_name": "MaxNorm" }, "dropout": 0.1, "recurrent_dropout": 0.0,
        });
        let note = note_of(json!([{ "class_name": "LSTM", "config": config }])).unwrap();
        for setting in ["kernel_regularizer", "kernel_constraint", "dropout"] {
            assert!(note.contains(setting), "{note}");
        }
        assert!(!note.contains("bias") && !note.contains("recurrent"), "{note}");
    }

    #[test]
    fn a_model_without_them_has_no_note() {
        assert_eq!(
            note_of(json!([{ "class_name": "Dense", "config": { "name": "d", "use_bias": true } }])),
            None
        );
        assert_eq!(note(&Metadata::default()), None);
    }
}
