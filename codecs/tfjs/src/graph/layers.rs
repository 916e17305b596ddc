//! The layers of a model of Keras.

use super::names::{Names, shortened};
use ckpt_api::{Contents, Graph, Kind, Limits, Result, Role, Tensor, TensorId, text};
use ckpt_keras_config::{Model, NoGraph, Variable};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// The note on a model that computes in 16 bits.
const IN_16_BITS: &str = "the model computes in 16 bits between its layers, which the graph does not show: run in more bits, \
     it gives results that differ from the model's by the rounding of 16 bits";

/// Describes the tensors by the layers that the topology has, and adds the graph; why there is none, as a clause.
///
/// # Errors
/// [`Kind::Limit`].
pub(super) fn describe(
    topology: &Value,
    contents: &mut Contents,
    limits: &Limits,
) -> Result<Result<(), String>> {
    let config = topology.get("model_config").unwrap_or(topology);
    let model = match Model::parse(&config.to_string(), Some(version(topology)), limits) {
        Ok(model) => model,
        Err(error) if error.kind() == Kind::Limit => return Err(error),
        Err(error) => {
            contents.notes.push(text!["the layers are not understood: ", error.quoted()]);
            return Ok(Err("the layers are not understood".to_owned()));
        }
    };
    let variables = model.variables();
    for (layer, reason) in &variables.unknown {
        contents.notes.push(format!("the tensors of layer '{layer}' are not described: {reason}").into());
    }
    let ids = find(&model, &variables.list, &contents.checkpoint.tensors);
    let mut bound = HashMap::new();
    for (variable, id) in variables.list.iter().zip(ids) {
        let Some((id, tensor)) = id.and_then(|id| Some((id, contents.checkpoint.tensors.get_mut(id.0)?)))
        else {
            continue;
        };
        tensor.role = variable.tensor_role;
        tensor.axes = variable.axes.clone().filter(|axes| axes.len() == tensor.shape.rank());
        bound.insert(variable.name.as_str(), id);
    }
    let graph = model.graph().map_err(|NoGraph { reason }| reason);
    let graph = graph.and_then(|graph| named(graph, &bound, &contents.checkpoint.tensors));
    Ok(match graph {
        Ok(graph) => {
            contents.graph_notes.extend(model.computes_in_16_bits().then(|| IN_16_BITS.into()));
            contents.checkpoint.graph = Some(graph);
            Ok(())
        }
        Err(reason) => {
            let outline = model.outline().ok();
            let outline = outline.and_then(|graph| named(graph, &bound, &contents.checkpoint.tensors).ok());
            contents.outline = outline.map(Box::new);
            Err(reason)
        }
    })
}

/// The version of Keras whose form the layers have: TensorFlow.js has that of Keras 2.
fn version(topology: &Value) -> &str {
    let stated = topology.get("keras_version").and_then(Value::as_str);
    stated.filter(|version| version.starts_with(|first: char| first.is_ascii_digit())).unwrap_or("2")
}

/// Returns the tensor of each variable, as TensorFlow.js finds it: by the name, or by the name without its next-to-last part.
/// The converter of Keras 3 numbers the variables of a layer instead.
fn find(model: &Model, variables: &[Variable], tensors: &[Tensor]) -> Vec<Option<TensorId>> {
    let names = Names::of(model);
    let weights = || tensors.iter().enumerate().filter(|(_, tensor)| tensor.role == Role::Weight);
    let exact: HashMap<&str, TensorId> =
        weights().map(|(id, tensor)| (tensor.name.as_str(), TensorId(id))).collect();
    let mut short = HashMap::new();
    for (id, tensor) in weights() {
        if let Some(name) = shortened(&tensor.name) {
            short.entry(name).or_insert(TensorId(id));
        }
    }
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut taken = HashSet::new();
    let mut found = Vec::with_capacity(variables.len());
    for variable in variables {
        let own = names.own(variable);
        let layer = variable.name.rsplit_once('/').map_or("", |(layer, _)| layer);
        let number = numbers.entry(layer).or_default();
        let numbered = format!("{}/{number}", own.rsplit_once('/').map_or("", |(layer, _)| layer));
        *number += 1;
        let id = [own.as_str(), variable.name.as_str(), numbered.as_str()]
            .into_iter()
            .find_map(|name| exact.get(name))
            .or_else(|| short.get(&own));
        found.push(id.copied().filter(|id| taken.insert(*id)));
    }
    found
}

/// Gives the parameters of a graph the names of their tensors.
fn named(
    mut graph: Graph,
    bound: &HashMap<&str, TensorId>,
    tensors: &[Tensor],
) -> std::result::Result<Graph, String> {
    let mut lacking = None;
    graph.each_node_mut(|node| {
        for name in node.parameters.values_mut() {
            match bound.get(name.as_str()).and_then(|id| tensors.get(id.0)) {
                Some(tensor) => *name = tensor.name.to_string(),
                None => lacking = Some(name.clone()),
            }
        }
    });
    match lacking {
        Some(name) => Err(format!("the manifest lacks the variable '{name}'")),
        None => Ok(graph),
    }
}
