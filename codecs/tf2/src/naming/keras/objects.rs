//! Builds an object graph.

use crate::format::OBJECT_GRAPH;
use crate::naming::ExtraEntry;
use crate::proto::TrackableObjectGraph;
use crate::proto::trackable_object_graph::TrackableObject;
use crate::proto::trackable_object_graph::trackable_object::{
    ObjectReference, SerializedTensor, SlotVariableReference,
};
use ckpt_api::{DType, Error, Result, Shape, TensorId};
use prost::Message;
use std::collections::HashMap;

/// The objects of the model's variables, with their paths: keys without their suffix.
pub(super) type StoredVariables = HashMap<TensorId, (Id, String)>;

/// The number of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(i32);

/// An object graph under construction. The first object is the root.
#[derive(Debug)]
pub(super) struct Objects(Vec<TrackableObject>);

impl Objects {
    pub const ROOT: Id = Id(0);

    pub fn new() -> Self {
        Objects(vec![TrackableObject::default()])
    }

    /// Adds an object.
    pub fn add(&mut self) -> Result<Id> {
        let id = i32::try_from(self.0.len()).map_err(|_| too_many())?;
        self.0.push(TrackableObject::default());
        Ok(Id(id))
    }

    /// Adds an object as the child `name` of `parent`.
    pub fn child(&mut self, parent: Id, name: &str) -> Result<Id> {
        let child = self.add()?;
        self.link(parent, name, child);
        Ok(child)
    }

    /// Makes `child` the child `name` of `parent`.
    pub fn link(&mut self, parent: Id, name: &str, child: Id) {
        let reference = ObjectReference { node_id: child.0, local_name: name.to_owned() };
        self.at(parent, |node| node.children.push(reference));
    }

    /// Adds a variable, stored under `key`, as the child `name` of `parent`.
    pub fn variable(&mut self, parent: Id, name: &str, full_name: &str, key: &str) -> Result<Id> {
        let child = self.stored(full_name, key)?;
        self.link(parent, name, child);
        Ok(child)
    }

    /// Adds a variable, stored under `key`, without a parent.
    pub fn stored(&mut self, full_name: &str, key: &str) -> Result<Id> {
        let id = self.add()?;
        let (full_name, checkpoint_key) = (full_name.to_owned(), key.to_owned());
        let value = SerializedTensor { name: "VARIABLE_VALUE".to_owned(), full_name, checkpoint_key };
        self.at(id, |node| node.attributes.push(value));
        Ok(id)
    }

    /// Makes `slot` the slot `name` of `variable` in `optimizer`.
    pub fn slot(&mut self, optimizer: Id, variable: Id, name: &str, slot: Id) {
        let reference = SlotVariableReference {
            original_variable_node_id: variable.0,
            slot_name: name.to_owned(),
            slot_variable_node_id: slot.0,
        };
        self.at(optimizer, |node| node.slot_variables.push(reference));
    }

    /// Returns the entry of the object graph.
    pub fn finish(self) -> ExtraEntry {
        ExtraEntry {
            key: OBJECT_GRAPH.into(),
            dtype: DType::String,
            shape: Shape::scalar(),
            value: TrackableObjectGraph { nodes: self.0 }.encode_to_vec(),
        }
    }

    fn at(&mut self, id: Id, change: impl FnOnce(&mut TrackableObject)) {
        let node = usize::try_from(id.0).ok().and_then(|id| self.0.get_mut(id));
        node.map(change);
    }
}

fn too_many() -> Error {
    Error::unsupported("the graph has more layers than an object graph can have")
}
