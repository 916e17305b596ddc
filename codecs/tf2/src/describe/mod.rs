//! What a checkpoint's tensors are called, are for and mean, and which layers they make up.
//!
//! An index says keys, dtypes and shapes. The rest comes from what lies beside it: the object graph, a SavedModel's
//! functions, Keras 2's layer configuration. None of them is needed to read tensors, so what is wrong with them
//! becomes a note, never an error; only limits are errors.

mod axes;
mod chain;
mod functions;
mod keras;
mod layers;
mod names;
mod objects;
mod ops;
mod optimizers;
mod roles;
mod saved_model;
#[cfg(test)]
mod tests;

use crate::format::{OBJECT_GRAPH, VARIABLE_VALUE};
use chain::{Chain, Why};
use ckpt_api::{Axis, DType, Graph, Limits, Result, Role, Shape, Slot};
use objects::Objects;
use std::collections::BTreeMap;

/// In a tensor's metadata: which of an optimizer's numbers it is.
pub(crate) const OPTIMIZER_NUMBER: &str = "optimizer";

/// One tensor of the index.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    /// The key under which the index stores it.
    pub key: &'a str,
    /// Its element type.
    pub dtype: DType,
    /// Its whole shape.
    pub shape: &'a Shape,
}

/// What lies beside the index.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    /// The value of `_CHECKPOINTABLE_OBJECT_GRAPH`.
    pub object_graph: Option<&'a [u8]>,
    /// `saved_model.pb`.
    pub saved_model: Option<&'a [u8]>,
    /// Keras 2's `keras_metadata.pb`.
    pub keras_metadata: Option<&'a [u8]>,
    /// Whether the user says that the layers follow one another.
    pub chained: bool,
    /// The checkpoint's file, for errors.
    pub file: &'a str,
}

/// What is known about the tensors, by key.
#[derive(Debug, Default)]
pub(crate) struct Description {
    /// A name that people know, where it differs from the key. Unique over all entries, those without one included.
    pub names: BTreeMap<String, String>,
    /// Roles other than [`Role::Weight`].
    pub roles: BTreeMap<String, Role>,
    /// What axes mean.
    pub axes: BTreeMap<String, Vec<Axis>>,
    /// Optimizers' slots; their variables are keys.
    pub slots: BTreeMap<String, Slot>,
    /// Optimizers' numbers: `iteration`, `learning_rate`, `beta_1`, …
    pub numbers: BTreeMap<String, &'static str>,
    /// The layers, where they form a chain that is fully known; parameters are keys.
    pub graph: Option<Graph>,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// The entries by key: the list itself, which an index has in that order.
pub(super) struct Catalog<'a>(&'a [Entry<'a>]);

impl<'a> Catalog<'a> {
    /// `sorted` has room for another order: keys that are no UTF-8 are shown in another one than they are stored.
    fn new(entries: &'a [Entry<'a>], sorted: &'a mut Vec<Entry<'a>>) -> Self {
        if entries.is_sorted_by_key(|entry| entry.key) {
            return Catalog(entries);
        }
        sorted.extend_from_slice(entries);
        sorted.sort_by_key(|entry| entry.key);
        Catalog(sorted)
    }

    pub(super) fn get(&self, key: &str) -> Option<&Entry<'a>> {
        let found = self.0.binary_search_by_key(&key, |entry| entry.key).ok()?;
        self.0.get(found)
    }

    pub(super) fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }
}

/// Says all that the sources tell about `entries`.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`] for sources that are larger than `limits` allow.
pub(crate) fn describe(entries: &[Entry], sources: &Sources, limits: &Limits) -> Result<Description> {
    let mut notes = Vec::new();
    let mut sorted = Vec::new();
    let catalog = Catalog::new(entries, &mut sorted);
    let objects = match sources.object_graph {
        Some(bytes) => Objects::parse(bytes, limits, &mut notes).map_err(|error| error.file(sources.file))?,
        None => None,
    };
    let roles = roles::roles(entries, &catalog, objects.as_ref());
    let names = names::names(entries, &catalog, objects.as_ref(), &roles, limits)
        .map_err(|error| error.file(sources.file).field(OBJECT_GRAPH))?;
    let slots = optimizers::slots(entries, &catalog, objects.as_ref(), &names, limits)
        .map_err(|error| error.file(sources.file).field(OBJECT_GRAPH))?;
    let numbers = optimizers::numbers(entries, &catalog, objects.as_ref());
    let mut description = Description { names, roles, slots, numbers, notes, ..Description::default() };
    let chain = find_chain(&catalog, objects.as_ref(), sources, limits, &description.names)
        .map_err(|error| error.file(sources.file))?;
    match chain {
        Found::Chain(chain) => {
            description.notes.extend(chain.notes);
            description.axes = chain.axes;
            description.graph = Some(chain.graph);
        }
        Found::Unknown(why) => description.notes.push(why),
        Found::Nothing => {}
    }
    keep_what_the_graph_needs(&mut description);
    axes::label(entries, &catalog, objects.as_ref(), &description.slots, &mut description.axes);
    Ok(description)
}

enum Found {
    Chain(Chain),
    Unknown(String),
    Nothing,
}

/// The first source that states the layers decides: Keras 2's configuration, a SavedModel's functions, the objects.
fn find_chain(
    catalog: &Catalog,
    objects: Option<&Objects>,
    sources: &Sources,
    limits: &Limits,
    names: &BTreeMap<String, String>,
) -> Result<Found> {
    let Some(objects) = objects else { return Ok(Found::Nothing) };
    let context = chain::Context { catalog, names };
    let mut reasons = Vec::new();
    if let Some(bytes) = sources.keras_metadata {
        match keras::chain(bytes, objects, &context, limits)? {
            Ok(chain) => return Ok(Found::Chain(chain)),
            Err(why) => reasons.push(why),
        }
    }
    if let Some(bytes) = sources.saved_model {
        match saved_model::chain(bytes, objects, &context, limits)? {
            Ok(chain) => return Ok(Found::Chain(chain)),
            Err(why) => reasons.push(why),
        }
    }
    if reasons.is_empty() {
        match layers::chain(objects, &context, sources.chained, limits) {
            Ok(Some(chain)) => return Ok(Found::Chain(chain)),
            Ok(None) => return Ok(Found::Nothing),
            Err(why) => reasons.push(why),
        }
    }
    let reasons: Vec<String> = reasons.into_iter().map(|Why(why)| why).collect();
    Ok(Found::Unknown(format!(
        "the layers are not known as a chain: {}; tensors are complete, and --arch FILE can say the layers",
        reasons.join("; ")
    )))
}

/// A tensor that the graph names is the one to keep, whichever copy it is.
fn keep_what_the_graph_needs(description: &mut Description) {
    let Some(graph) = &description.graph else { return };
    for key in graph.nodes.iter().flat_map(|node| node.parameters.values()) {
        description.roles.remove(key);
    }
}

/// A key without the suffix that object-based checkpoints add.
pub(super) fn path(key: &str) -> &str {
    key.strip_suffix(VARIABLE_VALUE).unwrap_or(key)
}

/// What follows the last slash.
// By bytes: names are short, and there can be many thousand.
pub(super) fn last(path: &str) -> &str {
    let slash = path.bytes().rposition(|byte| byte == b'/');
    slash.and_then(|slash| path.get(slash + 1..)).unwrap_or(path)
}
