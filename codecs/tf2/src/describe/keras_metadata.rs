//! Reads the chain of a Keras 2 SavedModel from `keras_metadata.pb`: the classes and configurations of layers, as JSON.

use super::chain::{Chain, Context, Dims, IN_16_BITS, LocatedStep, Step};
use super::no_chain::NoChain;
use super::node::decimal;
use super::objects::Objects;
use crate::proto::SavedMetadata;
use ckpt_api::{Activation, Attribute, Limits, Op, Result};
use ckpt_containers::protobuf::{self, Nested};
use ckpt_graph::{Padding, Window};
use prost::Message;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

const FIELDS: &[Nested] = &[Nested(1, &[])];

/// Returns the chain, or why there is none.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`].
pub(super) fn chain(
    bytes: &[u8],
    objects: &Objects,
    context: &Context,
    limits: &Limits,
) -> Result<Result<Chain, NoChain>> {
    protobuf::check_size(bytes, FIELDS, limits).map_err(|error| error.field("keras_metadata.pb"))?;
    Ok(read(bytes, objects, context).map_err(|error| error.of("in keras_metadata.pb")))
}

fn read(bytes: &[u8], objects: &Objects, context: &Context) -> Result<Chain, NoChain> {
    let metadata = SavedMetadata::decode(bytes)
        .map_err(|error| NoChain::unstated(format!("it cannot be parsed ({error})")))?;
    let root = metadata.nodes.iter().find(|node| node.node_path == "root");
    let root = root.ok_or_else(|| NoChain::unstated("there is no model"))?;
    let root = parse(&root.metadata)?;
    let named = named_objects(&metadata, objects);
    let mut input = None;
    let (mut steps, mut is_nested, mut is_half) = (Vec::new(), false, false);
    let mut open: Vec<&Value> = model_layers(&root)?;
    open.reverse();
    while let Some(layer) = open.pop() {
        match layer["class_name"].as_str().unwrap_or_default() {
            "Sequential" | "Functional" | "Model" => {
                is_nested = true;
                open.extend(model_layers(layer)?.into_iter().rev());
            }
            "InputLayer" if steps.is_empty() => {
                input = input.or_else(|| dims(&layer["config"]["batch_input_shape"]))
            }
            "InputLayer" => {}
            class => {
                if steps.is_empty() {
                    input = input.or_else(|| dims(&layer["config"]["batch_input_shape"]));
                }
                is_half |= computes_in_16_bits(&layer["config"]);
                let place = shown(layer);
                let own = layer_steps(class, &layer["config"], &named, objects)?;
                steps.extend(own.into_iter().map(|step| LocatedStep { step, place: place.clone() }));
            }
        }
    }
    let name = root["config"]["name"].as_str().unwrap_or_default();
    let mut chain = Chain::build(name, input, steps, context)?;
    chain.notes.extend(is_half.then(|| IN_16_BITS.to_owned()));
    Ok(Chain { is_nested, ..chain })
}

/// Whether a layer's dtype or policy of mixed precision is one of 16 bits: `"float16"`, or `mixed_bfloat16` as
/// `{"class_name": "Policy", "config": {"name": …}}`.
fn computes_in_16_bits(config: &Value) -> bool {
    let dtype = &config["dtype"];
    let name = dtype.as_str().or_else(|| dtype["config"]["name"].as_str()).unwrap_or_default();
    matches!(name.strip_prefix("mixed_").unwrap_or(name), "float16" | "bfloat16")
}

/// Limit on the length of a configuration, far above those of models. Parsed JSON takes many times its length in
/// memory.
const MAX_JSON_BYTES: usize = 16 << 20;

pub(super) fn parse(json: &str) -> Result<Value, NoChain> {
    if json.len() > MAX_JSON_BYTES {
        return Err(NoChain::unstated(format!(
            "there is JSON of {} bytes, which is more than {MAX_JSON_BYTES}",
            json.len()
        )));
    }
    serde_json::from_str(json).map_err(|error| NoChain::unstated(format!("there is invalid JSON ({error})")))
}

/// Returns the object at a path, such as `root.layer_with_weights-0`.
pub(super) fn object(path: &str, objects: &Objects) -> Option<usize> {
    let mut steps = path.split('.');
    let start = (steps.next() == Some("root")).then_some(0);
    steps.fold(start, |id, name| objects.child(id?, name))
}

/// Returns objects by the names of their layers; `None` for a name that two layers share.
fn named_objects(metadata: &SavedMetadata, objects: &Objects) -> HashMap<String, Option<usize>> {
    let mut named = HashMap::new();
    for node in &metadata.nodes {
        let Some(id) = object(&node.node_path, objects) else { continue };
        let json = parse(&node.metadata).unwrap_or_default();
        let Some(name) = json["config"]["name"].as_str().or(json["name"].as_str()) else { continue };
        let known = named.entry(name.to_owned()).or_insert(Some(id));
        if *known != Some(id) {
            *known = None;
        }
    }
    named
}

/// Returns the layers of a model in the order in which they run.
fn model_layers(model: &Value) -> Result<Vec<&Value>, NoChain> {
    let layers = model["config"]["layers"].as_array().ok_or_else(|| {
        let name = model["config"]["name"].as_str().unwrap_or_default();
        NoChain::unstated(format!("the layers of the model '{name}' are not listed (a subclassed model)"))
    })?;
    if model["class_name"] == "Sequential" {
        return Ok(layers.iter().collect());
    }
    let by_name: HashMap<&str, &Value> = layers
        .iter()
        .filter_map(|layer| Some((layer["name"].as_str().or(layer["config"]["name"].as_str())?, layer)))
        .collect();
    let outputs = &model["config"]["output_layers"];
    if !outputs.is_array() {
        return Err(NoChain::unstated("the outputs of the model are not listed"));
    }
    let branches = || NoChain::unsupported("the model branches: it has not one output");
    let mut name = single(outputs).ok_or_else(branches)?;
    let mut chain = Vec::new();
    let mut seen = HashSet::new();
    loop {
        let missing = || NoChain::unsupported(format!("layer '{name}' does not exist"));
        let layer = *by_name.get(name).ok_or_else(missing)?;
        if !seen.insert(name) {
            return Err(NoChain::unsupported(format!("layer '{name}' is an input to itself")));
        }
        chain.push(layer);
        match input_of(layer)? {
            Some(input) => name = input,
            None => break,
        }
    }
    let used: HashSet<*const Value> = chain.iter().map(|layer| std::ptr::from_ref(*layer)).collect();
    if let Some(other) = layers.iter().find(|layer| !used.contains(&std::ptr::from_ref(*layer))) {
        return Err(NoChain::unsupported(format!(
            "the layers branch: {} is not on the path to the output",
            shown(other)
        )));
    }
    chain.reverse();
    Ok(chain)
}

/// Returns the name of the layer whose result a layer takes; `None` for the first layer.
fn input_of(layer: &Value) -> Result<Option<&str>, NoChain> {
    let branches = |why: &str| NoChain::unsupported(format!("the layers branch: {} {why}", shown(layer)));
    match layer["inbound_nodes"].as_array().map(Vec::as_slice) {
        Some([]) => Ok(None),
        Some([inputs @ Value::Array(_)]) => {
            let only = single(inputs).ok_or_else(|| branches("takes more than the result of one layer"))?;
            Ok(Some(only))
        }
        Some([_, _, ..]) => Err(branches("is used more than once")),
        _ => Err(NoChain::unstated(format!("the inputs of {} are not listed", shown(layer)))),
    }
}

/// Returns a layer's name and class, for messages.
fn shown(layer: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("layer '{}' ({})", text(&layer["config"]["name"]), text(&layer["class_name"]))
}

/// Returns the name in `[[name, 0, 0, …]]` or `[name, 0, 0]`.
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

/// Parses a shape: a list, or `{"class_name": "__tuple__", "items": list}`.
fn dims(value: &Value) -> Option<Dims> {
    let items = value.as_array().or_else(|| value["items"].as_array())?;
    Some(items.iter().map(Value::as_u64).collect())
}

fn layer_steps(
    class: &str,
    config: &Value,
    named: &HashMap<String, Option<usize>>,
    objects: &Objects,
) -> Result<Vec<Step>, NoChain> {
    let name = config["name"].as_str().unwrap_or_default();
    let key = |variable: &str| {
        let id = named.get(name).copied().flatten().and_then(|id| objects.child(id, variable));
        let value = id.and_then(|id| objects.variable(id));
        value
            .map(|value| value.key.clone())
            .ok_or_else(|| NoChain::unsupported(format!("layer '{name}' has no variable '{variable}'")))
    };
    let bias = || if config["use_bias"] == false { Ok(None) } else { key("bias").map(Some) };
    let layer = Some(name.to_owned());
    let unsupported = |what: &str| {
        NoChain::unsupported(format!("layer '{name}' ({class}) has {what}, which is not supported"))
    };
    if !matches!(config["data_format"].as_str(), None | Some("channels_last")) {
        return Err(unsupported("its channels first"));
    }
    let mut steps = Vec::new();
    match class {
        "Dense" => steps.push(Step::Dense {
            name: layer,
            weight: key("kernel")?,
            bias: bias()?,
            is_transposed: false,
        }),
        "Conv2D" => {
            let window = window(config).ok_or_else(|| unsupported("other strides or padding"))?;
            steps.push(Step::Conv { name: layer, weight: key("kernel")?, bias: bias()?, window });
        }
        "MaxPooling2D" | "AveragePooling2D" => {
            let op = if class == "MaxPooling2D" { Op::MaxPool } else { Op::AveragePool };
            let window = window(config).ok_or_else(|| unsupported("other strides or padding"))?;
            let kernel = pair(&config["pool_size"]).ok_or_else(|| unsupported("no pool size"))?;
            steps.push(Step::Pool { op, kernel, window });
        }
        "GlobalAveragePooling2D" => {
            steps.push(Step::GlobalAveragePool { keep_dims: config["keepdims"] == true })
        }
        "Flatten" => steps.push(Step::Flatten(None)),
        "BatchNormalization" => steps
            .push(normalization(layer, config, key).ok_or_else(|| unsupported("no scale, center or axis"))?),
        "Dropout"
        | "SpatialDropout2D"
        | "AlphaDropout"
        | "GaussianDropout"
        | "GaussianNoise"
        | "ActivityRegularization" => {}
        "Activation" | "ReLU" | "LeakyReLU" | "ELU" | "Softmax" => {}
        _ => {
            return Err(NoChain::unsupported(format!(
                "layer '{name}' is of class {class}, which is not supported"
            )));
        }
    }
    steps.extend(activation(class, config).ok_or_else(|| {
        NoChain::unsupported(format!(
            "the activation of layer '{name}' is not supported: {}",
            config["activation"]
        ))
    })?);
    Ok(steps)
}

fn normalization(
    name: Option<String>,
    config: &Value,
    key: impl Fn(&str) -> Result<String, NoChain>,
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

/// Returns the activation that a layer is or has, or `None` for an unknown one.
fn activation(class: &str, config: &Value) -> Option<Option<Step>> {
    let zero = |value: &Value| value.is_null() || value.as_f64() == Some(0.0);
    let alpha = |op| {
        let alpha = config["alpha"].as_f64().or_else(|| config["alpha"]["value"].as_f64())?;
        // A float32 written as a double: 0.20000000298023224 is 0.2.
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

/// Reads strides, dilations and padding; returns `None` for unsupported ones.
fn window(config: &Value) -> Option<Window> {
    let padding = match config["padding"].as_str() {
        Some("same") => Padding::Same,
        Some("valid") => Padding::Valid,
        _ => return None,
    };
    let dilations = match &config["dilation_rate"] {
        Value::Null => [1, 1],
        rate => pair(rate)?,
    };
    Some(Window { strides: pair(&config["strides"])?.to_vec(), dilations: dilations.to_vec(), padding })
}

/// Reads a number of rows and columns, or one number for both.
fn pair(value: &Value) -> Option<[u64; 2]> {
    if let Some(both) = value.as_u64() {
        return Some([both, both]);
    }
    match dims(value)?[..] {
        [Some(rows), Some(columns)] => Some([rows, columns]),
        _ => None,
    }
}
