//! The configuration of an `.h5` file of Keras 2, in the form that `config.json` has.
//!
//! Keras 3 and `tf_keras` each load an `.h5` file by rules for old configurations, which they do not apply to `config.json`:
//! there, a class is looked up by its module. Both find `keras.Model` for a functional model, whatever its class was called.

use crate::config::json;
use serde_json::{Map, Value, json};

/// Keys of layers that hold a layer without calls of its own.
const WRAPPED: [&str; 4] = ["layer", "forward_layer", "backward_layer", "cell"];

/// Returns the configuration as `config.json` has it; `None` if it needs no more than the module of its class.
pub(super) fn for_archive(text: &str) -> Option<String> {
    let mut is_changed = false;
    let edited = json::edited(text, |value| {
        let before = value.clone();
        let mut open = vec![&mut *value];
        while let Some(value) = open.pop() {
            match value {
                Value::Array(items) => open.extend(items),
                Value::Object(object) => {
                    convert(object);
                    open.extend(object.values_mut());
                }
                _ => {}
            }
        }
        let Value::Object(model) = value else { return };
        if is_functional(model) {
            name_module(model, "Model", "keras");
        }
        is_changed = Value::Object(model.clone()) != before;
        name_module_of(model, "keras");
    });
    edited.filter(|_| is_changed)
}

/// Converts one object: a layer, a model or anything else.
fn convert(object: &mut Map<String, Value>) {
    if object.get("class_name").and_then(Value::as_str) == Some("Sequential") {
        convert_sequential(object);
    }
    // The class was called `Model` before Keras 2.4.
    if is_functional(object) && !object.contains_key("module") {
        object.insert("class_name".to_owned(), "Functional".into());
    }
    let Some(Value::Object(config)) = object.get_mut("config") else { return };
    // Keras 3 does not know it, and `tf_keras` takes it for false.
    if config.get("time_major") == Some(&Value::Bool(false)) {
        config.remove("time_major");
    }
    for key in WRAPPED {
        let Some(Value::Object(wrapped)) = config.get_mut(key) else { continue };
        let Some(class) = wrapped.get("class_name").and_then(Value::as_str).map(str::to_owned) else {
            continue;
        };
        if !wrapped.contains_key("module") && !class.contains('>') {
            match class.as_str() {
                _ if is_functional(wrapped) => name_module(wrapped, "Model", "keras"),
                "Sequential" => name_module(wrapped, "Sequential", "keras"),
                _ => name_module(wrapped, &class, "keras.layers"),
            }
        }
    }
}

/// Gives a Sequential model a name and an input layer. Before Keras 2.2.3, its configuration was a list of its layers; later,
/// the first layer still stated the shape of the input, which Keras 3 takes for one without the batch.
fn convert_sequential(object: &mut Map<String, Value>) {
    let name = object.get("name").cloned().unwrap_or_else(|| "sequential".into());
    let Some(config) = object.get_mut("config") else { return };
    if config.is_array() {
        let layers = config.take();
        *config = json!({ "name": name, "layers": layers });
    }
    let Some(layers) = config.get_mut("layers").and_then(Value::as_array_mut) else { return };
    let Some(first) = layers.first() else { return };
    if first.get("class_name").and_then(Value::as_str) == Some("InputLayer") {
        // A layer that names its module gets all its options from Keras 3, and has none for a shape.
        layers.iter_mut().skip(1).filter(|layer| layer.get("module").is_some()).for_each(|layer| {
            take_shape(layer);
        });
        return;
    }
    let Some((shape, options)) = stated_shape(first) else { return };
    let option = |key: &str| options.get(key).and_then(Value::as_str);
    let (name, dtype) = (option("name").unwrap_or_default(), option("dtype").unwrap_or("float32"));
    let input = json!({
        "batch_input_shape": shape, "dtype": dtype, "sparse": false, "ragged": false, "name": format!("{name}_input"),
    });
    let input = json!({ "class_name": "InputLayer", "config": input });
    layers.first_mut().filter(|first| !is_model(first)).and_then(take_shape);
    layers.insert(0, input);
}

/// Returns the shape of the input that a layer states, and the layer's options; of a model, those of its first layer.
fn stated_shape(layer: &Value) -> Option<(&Value, &Map<String, Value>)> {
    let mut layer = layer;
    while is_model(layer) {
        let config = layer.get("config")?;
        layer = config.get("layers").unwrap_or(config).get(0)?;
    }
    let options = layer.get("config")?.as_object()?;
    Some((options.get("batch_input_shape")?, options))
}

/// Removes the shape of the input that a layer states.
fn take_shape(layer: &mut Value) -> Option<Value> {
    let is_input = layer.get("class_name").and_then(Value::as_str) == Some("InputLayer");
    layer.get_mut("config")?.as_object_mut().filter(|_| !is_input)?.remove("batch_input_shape")
}

fn is_model(layer: &Value) -> bool {
    let config = layer.get("config");
    config.is_some_and(|config| config.is_array() || config.get("layers").is_some())
}

/// Whether an object is a functional model.
fn is_functional(object: &Map<String, Value>) -> bool {
    let class = object.get("class_name").and_then(Value::as_str);
    let has_layers = object.get("config").is_some_and(|config| config.get("layers").is_some());
    matches!(class, Some("Model" | "Functional")) && has_layers
}

fn name_module_of(object: &mut Map<String, Value>, module: &str) {
    for (key, value) in [("module", module.into()), ("registered_name", Value::Null)] {
        object.insert(key.to_owned(), value);
    }
}

fn name_module(object: &mut Map<String, Value>, class: &str, module: &str) {
    object.insert("class_name".to_owned(), class.into());
    name_module_of(object, module);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(config: &Value) -> Value {
        serde_json::from_str(&for_archive(&config.to_string()).unwrap()).unwrap()
    }

    #[test]
    fn a_functional_model_of_any_version_becomes_a_model_of_the_module_keras() {
        for class in ["Model", "Functional"] {
            let inner = json!({ "class_name": class, "name": "m", "config": { "name": "m", "layers": [] } });
            let found =
                converted(&json!({ "class_name": class, "config": { "name": "o", "layers": [inner] } }));
            assert_eq!((&found["module"], &found["class_name"]), (&"keras".into(), &"Model".into()));
            assert_eq!(found["config"]["layers"][0]["class_name"], "Functional");
            assert!(found["config"]["layers"][0].get("module").is_none());
        }
    }

    #[test]
    fn a_list_of_layers_becomes_a_sequential_model_with_an_input_layer() {
        let dense = json!({ "class_name": "Dense", "config": { "name": "d", "batch_input_shape": [null, 8], "units": 2 } });
        let found = converted(&json!({ "class_name": "Sequential", "config": [dense] }));
        let layers = &found["config"]["layers"];
        assert_eq!((&found["module"], &found["config"]["name"]), (&"keras".into(), &"sequential".into()));
        assert_eq!(layers[0]["class_name"], "InputLayer");
        assert_eq!(layers[0]["config"]["batch_input_shape"], json!([null, 8]));
        assert_eq!(layers[1]["config"], json!({ "name": "d", "units": 2 }));
    }

    #[test]
    fn the_input_of_a_model_is_that_of_its_first_layer_at_any_depth() {
        let dense = json!({ "class_name": "Dense", "config": { "name": "d", "batch_input_shape": [null, 8], "units": 2 } });
        let inner = json!({ "class_name": "Sequential", "config": [dense] });
        let found = converted(&json!({ "class_name": "Sequential", "config": [inner] }));
        let shape = json!([null, 8]);
        assert_eq!(found["config"]["layers"][0]["config"]["batch_input_shape"], shape);
        let inner = &found["config"]["layers"][1]["config"]["layers"];
        assert_eq!(inner[0]["config"]["batch_input_shape"], shape);
        assert_eq!(inner[1]["config"], json!({ "name": "d", "units": 2 }));
    }

    #[test]
    fn wrapped_layers_name_their_module_and_recurrent_ones_lose_the_option_that_keras_3_lacks() {
        let lstm =
            json!({ "class_name": "LSTM", "config": { "name": "l", "units": 2, "time_major": false } });
        let both = json!({ "class_name": "Bidirectional", "config": { "name": "b", "layer": lstm } });
        let found =
            converted(&json!({ "class_name": "Sequential", "config": { "name": "s", "layers": [both] } }));
        let layer = &found["config"]["layers"][0]["config"]["layer"];
        assert_eq!((&layer["module"], &layer["class_name"]), (&"keras.layers".into(), &"LSTM".into()));
        assert_eq!(layer["config"], json!({ "name": "l", "units": 2 }));
    }

    #[test]
    fn numbers_that_json_does_not_have_stay_numbers() {
        let text = r#"{"class_name": "Sequential", "config": [{"class_name": "ReLU", "config": {"max": Infinity, "a": "NaN", "b": -Infinity}}]}"#;
        let found = for_archive(text).unwrap();
        assert!(found.contains(r#""max":Infinity"#) && found.contains(r#""b":-Infinity"#), "{found}");
        assert!(found.contains(r#""a":"NaN""#), "{found}");
    }
}
