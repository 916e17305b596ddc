//! Reads the configuration of a model.

use super::calls::{Call, Names, TensorRef, calls, ends, invalid};
use super::layer::lens;
use super::model::{Generation, Layer, Model, Optimizer, Structure};
use super::naming::shown_name;
use ckpt_api::{Error, Limit, Limits, Result};
use serde_json::Value;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

/// Most models that contain each other.
const MAX_DEPTH: usize = 16;

impl Model {
    /// Reads a model's configuration. `version` is the version of Keras that the container states, such as `3.15.1`;
    /// without it, the configuration's form tells the generation.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for text that is not JSON, or that describes no model;
    /// [`ckpt_api::Kind::Limit`] for one that is too long or nested too deeply.
    pub fn parse(text: &str, version: Option<&str>, limits: &Limits) -> Result<Model> {
        limits.check(Limit::TextBytes, text.len() as u64)?;
        // What JSON takes in memory grows with its values, and each has one of these characters before or behind it.
        let values = text.bytes().filter(|byte| matches!(byte, b',' | b'{' | b'[' | b':')).count();
        limits.check(Limit::TextTokens, values as u64)?;
        let value = super::json::parse(text).map_err(|error| {
            Error::corrupt("the model's configuration is not valid JSON").found(error.to_string())
        })?;
        let generation = version.and_then(Generation::of_version).unwrap_or_else(|| shown(text));
        model(&value, generation, 0)
    }
}

impl Generation {
    /// The generation that a version states, such as `3.15.1`.
    pub fn of_version(version: &str) -> Option<Generation> {
        match version.split('.').next()? {
            "1" => Some(Generation::Keras1),
            "2" => Some(Generation::Keras2),
            "3" => Some(Generation::Keras3),
            _ => None,
        }
    }
}

/// The generation that the form of the configuration shows.
fn shown(text: &str) -> Generation {
    let has = |word: &str| text.contains(word);
    if has("\"batch_shape\"") || has("\"__keras_tensor__\"") || has("\"DTypePolicy\"") {
        Generation::Keras3
    } else if has("\"nb_filter\"") || has("\"border_mode\"") || has("\"output_dim\"") && has("\"init\"") {
        Generation::Keras1
    } else if has("\"batch_input_shape\"") || has("\"inbound_nodes\": [[[") {
        Generation::Keras2
    } else {
        Generation::Keras3
    }
}

fn model(value: &Value, generation: Generation, depth: usize) -> Result<Model> {
    if depth >= MAX_DEPTH {
        return Err(Error::limit("models contain each other too deeply")
            .expected(format!("at most {MAX_DEPTH} levels")));
    }
    let Some(layer) = Layer::parse(value) else { return Err(invalid(value, "an object with 'class_name'")) };
    let config = value.get("config").unwrap_or(&Value::Null);
    let optimizer = value.get("compile_config").and_then(|config| config.get("optimizer"));
    let optimizer = optimizer.and_then(|optimizer| Optimizer::parse(optimizer, generation));
    // Keras 1 has the layers of a Sequential model alone.
    let listed = config.get("layers").or(Some(config)).and_then(Value::as_array);
    let is_known = layer.is_builtin() && is_model(&layer.class);
    let Some(listed) = listed.filter(|_| is_known) else {
        let reason = match layer.is_builtin() {
            true => format!("'{}' is no model of layers", shown_name(&layer.class)),
            false => format!("its class '{}' is the program's own", shown_name(&layer.class)),
        };
        let Layer { name, class, .. } = layer;
        return Ok(Model {
            name,
            class,
            generation,
            layers: Vec::new(),
            structure: Structure::Unknown(reason),
            optimizer,
        });
    };
    let mut layers = Vec::with_capacity(listed.len());
    let mut names = Names::with_capacity(listed.len());
    for item in listed {
        let Some(mut layer) = Layer::parse(item) else { return Err(invalid(item, "a layer")) };
        let has_layers =
            item.get("config").is_some_and(|config| config.get("layers").is_some() || config.is_array());
        if has_layers && is_model(&layer.class) && layer.is_builtin() {
            layer.model = Some(Box::new(model(item, generation, depth + 1)?));
        }
        match names.entry(layer.name.clone()) {
            Entry::Occupied(entry) => {
                return Err(Error::corrupt("two layers of the model have the same name").found(entry.key()));
            }
            Entry::Vacant(entry) => entry.insert(layers.len()),
        };
        layers.push(layer);
    }
    let structure = match layer.class.as_str() {
        "Sequential" => Structure::Sequential { input: input(config, value, &layers) },
        _ => {
            for (layer, item) in layers.iter_mut().zip(listed) {
                let nodes = item.get("inbound_nodes").unwrap_or(&Value::Null);
                layer.calls = calls(nodes, &names).map_err(|error| error.field(&layer.name))?;
            }
            let side = |key: &str| {
                ends(config.get(key).unwrap_or(&Value::Null), &names).map_err(|error| error.field(key))
            };
            let (inputs, mut outputs) = (side("input_layers")?, side("output_layers")?);
            skip_own_calls(&mut layers, &mut outputs, generation);
            Structure::Functional { inputs, outputs }
        }
    };
    let Layer { name, class, .. } = layer;
    Ok(Model { name, class, generation, layers, structure, optimizer })
}

/// Numbers the calls of models that are layers from 0. A functional model has a call with its own inputs, which the
/// configuration leaves out, and which is counted as the first one: by Keras 1 and 2 everywhere, by Keras 3 in the list of
/// outputs alone.
fn skip_own_calls(layers: &mut [Layer], outputs: &mut [(Option<String>, TensorRef)], generation: Generation) {
    let is_old = generation < Generation::Keras3;
    let of_outputs = OwnCalls::of(layers, outputs.iter().map(|(_, end)| *end), |layer| {
        is_old || layer.class != "Sequential"
    });
    let taken: Vec<TensorRef> =
        layers.iter().flat_map(|layer| &layer.calls).flat_map(Call::references).collect();
    let of_arguments = OwnCalls::of(layers, taken.into_iter(), |_| is_old);
    outputs.iter_mut().for_each(|(_, end)| of_outputs.skip(end));
    for call in layers.iter_mut().flat_map(|layer| &mut layer.calls) {
        let arguments = call.args.iter_mut().chain(call.kwargs.values_mut());
        arguments.for_each(|argument| argument.each_reference(&|reference| of_arguments.skip(reference)));
    }
}

/// Of which layers some references count the call with the layer's own inputs.
struct OwnCalls(HashSet<usize>);

impl OwnCalls {
    /// References tell by their numbers, from 0 or up to the number of calls; where they do not, `usual` does.
    fn of(
        layers: &[Layer],
        references: impl Iterator<Item = TensorRef>,
        usual: impl Fn(&Layer) -> bool,
    ) -> Self {
        let mut ranges: HashMap<usize, (usize, usize)> = HashMap::new();
        for TensorRef { layer, call, .. } in references {
            let (least, most) = ranges.entry(layer).or_insert((call, call));
            (*least, *most) = (call.min(*least), call.max(*most));
        }
        let counts = |(number, (least, most)): (usize, (usize, usize))| {
            let layer = layers.get(number).filter(|layer| layer.model.is_some())?;
            let is_counted = least > 0 && (most >= layer.calls.len() || usual(layer));
            is_counted.then_some(number)
        };
        OwnCalls(ranges.into_iter().filter_map(counts).collect())
    }

    fn skip(&self, reference: &mut TensorRef) {
        reference.call = reference.call.saturating_sub(self.0.contains(&reference.layer).into());
    }
}

/// Whether a class of Keras is that of a model of layers.
fn is_model(class: &str) -> bool {
    matches!(class, "Sequential" | "Functional" | "Model")
}

/// Returns the lengths of the axes of a Sequential model's input.
fn input(config: &Value, value: &Value, layers: &[Layer]) -> Option<Vec<Option<u64>>> {
    let first = layers.first().and_then(|layer| {
        let inner = layer.model.as_deref().and_then(|model| match &model.structure {
            Structure::Sequential { input } => input.clone(),
            Structure::Functional { inputs, .. } => {
                let (_, first) = inputs.first()?;
                model.layers.get(first.layer)?.stated_shape()
            }
            Structure::Unknown(_) => None,
        });
        layer.stated_shape().or(inner)
    });
    let built = config.get("build_input_shape").and_then(lens);
    first.or(built).or_else(|| lens(value.get("build_config")?.get("input_shape")?))
}
