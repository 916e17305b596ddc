//! The object graph of a Keras model, and `keras_metadata.pb`.

use super::fields::{VARIABLES, message, number, rarely};
use arbitrary::{Result, Unstructured};
use serde_json::{Value, json};

const CLASSES: [&str; 18] = [
    "Dense",
    "Dense",
    "Conv2D",
    "MaxPooling2D",
    "AveragePooling2D",
    "GlobalAveragePooling2D",
    "Flatten",
    "BatchNormalization",
    "Dropout",
    "Activation",
    "ReLU",
    "LeakyReLU",
    "ELU",
    "Softmax",
    "InputLayer",
    "Sequential",
    "Functional",
    "Embedding",
];
/// What objects call what they hold.
const NAMES: [&str; 26] = [
    "layer-0",
    "layer-1",
    "layer_with_weights-0",
    "_functional",
    "_operations",
    "0",
    "1",
    "00",
    "kernel",
    "_kernel",
    "bias",
    "optimizer",
    "_iterations",
    "_learning_rate",
    "_trainable_variables",
    "_trainable_variables_indices",
    "_momentums",
    "_velocities",
    "_velocity_hats",
    "_average_gradients",
    "momentums",
    "variables",
    "_all_variables",
    "_loss_tracker",
    "save_counter",
    "beta_1",
];
const FULL_NAMES: [&str; 8] = [
    "",
    "net/dense/kernel",
    "adam/net_dense_kernel_momentum",
    "Adam/m/net/dense/kernel",
    "seed_generator_state",
    "iteration",
    "net/conv/kernel",
    "dense",
];

/// The object graph, and the metadata of its layers.
pub(super) fn objects(u: &mut Unstructured) -> Result<(Vec<u8>, Vec<u8>)> {
    let mut graph = Graph { nodes: vec![Vec::new(); VARIABLES.len() + 1] };
    for (id, (key, _)) in (1..).zip(VARIABLES) {
        graph.link(0, key, id);
        graph.store(id, u.choose(&FULL_NAMES)?, key);
    }
    let layers = layers(u, &mut graph)?;
    hold(u, &mut graph, &layers)?;
    if u.arbitrary()? {
        optimizer(u, &mut graph)?;
    }
    for _ in 0..u.int_in_range(0..=5)? {
        let (from, to) = (u.int_in_range(0..=graph.nodes.len() - 1)?, u.int_in_range(0..=graph.nodes.len())?);
        graph.link(from, u.choose(&NAMES)?, to);
    }
    let metadata = if u.arbitrary()? { metadata(u, &layers)? } else { Vec::new() };
    Ok((graph.nodes.iter().flat_map(|node| message(1, node)).collect(), metadata))
}

struct Graph {
    nodes: Vec<Vec<u8>>,
}

impl Graph {
    fn add(&mut self) -> usize {
        self.nodes.push(Vec::new());
        self.nodes.len() - 1
    }

    fn link(&mut self, from: usize, name: &str, to: usize) {
        let child = [number(1, to as u64), message(2, name.as_bytes())].concat();
        self.nodes[from].extend(message(1, &child));
    }

    fn child(&mut self, from: usize, name: &str) -> usize {
        let to = self.add();
        self.link(from, name, to);
        to
    }

    fn store(&mut self, id: usize, full_name: &str, key: &str) {
        let texts = ["VARIABLE_VALUE", full_name, key];
        let value = (1..).zip(texts).flat_map(|(tag, text)| message(tag, text.as_bytes()));
        self.nodes[id].extend(message(2, &value.collect::<Vec<u8>>()));
    }
}

/// A layer: its object, its class, and how it is called.
struct Layer {
    id: usize,
    class: &'static str,
    name: String,
}

fn layers(u: &mut Unstructured, graph: &mut Graph) -> Result<Vec<Layer>> {
    let mut layers = Vec::new();
    for number in 0..u.int_in_range(0..=5)? {
        let (id, class) = (graph.add(), *u.choose(&CLASSES)?);
        let kernel = *u.choose(&["kernel", "_kernel"])?;
        let held: &[(&str, usize)] = match class {
            "Dense" => &[(kernel, 1 + u.int_in_range(0..=1)?), ("bias", 4)],
            "Conv2D" => &[(kernel, 3), ("bias", 4)],
            "BatchNormalization" => &[("gamma", 5), ("beta", 6), ("moving_mean", 7), ("moving_variance", 8)],
            _ => &[],
        };
        let left_out = u.int_in_range(0..=9)?;
        for (_, (name, variable)) in held.iter().enumerate().filter(|(place, _)| 9 - place != left_out) {
            graph.link(id, name, *variable);
        }
        layers.push(Layer { id, class, name: format!("l{number}") });
    }
    Ok(layers)
}

/// How a model holds its layers.
fn hold(u: &mut Unstructured, graph: &mut Graph, layers: &[Layer]) -> Result<()> {
    let (list, prefix) = match u.int_in_range(0..=3)? {
        0 => (0, "layer-"),
        1 => (0, "layer_with_weights-"),
        2 => (graph.child(0, "_operations"), ""),
        _ => {
            let functional = graph.child(0, "_functional");
            (graph.child(functional, "_operations"), "")
        }
    };
    for (place, layer) in layers.iter().enumerate() {
        graph.link(list, &format!("{prefix}{place}"), layer.id);
        // As Keras 2's metadata calls it.
        graph.link(0, &layer.name, layer.id);
    }
    Ok(())
}

fn optimizer(u: &mut Unstructured, graph: &mut Graph) -> Result<()> {
    let id = graph.child(0, u.choose(&["optimizer", "_optimizer", "o"])?);
    graph.link(id, u.choose(&["_iterations", "iter"])?, 9);
    graph.link(id, u.choose(&["_learning_rate", "learning_rate"])?, 9);
    for _ in 0..u.int_in_range(0..=3)? {
        let list = graph.child(id, u.choose(&NAMES)?);
        for place in 0..u.int_in_range(0..=2)? {
            graph.link(list, &place.to_string(), u.int_in_range(1..=VARIABLES.len())?);
        }
    }
    for _ in 0..u.int_in_range(0..=2)? {
        let (variable, slot) = (u.int_in_range(0..=9u64)?, u.int_in_range(0..=9u64)?);
        let name = u.choose(&["m", "v", "momentum"])?;
        let slot = [number(1, variable), message(2, name.as_bytes()), number(3, slot)].concat();
        graph.nodes[id].extend(message(3, &slot));
    }
    Ok(())
}

/// The model and its layers, as JSON behind their paths.
fn metadata(u: &mut Unstructured, layers: &[Layer]) -> Result<Vec<u8>> {
    let mut described = Vec::new();
    for (place, layer) in layers.iter().enumerate() {
        let config = config(u, layer)?;
        let before = place.checked_sub(1).and_then(|before| layers.get(before));
        let inbound = match (before, u.arbitrary()?) {
            (None, _) => json!([]),
            (Some(before), true) => json!([[[before.name, 0, 0, {}]]]),
            (Some(before), false) => json!([[before.name, 0, 0]]),
        };
        described.push(json!({
            "class_name": layer.class, "name": layer.name, "config": config, "inbound_nodes": inbound,
        }));
    }
    let class = *u.choose(&["Sequential", "Functional", "Model"])?;
    let last = layers.last().map(|layer| layer.name.as_str());
    let config = json!({"name": "m", "layers": described, "output_layers": [[last, 0, 0]]});
    let root = json!({"class_name": class, "config": config});
    let mut out = object("root", &root);
    for (layer, described) in layers.iter().zip(&described) {
        out.extend(object(&format!("root.{}", layer.name), described));
    }
    Ok(out)
}

fn object(path: &str, json: &Value) -> Vec<u8> {
    message(1, &[message(3, path.as_bytes()), message(5, json.to_string().as_bytes())].concat())
}

fn config(u: &mut Unstructured, layer: &Layer) -> Result<Value> {
    let activation = *u.choose(&["linear", "relu", "softmax", "gelu", "none of them"])?;
    let stride = u.int_in_range(1..=3)?;
    let strides = match u.int_in_range(0..=2)? {
        0 => json!(stride),
        1 => json!([stride, stride]),
        _ => json!({"class_name": "__tuple__", "items": [stride, 1]}),
    };
    let mut config = json!({
        "name": layer.name, "activation": activation, "use_bias": u.arbitrary::<bool>()?, "strides": strides,
        "padding": u.choose(&["same", "valid"])?, "pool_size": [2, 2], "axis": u.choose(&[1, 3, -1])?,
        "epsilon": 0.001, "alpha": 0.2, "data_format": "channels_last", "keepdims": u.arbitrary::<bool>()?,
    });
    if u.arbitrary()? {
        config["batch_input_shape"] = if u.arbitrary()? { json!([null, 6]) } else { json!([null, 5, 5, 2]) };
    }
    if layer.class == "Sequential" {
        config["layers"] = json!([]);
    }
    if rarely(u, 8)? {
        let keys = [
            "activation",
            "use_bias",
            "strides",
            "padding",
            "axis",
            "epsilon",
            "alpha",
            "data_format",
            "name",
        ];
        let value = [json!(null), json!([[]]), json!(-1), json!(1e300), json!("x"), json!({"items": [1]})];
        config[*u.choose(&keys)?] = u.choose(&value)?.clone();
    }
    Ok(config)
}
