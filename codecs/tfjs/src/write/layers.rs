//! The layers of a model, in the form that TensorFlow.js loads.

use super::form;
use super::refusal::Source;
use crate::graph::Names;
use ckpt_api::{Added, Checkpoint, Error, Graph, Limit, Limits, Result, Tensor, TensorId};
use ckpt_keras_config::{Described, Generation, Model, Structure, Variable};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Metadata of a checkpoint of Keras: its configuration and version, and the paths of its variables.
const KERAS: &str = "keras";
const CONFIG: &str = "config";
const VERSION: &str = "keras_version";
const PATH: &str = "path";

/// Layers of a model, and its weights in their order.
pub(super) struct Layers {
    /// The value of `modelTopology`.
    pub(super) topology: Value,
    pub(super) weights: Vec<Weight>,
}

/// A weight of a layer.
pub(super) struct Weight {
    pub(super) name: String,
    pub(super) tensor: TensorId,
    /// Its stored order of axes.
    pub(super) order: Vec<usize>,
    /// What is added to it.
    pub(super) added: Vec<Added>,
}

/// Makes layers: those of the configuration of Keras that the checkpoint has, if it still describes it, or those of its graph.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`], with the layer, for one that TensorFlow.js does not have or computes otherwise; those of
/// [`Model::describe`].
pub(super) fn describe(checkpoint: &Checkpoint) -> Result<Layers> {
    match stored(checkpoint) {
        None => described(checkpoint),
        Some(Ok(layers)) => Ok(layers),
        // Other layers may compute the same.
        Some(Err(error)) => described(checkpoint).map_err(|_| error),
    }
}

/// Limits for what the program made itself.
fn unlimited() -> Limits {
    Limits::default().with(Limit::TextBytes, u64::MAX).with(Limit::TextTokens, u64::MAX)
}

/// Makes layers of the graph.
fn described(checkpoint: &Checkpoint) -> Result<Layers> {
    let Described { config, variables } = Model::describe(checkpoint, Generation::Keras2)?;
    let model = Model::parse(&config, Some("2"), &unlimited())?;
    let names = Names::of(&model);
    let weight = |own: ckpt_keras_config::DescribedVariable| Weight {
        name: names.own(&own.variable),
        tensor: own.tensor,
        order: own.order,
        added: own.added,
    };
    let weights = variables.into_iter().map(weight).collect();
    Ok(Layers { topology: topology(&config, Generation::Keras2)?, weights })
}

/// The layers of the configuration that the checkpoint has; `None` if it has none, or one of another graph or other tensors.
fn stored(checkpoint: &Checkpoint) -> Option<Result<Layers>> {
    let config = checkpoint.metadata.text(KERAS, CONFIG)?;
    let version = checkpoint.metadata.text(KERAS, VERSION);
    let model = Model::parse(config, version, &Limits::default()).ok()?;
    // Keras 3 and Keras 2 number the calls of a model within a model differently: such layers are made of the graph.
    let is_functional = matches!(model.structure, Structure::Functional { .. });
    let has_models = model.layers.iter().any(|layer| layer.model.is_some());
    if model.generation == Generation::Keras3 && is_functional && has_models {
        return None;
    }
    let variables = model.variables().list;
    let by_path: HashMap<&str, (TensorId, &Tensor)> = checkpoint
        .tensors
        .iter()
        .enumerate()
        .filter_map(|(id, tensor)| Some((tensor.metadata.text(KERAS, PATH)?, (TensorId(id), tensor))))
        .collect();
    let bind = |variable: &Variable| {
        let (id, tensor) = *by_path.get(variable.path.as_str())?;
        Some((tensor.name.as_str(), id, order(tensor, variable)?))
    };
    let bound = variables.iter().map(bind).collect::<Option<Vec<_>>>()?;
    let pairs = variables.iter().zip(&bound);
    let renamed: HashMap<&str, &str> =
        pairs.clone().map(|(own, (name, ..))| (own.name.as_str(), *name)).collect();
    if !is_same(model.graph().ok(), checkpoint.graph.as_ref()?, &renamed) {
        return None;
    }
    let names = Names::of(&model);
    let weights = pairs.map(|(variable, (_, id, order))| Weight {
        name: names.own(variable),
        tensor: *id,
        order: order.clone(),
        added: Vec::new(),
    });
    let weights = weights.collect();
    Some(topology(config, model.generation).map(|topology| Layers { topology, weights }))
}

/// The order of a tensor's axes that is the variable's; `None` if it has other axes.
fn order(tensor: &Tensor, variable: &Variable) -> Option<Vec<usize>> {
    match (&tensor.axes, &variable.axes) {
        (Some(own), Some(wanted)) => {
            wanted.iter().map(|axis| own.iter().position(|other| other == axis)).collect()
        }
        _ => Some((0..tensor.shape.rank()).collect()),
    }
}

/// Whether the graph of a configuration is that of the checkpoint, whose tensors have other names.
fn is_same(own: Option<Graph>, graph: &Graph, renamed: &HashMap<&str, &str>) -> bool {
    let Some(mut own) = own else { return false };
    own.each_node_mut(|node| {
        for name in node.parameters.values_mut() {
            if let Some(new) = renamed.get(name.as_str()) {
                *name = (*new).to_owned();
            }
        }
    });
    own == *graph
}

fn topology(config: &str, generation: Generation) -> Result<Value> {
    let config = serde_json::from_str(config).map_err(|error| {
        Error::unsupported("the configuration has numbers that JSON does not have").found(error.to_string())
    })?;
    let source = Source { is_keras_3: generation == Generation::Keras3 };
    let config = form::converted(config, source)?;
    Ok(json!({ "keras_version": "2.15.0", "backend": "tensorflow", "model_config": config }))
}
