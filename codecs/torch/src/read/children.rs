//! What lies within a value, by name: the items of containers, the tensors of modules, the fields of objects.

use super::rebuild::is_tensor;
use crate::pickle::{Id, Object, Tree, Value};
use ckpt_api::{Error, Result};
use std::collections::{HashMap, HashSet};

/// The name of a value within another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Key(Id),
    Index(usize),
}

/// What a value is, for naming what lies within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// Nothing lies within it.
    Leaf,
    /// A dict, list, tuple, set, or one of the dicts of Python's library.
    Container,
    /// A pickled module: within it lies what its state dict has.
    Module,
    /// A call of a class or function that this crate does not know; within it lies what it is given.
    Foreign,
}

/// Returns what a value is.
pub(crate) fn sort(tree: &Tree, id: Id) -> Sort {
    match tree.value(id) {
        Value::Tuple(_) | Value::List(_) | Value::Set(_) | Value::Dict(_) => Sort::Container,
        Value::Object(object) if is_tensor(tree, object) || tree.is_attribute(object) => Sort::Leaf,
        Value::Object(object) if is_dict(tree, object) => Sort::Container,
        Value::Object(object) if is_module(tree, object) => Sort::Module,
        Value::Object(_) => Sort::Foreign,
        _ => Sort::Leaf,
    }
}

/// Whether a call makes a dict, whose entries later opcodes set.
pub(crate) fn is_dict(tree: &Tree, object: Object) -> bool {
    matches!(
        tree.global(object.callable),
        Some(
            ("collections", "OrderedDict" | "Counter" | "defaultdict") | ("builtins" | "__builtin__", "dict")
        )
    )
}

fn is_module(tree: &Tree, object: Object) -> bool {
    let is_script = tree.callable(object).is_some_and(|(module, _)| module.starts_with("__torch__"));
    is_script || object.state.is_some_and(|state| tree.entry(state, "_modules").is_some())
}

/// Returns what lies within a value.
pub(crate) fn children(tree: &Tree, id: Id) -> Vec<(Part, Id)> {
    let indexed = |list| tree.items(list).enumerate().map(|(index, id)| (Part::Index(index), id)).collect();
    match tree.value(id) {
        Value::Tuple(list) | Value::List(list) | Value::Set(list) => indexed(list),
        Value::Dict(list) => keyed(tree, tree.entries(list)),
        Value::Object(object) => match sort(tree, id) {
            Sort::Leaf => Vec::new(),
            Sort::Module => module(tree, object),
            Sort::Container => dict(tree, object),
            Sort::Foreign => foreign(tree, object),
        },
        _ => Vec::new(),
    }
}

/// How many values [`children`] looks at. What several values share counts for each of them.
pub(crate) fn cost(tree: &Tree, id: Id) -> usize {
    let Value::Object(object) = tree.value(id) else { return len(tree, id) };
    let state = object.state.map_or(0, |state| match tree.tuple::<2>(state) {
        Some(parts) => parts.iter().map(|part| len(tree, *part)).sum(),
        None => len(tree, state),
    });
    let given = match tree.value(object.arguments) {
        Value::Tuple(list) => tree.last(list).map_or(0, |given| len(tree, given)),
        _ => 0,
    };
    let arguments = len(tree, object.arguments) + len(tree, object.keywords);
    object.items.len() + object.entries.len() + arguments + given + state
}

/// Values of a container, keys apart.
fn len(tree: &Tree, id: Id) -> usize {
    match tree.value(id) {
        Value::Tuple(list) | Value::List(list) | Value::Set(list) | Value::Dict(list) => list.len(),
        _ => 0,
    }
}

/// What may be looked at in one pickle: four times what a pickle of its size has, if none of it is shared.
#[derive(Debug)]
pub(crate) struct Work {
    left: u64,
}

impl Work {
    pub(crate) fn new(tree: &Tree) -> Self {
        Work { left: 4 * tree.pickle_bytes() + (1 << 16) }
    }

    /// Takes the cost of looking at a value.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`] if values share others so often that this would take too long.
    pub(crate) fn take(&mut self, tree: &Tree, id: Id) -> Result<()> {
        self.spend(tree, cost(tree, id) as u64)
    }

    /// Takes a cost.
    ///
    /// # Errors
    /// See [`Work::take`].
    pub(crate) fn spend(&mut self, tree: &Tree, cost: u64) -> Result<()> {
        self.left = self.left.checked_sub(cost).ok_or_else(|| {
            Error::limit("containers of the pickle are shared so often that reading them takes too long")
                .expected(format!("containers with {} values in all", 4 * tree.pickle_bytes() + (1 << 16)))
        })?;
        Ok(())
    }
}

/// Entries by key: the last value of each, where its first one stands, as in Python.
fn keyed(tree: &Tree, entries: impl Iterator<Item = (Id, Id)>) -> Vec<(Part, Id)> {
    let count = entries.size_hint().1.unwrap_or(0);
    let mut all: Vec<(Part, Id)> = Vec::with_capacity(count);
    let mut places: HashMap<Key<'_>, usize> = HashMap::with_capacity(count);
    for (key, value) in entries {
        let place = *places.entry(Key::new(tree, key)).or_insert(all.len());
        match all.get_mut(place) {
            Some(entry) => entry.1 = value,
            None => all.push((Part::Key(key), value)),
        }
    }
    all
}

/// A key that Python compares by its value.
#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Text(&'a [u8]),
    Int(i64),
    Other(Id),
}

impl<'a> Key<'a> {
    fn new(tree: &'a Tree, id: Id) -> Self {
        match (tree.text_bytes(id), tree.int(id)) {
            (Some(text), _) => Key::Text(text),
            (None, Some(number)) => Key::Int(number),
            (None, None) => Key::Other(id),
        }
    }
}

/// The entries of a dict that a call makes, of its argument first.
fn dict(tree: &Tree, object: Object) -> Vec<(Part, Id)> {
    let given = match tree.value(object.arguments) {
        Value::Tuple(list) => tree.items(list).last(),
        _ => None,
    };
    let mut entries = Vec::with_capacity(object.entries.len() / 2);
    match given.map(|given| tree.value(given)) {
        Some(Value::Dict(list)) => entries.extend(tree.entries(list)),
        // Pairs, as Python 2 writes them.
        Some(Value::List(list) | Value::Tuple(list)) => {
            entries.extend(
                tree.items(list).filter_map(|pair| tree.tuple(pair).map(|[key, value]| (key, value))),
            );
        }
        _ => {}
    }
    entries.extend(tree.entries(object.entries));
    entries.extend(state(tree, object));
    keyed(tree, entries.into_iter())
}

/// What the state dict of a module has: parameters and buffers, then what its modules have.
fn module(tree: &Tree, object: Object) -> Vec<(Part, Id)> {
    let field = |name: &str| object.state.and_then(|state| tree.entry(state, name));
    let Some(modules) = field("_modules") else { return keyed(tree, state(tree, object).into_iter()) };
    let transient: HashSet<&str> = field("_non_persistent_buffers_set")
        .map(|set| elements(tree, set))
        .unwrap_or_default()
        .into_iter()
        .filter_map(|id| tree.text(id))
        .collect();
    // Only of a dict: modules in its place could nest without end.
    let within = |dict: Option<Id>| match dict {
        Some(dict) if sort(tree, dict) == Sort::Container => children(tree, dict),
        _ => Vec::new(),
    };
    let is_kept = |(part, _): &(Part, Id)| match part {
        Part::Key(key) => tree.text(*key).is_none_or(|key| !transient.contains(key)),
        Part::Index(_) => true,
    };
    let mut all = within(field("_parameters"));
    all.extend(within(field("_buffers")).into_iter().filter(is_kept));
    all.extend(within(Some(modules)));
    all
}

/// The elements of a set, also of one that a call makes of a list.
pub(crate) fn elements(tree: &Tree, id: Id) -> Vec<Id> {
    match tree.value(id) {
        Value::Set(list) | Value::List(list) | Value::Tuple(list) => tree.items(list).collect(),
        Value::Object(object) => {
            let [given] = tree.tuple(object.arguments).unwrap_or([Id::NONE]);
            let (Value::List(list) | Value::Tuple(list) | Value::Set(list)) = tree.value(given) else {
                return Vec::new();
            };
            tree.items(list).collect()
        }
        _ => Vec::new(),
    }
}

/// The fields that a state sets: of a dict, or of a dict and one of slots.
fn state(tree: &Tree, object: Object) -> Vec<(Id, Id)> {
    let Some(state) = object.state else { return Vec::new() };
    match tree.value(state) {
        Value::Dict(list) => tree.entries(list).collect(),
        Value::Tuple(_) => {
            let parts: Vec<Id> = tree.tuple::<2>(state).into_iter().flatten().collect();
            let dicts = parts.into_iter().filter_map(|part| match tree.value(part) {
                Value::Dict(list) => Some(tree.entries(list)),
                _ => None,
            });
            dicts.flatten().collect()
        }
        _ => Vec::new(),
    }
}

/// All that a call is given: arguments, items, entries and fields.
fn foreign(tree: &Tree, object: Object) -> Vec<(Part, Id)> {
    let arguments = match tree.value(object.arguments) {
        Value::Tuple(list) => tree.items(list).collect(),
        _ => Vec::new(),
    };
    let keywords = match tree.value(object.keywords) {
        Value::Dict(list) => tree.entries(list).collect(),
        _ => Vec::new(),
    };
    let items = arguments.into_iter().chain(tree.items(object.items));
    let mut all: Vec<(Part, Id)> = items.enumerate().map(|(index, id)| (Part::Index(index), id)).collect();
    let entries = keywords.into_iter().chain(tree.entries(object.entries)).chain(state(tree, object));
    all.extend(keyed(tree, entries));
    all
}
