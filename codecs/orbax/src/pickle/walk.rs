//! Walks through the dicts, lists and tuples of a pickle.

use super::array::{array, foreign};
use crate::tree::PathKey;
use ckpt_api::{Error, MetadataMap, MetadataValue, Result};
use ckpt_containers::pickle::numpy::Array;
use ckpt_containers::pickle::{Id, Object, Tree, Value};
use std::collections::HashMap;

/// Levels of containers, at most.
const MOST_LEVELS: usize = 128;

/// Dicts around a dict: a `FrozenDict` of an `OrderedDict`.
const MOST_LAYERS: usize = 4;

/// What is at the end of a path of keys.
pub(super) enum Found {
    Array(Array),
    Value(MetadataValue),
    /// What is none of these, and why it is refused.
    Foreign(Error),
}

/// Keys and values within a container that are still to come.
type Children = std::vec::IntoIter<(Key, Id)>;

enum Key {
    Text(PathKey),
    /// A key that has no text.
    Unknown,
}

/// Finds what is within the value of a pickle, in its order.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`] for containers within too many others, which one that holds itself is, and for ones that are
/// shared so often that their names take too much memory; [`ckpt_api::Kind::Corrupt`] for an array whose bytes do not fill
/// its shape.
pub(super) fn walk(tree: &Tree) -> Result<Vec<(Vec<PathKey>, Found)>> {
    let mut walk = Walk { tree, left: 8 * tree.pickle_bytes() + (1 << 16), found: Vec::new() };
    let mut path: Vec<PathKey> = Vec::new();
    let mut open: Vec<Children> = Vec::new();
    open.extend(walk.enter(&path, tree.root())?);
    while let Some(children) = open.last_mut() {
        let Some((key, id)) = children.next() else {
            open.pop();
            path.pop();
            continue;
        };
        match key {
            Key::Text(key) => path.push(key),
            Key::Unknown => {
                walk.found.push((path.clone(), Found::Foreign(unknown_key())));
                continue;
            }
        }
        match walk.enter(&path, id)? {
            None => drop(path.pop()),
            Some(_) if open.len() >= MOST_LEVELS => return Err(too_deep()),
            Some(children) => open.push(children),
        }
    }
    Ok(walk.found)
}

struct Walk<'a> {
    tree: &'a Tree,
    /// Bytes that names may still take, and values that may still be looked at.
    left: u64,
    found: Vec<(Vec<PathKey>, Found)>,
}

impl Walk<'_> {
    /// Adds a value; returns what is within it if it is a container.
    fn enter(&mut self, path: &[PathKey], id: Id) -> Result<Option<Children>> {
        self.spend(path.iter().map(|key| key.bytes() as u64).sum::<u64>())?;
        let tree = self.tree;
        let children = match tree.value(id) {
            Value::Tuple(list) | Value::List(list) => {
                self.spend(list.len() as u64)?;
                let positions = (0u64..).map(|at| Key::Text(PathKey::Position(at)));
                positions.zip(tree.items(list)).collect()
            }
            Value::Dict(_) => self.entries(id)?,
            Value::Object(object) if is_dict(tree, object) => self.entries(id)?,
            _ => {
                let found = self.leaf(id).map_err(|error| error.tensor(shown_path(path)))?;
                self.found.push((path.to_vec(), found));
                return Ok(None);
            }
        };
        if children.is_empty() {
            let empty = match tree.value(id) {
                Value::Tuple(_) | Value::List(_) => MetadataValue::List(Vec::new()),
                _ => MetadataValue::Map(MetadataMap::new()),
            };
            self.found.push((path.to_vec(), Found::Value(empty)));
            return Ok(None);
        }
        Ok(Some(children.into_iter()))
    }

    fn leaf(&mut self, id: Id) -> Result<Found> {
        let tree = self.tree;
        let value = match tree.value(id) {
            Value::None => MetadataValue::Null,
            Value::Bool(value) => value.into(),
            Value::Int(value) => value.into(),
            Value::Float(value) => value.into(),
            Value::Text(text) => {
                self.spend(text.len() as u64)?;
                text.into()
            }
            Value::Object(object) => {
                return Ok(match array(tree, object)? {
                    Some(array) => {
                        self.spend(array.cost())?;
                        Found::Array(array)
                    }
                    None => Found::Foreign(foreign(tree, id)),
                });
            }
            _ => return Ok(Found::Foreign(foreign(tree, id))),
        };
        Ok(Found::Value(value))
    }

    /// The entries of a dict: the last value of each key, where its first one stands, as in Python.
    fn entries(&mut self, id: Id) -> Result<Vec<(Key, Id)>> {
        let tree = self.tree;
        let mut layers = Vec::new();
        let mut next = Some(id);
        while let Some(id) = next.take().filter(|_| layers.len() < MOST_LAYERS) {
            layers.push(match tree.value(id) {
                Value::Dict(list) => list,
                Value::Object(object) if is_dict(tree, object) => {
                    next = given(tree, object);
                    object.entries
                }
                _ => break,
            });
        }
        let count: usize = layers.iter().map(|list| list.len()).sum();
        self.spend(count as u64)?;
        let mut all: Vec<(Key, Id)> = Vec::with_capacity(count / 2);
        let mut places: HashMap<String, usize> = HashMap::new();
        for (key, value) in layers.into_iter().rev().flat_map(|list| tree.entries(list)) {
            let Some(text) = text_of(tree, key) else {
                all.push((Key::Unknown, value));
                continue;
            };
            self.spend(text.len() as u64)?;
            let place = *places.entry(text.clone()).or_insert(all.len());
            match all.get_mut(place) {
                Some(entry) => entry.1 = value,
                None => all.push((Key::Text(PathKey::Name(text)), value)),
            }
        }
        Ok(all)
    }

    fn spend(&mut self, cost: u64) -> Result<()> {
        self.left = self.left.checked_sub(cost).ok_or_else(|| {
            Error::limit("containers of the pickle hold themselves, or are shared so often that their names take too much memory")
        })?;
        Ok(())
    }
}

/// Whether a call makes a dict, of its last argument and of the entries that are set later.
fn is_dict(tree: &Tree, object: Object) -> bool {
    matches!(
        tree.global(object.callable),
        Some(
            ("collections", "OrderedDict" | "defaultdict")
                | ("builtins" | "__builtin__", "dict")
                | ("flax.core.frozen_dict", "FrozenDict")
                | ("haiku._src.data_structures", "FlatMapping" | "FlatMap")
        )
    )
}

/// The dict that a dict is made of.
fn given(tree: &Tree, object: Object) -> Option<Id> {
    let Value::Tuple(arguments) = tree.value(object.arguments) else { return None };
    tree.last(arguments)
}

/// The text of a key.
fn text_of(tree: &Tree, key: Id) -> Option<String> {
    tree.text(key).map(str::to_owned).or_else(|| tree.int(key).map(|number| number.to_string()))
}

pub(super) fn shown_path(path: &[PathKey]) -> String {
    let parts = path.iter().map(|key| match key {
        PathKey::Position(at) => at.to_string(),
        PathKey::Name(name) => name.escape_debug().to_string(),
    });
    parts.collect::<Vec<String>>().join(".")
}

fn unknown_key() -> Error {
    Error::unsupported("a dict of the pickle has a key that is neither a text nor an integer")
}

fn too_deep() -> Error {
    Error::limit("the pickle has containers within too many others")
        .expected(format!("at most {MOST_LEVELS} levels"))
}
