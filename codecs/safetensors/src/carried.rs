//! The JSON text under the key `ckpt`, which carries what safetensors itself cannot store.
//!
//! ```json
//! {"version": 1,
//!  "graph": {…},
//!  "metadata": {"nn": {…}, …},
//!  "tensors": [{"name": "fc1.weight", "shape": [784, 10], "axes": ["in", "out"], "role": "optimizer",
//!               "metadata": {"safetensors": {"logical_dtype": "i4"}}}, …]}
//! ```
//!
//! Every part is optional. Other tools may have edited the file since, so a part that no longer fits is left out with a
//! note. It is never an error.

use crate::format::{NAMESPACE, holder};
use ckpt_api::{
    Axis, Checkpoint, DType, Graph, Metadata, Name, Placement, Quantization, Role, Shape, Slot, Tensor,
};
use serde::ser::{Error as _, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// The key, in `__metadata__` of a file and in `metadata` of an index.
pub const KEY: &str = "ckpt";
const VERSION: u64 = 1;
/// Key of a tensor's metadata: the dtype that the tensor had before it was stored as a dtype of safetensors.
const LOGICAL_DTYPE: &str = "logical_dtype";

/// What is stored of a tensor, with its keys in alphabetical order, as all objects of the text have them.
#[derive(Debug, Serialize, Deserialize)]
struct Description {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    axes: Option<Box<[Axis]>>,
    #[serde(default, skip_serializing_if = "Metadata::is_empty", serialize_with = "sorted")]
    metadata: Metadata,
    name: Name,
    // Spelled as files have it since the first version.
    #[serde(
        default,
        rename = "quantisation",
        skip_serializing_if = "Option::is_none",
        serialize_with = "sorted"
    )]
    quantization: Option<Quantization>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    role: Option<Role>,
    /// The shape that `axes` describe; set if `axes` are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shape: Option<Shape>,
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "sorted")]
    slot: Option<Box<Slot>>,
}

/// The text, with its keys in alphabetical order.
#[derive(Serialize)]
struct Text {
    #[serde(skip_serializing_if = "Option::is_none")]
    graph: Option<Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    metadata: Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tensors: Vec<Description>,
    version: u64,
}

/// Writes a value with the keys of all its objects in alphabetical order.
fn sorted<S: Serializer>(value: &impl Serialize, serializer: S) -> Result<S::Ok, S::Error> {
    serde_json::to_value(value).map_err(S::Error::custom)?.serialize(serializer)
}

impl Description {
    fn of(tensor: &Tensor) -> Self {
        Description {
            name: tensor.name.clone(),
            shape: tensor.axes.as_ref().map(|_| tensor.shape.clone()),
            axes: tensor.axes.clone(),
            role: Some(tensor.role).filter(|role| *role != Role::Weight),
            quantization: tensor.quantization.clone(),
            slot: tensor.slot.clone(),
            metadata: metadata(tensor),
        }
    }
}

/// Returns the tensor's own metadata, with its original dtype if it is still stored as the dtype that replaced it.
fn metadata(tensor: &Tensor) -> Metadata {
    let mut metadata = tensor.metadata.clone();
    let stored = |dtype| holder(dtype, tensor.shape.elements());
    if stored(tensor.dtype) != Some(tensor.dtype) {
        metadata.insert(NAMESPACE, LOGICAL_DTYPE, tensor.dtype.name());
        return metadata;
    }
    let logical = metadata.text(NAMESPACE, LOGICAL_DTYPE).and_then(DType::from_name);
    let stale = logical.is_none_or(|logical| stored(logical) != Some(tensor.dtype));
    if let Some(mut own) = metadata.remove(NAMESPACE).filter(|own| !own.is_empty()) {
        if stale {
            own.remove(LOGICAL_DTYPE);
        }
        own.into_iter().for_each(|(key, value)| metadata.insert(NAMESPACE, &key, value));
    }
    metadata
}

/// Returns whether there is more to store than name, dtype and shape.
pub fn is_described(tensor: &Tensor) -> bool {
    tensor.axes.is_some()
        || tensor.role != Role::Weight
        || tensor.quantization.is_some()
        || tensor.slot.is_some()
        || !metadata(tensor).is_empty()
}

/// Returns whether the graph can be stored as JSON: all its numbers must be finite.
pub fn survives_json(graph: &Graph) -> bool {
    let text = serde_json::to_string(graph);
    text.ok().and_then(|text| serde_json::from_str::<Graph>(&text).ok()).is_some_and(|again| again == *graph)
}

/// Returns the text, or `None` if there is nothing to store. `tensors` is empty if neither their order nor anything
/// about them must be stored.
pub fn write(graph: Option<&Graph>, metadata: Map<String, Value>, tensors: &[&Tensor]) -> Option<String> {
    let graph = graph.and_then(|graph| serde_json::to_value(graph).ok());
    if graph.is_none() && metadata.is_empty() && tensors.is_empty() {
        return None;
    }
    let tensors = tensors.iter().map(|tensor| Description::of(tensor)).collect();
    // Without a value in between for each tensor, of which there can be a million. Such parts always have a JSON form.
    serde_json::to_string(&Text { graph, metadata, tensors, version: VERSION }).ok()
}

/// The parsed text, with the parts that could be parsed.
#[derive(Debug, Default)]
pub struct Carried {
    graph: Option<Graph>,
    metadata: Metadata,
    tensors: Vec<Description>,
    notes: Vec<String>,
}

impl Carried {
    /// Parses the text; `None` if another program or a later version wrote it.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts: Map<String, Value> = serde_json::from_str(text).ok()?;
        if parts.get("version").and_then(Value::as_u64) != Some(VERSION) {
            return None;
        }
        let mut notes = Vec::new();
        Some(Carried {
            graph: part(&mut parts, "graph", &mut notes),
            metadata: part(&mut parts, "metadata", &mut notes).unwrap_or_default(),
            tensors: part(&mut parts, "tensors", &mut notes).unwrap_or_default(),
            notes,
        })
    }

    /// Adds the carried parts that still fit to a checkpoint. Metadata that was read from the file has priority over
    /// carried metadata.
    pub fn restore(
        mut self,
        checkpoint: &mut Checkpoint,
        placements: &mut Vec<Placement>,
        notes: &mut Vec<String>,
    ) {
        notes.append(&mut self.notes);
        if !self.tensors.is_empty() {
            restore_tensors(self.tensors, checkpoint, placements, notes);
        }
        if let Some(graph) = self.graph {
            let names: HashSet<&str> = checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
            let missing = graph.tensors().find(|name| !names.contains(name));
            let why = match missing {
                Some(name) => Some(format!("it uses the tensor '{name}', which is missing")),
                None => graph.check().err().map(|error| error.to_string()),
            };
            match why {
                Some(why) => notes.push(format!("the graph under the key '{KEY}' is left out: {why}")),
                None => checkpoint.graph = Some(graph),
            }
        }
        let read = std::mem::replace(&mut checkpoint.metadata, self.metadata);
        for (namespace, map) in read.iter() {
            for (key, value) in map.iter() {
                checkpoint.metadata.insert(namespace, key, value.clone());
            }
        }
    }
}

fn part<T: serde::de::DeserializeOwned>(
    parts: &mut Map<String, Value>,
    name: &str,
    notes: &mut Vec<String>,
) -> Option<T> {
    match serde_json::from_value(parts.remove(name)?) {
        Ok(value) => Some(value),
        Err(error) => {
            notes.push(format!("'{name}' under the key '{KEY}' is not understood and left out: {error}"));
            None
        }
    }
}

/// Restores order, axes, roles, quantization and slots. Tensors without a description come last.
fn restore_tensors(
    described: Vec<Description>,
    checkpoint: &mut Checkpoint,
    placements: &mut Vec<Placement>,
    notes: &mut Vec<String>,
) {
    let mut known: HashMap<Name, (usize, Description)> = HashMap::with_capacity(described.len());
    for (rank, description) in described.into_iter().enumerate() {
        known.insert(description.name.clone(), (rank, description));
    }
    let mut changed = Vec::new();
    let tensors = std::mem::take(&mut checkpoint.tensors);
    let mut ranked = Vec::with_capacity(tensors.len());
    for (mut tensor, placement) in tensors.into_iter().zip(placements.drain(..)) {
        let rank = match known.remove(&tensor.name) {
            Some((rank, description)) => {
                if !describe(&mut tensor, description) {
                    changed.push(tensor.name.to_string());
                }
                rank
            }
            None => usize::MAX,
        };
        ranked.push((rank, tensor, placement));
    }
    let new =
        ranked.iter().filter(|(rank, ..)| *rank == usize::MAX).map(|(_, tensor, _)| tensor.name.to_string());
    let new = new.collect();
    let gone = known.into_keys().map(String::from).collect();
    ranked.sort_by_key(|(rank, ..)| *rank);
    for (id, (_, tensor, mut placement)) in ranked.into_iter().enumerate() {
        placement.tensor = ckpt_api::TensorId(id);
        checkpoint.tensors.push(tensor);
        placements.push(placement);
    }
    forget_slots(checkpoint);
    note(notes, "no longer have the shape that their axes or scales describe", changed);
    note(notes, "were added since", new);
    note(notes, "were removed since", gone);
}

/// Removes slots of variables that no longer exist.
fn forget_slots(checkpoint: &mut Checkpoint) {
    let names: HashSet<Name> = checkpoint.tensors.iter().map(|tensor| tensor.name.clone()).collect();
    for tensor in &mut checkpoint.tensors {
        tensor.slot = tensor.slot.take().filter(|slot| names.contains(&slot.variable));
    }
}

/// Returns whether the description still fits the tensor.
fn describe(tensor: &mut Tensor, description: Description) -> bool {
    tensor.role = description.role.unwrap_or_default();
    let scales_fit = description.quantization.as_ref().is_none_or(|own| own.fits(&tensor.shape));
    tensor.quantization = description.quantization.filter(|_| scales_fit);
    tensor.slot = description.slot;
    tensor.metadata = description.metadata;
    tensor.metadata = metadata(tensor);
    restore_dtype(tensor);
    let fits = description.shape.as_ref().is_none_or(|shape| *shape == tensor.shape)
        && description.axes.as_ref().is_none_or(|axes| axes.len() == tensor.shape.rank());
    if fits {
        tensor.axes = description.axes;
    }
    fits && scales_fit
}

/// Gives a tensor its original dtype. The encoding keeps the dtype that is stored, in which other tools may have stored
/// other values since: casting refuses those that the original dtype lacks.
fn restore_dtype(tensor: &mut Tensor) {
    let logical = tensor.metadata.text(NAMESPACE, LOGICAL_DTYPE).and_then(DType::from_name);
    let is_held = |logical: &DType| {
        *logical != tensor.dtype && holder(*logical, tensor.shape.elements()) == Some(tensor.dtype)
    };
    let Some(logical) = logical.filter(is_held) else { return };
    tensor.dtype = logical;
    if let Some(mut own) = tensor.metadata.remove(NAMESPACE) {
        own.remove(LOGICAL_DTYPE);
        own.into_iter().for_each(|(key, value)| tensor.metadata.insert(NAMESPACE, &key, value));
    }
}

fn note(notes: &mut Vec<String>, what: &str, mut names: Vec<String>) {
    names.sort();
    if let Some(first) = names.first() {
        notes.push(format!(
            "{} of the tensors described under the key '{KEY}' {what}, first '{first}'",
            names.len()
        ));
    }
}
