//! A configuration of Keras in the form that TensorFlow.js loads: that of Keras 2, without what only training needs.

use super::lengths::{self, Lengths};
use super::options;
use super::refusal::{Source, refused};
use ckpt_api::Result;
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};

/// Converts a model.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`], with the layer, for what TensorFlow.js does not have or computes otherwise.
pub(super) fn converted(config: Value, source: Source) -> Result<Value> {
    model(config, source)
}

fn text<'v>(object: &'v Map<String, Value>, key: &str) -> &'v str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a layer is a model.
fn is_model(layer: &Map<String, Value>) -> bool {
    let config = layer.get("config");
    matches!(text(layer, "class_name"), "Sequential" | "Functional" | "Model")
        && config.is_some_and(|config| config.is_array() || config.get("layers").is_some())
}

/// Converts a model, and the models within it: the reader of configurations has limited how deep they are.
fn model(value: Value, source: Source) -> Result<Value> {
    let Value::Object(mut object) = value else { return refused("", "the configuration is no model") };
    if !is_model(&object) {
        let class = text(&object, "class_name").to_owned();
        return refused("", format!("TensorFlow.js has no model of the class '{}'", class.escape_debug()));
    }
    let config = match object.remove("config") {
        Some(Value::Array(layers)) => Map::from_iter([("layers".to_owned(), Value::Array(layers))]),
        Some(Value::Object(config)) => config,
        _ => Map::new(),
    };
    let class = text(&object, "class_name").to_owned();
    let name = config.get("name").or(object.get("name")).cloned().unwrap_or_else(|| "model".into());
    let Some(Value::Array(listed)) = config.get("layers").cloned() else {
        return refused("", "a model has no list of layers");
    };
    let mut layers = Layers {
        source,
        made: Vec::new(),
        names: names(&listed),
        renamed: HashMap::new(),
        results: HashMap::new(),
    };
    for layer in listed {
        layers.add(layer)?;
    }
    let mut own = json!({ "name": name, "layers": layers.made });
    if class != "Sequential"
        && let Some(own) = own.as_object_mut()
    {
        for key in ["input_layers", "output_layers"] {
            let ends = ends(config.get(key).unwrap_or(&Value::Null));
            let ends = ends.into_iter().map(|end| layers.renamed(end)).collect();
            own.insert(key.to_owned(), Value::Array(ends));
        }
    }
    let mut made = json!({ "class_name": if class == "Sequential" { "Sequential" } else { "Functional" }, "config": own });
    for key in ["name", "inbound_nodes"] {
        if let (Some(made), Some(value)) = (made.as_object_mut(), object.remove(key)) {
            made.insert(key.to_owned(), value);
        }
    }
    Ok(made)
}

/// The names of layers.
fn names(layers: &[Value]) -> HashSet<String> {
    let name = |layer: &Value| layer.get("config")?.get("name")?.as_str().map(str::to_owned);
    layers.iter().filter_map(name).collect()
}

/// The inputs or outputs of a model: one, several, or several with names.
fn ends(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) if items.first().is_some_and(Value::is_string) => vec![value.clone()],
        Value::Array(items) => items.clone(),
        Value::Object(named) => named.values().cloned().collect(),
        _ => Vec::new(),
    }
}

/// The layers of one model.
struct Layers {
    source: Source,
    made: Vec<Value>,
    names: HashSet<String>,
    /// The layer that has the result of another, if it is a new one.
    renamed: HashMap<String, String>,
    /// What is known of a layer's result.
    results: HashMap<String, Lengths>,
}

impl Layers {
    fn add(&mut self, value: Value) -> Result<()> {
        let Value::Object(mut layer) = value else { return refused("", "a layer is no object") };
        let nodes = self.nodes(&layer)?;
        let config_name = layer.get("config").and_then(|config| config.get("name")).and_then(Value::as_str);
        let name = config_name.unwrap_or(text(&layer, "name")).to_owned();
        let taken = self.taken(nodes.as_deref());
        let first = taken.first().copied().flatten();
        let rank = first.map(|lengths| lengths.rank);
        let mut made = match is_model(&layer) {
            true => model(Value::Object(layer), self.source)?,
            false => {
                options::convert(&mut layer, self.source, rank)?;
                let class = layer.remove("class_name").unwrap_or_default();
                json!({ "class_name": class, "config": layer.remove("config") })
            }
        };
        let after = lengths::after(&made, &taken);
        self.results.extend(after.map(|lengths| (name.clone(), lengths)));
        let keeps = options::take_flag(&mut made, "keepdims");
        let format = made.get("config").and_then(|config| config.get("data_format"));
        let made_of_channels_last = format.and_then(Value::as_str) != Some("channels_first");
        let negates = made.get("class_name").and_then(Value::as_str) == Some("Subtract");
        match (&nodes, negates) {
            (Some(nodes), true) => self.subtraction(&name, made, nodes)?,
            (None, true) => return refused(&name, "a layer takes two values in a model of one way"),
            _ => self.push(&name, made, nodes.clone()),
        }
        if keeps {
            let is_last = made_of_channels_last;
            self.keep_axes(&name, first.filter(|_| is_last), nodes.map(|nodes| nodes.len()))?;
        }
        Ok(())
    }

    fn push(&mut self, name: &str, mut made: Value, nodes: Option<Vec<Value>>) {
        if let (Some(layer), Some(nodes)) = (made.as_object_mut(), nodes) {
            layer.insert("name".to_owned(), name.into());
            layer.insert("inbound_nodes".to_owned(), Value::Array(nodes));
        }
        self.made.push(made);
    }

    /// A name that no layer of the model has.
    fn free(&mut self, stem: &str) -> String {
        let mut name = stem.to_owned();
        let mut number = 1u64;
        while !self.names.insert(name.clone()) {
            name = format!("{stem}_{number}");
            number += 1;
        }
        name
    }

    /// Makes a − b: a + (−1 · b).
    fn subtraction(&mut self, name: &str, _: Value, nodes: &[Value]) -> Result<()> {
        let negated = self.free(&format!("{name}_negated"));
        let (mut second, mut both) = (Vec::new(), Vec::new());
        for (call, node) in nodes.iter().enumerate() {
            let Some([a, b]) = node.as_array().map(Vec::as_slice) else {
                return refused(name, "a difference is not one of two values");
            };
            second.push(json!([b]));
            both.push(json!([a, [negated, call, 0, {}]]));
        }
        let scale =
            json!({ "class_name": "Rescaling", "config": { "name": negated, "scale": -1.0, "offset": 0.0 } });
        self.push(&negated, scale, Some(second));
        self.push(name, json!({ "class_name": "Add", "config": { "name": name } }), Some(both));
        Ok(())
    }

    /// Gives the means of images axes of length 1 again. TensorFlow.js needs the number of channels for what follows.
    fn keep_axes(&mut self, name: &str, taken: Option<Lengths>, calls: Option<usize>) -> Result<()> {
        let Some((rank, channels)) = taken.and_then(|taken| Some((taken.rank, taken.last?))) else {
            return refused(name, "TensorFlow.js does not keep the axes of a global pooling");
        };
        let shape: Vec<u64> = (2..rank).map(|_| 1).chain([channels]).collect();
        let kept = self.free(&format!("{name}_kept"));
        let reshape = json!({ "class_name": "Reshape", "config": { "name": kept, "target_shape": shape } });
        let nodes = calls.map(|calls| (0..calls).map(|call| json!([[name, call, 0, {}]])).collect());
        self.push(&kept, reshape, nodes);
        self.results.insert(kept.clone(), Lengths { rank, last: Some(channels) });
        self.renamed.insert(name.to_owned(), kept);
        Ok(())
    }

    /// What is known of the values that a layer takes, or of what the layer before it makes.
    fn taken(&self, nodes: Option<&[Value]>) -> Vec<Option<Lengths>> {
        let of = |name: Option<&str>| name.and_then(|name| self.results.get(name)).copied();
        match nodes {
            Some(nodes) => {
                let references = nodes.first().and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                references.iter().map(|reference| of(reference.get(0).and_then(Value::as_str))).collect()
            }
            None => {
                let before = self.made.last().and_then(|made| made.get("config")?.get("name")?.as_str());
                vec![of(before)]
            }
        }
    }

    /// The result that a reference names, if another layer has it now.
    fn renamed(&self, mut reference: Value) -> Value {
        if let Some(name) = reference.get_mut(0) {
            let new = name.as_str().and_then(|name| self.renamed.get(name));
            if let Some(new) = new {
                *name = new.as_str().into();
            }
        }
        reference
    }

    /// The calls of a layer, each a list of references; `None` in a Sequential model.
    fn nodes(&self, layer: &Map<String, Value>) -> Result<Option<Vec<Value>>> {
        let Some(Value::Array(nodes)) = layer.get("inbound_nodes") else { return Ok(None) };
        let name = text(layer, "name");
        let calls = nodes.iter().map(|node| {
            let references = match node {
                Value::Object(call) => references(name, call)?,
                Value::Array(items) if items.first().is_some_and(Value::is_string) => {
                    vec![plain(name, node)?]
                }
                Value::Array(items) => items.iter().map(|item| plain(name, item)).collect::<Result<_>>()?,
                _ => return refused(name, "a call of the layer is not understood"),
            };
            Ok(Value::Array(references.into_iter().map(|reference| self.renamed(reference)).collect()))
        });
        calls.collect::<Result<Vec<Value>>>().map(Some)
    }
}

/// A reference of Keras 2 without arguments of its own.
fn plain(name: &str, reference: &Value) -> Result<Value> {
    match reference.as_array().map(Vec::as_slice) {
        Some([layer, node, tensor, rest @ ..]) => {
            let has_arguments = rest.iter().any(|arguments| arguments.as_object().is_none_or(has_values));
            match has_arguments {
                true => refused(name, "the layer is called with arguments that TensorFlow.js does not take"),
                false => Ok(json!([layer, node, tensor, {}])),
            }
        }
        _ => refused(name, "a call of the layer is not understood"),
    }
}

/// Whether arguments of a call have a value that matters when a model runs.
fn has_values(arguments: &Map<String, Value>) -> bool {
    arguments.iter().any(|(key, value)| key != "training" && !value.is_null())
}

/// The references of a call of Keras 3, in their order.
fn references(name: &str, call: &Map<String, Value>) -> Result<Vec<Value>> {
    let kwargs = call.get("kwargs").and_then(Value::as_object);
    if kwargs.is_some_and(has_values) {
        return refused(name, "the layer is called with arguments that TensorFlow.js does not take");
    }
    let args = call.get("args").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut found = Vec::new();
    let mut open: Vec<&Value> = args.iter().rev().collect();
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items.iter().rev()),
            Value::Object(tensor) => {
                let history = tensor.get("config").and_then(|config| config.get("keras_history"));
                match history.and_then(Value::as_array).map(Vec::as_slice) {
                    Some([layer, node, result]) => found.push(json!([layer, node, result, {}])),
                    _ => return refused(name, "an argument of the layer is no value of a layer"),
                }
            }
            _ => return refused(name, "an argument of the layer is no value of a layer"),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERAS_3: Source = Source { is_keras_3: true };

    fn made(config: Value) -> Result<Value> {
        converted(config, KERAS_3)
    }

    fn tensor(layer: &str) -> Value {
        json!({ "class_name": "__keras_tensor__", "config": { "keras_history": [layer, 0, 0] } })
    }

    fn functional(layers: &[Value], outputs: Value) -> Value {
        let input = json!({ "class_name": "InputLayer", "name": "x", "inbound_nodes": [],
            "config": { "name": "x", "batch_shape": [null, 6, 6, 3], "dtype": "float32" } });
        let layers: Vec<Value> = std::iter::once(input).chain(layers.iter().cloned()).collect();
        json!({ "module": "keras", "class_name": "Functional",
            "config": { "name": "m", "layers": layers, "input_layers": ["x", 0, 0], "output_layers": outputs } })
    }

    fn layer(class: &str, name: &str, args: Value, mut config: Value) -> Value {
        config["name"] = name.into();
        json!({ "module": "keras.layers", "class_name": class, "name": name, "config": config,
            "inbound_nodes": [{ "args": args, "kwargs": {} }] })
    }

    #[test]
    fn a_model_of_keras_3_gets_the_form_of_keras_2() {
        let dense = layer(
            "Dense",
            "d",
            json!([tensor("x")]),
            json!({ "units": 2, "kernel_initializer": { "class_name": "Zeros" },
            "dtype": { "class_name": "DTypePolicy", "config": { "name": "float32" } } }),
        );
        let found = made(functional(&[dense], json!(["d", 0, 0]))).unwrap();
        let config = &found["config"];
        assert_eq!(config["input_layers"], json!([["x", 0, 0]]));
        assert_eq!(config["layers"][0]["config"]["batch_input_shape"], json!([null, 6, 6, 3]));
        assert_eq!(config["layers"][1]["inbound_nodes"], json!([[["x", 0, 0, {}]]]));
        assert_eq!(config["layers"][1]["config"], json!({ "name": "d", "units": 2, "dtype": "float32" }));
    }

    #[test]
    fn a_difference_is_a_sum_and_a_pooling_that_keeps_its_axes_is_reshaped() {
        let pool = layer("GlobalAveragePooling2D", "p", json!([tensor("x")]), json!({ "keepdims": true }));
        let subtract = layer("Subtract", "s", json!([[tensor("x"), tensor("p")]]), json!({}));
        let found = made(functional(&[pool, subtract], json!([["s", 0, 0], ["p", 0, 0]]))).unwrap();
        let layers = found["config"]["layers"].as_array().unwrap();
        let names: Vec<&str> = layers.iter().map(|layer| layer["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["x", "p", "p_kept", "s_negated", "s"]);
        assert_eq!(layers[2]["config"]["target_shape"], json!([1, 1, 3]));
        assert_eq!(layers[3]["inbound_nodes"], json!([[["p_kept", 0, 0, {}]]]));
        assert_eq!(layers[4]["inbound_nodes"], json!([[["x", 0, 0, {}], ["s_negated", 0, 0, {}]]]));
        assert_eq!(found["config"]["output_layers"], json!([["s", 0, 0], ["p_kept", 0, 0]]));
    }

    #[test]
    fn what_tensorflow_js_does_not_compute_is_refused_by_the_name_of_its_layer() {
        for (class, config) in [
            ("GroupNormalization", json!({})),
            ("Conv2D", json!({ "groups": 3 })),
            ("GRU", json!({ "reset_after": true })),
            ("Dense", json!({ "activation": "exponential" })),
            ("Dense", json!({ "activation": "hard_sigmoid" })),
            ("BatchNormalization", json!({ "axis": 1 })),
            ("UpSampling2D", json!({ "interpolation": "bilinear" })),
            ("Reshape", json!({ "target_shape": [3, -1] })),
        ] {
            let error =
                made(functional(&[layer(class, "own", json!([tensor("x")]), config)], json!(["own", 0, 0])));
            assert!(error.unwrap_err().to_string().contains("layer 'own'"), "{class}");
        }
    }
}
