//! What is within a value, by name: the items of containers, the tensors of modules, the fields of objects.

use crate::tensor::call::is_tensor;
use ckpt_api::{Error, Result};
use ckpt_containers::pickle::{Id, Object, Tree, Value};
use std::collections::{HashMap, HashSet};

/// The name of a value within another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Key(Id),
    Index(usize),
    /// What a state dict calls it, though the pickle states no name.
    Name(&'static str),
}

/// What a value is, for naming what is within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// Nothing is within it.
    Leaf,
    /// A dict, list, tuple, set, or one of the dicts of Python's library.
    Container,
    /// A pickled module: within it is what its state dict has.
    Module,
    /// What a class of C++ packs: the weights of a quantized layer, in a tuple.
    Packed,
    /// A call of a class or function that this crate does not know; within it is what it is given.
    Foreign,
}

/// Returns what a value is.
pub(crate) fn sort(tree: &Tree, id: Id) -> Sort {
    match tree.value(id) {
        Value::Tuple(_) | Value::List(_) | Value::Set(_) | Value::Dict(_) => Sort::Container,
        Value::Object(object) if is_tensor(tree, object) || tree.is_attribute(object) => Sort::Leaf,
        Value::Object(object) if is_dict(tree, object) => Sort::Container,
        Value::Object(object) if is_packed(tree, object) => Sort::Packed,
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
    is_script(tree, object)
        || fields(tree, object).is_some()
        || tree.callable(object).is_some_and(|class| is_convolution(tree, object, class))
}

/// Whether it is an object of a TorchScript archive.
pub(crate) fn is_script(tree: &Tree, object: Object) -> bool {
    tree.callable(object).is_some_and(|(module, _)| module.starts_with("__torch__"))
}

/// The fields of a pickled module, a dict: its state, or what a function is given that makes it of its graph.
fn fields(tree: &Tree, object: Object) -> Option<Id> {
    let is_module = |id: &Id| tree.entry(*id, "_modules").is_some();
    let given = || match tree.value(object.arguments) {
        Value::Tuple(list) => tree.items(list).next(),
        _ => None,
    };
    object.state.filter(is_module).or_else(|| given().filter(is_module))
}

/// Whether it is an object of a class of C++: of TorchScript, or of `torch.ScriptObject` in a pickle of Python.
fn is_packed(tree: &Tree, object: Object) -> bool {
    tree.callable(object).is_some_and(|(module, name)| {
        module.starts_with("__torch__.torch.classes") || (module, name) == ("torch", "ScriptObject")
    })
}

/// Items of the tuple that a quantized convolution is pickled as: where its weight and its bias are.
const CONVOLUTION: [(usize, &str); 4] = [(10, "weight"), (11, "bias"), (12, "scale"), (13, "zero_point")];

/// Whether it is a quantized convolution, which is pickled as the arguments that make it.
fn is_convolution(tree: &Tree, object: Object, (module, _): (&str, &str)) -> bool {
    let is_long = |state: Id| matches!(tree.value(state), Value::Tuple(list) if list.len() > 13);
    module.contains(".quantized.") && module.contains(".conv") && object.state.is_some_and(is_long)
}

/// Returns what is within a value.
pub(crate) fn children(tree: &Tree, id: Id) -> Vec<(Part, Id)> {
    let indexed = |list| tree.items(list).enumerate().map(|(index, id)| (Part::Index(index), id)).collect();
    match tree.value(id) {
        Value::Tuple(list) | Value::List(list) | Value::Set(list) => indexed(list),
        Value::Dict(list) => keyed(tree, tree.entries(list)),
        Value::Object(object) => match sort(tree, id) {
            Sort::Leaf => Vec::new(),
            Sort::Module => module(tree, object),
            Sort::Packed => packed(tree, object),
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

/// What the state dict of a module has: parameters and buffers, what classes of C++ pack, then what its modules have.
fn module(tree: &Tree, object: Object) -> Vec<(Part, Id)> {
    let Some(fields) = fields(tree, object) else { return made_of_state(tree, object) };
    let field = |name: &str| tree.entry(fields, name);
    let transient = transient(tree, fields);
    let is_kept = |part: &(Part, Id)| !is_transient(tree, &transient, part);
    let is_own =
        |(part, id): &(Part, Id)| sort(tree, *id) == Sort::Packed || is_scale(tree, object, (*part, *id));
    let mut all = within(tree, field("_parameters"));
    all.extend(within(tree, field("_buffers")).into_iter().filter(is_kept));
    all.extend(attributes(tree, fields).filter(is_own).map(|(part, id)| (part, unwrapped(tree, id))));
    all.extend(within(tree, field("_modules")));
    all
}

/// What is in a dict. Modules in its place could nest without end.
fn within(tree: &Tree, dict: Option<Id>) -> Vec<(Part, Id)> {
    match dict {
        Some(dict) if sort(tree, dict) == Sort::Container => children(tree, dict),
        _ => Vec::new(),
    }
}

/// What a module that states no dicts of parameters has: its fields, or the items of its state.
fn made_of_state(tree: &Tree, object: Object) -> Vec<(Part, Id)> {
    let is_convolution = tree.callable(object).is_some_and(|class| is_convolution(tree, object, class));
    let mut all = keyed(tree, state(tree, object).into_iter());
    let items = state_items(tree, object).into_iter().enumerate();
    all.extend(items.filter_map(|(index, id)| match is_convolution {
        false => Some((Part::Index(index), id)),
        true => CONVOLUTION.iter().find(|(at, _)| *at == index).map(|(_, name)| (Part::Name(name), id)),
    }));
    for (_, id) in &mut all {
        *id = unwrapped(tree, *id);
    }
    all
}

/// The names of buffers that a state dict leaves out.
fn transient(tree: &Tree, fields: Id) -> HashSet<&str> {
    let set = tree.entry(fields, "_non_persistent_buffers_set").map(|set| elements(tree, set));
    set.unwrap_or_default().into_iter().filter_map(|id| tree.text(id)).collect()
}

fn is_transient(tree: &Tree, transient: &HashSet<&str>, (part, _): &(Part, Id)) -> bool {
    matches!(part, Part::Key(key) if tree.text(*key).is_some_and(|key| transient.contains(key)))
}

/// The fields of a module beside its dicts of parameters, buffers and modules.
fn attributes(tree: &Tree, fields: Id) -> impl Iterator<Item = (Part, Id)> {
    let entries = match tree.value(fields) {
        Value::Dict(list) => tree.entries(list).collect(),
        _ => Vec::new(),
    };
    let is_other =
        |key: Id| tree.text(key).is_none_or(|key| !matches!(key, "_parameters" | "_buffers" | "_modules"));
    let others: Vec<(Id, Id)> = entries.into_iter().filter(|(key, _)| is_other(*key)).collect();
    keyed(tree, others.into_iter()).into_iter()
}

/// What a module has that its state dict lacks: attributes beside parameters and buffers, and buffers that are not
/// persistent.
pub(crate) fn hidden(tree: &Tree, id: Id) -> Vec<(Part, Id)> {
    let Some(fields) = tree.object(id).and_then(|object| fields(tree, object)) else { return Vec::new() };
    let transient = transient(tree, fields);
    let is_hidden = |part: &(Part, Id)| is_transient(tree, &transient, part);
    let mut all: Vec<(Part, Id)> =
        attributes(tree, fields).filter(|(_, id)| sort(tree, *id) != Sort::Packed).collect();
    all.extend(within(tree, tree.entry(fields, "_buffers")).into_iter().filter(is_hidden));
    all
}

/// Whether something of a module is the scale or zero point of what a quantized layer computes, a number, which a state
/// dict has as a tensor.
pub(crate) fn is_scale(tree: &Tree, module: Object, (part, id): (Part, Id)) -> bool {
    let name = match part {
        Part::Key(key) => tree.text(key),
        Part::Name(name) => Some(name),
        Part::Index(_) => None,
    };
    matches!(name, Some("scale" | "zero_point"))
        && matches!(tree.value(id), Value::Float(_) | Value::Int(_))
        && tree.callable(module).is_some_and(|(module, _)| module.contains(".quantized."))
}

/// What a class of C++ packs, by the places in its tuple: beside that, `torch.ScriptObject` has the name of the class.
fn packed(tree: &Tree, object: Object) -> Vec<(Part, Id)> {
    let indexed = |(index, id)| (Part::Index(index), id);
    contents(tree, object).into_iter().enumerate().map(indexed).collect()
}

fn contents(tree: &Tree, object: Object) -> Vec<Id> {
    let items = state_items(tree, object);
    match items[..] {
        [contents, class] if tree.text(class).is_some_and(|class| class.starts_with("__torch__")) => {
            match tree.value(contents) {
                Value::Tuple(list) => tree.items(list).collect(),
                _ => vec![contents],
            }
        }
        _ => items,
    }
}

/// The weight of a packed embedding, which a state dict has under the name of its packing; anything else as it is.
fn unwrapped(tree: &Tree, id: Id) -> Id {
    let Some(object) = tree.object(id).filter(|object| is_packed(tree, *object)) else { return id };
    let tensors = |list: Id| match tree.value(list) {
        Value::List(list) => tree.items(list).collect::<Vec<Id>>(),
        _ => Vec::new(),
    };
    match contents(tree, object)[..] {
        // Version, weights, then lists of numbers.
        [version, weights, floats, bits] if tree.int(version).is_some() => {
            let is_plain = |list: Id| tensors(list).iter().all(|item| tree.object(*item).is_none());
            match tensors(weights)[..] {
                [weight] if is_plain(floats) && is_plain(bits) => weight,
                _ => id,
            }
        }
        _ => id,
    }
}

/// The items of a state that sets no fields.
fn state_items(tree: &Tree, object: Object) -> Vec<Id> {
    let Some(id) = object.state.filter(|_| state(tree, object).is_empty()) else { return Vec::new() };
    let is_none = |id: &Id| matches!(tree.value(*id), Value::None | Value::Dict(_));
    if tree.tuple::<2>(id).is_some_and(|parts| parts.iter().all(is_none)) {
        // The fields of an object that has none.
        return Vec::new();
    }
    match tree.value(id) {
        Value::Tuple(list) | Value::List(list) => tree.items(list).collect(),
        Value::Object(_) => vec![id],
        _ => Vec::new(),
    }
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

/// All that a call is given: arguments, items, entries and what its state has.
fn foreign(tree: &Tree, object: Object) -> Vec<(Part, Id)> {
    let arguments = match tree.value(object.arguments) {
        Value::Tuple(list) => tree.items(list).collect(),
        _ => Vec::new(),
    };
    let keywords = match tree.value(object.keywords) {
        Value::Dict(list) => tree.entries(list).collect(),
        _ => Vec::new(),
    };
    let items = arguments.into_iter().chain(tree.items(object.items)).chain(state_items(tree, object));
    let mut all: Vec<(Part, Id)> = items.enumerate().map(|(index, id)| (Part::Index(index), id)).collect();
    let entries = keywords.into_iter().chain(tree.entries(object.entries)).chain(state(tree, object));
    all.extend(keyed(tree, entries));
    all
}
