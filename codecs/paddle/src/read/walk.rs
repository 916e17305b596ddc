//! Walks through the dicts, lists and tuples of a pickle.

use crate::format::{PARAMETER_NAMES, SLICES};
use ckpt_api::{Error, MetadataValue, Result, Shape};
use ckpt_containers::pickle::numpy::{self, Array};
use ckpt_containers::pickle::{Id, Object, Tree, Value, shown};
use std::collections::HashMap;

/// Levels of containers, at most.
const MOST_LEVELS: usize = 128;
/// The name of a tensor that is the whole pickle.
const WHOLE: &str = "tensor";

/// A value of the pickle, with its keys joined with dots.
pub(super) struct Leaf {
    pub(super) name: String,
    pub(super) found: Found,
}

/// What is at the end of a path of keys.
pub(super) enum Found {
    /// One array, or several that are parts of one of this shape; whether its integers are marked as bf16.
    Arrays(Vec<Array>, Option<Shape>, bool),
    Value(MetadataValue),
    /// What is none of these, and why it is refused.
    Foreign(Error),
}

/// Keys and values within a container that are still to come.
type Children = std::vec::IntoIter<(String, Id)>;

/// Finds what is within the value of a pickle, in its order.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`] for containers within too many others, which one that holds itself is, and for ones that are
/// shared so often that their names take too much memory; [`ckpt_api::Kind::Corrupt`] for an array whose bytes do not fill
/// its shape.
pub(super) fn walk(tree: &Tree) -> Result<Vec<Leaf>> {
    let mut walk = Walk { tree, left: 8 * tree.pickle_bytes() + (1 << 16), found: Vec::new() };
    let mut path: Vec<String> = Vec::new();
    let mut open: Vec<Children> = Vec::new();
    open.extend(walk.enter(&path, tree.root())?);
    while let Some(children) = open.last_mut() {
        let Some((key, id)) = children.next() else {
            open.pop();
            path.pop();
            continue;
        };
        // The names of parameters, and what is known of slices, are no values of their own.
        if key == PARAMETER_NAMES || (path.is_empty() && key == SLICES) {
            continue;
        }
        path.push(key);
        match walk.enter(&path, id)? {
            None => drop(path.pop()),
            Some(_) if open.len() >= MOST_LEVELS => {
                return Err(Error::limit("the pickle has containers within too many others")
                    .expected(format!("at most {MOST_LEVELS} levels")));
            }
            Some(children) => open.push(children),
        }
    }
    Ok(walk.found)
}

struct Walk<'a> {
    tree: &'a Tree,
    /// Bytes that names may still take, and values that may still be looked at.
    left: u64,
    found: Vec<Leaf>,
}

impl Walk<'_> {
    /// Adds a value; returns what is within it if it is a container.
    fn enter(&mut self, path: &[String], id: Id) -> Result<Option<Children>> {
        self.spend(path.iter().map(|key| key.len() as u64 + 1).sum::<u64>())?;
        let tree = self.tree;
        if let Some(array) = named_array(tree, id) {
            return self.add(path, array).map(|()| None);
        }
        let children = match tree.value(id) {
            Value::Tuple(list) | Value::List(list) => {
                self.spend(list.len() as u64)?;
                (0u64..).map(|at| at.to_string()).zip(tree.items(list)).collect()
            }
            Value::Dict(list) => self.entries(list)?,
            Value::Object(object) if is_dict(tree, object) => self.entries(object.entries)?,
            _ => return self.add(path, id).map(|()| None),
        };
        Ok(Some(children.into_iter()))
    }

    /// Adds a value that is no container.
    fn add(&mut self, path: &[String], id: Id) -> Result<()> {
        let name = if path.is_empty() { WHOLE.to_owned() } else { path.join(".") };
        let found = self.leaf(id).map_err(|error| error.tensor(name.escape_debug().to_string()))?;
        self.found.push(Leaf { name, found });
        Ok(())
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
                let array = match numpy::array(tree, object)? {
                    Some(array) => Some(array),
                    None => numpy::scalar(tree, object)?,
                };
                return Ok(match array {
                    Some(array) => {
                        self.spend(array.cost())?;
                        Found::Arrays(vec![array], None, is_marked(tree, object))
                    }
                    None => Found::Foreign(foreign(tree, id)),
                });
            }
            _ => return Ok(Found::Foreign(foreign(tree, id))),
        };
        Ok(Found::Value(value))
    }

    /// The entries of a dict: the last value of each key, where its first one stands, as in Python.
    fn entries(&mut self, list: ckpt_containers::pickle::List) -> Result<Vec<(String, Id)>> {
        let tree = self.tree;
        self.spend(list.len() as u64)?;
        let mut all: Vec<(String, Id)> = Vec::with_capacity(list.len() / 2);
        let mut places: HashMap<String, usize> = HashMap::new();
        for (key, value) in tree.entries(list) {
            let text =
                tree.text(key).map(str::to_owned).or_else(|| tree.int(key).map(|number| number.to_string()));
            let text = text.ok_or_else(|| {
                Error::unsupported("a dict of the pickle has a key that is neither a text nor an integer")
                    .expected("names of parameters")
            })?;
            self.spend(text.len() as u64)?;
            let place = *places.entry(text.clone()).or_insert(all.len());
            match all.get_mut(place) {
                Some(entry) => entry.1 = value,
                None => all.push((text, value)),
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

/// Whether a call makes a dict, of the entries that are set later.
fn is_dict(tree: &Tree, object: Object) -> bool {
    let is_dict = matches!(
        tree.global(object.callable),
        Some(("collections", "OrderedDict") | ("builtins" | "__builtin__", "dict"))
    );
    is_dict && tree.tuple::<0>(object.arguments).is_some()
}

/// Whether an array of integers is marked as one of bf16: its dtype is made with `align=True`, which means nothing to NumPy.
fn is_marked(tree: &Tree, object: Object) -> bool {
    let dtype = object.state.and_then(|state| {
        let [_, _, dtype, _, _] = tree.tuple(state)?;
        tree.object(dtype)
    });
    let align = dtype.and_then(|dtype| {
        let [_, align, _] = tree.tuple(dtype.arguments)?;
        Some(align)
    });
    align.is_some_and(|align| matches!(tree.value(align), Value::Bool(true)))
}

/// The array of a tensor that `paddle.save` stores with its name: `(name, array)`, also as a call of `tuple`.
fn named_array(tree: &Tree, id: Id) -> Option<Id> {
    let pair = match tree.value(id) {
        Value::Object(object) => {
            let name = tree.global(object.callable)?;
            matches!(name, ("builtins" | "__builtin__", "tuple")).then_some(())?;
            let [pair] = tree.tuple(object.arguments)?;
            pair
        }
        _ => id,
    };
    let [name, array] = tree.tuple(pair)?;
    tree.text(name)?;
    tree.object(array).filter(|object| numpy::is_array(tree, *object)).map(|_| array)
}

/// The error of a value that is neither an array nor a plain value.
fn foreign(tree: &Tree, id: Id) -> Error {
    let described = match tree.value(id) {
        Value::Global(module, name) => shown(module, name),
        Value::Object(object) => match (numpy::described(tree, object), tree.callable(object)) {
            (Some(array), _) => array,
            (None, Some((module, name))) => format!("a call of {}", shown(module, name)),
            (None, None) => "a call".to_owned(),
        },
        Value::Set(_) => "a set".to_owned(),
        Value::Long(_) => "an integer of more than 64 bits".to_owned(),
        Value::Persistent(_) => "an object outside of the pickle".to_owned(),
        Value::Bytes(_) | Value::Apart(..) | Value::Buffer => "bytes".to_owned(),
        _ => "a value of an unknown kind".to_owned(),
    };
    Error::unsupported("the pickle holds something else than arrays of numbers and plain values")
        .found(described)
        .expected("dicts, lists and tuples of arrays")
}
