//! Classes and options of layers: which TensorFlow.js has, and what they are called there.

use super::refusal::{Source, refused};
use ckpt_api::Result;
use serde_json::{Map, Value, json};

/// Layers that TensorFlow.js computes as Keras does.
const KNOWN: [&str; 58] = [
    "Activation",
    "Add",
    "AlphaDropout",
    "Average",
    "AveragePooling1D",
    "AveragePooling2D",
    "AveragePooling3D",
    "BatchNormalization",
    "Bidirectional",
    "Concatenate",
    "Conv1D",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Conv3DTranspose",
    "Cropping2D",
    "Dense",
    "DepthwiseConv2D",
    "Dot",
    "Dropout",
    "ELU",
    "Embedding",
    "Flatten",
    "GRU",
    "GRUCell",
    "GaussianDropout",
    "GaussianNoise",
    "GlobalAveragePooling1D",
    "GlobalAveragePooling2D",
    "GlobalMaxPooling1D",
    "GlobalMaxPooling2D",
    "InputLayer",
    "LSTM",
    "LSTMCell",
    "LayerNormalization",
    "LeakyReLU",
    "MaxPooling1D",
    "MaxPooling2D",
    "MaxPooling3D",
    "Maximum",
    "Minimum",
    "Multiply",
    "PReLU",
    "Permute",
    "RNN",
    "ReLU",
    "RepeatVector",
    "Rescaling",
    "Reshape",
    "SeparableConv2D",
    "SimpleRNN",
    "SimpleRNNCell",
    "Softmax",
    "SpatialDropout1D",
    "StackedRNNCells",
    "Subtract",
    "ThresholdedReLU",
    "TimeDistributed",
];
/// More of them, whose options decide.
const IMAGES: [&str; 2] = ["UpSampling2D", "ZeroPadding2D"];
/// Layers that act only in training.
const IDENTITIES: [&str; 11] = [
    "ActivityRegularization",
    "Identity",
    "RandomBrightness",
    "RandomContrast",
    "RandomFlip",
    "RandomHeight",
    "RandomRotation",
    "RandomTranslation",
    "RandomZoom",
    "SpatialDropout2D",
    "SpatialDropout3D",
];
/// Functions that TensorFlow.js has for activations, by the names of Keras.
const ACTIVATIONS: [&str; 15] = [
    "elu",
    "gelu",
    "hard_sigmoid",
    "linear",
    "log_softmax",
    "mish",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "softmax",
    "softplus",
    "softsign",
    "swish",
    "tanh",
];
/// Layers within layers.
const WRAPPED: [&str; 4] = ["layer", "backward_layer", "cell", "cells"];
/// Layers that wrap each other, at most.
const MOST_WRAPPED: usize = 8;

/// Gives a layer, and those that it wraps, the options of TensorFlow.js. `rank` counts the axes of its input.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`], with the layer.
pub(super) fn convert(layer: &mut Map<String, Value>, source: Source, rank: Option<usize>) -> Result<()> {
    let mut open = vec![(layer, rank, 0)];
    while let Some((layer, rank, depth)) = open.pop() {
        let class = layer.get("class_name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let known = class_of(&class, layer)?;
        layer.insert("class_name".to_owned(), known.into());
        for key in ["module", "registered_name", "build_config", "shared_object_id"] {
            layer.remove(key);
        }
        let Some(Value::Object(config)) = layer.get_mut("config") else { continue };
        let name = config.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if IDENTITIES.contains(&class.as_str()) {
            *config = Map::from_iter([
                ("name".to_owned(), name.as_str().into()),
                ("activation".to_owned(), "linear".into()),
            ]);
            continue;
        }
        own(&name, &class, config, source, rank)?;
        if depth == MOST_WRAPPED {
            return refused(&name, "layers wrap each other too deeply");
        }
        let inner = if class == "TimeDistributed" { rank.and_then(|rank| rank.checked_sub(1)) } else { rank };
        for (_, value) in config.iter_mut().filter(|(key, _)| WRAPPED.contains(&key.as_str())) {
            match value {
                Value::Object(wrapped) => open.push((wrapped, inner, depth + 1)),
                Value::Array(several) => {
                    open.extend(
                        several
                            .iter_mut()
                            .filter_map(Value::as_object_mut)
                            .map(|own| (own, inner, depth + 1)),
                    );
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// The class that TensorFlow.js has.
fn class_of(class: &str, layer: &Map<String, Value>) -> Result<&'static str> {
    if IDENTITIES.contains(&class) {
        return Ok("Activation");
    }
    let is_custom =
        layer.get("registered_name").and_then(Value::as_str).is_some_and(|name| name.contains('>'));
    let found = KNOWN.iter().chain(&IMAGES).find(|known| **known == class && !is_custom);
    match found {
        Some(known) => Ok(known),
        None => {
            let config = layer.get("config").and_then(|config| config.get("name")).and_then(Value::as_str);
            let shown: String = class.chars().take(80).flat_map(char::escape_debug).collect();
            refused(
                config.unwrap_or_default(),
                format!("TensorFlow.js has no layer '{shown}' that computes the same"),
            )
        }
    }
}

/// Converts the options of one layer.
fn own(
    name: &str,
    class: &str,
    config: &mut Map<String, Value>,
    source: Source,
    rank: Option<usize>,
) -> Result<()> {
    // What only training needs, and what TensorFlow.js cannot parse.
    let is_for_training =
        |key: &str| ["_initializer", "_regularizer", "_constraint"].iter().any(|end| key.ends_with(end));
    config.retain(|key, _| {
        !is_for_training(key)
            && !matches!(key.as_str(), "activity_regularizer" | "seed" | "ragged" | "optional")
    });
    if let Some(shape) = config.remove("batch_shape") {
        config.insert("batch_input_shape".to_owned(), shape);
    }
    if let Some(dtype) = config.get_mut("dtype") {
        let named = dtype.get("config").and_then(|config| config.get("name")).cloned();
        *dtype = match named.as_ref().unwrap_or(dtype).as_str() {
            Some(whole @ ("int32" | "bool" | "string")) => whole.into(),
            Some("int64" | "uint8" | "int8" | "int16") => "int32".into(),
            _ => "float32".into(),
        };
    }
    for key in ["activation", "recurrent_activation"] {
        if config.contains_key(key) {
            activation(name, config, key, source)?;
        }
    }
    match class {
        "BatchNormalization" => {
            let axis = single(name, config, "axis")?;
            let is_last = axis.is_none_or(|axis| axis == -1 || Some(axis) == rank.and_then(last));
            // Its kernels take the last axis for that of the channels.
            if !is_last {
                return refused(name, "TensorFlow.js normalizes batches along the last axis only");
            }
            config.insert("axis".to_owned(), json!(-1));
        }
        "Softmax" => {
            let axis = single(name, config, "axis")?;
            if axis.is_some_and(|axis| axis != -1 && Some(axis) != rank.and_then(last)) {
                return refused(name, "TensorFlow.js computes a softmax along the last axis only");
            }
        }
        "ReLU" => {
            let is_other = |key: &str| number(config, key).is_some_and(|number| number != 0.0);
            if is_other("negative_slope") || is_other("threshold") {
                return refused(name, "TensorFlow.js has no ReLU with a slope or a threshold");
            }
            config.retain(|key, value| {
                !matches!(key.as_str(), "negative_slope" | "threshold") && !value.is_null()
            });
        }
        "LeakyReLU" => {
            if let Some(slope) = config.remove("negative_slope") {
                config.insert("alpha".to_owned(), slope);
            }
        }
        "GRU" | "GRUCell" if config.get("reset_after") != Some(&Value::Bool(false)) => {
            return refused(
                name,
                "TensorFlow.js has no GRU with reset_after, which Keras has unless told otherwise",
            );
        }
        "UpSampling2D" if config.get("interpolation").is_some_and(|kind| kind != "nearest") => {
            return refused(name, "TensorFlow.js interpolates between other places than Keras");
        }
        "Reshape" => {
            let target = config.get("target_shape").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            if target.iter().any(|len| len.as_i64() == Some(-1)) {
                return refused(name, "TensorFlow.js does not know the shape that a reshaping leaves open");
            }
        }
        _ if class.contains("Conv") => convolution(name, class, config)?,
        _ => {}
    }
    Ok(())
}

fn last(rank: usize) -> Option<i64> {
    i64::try_from(rank).ok()?.checked_sub(1)
}

fn number(config: &Map<String, Value>, key: &str) -> Option<f64> {
    config.get(key).and_then(Value::as_f64)
}

/// An option that is one axis, or a list of one.
fn single(name: &str, config: &Map<String, Value>, key: &str) -> Result<Option<i64>> {
    match config.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(axes)) if axes.len() != 1 => refused(name, "the layer takes several axes"),
        Some(Value::Array(axes)) => Ok(axes.first().and_then(Value::as_i64)),
        Some(axis) => Ok(axis.as_i64()),
    }
}

/// Names an activation as TensorFlow.js does.
fn activation(name: &str, config: &mut Map<String, Value>, key: &str, source: Source) -> Result<()> {
    let value = config.get(key).unwrap_or(&Value::Null);
    // A function of Keras 3 is an object whose configuration is its name.
    let stated = value.as_str().or_else(|| value.get("config").and_then(Value::as_str));
    let found = match (stated, value) {
        (None, Value::Null) => "linear",
        (Some("silu"), _) => "swish",
        // Keras 3 divides by 6, TensorFlow.js by 5.
        (Some("hard_sigmoid"), _) if source.is_keras_3 => {
            return refused(name, "TensorFlow.js has the hard sigmoid of Keras 2, which has another slope");
        }
        (Some(stated), _) if ACTIVATIONS.contains(&stated) => stated,
        _ => {
            let shown: String = value.to_string().chars().take(80).collect();
            return refused(name, format!("TensorFlow.js has no activation {shown}"));
        }
    };
    let found = found.to_owned();
    config.insert(key.to_owned(), found.into());
    Ok(())
}

/// Refuses convolutions that TensorFlow.js does not compute, or computes otherwise.
fn convolution(name: &str, class: &str, config: &Map<String, Value>) -> Result<()> {
    let is_over_one = |key: &str| match config.get(key) {
        Some(Value::Array(items)) => items.iter().any(|item| item.as_u64() != Some(1)),
        Some(value) => value.as_u64().is_some_and(|number| number > 1),
        None => false,
    };
    if is_over_one("groups") {
        return refused(name, "TensorFlow.js has no convolution in groups");
    }
    if config.get("padding").and_then(Value::as_str) == Some("causal") {
        return refused(name, "TensorFlow.js has no causal convolution");
    }
    if config.get("output_padding").is_some_and(|value| !value.is_null()) {
        return refused(name, "TensorFlow.js has no transposed convolution with output_padding");
    }
    let (is_dilated, is_strided) = (is_over_one("dilation_rate"), is_over_one("strides"));
    if is_dilated && (class.contains("Transpose") || is_strided) {
        return refused(name, "TensorFlow.js has no dilation in such a convolution");
    }
    Ok(())
}

/// Takes an option that is true out of a layer.
pub(super) fn take_flag(layer: &mut Value, key: &str) -> bool {
    let config = layer.get_mut("config").and_then(Value::as_object_mut);
    config.and_then(|config| config.remove(key)) == Some(Value::Bool(true))
}
