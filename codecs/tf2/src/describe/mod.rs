//! Infers names, roles and axes of a checkpoint's tensors, and the graph of its layers.
//!
//! An index has keys, dtypes and shapes. The rest comes from other sources: the object graph, a SavedModel's functions,
//! Keras 2's layer configuration. Tensors can be read without them, so a defect in a source becomes a note and not an
//! error; only a source that exceeds a limit is an error.

mod axes;
mod frozen;
mod keras_metadata;
mod momentum;
mod names;
mod object_layers;
pub(crate) mod objects;
mod optimizers;
pub(crate) mod roles;
mod saved_model;
#[cfg(test)]
mod tests;

use crate::format::OBJECT_GRAPH;
use catalog::Catalog;
pub(crate) use catalog::{GraphConstant, TensorInfo};
use chain::Chain;
use ckpt_api::{Axis, Graph, Limits, MissingGraph, Result, Role, Slot, Text};
pub(crate) use ckpt_tf_graph::{catalog, chain, dag, no_chain, node};
pub(crate) use frozen::{add_frozen, operation};
use objects::Objects;
use prost::bytes::Bytes;
use std::collections::BTreeMap;

/// Metadata key of a tensor that is one of an optimizer's numbers; the value is the number's name.
pub(crate) const OPTIMIZER_NUMBER: &str = "optimizer";

/// Metadata key of a checkpoint whose model contains models, or other layers that contain layers; the value is `true`.
pub(crate) const NESTED: &str = "nested_models";

/// The sources of a description.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    /// The serialized object graph.
    pub object_graph: Option<&'a [u8]>,
    /// Contents of `saved_model.pb`.
    pub saved_model: Option<&'a Bytes>,
    /// Contents of `PREFIX.meta`, and the operations whose results the model returns, if the user names them.
    pub meta_graph: Option<(&'a Bytes, Option<&'a [&'a str]>)>,
    /// Contents of Keras 2's `keras_metadata.pb`.
    pub keras_metadata: Option<&'a [u8]>,
    /// Whether the layers of a functional model are assumed to form a chain.
    pub assume_chain: bool,
    /// Name of the index file, for errors.
    pub file: &'a str,
}

/// What was inferred about the tensors, by key.
#[derive(Debug, Default)]
pub(crate) struct Description {
    /// Names of variables that differ from their keys. No two tensors have the same name, or a name that is another's
    /// key.
    pub names: BTreeMap<String, String>,
    /// Roles other than [`Role::Weight`].
    pub roles: BTreeMap<String, Role>,
    /// Meanings of axes.
    pub axes: BTreeMap<String, Vec<Axis>>,
    /// Slots of optimizers. Their variables are keys.
    pub slots: BTreeMap<String, Slot>,
    /// Names of optimizers' numbers: `iteration`, `learning_rate`, `beta_1`, …
    pub numbers: BTreeMap<String, &'static str>,
    /// The layers, if they form a chain that is fully known. Parameters are keys.
    pub graph: Option<Graph>,
    /// Constants that the graph has as weights.
    pub constants: Vec<GraphConstant>,
    /// Whether layers of the chain are within other layers.
    pub is_nested: bool,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Notes on what the graph assumes or does not show.
    pub graph_notes: Vec<String>,
    /// Why there is no graph, if there are layers.
    pub missing_graph: Option<MissingGraph>,
}

/// Infers a description of `tensors` from the sources.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`] for sources that are larger than `limits` allow.
pub(crate) fn describe(tensors: &[TensorInfo], sources: &Sources, limits: &Limits) -> Result<Description> {
    let mut notes = Vec::new();
    let mut sorted = Vec::new();
    let catalog = Catalog::new(tensors, &mut sorted);
    let objects = match sources.object_graph {
        Some(bytes) => Objects::parse(bytes, limits, &mut notes).map_err(|error| error.file(sources.file))?,
        None => None,
    };
    let roles = roles::roles(tensors, &catalog, objects.as_ref());
    let names = names::names(tensors, &catalog, objects.as_ref(), &roles, limits)
        .map_err(|error| error.file(sources.file).field(OBJECT_GRAPH))?;
    let slots = optimizers::slots(tensors, &catalog, objects.as_ref(), &names, limits)
        .map_err(|error| error.file(sources.file).field(OBJECT_GRAPH))?;
    let numbers = optimizers::numbers(tensors, &catalog, objects.as_ref());
    let mut description = Description { names, roles, slots, numbers, notes, ..Description::default() };
    let chain = find_chain(&catalog, objects.as_ref(), sources, limits, &description.names)
        .map_err(|error| error.file(sources.file))?;
    match chain {
        Found::Chain(mut chain) => {
            momentum::state(&mut chain.graph, objects.as_ref(), sources.keras_metadata);
            description.graph_notes = chain.notes;
            description.axes = chain.axes;
            description.graph = Some(chain.graph);
            description.constants = chain.constants;
            description.is_nested = chain.is_nested;
        }
        Found::Unknown(missing) => description.missing_graph = Some(missing),
        Found::Nothing => {}
    }
    keep_weights_of_the_graph(&mut description);
    axes::label(tensors, &catalog, objects.as_ref(), &description.slots, &mut description.axes);
    Ok(description)
}

/// The result of the search for a chain.
enum Found {
    Chain(Chain),
    /// There are layers, but no chain.
    Unknown(MissingGraph),
    /// Nothing looks like a model.
    Nothing,
}

/// Reads the chain from the first source that has one: Keras 2's configuration, a SavedModel's functions, the object
/// graph.
fn find_chain(
    catalog: &Catalog,
    objects: Option<&Objects>,
    sources: &Sources,
    limits: &Limits,
    names: &BTreeMap<String, String>,
) -> Result<Found> {
    let file = sources.saved_model.or(sources.meta_graph.map(|(bytes, _)| bytes));
    let context = chain::Context { catalog, names, file: file.map_or(&[], |bytes| &bytes[..]) };
    let mut reasons = Vec::new();
    if let (Some(bytes), Some(objects)) = (sources.keras_metadata, objects) {
        match keras_metadata::chain(bytes, objects, &context, limits)? {
            Ok(chain) => return Ok(Found::Chain(chain)),
            Err(reason) => reasons.push(reason),
        }
    }
    if let Some(bytes) = sources.saved_model {
        match saved_model::chain(bytes, objects, &context, limits)? {
            Ok(chain) => return Ok(Found::Chain(chain)),
            Err(reason) => reasons.push(reason),
        }
    }
    if let Some((bytes, outputs)) = sources.meta_graph {
        match frozen::meta_graph(bytes, outputs, &context, limits)? {
            Ok(chain) => return Ok(Found::Chain(chain)),
            Err(reason) => reasons.push(reason),
        }
    }
    if let (true, Some(objects)) = (reasons.is_empty(), objects) {
        match object_layers::chain(objects, &context, sources.assume_chain, limits) {
            Ok(Some(chain)) => return Ok(Found::Chain(chain)),
            Ok(None) => return Ok(Found::Nothing),
            Err(reason) => reasons.push(reason),
        }
    }
    if reasons.is_empty() {
        return Ok(Found::Nothing);
    }
    let is_unstated = reasons.iter().all(|reason| reason.is_unstated);
    let reason = Text::join(reasons.into_iter().map(|reason| reason.reason), "; ");
    Ok(Found::Unknown(MissingGraph { reason, is_unstated, help: None }))
}

/// Makes each tensor of the graph a weight, even if it was taken for the duplicate of another.
fn keep_weights_of_the_graph(description: &mut Description) {
    let Some(graph) = &description.graph else { return };
    for key in graph.nodes.iter().flat_map(|node| node.parameters.values()) {
        description.roles.remove(key);
    }
}
