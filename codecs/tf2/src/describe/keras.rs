//! The chain of a Keras 2 SavedModel: layer classes and their configuration, as JSON in `keras_metadata.pb`.

use super::chain::{Chain, Context, Dims, Step, Why, Window};
use super::functions::decimal;
use super::objects::Objects;
use crate::proto::SavedMetadata;
use crate::wire::{self, Nested};
use ckpt_api::{Activation, Attribute, Limits, Op, Result};
use prost::Message;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

const FIELDS: &[Nested] = &[Nested(1, &[])];

/// The chain, or why there is none.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`].
pub(super) fn chain(
    bytes: &[u8],
    objects: &Objects,
    context: &Context,
    limits: &Limits,
) -> Result<Result<Chain, Why>> {
    wire::check_size(bytes, FIELDS, limits).map_err(|error| error.field("keras_metadata.pb"))?;
    Ok(read(bytes, objects, context))
}

fn read(bytes: &[u8], objects: &Objects, context: &Context) -> Result<Chain, Why> {
    let metadata = SavedMetadata::decode(bytes)
        .map_err(|error| Why(format!("keras_metadata.pb cannot be parsed ({error})")))?;
    let root = metadata.nodes.iter().find(|node| node.node_path == "root");
    let root = root.ok_or_else(|| Why("keras_metadata.pb has no model".into()))?;
    let root = parse(&root.metadata)?;
    let named = named_objects(&metadata, objects);
    let mut input = None;
    let mut steps = Vec::new();
    let mut open: Vec<&Value> = model_layers(&root)?;
    open.reverse();
    while let Some(layer) = open.pop() {
        match layer["class_name"].as_str().unwrap_or_default() {
            "Sequential" | "Functional" | "Model" => open.extend(model_layers(layer)?.into_iter().rev()),
            "InputLayer" if steps.is_empty() => {
                input = input.or_else(|| dims(&layer["config"]["batch_input_shape"]))
            }
            "InputLayer" => {}
            class => {
                if steps.is_empty() {
                    input = input.or_else(|| dims(&layer["config"]["batch_input_shape"]));
                }
                steps.extend(layer_steps(class, &layer["config"], &named, objects)?);
            }
        }
    }
    let name = root["config"]["name"].as_str().unwrap_or_default();
    Chain::build(name, input, steps, context)
}

/// Parsed, JSON takes many times its length: a bound, far above what a model's configuration takes.
const MOST_JSON: usize = 16 << 20;

fn parse(json: &str) -> Result<Value, Why> {
    if json.len() > MOST_JSON {
        return Err(Why(format!("keras_metadata.pb holds JSON of {} bytes, which is too much", json.len())));
    }
    serde_json::from_str(json)
        .map_err(|error| Why(format!("keras_metadata.pb holds JSON that cannot be parsed ({error})")))
}

/// Objects by the name of their layer; `None` where two layers share it.
fn named_objects(metadata: &SavedMetadata, objects: &Objects) -> HashMap<String, Option<usize>> {
    let mut named = HashMap::new();
    for node in &metadata.nodes {
        let mut steps = node.node_path.split('.');
        let start = (steps.next() == Some("root")).then_some(0);
        let Some(id) = steps.fold(start, |id, name| objects.child(id?, name)) else { continue };
        let json = parse(&node.metadata).unwrap_or_default();
        let Some(name) = json["config"]["name"].as_str().or(json["name"].as_str()) else { continue };
        let known = named.entry(name.to_owned()).or_insert(Some(id));
        if *known != Some(id) {
            *known = None;
        }
    }
    named
}

/// The layers of a model in the order in which they run.
fn model_layers(model: &Value) -> Result<Vec<&Value>, Why> {
    let layers = model["config"]["layers"].as_array().ok_or_else(|| {
        Why("keras_metadata.pb does not list the model's layers (a subclassed model)".into())
    })?;
    if model["class_name"] == "Sequential" {
        return Ok(layers.iter().collect());
    }
    let by_name: HashMap<&str, &Value> = layers
        .iter()
        .filter_map(|layer| Some((layer["name"].as_str().or(layer["config"]["name"].as_str())?, layer)))
        .collect();
    let branch = || Why("the model's layers branch".into());
    let mut name = single(&model["config"]["output_layers"]).ok_or_else(branch)?;
    let mut chain = Vec::new();
    let mut seen = HashSet::new();
    loop {
        let layer = by_name.get(name).filter(|_| seen.insert(name)).ok_or_else(branch)?;
        chain.push(*layer);
        match &layer["inbound_nodes"] {
            Value::Array(nodes) if nodes.is_empty() => break,
            Value::Array(nodes) if nodes.len() == 1 => name = single(&nodes[0]).ok_or_else(branch)?,
            _ => return Err(branch()),
        }
    }
    if chain.len() != layers.len() {
        return Err(branch());
    }
    chain.reverse();
    Ok(chain)
}

/// The name in `[[name, 0, 0, …]]` or `[name, 0, 0]`.
fn single(value: &Value) -> Option<&str> {
    let list = value.as_array()?;
    match list.first()? {
        Value::String(name) => Some(name),
        Value::Array(only) if list.len() == 1 => {
            let keywords =
                only.get(3).is_none_or(|keywords| keywords.as_object().is_some_and(|map| map.is_empty()));
            only.first()?.as_str().filter(|_| keywords)
        }
        _ => None,
    }
}

/// A shape: a list, or `{"class_name": "__tuple__", "items": list}`.
fn dims(value: &Value) -> Option<Dims> {
    let items = value.as_array().or_else(|| value["items"].as_array())?;
    Some(items.iter().map(Value::as_u64).collect())
}

fn layer_steps(
    class: &str,
    config: &Value,
    named: &HashMap<String, Option<usize>>,
    objects: &Objects,
) -> Result<Vec<Step>, Why> {
    let name = config["name"].as_str().unwrap_or_default();
    let key = |variable: &str| {
        let id = named.get(name).copied().flatten().and_then(|id| objects.child(id, variable));
        let value = id.and_then(|id| objects.variable(id));
        value
            .map(|value| value.key.clone())
            .ok_or_else(|| Why(format!("layer '{name}' has no variable '{variable}'")))
    };
    let bias = || if config["use_bias"] == false { Ok(None) } else { key("bias").map(Some) };
    let layer = Some(name.to_owned());
    let unknown = |what: &str| Why(format!("layer '{name}' ({class}) has {what}, which is not supported"));
    if !matches!(config["data_format"].as_str(), None | Some("channels_last")) {
        return Err(unknown("its channels first"));
    }
    let mut steps = Vec::new();
    match class {
        "Dense" => {
            steps.push(Step::Dense { name: layer, weight: key("kernel")?, bias: bias()?, transposed: false })
        }
        "Conv2D" => {
            let window = window(config).ok_or_else(|| unknown("strides or padding of another kind"))?;
            steps.push(Step::Conv { name: layer, weight: key("kernel")?, bias: bias()?, window });
        }
        "MaxPooling2D" | "AveragePooling2D" => {
            let op = if class == "MaxPooling2D" { Op::MaxPool } else { Op::AveragePool };
            let window = window(config).ok_or_else(|| unknown("strides or padding of another kind"))?;
            let kernel = pair(&config["pool_size"]).ok_or_else(|| unknown("no pool size"))?;
            steps.push(Step::Pool { op, kernel, window });
        }
        "GlobalAveragePooling2D" => steps.push(Step::GlobalAveragePool { keep: config["keepdims"] == true }),
        "Flatten" => steps.push(Step::Flatten(None)),
        "BatchNormalization" => {
            steps.push(normalization(layer, config, key).ok_or_else(|| unknown("no scale, center or axis"))?)
        }
        "Dropout"
        | "SpatialDropout2D"
        | "AlphaDropout"
        | "GaussianDropout"
        | "GaussianNoise"
        | "ActivityRegularization" => {}
        "Activation" | "ReLU" | "LeakyReLU" | "ELU" | "Softmax" => {}
        _ => return Err(Why(format!("layer '{name}' is of class {class}, which is not supported"))),
    }
    steps.extend(activation(class, config).ok_or_else(|| {
        Why(format!("the activation of layer '{name}' is not supported: {}", config["activation"]))
    })?);
    Ok(steps)
}

fn normalization(
    name: Option<String>,
    config: &Value,
    key: impl Fn(&str) -> Result<String, Why>,
) -> Option<Step> {
    const ROLES: [(&str, &str); 4] =
        [("scale", "gamma"), ("bias", "beta"), ("mean", "moving_mean"), ("variance", "moving_variance")];
    let axis = match &config["axis"] {
        Value::Array(axes) if axes.len() == 1 => axes[0].as_u64(),
        axis => axis.as_u64(),
    };
    let parameters = ROLES.iter().map(|(role, variable)| Some((*role, key(variable).ok()?)));
    Some(Step::Normalize {
        name,
        parameters: parameters.collect::<Option<_>>()?,
        epsilon: config["epsilon"].as_f64()?,
        axis: Some(usize::try_from(axis?).ok()?),
    })
}

/// The activation that a layer is or has; `None` for one that is not known.
fn activation(class: &str, config: &Value) -> Option<Option<Step>> {
    let zero = |value: &Value| value.is_null() || value.as_f64() == Some(0.0);
    let alpha = |op| {
        let alpha = config["alpha"].as_f64().or_else(|| config["alpha"]["value"].as_f64())?;
        // A float32 spelled out: 0.20000000298023224 was meant to be 0.2.
        let single = alpha.to_string().parse::<f32>().ok().filter(|single| f64::from(*single) == alpha);
        let alpha = single.map_or(alpha, decimal);
        Some(Some(Step::Apply(op, vec![("alpha", Attribute::Float(alpha))])))
    };
    match class {
        "ReLU"
            if config["max_value"].is_null()
                && zero(&config["negative_slope"])
                && zero(&config["threshold"]) =>
        {
            Some(Some(Step::Apply(Op::Relu, Vec::new())))
        }
        "ReLU" => None,
        "LeakyReLU" => alpha(Op::LeakyRelu),
        "ELU" => alpha(Op::Elu),
        "Softmax" => (config["axis"] == -1).then(|| Step::activation(Activation::Softmax)),
        _ => match &config["activation"] {
            Value::Null => Some(None),
            Value::String(name) => Activation::from_name(name).ok().map(Step::activation),
            _ => None,
        },
    }
}

fn window(config: &Value) -> Option<Window> {
    let same = match config["padding"].as_str() {
        Some("same") => true,
        Some("valid") => false,
        _ => return None,
    };
    let dilations = match &config["dilation_rate"] {
        Value::Null => [1, 1],
        rate => pair(rate)?,
    };
    Some(Window { strides: pair(&config["strides"])?, dilations, same })
}

fn pair(value: &Value) -> Option<[u64; 2]> {
    if let Some(both) = value.as_u64() {
        return Some([both, both]);
    }
    match dims(value)?[..] {
        [Some(rows), Some(columns)] => Some([rows, columns]),
        _ => None,
    }
}
