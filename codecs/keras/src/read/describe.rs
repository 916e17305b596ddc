//! Applies the configuration to the tensors: what their axes mean, what they are for, and what the model computes.

use super::variables::{Bound, find};
use super::{Files, optimizer};
use crate::config::{Model, NoGraph, Quantized, json, training_only};
use crate::format::{
    ID, KEY_BACKEND, KEY_CONFIG, KEY_PACKED_AXIS, KEY_PATH, KEY_SAVED, KEY_TRAINING, KEY_VERSION, KEY_WEIGHT,
};
use ckpt_api::{Contents, Graph, Kind, Limits, MissingGraph, Result, Role, Tensor, text};
use std::collections::{BTreeMap, HashMap};

/// Describes the tensors of a model.
///
/// # Errors
/// [`Kind::Limit`] for a configuration that is too large. One that cannot be understood is a note.
pub(crate) fn describe(files: &Files, contents: &mut Contents, limits: &Limits) -> Result<()> {
    keep_texts(files, contents);
    contents.training_only = files.config.as_deref().map(training_only).unwrap_or_default();
    contents.add_notes(files.notes.iter().cloned());
    mark_by_path(&mut contents.checkpoint.tensors);
    let model =
        match files.config.as_ref().map(|config| Model::parse(config, files.version.as_deref(), limits)) {
            None => None,
            Some(Ok(model)) => Some(model),
            Some(Err(error)) if error.kind() == Kind::Limit => return Err(error),
            // A configuration that is cut is refused; one of another program may mean something else.
            Some(Err(error)) if files.config.as_deref().is_some_and(is_no_json) => {
                return Err(error.file(files.config_file.as_deref().unwrap_or(shown(files))));
            }
            Some(Err(error)) => {
                contents.notes.push(text!["the configuration is not understood: ", error.quoted()]);
                None
            }
        };
    let bound = model.as_ref().map(|model| (model, bind(files, model, contents)));
    let described = bound.as_ref().map(|(model, bound)| (*model, bound));
    optimizer::assign(files, described, &mut contents.checkpoint.tensors);
    match described {
        Some((model, bound)) => add_graph(model, bound, contents),
        None => {
            let reason = format!("{} has no configuration of the model", shown(files));
            contents.missing_graph =
                Some(MissingGraph { reason: reason.into(), is_unstated: true, help: None });
        }
    }
    Ok(())
}

fn is_no_json(text: &str) -> bool {
    json::parse(text).is_err()
}

/// The file that would have the configuration.
fn shown(files: &Files) -> &str {
    files.parts.first().map_or("the input", |part| part.shown.as_str())
}

/// The note on a model that computes in 16 bits.
const IN_16_BITS: &str = "the model computes in 16 bits between its layers, which the graph does not show: run in more bits, \
     it gives results that differ from the model's by the rounding of 16 bits";

/// Adds the graph of the model, whose nodes refer to the tensors; an outline of it, if a layer has none.
fn add_graph(model: &Model, bound: &Bound, contents: &mut Contents) {
    let graph = model.graph().map_err(|NoGraph { reason }| reason);
    match graph.and_then(|graph| named(graph, bound, &contents.checkpoint.tensors)) {
        Ok(graph) => {
            contents.checkpoint.graph = Some(graph);
            contents.graph_notes.extend(model.computes_in_16_bits().then(|| IN_16_BITS.into()));
        }
        Err(reason) => {
            let outline = model.outline().ok();
            let outline = outline.and_then(|graph| named(graph, bound, &contents.checkpoint.tensors).ok());
            contents.outline = outline.map(Box::new);
            contents.missing_graph =
                Some(MissingGraph { reason: reason.into(), is_unstated: false, help: None });
        }
    }
}

/// Gives the parameters of a graph the names of their tensors.
///
/// # Errors
/// The reason, if the files lack a tensor, or have one that the graph does not show.
fn named(mut graph: Graph, bound: &Bound, tensors: &[Tensor]) -> std::result::Result<Graph, String> {
    let mut lacking = None;
    graph.each_node_mut(|node| {
        for name in node.parameters.values_mut() {
            match bound.ids.get(name.as_str()).and_then(|id| tensors.get(id.0)) {
                Some(tensor) => *name = tensor.name.to_string(),
                None => lacking = Some(name.clone()),
            }
        }
    });
    match (lacking, bound.unshown(tensors)) {
        (Some(name), _) => Err(format!("the files lack the variable '{name}'")),
        (None, Some(name)) => Err(format!(
            "'{name}' belongs to a layer whose configuration does not show it, as quantized layers have them"
        )),
        (None, None) => Ok(graph),
    }
}

fn keep_texts(files: &Files, contents: &mut Contents) {
    let texts = [
        (KEY_CONFIG, &files.config),
        (KEY_TRAINING, &files.training),
        (KEY_VERSION, &files.version),
        (KEY_BACKEND, &files.backend),
        (KEY_SAVED, &files.saved),
    ];
    for (key, text) in texts {
        if let Some(text) = text {
            contents.checkpoint.metadata.insert(ID, key, text.as_str());
        }
    }
}

/// What a tensor is for by its path alone: states of metrics and of random numbers take no part in the model.
fn mark_by_path(tensors: &mut [Tensor]) {
    for tensor in tensors {
        if tensor.name.starts_with("metrics/") || tensor.name.contains("/seed_generator/") {
            tensor.role = Role::Bookkeeping;
        }
    }
}

/// Finds the tensors of the model's variables, and describes them.
fn bind(files: &Files, model: &Model, contents: &mut Contents) -> Bound {
    let variables = model.variables();
    for (layer, reason) in &variables.unknown {
        contents.notes.push(format!("the tensors of layer '{layer}' are not described: {reason}").into());
    }
    let ids = find(files, &variables.list, &contents.checkpoint.by_name());
    let mut found = HashMap::new();
    let mut quantized: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for (variable, id) in variables.list.iter().zip(&ids) {
        let Some(id) = *id else { continue };
        let Some(tensor) = contents.checkpoint.tensors.get_mut(id.0) else { continue };
        tensor.role = variable.tensor_role;
        tensor.axes = variable.axes.clone().filter(|axes| axes.len() == tensor.shape.rank());
        tensor.metadata.insert(ID, KEY_PATH, variable.path.as_str());
        if let Some(own) = variable.quantized.as_deref().filter(|_| !tensor.dtype.is_float()) {
            let of_kind = quantized.entry(describe_integers(own, files.version.as_deref(), tensor));
            of_kind.or_insert_with(|| (0, tensor.name.to_string())).0 += 1;
        }
        found.insert(variable.name.clone(), id);
    }
    let note = |(text, (count, first)): (String, (usize, String))| {
        format!("{} stored as integers, such as '{first}': {text}", ckpt_api::count(count, "tensor"))
    };
    contents.add_notes(quantized.into_iter().map(note));
    Bound { variables, ids: found }
}

/// Records what the integers of a tensor stand for, and returns it in words.
fn describe_integers(own: &Quantized, version: Option<&str>, tensor: &mut Tensor) -> String {
    tensor.metadata.insert(ID, KEY_WEIGHT, own.formula());
    let meaning = format!("a weight is {}", own.formula());
    if !own.is_packed() {
        return meaning;
    }
    match own.packed_axis(&tensor.shape, version) {
        Some(axis) => {
            tensor.metadata.insert(ID, KEY_PACKED_AXIS, axis as u64);
            format!("{meaning}; each byte has two along axis {axis}, the first one in its low bits")
        }
        None => format!("{meaning}; each byte has two, and the file does not show along which axis"),
    }
}
