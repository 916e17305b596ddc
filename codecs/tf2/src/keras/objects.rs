//! Writing an object graph.

use super::too_many;
use crate::format::OBJECT_GRAPH;
use crate::naming::Made;
use crate::proto::TrackableObjectGraph;
use crate::proto::trackable_object_graph::TrackableObject;
use crate::proto::trackable_object_graph::trackable_object::{
    ObjectReference, SerializedTensor, SlotVariableReference,
};
use ckpt_api::{DType, Result, Shape};
use prost::Message;

/// An object of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(i32);

/// An object graph in the making; its first object is the root.
#[derive(Debug)]
pub(super) struct Objects(Vec<TrackableObject>);

impl Objects {
    pub const ROOT: Id = Id(0);

    pub fn new() -> Self {
        Objects(vec![TrackableObject::default()])
    }

    /// A new object.
    pub fn add(&mut self) -> Result<Id> {
        let id = i32::try_from(self.0.len()).map_err(|_| too_many())?;
        self.0.push(TrackableObject::default());
        Ok(Id(id))
    }

    /// A new object that `parent` holds as `name`.
    pub fn child(&mut self, parent: Id, name: &str) -> Result<Id> {
        let child = self.add()?;
        self.link(parent, name, child);
        Ok(child)
    }

    /// Lets `parent` hold `child` as `name`.
    pub fn link(&mut self, parent: Id, name: &str, child: Id) {
        let reference = ObjectReference { node_id: child.0, local_name: name.to_owned() };
        self.at(parent, |node| node.children.push(reference));
    }

    /// A new variable that `parent` holds as `name`, called `full_name` and stored under `key`.
    pub fn variable(&mut self, parent: Id, name: &str, full_name: &str, key: &str) -> Result<Id> {
        let child = self.stored(full_name, key)?;
        self.link(parent, name, child);
        Ok(child)
    }

    /// A new variable that no object holds.
    pub fn stored(&mut self, full_name: &str, key: &str) -> Result<Id> {
        let id = self.add()?;
        let (full_name, checkpoint_key) = (full_name.to_owned(), key.to_owned());
        let value = SerializedTensor { name: "VARIABLE_VALUE".to_owned(), full_name, checkpoint_key };
        self.at(id, |node| node.attributes.push(value));
        Ok(id)
    }

    /// Says that `optimizer` keeps `slot` for `variable` as `name`.
    pub fn slot(&mut self, optimizer: Id, variable: Id, name: &str, slot: Id) {
        let reference = SlotVariableReference {
            original_variable_node_id: variable.0,
            slot_name: name.to_owned(),
            slot_variable_node_id: slot.0,
        };
        self.at(optimizer, |node| node.slot_variables.push(reference));
    }

    /// The entry that holds the graph.
    pub fn finish(self) -> Made {
        Made {
            key: OBJECT_GRAPH.as_bytes().to_vec(),
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
