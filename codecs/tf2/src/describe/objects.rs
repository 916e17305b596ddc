//! The parsed object graph.

use crate::format::OBJECT_GRAPH;
use crate::proto::TrackableObjectGraph;
use ckpt_api::{Limits, Result};
use ckpt_containers::protobuf::{self, Nested};
use prost::Message;
use std::collections::VecDeque;

const FIELDS: &[Nested] = &[Nested(1, &[Nested(1, &[]), Nested(2, &[]), Nested(3, &[])])];

/// A `TrackableObjectGraph`. Object 0 is the root, and each reference names an object that exists.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub nodes: Vec<Object>,
}

/// One object.
#[derive(Debug, Default)]
pub(crate) struct Object {
    /// Name and number of each child, sorted by name. Names are unique.
    pub children: Vec<(String, usize)>,
    /// Values that the checkpoint stores for the object.
    pub values: Vec<StoredValue>,
    /// For an optimizer, its slot variables.
    pub slots: Vec<SlotVariable>,
}

/// A value that the checkpoint stores for an object.
#[derive(Debug)]
pub(crate) struct StoredValue {
    /// Name of the attribute: `VARIABLE_VALUE` for a variable.
    pub attribute: String,
    /// Full name of the variable.
    pub full_name: String,
    /// Key in the index.
    pub key: String,
}

/// A slot variable: what an optimizer keeps for one variable.
#[derive(Debug)]
pub(crate) struct SlotVariable {
    /// Object of the trained variable.
    pub original: usize,
    /// Name of the slot, such as `m`.
    pub name: String,
    /// Object of the slot variable.
    pub slot: usize,
}

impl Objects {
    /// Parses the serialized object graph. Returns `None` and adds a note if that fails.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`].
    pub fn parse(bytes: &[u8], limits: &Limits, notes: &mut Vec<String>) -> Result<Option<Self>> {
        protobuf::check_size(bytes, FIELDS, limits).map_err(|error| error.field(OBJECT_GRAPH))?;
        let graph = match TrackableObjectGraph::decode(bytes) {
            Ok(graph) if !graph.nodes.is_empty() => graph,
            Ok(_) => return Ok(None),
            Err(error) => {
                notes.push(format!(
                    "the object graph cannot be parsed ({error}): names, roles and layers are unknown"
                ));
                return Ok(None);
            }
        };
        let total = graph.nodes.len();
        let mut missing = 0usize;
        let mut id = |number: i32| {
            let id = usize::try_from(number).ok().filter(|id| *id < total);
            missing += usize::from(id.is_none());
            id
        };
        let nodes = graph.nodes.into_iter().map(|node| object(node, &mut id)).collect();
        if missing > 0 {
            notes.push(format!(
                "the object graph refers to objects that do not exist: ignored {}",
                ckpt_api::count(missing, "reference")
            ));
        }
        Ok(Some(Objects { nodes }))
    }

    /// Returns the child `name` of an object.
    pub fn child(&self, id: usize, name: &str) -> Option<usize> {
        let children = &self.nodes.get(id)?.children;
        let found = children.binary_search_by(|(child, _)| child.as_str().cmp(name)).ok()?;
        children.get(found).map(|(_, id)| *id)
    }

    /// Returns the names and numbers of an object's children.
    pub fn children(&self, id: usize) -> impl Iterator<Item = (&str, usize)> {
        self.nodes.get(id).into_iter().flat_map(|node| &node.children).map(|(name, id)| (name.as_str(), *id))
    }

    /// Returns the children named `prefix0`, `prefix1`, …, in the order of these numbers.
    pub fn numbered(&self, id: usize, prefix: &str) -> Vec<usize> {
        let mut items: Vec<(u64, usize)> = self
            .children(id)
            .filter_map(|(name, child)| Some((name.strip_prefix(prefix)?.parse().ok()?, child)))
            .collect();
        items.sort_unstable();
        items.into_iter().map(|(_, child)| child).collect()
    }

    /// Returns the value of an object that is a variable.
    pub fn variable(&self, id: usize) -> Option<&StoredValue> {
        self.nodes.get(id)?.values.iter().find(|value| Self::is_variable(value))
    }

    /// Whether `value` is that of a variable. Other objects (tables, savers) store several.
    pub fn is_variable(value: &StoredValue) -> bool {
        value.attribute == "VARIABLE_VALUE"
    }

    /// Returns all stored values with the numbers of their objects.
    pub fn values(&self) -> impl Iterator<Item = (usize, &StoredValue)> {
        let nodes = self.nodes.iter().enumerate();
        nodes.flat_map(|(id, node)| node.values.iter().map(move |value| (id, value)))
    }

    /// Returns for each object whether it can be reached from `start` along edges (parent, name, child) that `follow`
    /// allows.
    pub fn reach(
        &self,
        start: impl IntoIterator<Item = usize>,
        follow: impl Fn(usize, &str, usize) -> bool,
    ) -> Vec<bool> {
        let mut seen = vec![false; self.nodes.len()];
        let mut queue = VecDeque::new();
        for id in start {
            if seen.get_mut(id).is_some_and(|seen| !std::mem::replace(seen, true)) {
                queue.push_back(id);
            }
        }
        while let Some(id) = queue.pop_front() {
            for (name, child) in self.children(id) {
                if !seen[child] && follow(id, name, child) {
                    seen[child] = true;
                    queue.push_back(child);
                }
            }
        }
        seen
    }
}

fn object(
    node: crate::proto::trackable_object_graph::TrackableObject,
    id: &mut impl FnMut(i32) -> Option<usize>,
) -> Object {
    let children = node.children.into_iter().filter_map(|child| Some((child.local_name, id(child.node_id)?)));
    let mut children: Vec<(String, usize)> = children.collect();
    children.sort_unstable();
    children.dedup_by(|later, first| later.0 == first.0);
    let values = node
        .attributes
        .into_iter()
        .map(|value| StoredValue {
            attribute: value.name,
            full_name: value.full_name,
            key: value.checkpoint_key,
        })
        .collect();
    let slots = node
        .slot_variables
        .into_iter()
        .filter_map(|slot| {
            let (original, variable) = (id(slot.original_variable_node_id), id(slot.slot_variable_node_id));
            Some(SlotVariable { original: original?, name: slot.slot_name, slot: variable? })
        })
        .collect();
    Object { children, values, slots }
}
