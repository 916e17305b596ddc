//! The object graph: `TrackableObjectGraph` with its references checked.

use crate::format::OBJECT_GRAPH;
use crate::proto::TrackableObjectGraph;
use crate::wire::{self, Nested};
use ckpt_api::{Limits, Result};
use prost::Message;
use std::collections::VecDeque;

const FIELDS: &[Nested] = &[Nested(1, &[Nested(1, &[]), Nested(2, &[]), Nested(3, &[])])];

/// Objects by number; 0 is the root, and every reference names an object that exists.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub nodes: Vec<Object>,
}

/// One object.
#[derive(Debug, Default)]
pub(super) struct Object {
    /// Name and number of each object it holds, sorted by name, each name once.
    pub children: Vec<(String, usize)>,
    /// What the checkpoint stores of it.
    pub values: Vec<Stored>,
    /// An optimizer's variables, one per variable it trains.
    pub slots: Vec<Slot>,
}

/// One stored value of an object.
#[derive(Debug)]
pub(super) struct Stored {
    /// `VARIABLE_VALUE` for a variable.
    pub attribute: String,
    /// The variable's own name.
    pub full_name: String,
    /// Where the index has it.
    pub key: String,
}

/// An optimizer's variable beside the one it trains.
#[derive(Debug)]
pub(super) struct Slot {
    pub original: usize,
    pub name: String,
    pub slot: usize,
}

impl Objects {
    /// Parses the value of `_CHECKPOINTABLE_OBJECT_GRAPH`. Without a graph that can be parsed: a note and `None`.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`].
    pub fn parse(bytes: &[u8], limits: &Limits, notes: &mut Vec<String>) -> Result<Option<Self>> {
        wire::check_size(bytes, FIELDS, limits).map_err(|error| error.field(OBJECT_GRAPH))?;
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
                "the object graph names {missing} object(s) that it has not; they are ignored"
            ));
        }
        Ok(Some(Objects { nodes }))
    }

    /// The object called `name` within `id`.
    pub fn child(&self, id: usize, name: &str) -> Option<usize> {
        let children = &self.nodes.get(id)?.children;
        let found = children.binary_search_by(|(child, _)| child.as_str().cmp(name)).ok()?;
        children.get(found).map(|(_, id)| *id)
    }

    /// The children of `id` with their names.
    pub fn children(&self, id: usize) -> impl Iterator<Item = (&str, usize)> {
        self.nodes.get(id).into_iter().flat_map(|node| &node.children).map(|(name, id)| (name.as_str(), *id))
    }

    /// The children of `id` that are called `prefix0`, `prefix1`, …, by number.
    pub fn numbered(&self, id: usize, prefix: &str) -> Vec<usize> {
        let mut items: Vec<(u64, usize)> = self
            .children(id)
            .filter_map(|(name, child)| Some((name.strip_prefix(prefix)?.parse().ok()?, child)))
            .collect();
        items.sort_unstable();
        items.into_iter().map(|(_, child)| child).collect()
    }

    /// The value of `id`, if it is a variable.
    pub fn variable(&self, id: usize) -> Option<&Stored> {
        self.nodes.get(id)?.values.iter().find(|value| Self::is_variable(value))
    }

    /// Whether `value` is a variable's, not one of several that an object (a table, a saver) stores.
    pub fn is_variable(value: &Stored) -> bool {
        value.attribute == "VARIABLE_VALUE"
    }

    /// All stored values with their object.
    pub fn values(&self) -> impl Iterator<Item = (usize, &Stored)> {
        let nodes = self.nodes.iter().enumerate();
        nodes.flat_map(|(id, node)| node.values.iter().map(move |value| (id, value)))
    }

    /// Which objects a walk from `start` reaches, breadth first, along edges (parent, name, child) that `follow` allows.
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
        .map(|value| Stored { attribute: value.name, full_name: value.full_name, key: value.checkpoint_key })
        .collect();
    let slots = node
        .slot_variables
        .into_iter()
        .filter_map(|slot| {
            let (original, variable) = (id(slot.original_variable_node_id), id(slot.slot_variable_node_id));
            Some(Slot { original: original?, name: slot.slot_name, slot: variable? })
        })
        .collect();
    Object { children, values, slots }
}
