//! The calls of a layer: what it takes each time it is used.

use ckpt_api::{Error, Result};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};

/// A value in a functional model: a result of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorRef {
    /// The layer, by its position in [`super::Model::layers`].
    pub layer: usize,
    /// Which of the layer's calls makes the value.
    pub call: usize,
    /// Which of the call's results it is.
    pub result: usize,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Argument {
    Tensor(TensorRef),
    List(Vec<Argument>),
    Constant(Value),
}

impl Argument {
    /// Adds the references within an argument.
    pub(crate) fn references(&self, found: &mut Vec<TensorRef>) {
        match self {
            Argument::Tensor(reference) => found.push(*reference),
            Argument::List(items) => items.iter().for_each(|item| item.references(found)),
            Argument::Constant(_) => {}
        }
    }
}

impl Argument {
    /// Changes the references within an argument.
    pub(super) fn each_reference(&mut self, change: &impl Fn(&mut TensorRef)) {
        match self {
            Argument::Tensor(reference) => change(reference),
            Argument::List(items) => items.iter_mut().for_each(|item| item.each_reference(change)),
            Argument::Constant(_) => {}
        }
    }
}

/// One use of a layer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Call {
    pub(crate) args: Vec<Argument>,
    pub(crate) kwargs: BTreeMap<String, Argument>,
}

impl Call {
    /// Returns all values that the call takes.
    pub(crate) fn references(&self) -> Vec<TensorRef> {
        let mut found = Vec::new();
        self.args.iter().chain(self.kwargs.values()).for_each(|argument| argument.references(&mut found));
        found
    }
}

/// The positions of layers by their names.
pub(super) type Names = HashMap<String, usize>;

/// Reads the calls of a layer: the JSON `inbound_nodes`.
pub(super) fn calls(nodes: &Value, names: &Names) -> Result<Vec<Call>> {
    match nodes {
        Value::Array(nodes) => nodes.iter().map(|node| call(node, names)).collect(),
        Value::Null => Ok(Vec::new()),
        other => Err(invalid(other, "a list of calls")),
    }
}

fn call(node: &Value, names: &Names) -> Result<Call> {
    match node {
        Value::Object(node) => {
            let args = match node.get("args") {
                Some(Value::Array(args)) => {
                    args.iter().map(|arg| argument(arg, names)).collect::<Result<_>>()?
                }
                _ => Vec::new(),
            };
            let kwargs = match node.get("kwargs") {
                Some(Value::Object(kwargs)) => keywords(kwargs, names, argument)?,
                _ => BTreeMap::new(),
            };
            Ok(Call { args, kwargs })
        }
        Value::Array(items) => keras2_call(items, names),
        other => Err(invalid(other, "a call")),
    }
}

type Read = fn(&Value, &Names) -> Result<Argument>;

fn keywords(map: &Map<String, Value>, names: &Names, read: Read) -> Result<BTreeMap<String, Argument>> {
    map.iter().map(|(name, value)| Ok((name.clone(), read(value, names)?))).collect()
}

/// Reads an argument of Keras 3. JSON within JSON is not deep: the parser limits its depth.
fn argument(value: &Value, names: &Names) -> Result<Argument> {
    match value {
        Value::Object(map) if map.get("class_name").and_then(Value::as_str) == Some("__keras_tensor__") => {
            let history = map.get("config").and_then(|config| config.get("keras_history"));
            let reference = history.and_then(|history| reference(history, names));
            reference.map(Argument::Tensor).ok_or_else(|| invalid(value, "a value of an earlier layer"))
        }
        Value::Array(items) => {
            items.iter().map(|item| argument(item, names)).collect::<Result<_>>().map(Argument::List)
        }
        other => Ok(Argument::Constant(other.clone())),
    }
}

/// Reads a call of Keras 2: the values of the first argument, each with the keywords of the call.
fn keras2_call(items: &[Value], names: &Names) -> Result<Call> {
    let single = matches!(items.first(), Some(Value::String(_)));
    let owned = Value::Array(items.to_vec());
    let entries = if single { std::slice::from_ref(&owned) } else { items };
    let mut call = Call::default();
    let mut first = Vec::with_capacity(entries.len());
    for entry in entries {
        let parts = entry.as_array().map_or(&[][..], Vec::as_slice);
        if let Some(Value::Object(kwargs)) = parts.get(3) {
            for (name, value) in keywords(kwargs, names, keras2_keyword)? {
                call.kwargs.entry(name).or_insert(value);
            }
        }
        first.push(match (parts.first().and_then(Value::as_str), parts.get(2)) {
            (Some("_CONSTANT_VALUE"), Some(constant)) => Argument::Constant(constant.clone()),
            _ => {
                let found = parts.get(..3).and_then(|parts| reference_of(parts, names));
                Argument::Tensor(found.ok_or_else(|| invalid(entry, "a value of a layer of the model"))?)
            }
        });
    }
    call.args = match <[Argument; 1]>::try_from(first) {
        Ok(only) => only.into(),
        Err(all) => vec![Argument::List(all)],
    };
    Ok(call)
}

/// Reads a keyword of Keras 2: a list of a layer's name and two numbers is a value.
fn keras2_keyword(value: &Value, names: &Names) -> Result<Argument> {
    match value {
        Value::Array(items) => match reference_of(items, names) {
            Some(reference) => Ok(Argument::Tensor(reference)),
            None if items.first().and_then(Value::as_str) == Some("_CONSTANT_VALUE") => {
                Ok(Argument::Constant(items.get(2).cloned().unwrap_or(Value::Null)))
            }
            None => {
                let items = items.iter().map(|item| keras2_keyword(item, names));
                items.collect::<Result<_>>().map(Argument::List)
            }
        },
        other => Ok(Argument::Constant(other.clone())),
    }
}

/// Reads `[layer, call, result]`.
fn reference(value: &Value, names: &Names) -> Option<TensorRef> {
    reference_of(value.as_array()?, names)
}

fn reference_of(items: &[Value], names: &Names) -> Option<TensorRef> {
    let [layer, call, result] = items else { return None };
    let number = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok());
    Some(TensorRef { layer: *names.get(layer.as_str()?)?, call: number(call)?, result: number(result)? })
}

/// Reads the inputs or outputs of a model: values by name, in a list, or one alone.
pub(super) fn ends(value: &Value, names: &Names) -> Result<Vec<(Option<String>, TensorRef)>> {
    let mut found = Vec::new();
    let mut open: Vec<(Option<String>, &Value)> = vec![(None, value)];
    while let Some((name, value)) = open.pop() {
        match value {
            Value::Object(map) => {
                open.extend(map.iter().rev().map(|(name, value)| (Some(name.clone()), value)));
            }
            Value::Array(items) if matches!(items.first(), Some(Value::String(_))) => {
                let end = reference(value, names);
                found.push((name, end.ok_or_else(|| invalid(value, "a value of a layer of the model"))?));
            }
            Value::Array(items) => open.extend(items.iter().rev().map(|item| (name.clone(), item))),
            other => return Err(invalid(other, "a value of a layer of the model")),
        }
    }
    Ok(found)
}

/// The error for JSON of another form.
pub(super) fn invalid(found: &Value, expected: &str) -> Error {
    /// What is shown of the JSON, in characters.
    const SHOWN: usize = 80;
    let text = found.to_string();
    let shown = match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    };
    Error::corrupt("the model's configuration is not valid").found(shown).expected(expected)
}
