//! Values that are no tensors, as metadata.

use super::children::{Part, children, cost, elements, is_dict};
use super::dropped::Dropped;
use crate::format::element_named;
use crate::tensor::describe::described;
use ckpt_api::{MetadataMap, MetadataValue};
use ckpt_containers::pickle::{Id, Object, Tree, Value, numpy};
use std::collections::HashSet;

/// Levels of lists and maps; a value may be within others.
const MOST_LEVELS: usize = MetadataValue::MAX_NESTING - 8;
/// Bytes of the texts in a key that is a tuple, which many keys may share.
const LONGEST_TUPLE: usize = 256;
/// Bytes that count as one value.
const BYTES_PER_VALUE: usize = 16;

/// How many values may become metadata. Shared ones count each time.
#[derive(Debug)]
pub(crate) struct Budget {
    each: usize,
    all: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { each: 1 << 16, all: 1 << 19 }
    }
}

/// Why a value is no metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unfit {
    /// It has no counterpart.
    Unknown,
    /// It has too many values or levels.
    TooLarge,
}

/// What a value is.
enum Step {
    Value(MetadataValue),
    /// The values of a list.
    List(Vec<Id>),
    /// The values of a map under these keys; `None` for a key that has no text, or that of a value before.
    Map(Vec<Option<String>>, Vec<Id>),
    /// What this value is.
    Same(Id),
}

/// A list or map that is being converted.
struct Frame {
    keys: Option<Vec<Option<String>>>,
    /// `None` for what is left out.
    values: Vec<Option<MetadataValue>>,
    rest: std::vec::IntoIter<Id>,
}

impl Frame {
    /// A value that is left out of a list has null in its place, so that the others keep theirs.
    fn finish(self) -> MetadataValue {
        match self.keys {
            None => {
                let values = self.values.into_iter().map(|value| value.unwrap_or(MetadataValue::Null));
                MetadataValue::List(values.collect())
            }
            Some(keys) => {
                let pairs = keys.into_iter().zip(self.values);
                MetadataValue::Map(pairs.filter_map(|(key, value)| key.zip(value)).collect::<MetadataMap>())
            }
        }
    }

    /// Whether the value that comes next has an index, or a key with a text.
    fn has_name(&self) -> bool {
        self.keys.as_ref().is_none_or(|keys| matches!(keys.get(self.values.len()), Some(Some(_))))
    }

    /// The key or index of the value that comes next; a question mark for a key without a text.
    fn part(&self) -> String {
        let index = self.values.len();
        match &self.keys {
            None => index.to_string(),
            Some(keys) => keys.get(index).cloned().flatten().unwrap_or_else(|| "?".to_owned()),
        }
    }
}

/// Converts a value and all within it, which has this name. Adds what has no counterpart in it to `dropped`, by its own
/// name, and leaves out no more than that; returns `None` if it is the value itself.
pub(crate) fn convert(
    tree: &Tree,
    id: Id,
    name: &str,
    budget: &mut Budget,
    dropped: &mut Dropped,
) -> Option<MetadataValue> {
    let allowed = budget.each.min(budget.all);
    let mut left = allowed;
    let converted = convert_within(tree, id, name, &mut left, dropped);
    budget.all = budget.all.saturating_sub(allowed - left);
    converted
}

fn convert_within(
    tree: &Tree,
    id: Id,
    name: &str,
    left: &mut usize,
    dropped: &mut Dropped,
) -> Option<MetadataValue> {
    let mut frames: Vec<Frame> = Vec::new();
    let mut next = id;
    loop {
        let has_name = frames.last().is_none_or(Frame::has_name);
        let step = if has_name { step(tree, next, left) } else { Err(Unfit::Unknown) };
        let is_deep = frames.len() >= MOST_LEVELS;
        let mut done = match step {
            Ok(Step::Same(id)) => {
                next = id;
                continue;
            }
            Ok(Step::Value(value)) => Some(Some(value)),
            Ok(Step::List(items)) if !is_deep => {
                frames.push(Frame { keys: None, values: Vec::new(), rest: items.into_iter() });
                None
            }
            Ok(Step::Map(keys, items)) if !is_deep => {
                frames.push(Frame { keys: Some(keys), values: Vec::new(), rest: items.into_iter() });
                None
            }
            unfit => {
                let why = || match unfit {
                    Err(Unfit::Unknown) if has_name => described(tree, next),
                    Err(Unfit::Unknown) => "an entry whose key has no text of its own".to_owned(),
                    _ => format!("{} with too many values", described(tree, next)),
                };
                dropped.add_within(|| name_within(name, &frames), why);
                Some(None)
            }
        };
        // Completes every list and map that has all of its values now.
        next = loop {
            let Some(frame) = frames.last_mut() else { return done.flatten() };
            frame.values.extend(done.take());
            if let Some(id) = frame.rest.next() {
                break id;
            }
            done = frames.pop().map(|frame| Some(frame.finish()));
        };
    }
}

/// The name of the value that comes next, within the one of this name.
fn name_within(name: &str, frames: &[Frame]) -> String {
    let parts = frames.iter().map(Frame::part);
    let all = Some(name.to_owned()).filter(|name| !name.is_empty()).into_iter().chain(parts);
    all.collect::<Vec<String>>().join(".")
}

fn step(tree: &Tree, id: Id, left: &mut usize) -> Result<Step, Unfit> {
    let mut take = |count: usize| {
        *left = left.checked_sub(count).ok_or(Unfit::TooLarge)?;
        Ok::<_, Unfit>(())
    };
    take(1)?;
    let value = match tree.value(id) {
        Value::None => MetadataValue::Null,
        Value::Bool(value) => MetadataValue::Bool(value),
        Value::Int(number) => MetadataValue::I64(number),
        Value::Float(number) => MetadataValue::F64(number),
        Value::Text(text) => {
            take(text.len() / BYTES_PER_VALUE)?;
            MetadataValue::Text(text.to_owned())
        }
        Value::Bytes(bytes) => {
            take(bytes.len() / BYTES_PER_VALUE)?;
            MetadataValue::Bytes(bytes.to_vec())
        }
        Value::Tuple(list) | Value::List(list) | Value::Set(list) => {
            take(list.len())?;
            return Ok(Step::List(tree.items(list).collect()));
        }
        Value::Dict(list) => {
            take(list.len())?;
            return map(tree, id, &mut take);
        }
        Value::Global("torch", name) if is_constant(name) => MetadataValue::Text(format!("torch.{name}")),
        Value::Object(object) => {
            take(cost(tree, id))?;
            return called(tree, id, object, &mut take);
        }
        _ => return Err(Unfit::Unknown),
    };
    Ok(Step::Value(value))
}

fn map(tree: &Tree, id: Id, take: &mut impl FnMut(usize) -> Result<(), Unfit>) -> Result<Step, Unfit> {
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    for (part, value) in children(tree, id) {
        let Part::Key(key) = part else { return Err(Unfit::Unknown) };
        let text = key_text(tree, key);
        take(text.as_ref().map_or(0, String::len) / BYTES_PER_VALUE)?;
        keys.push(text.filter(|text| seen.insert(text.clone())));
        values.push(value);
    }
    Ok(Step::Map(keys, values))
}

/// The field of an OmegaConf container or node that has its content.
fn content(class: (&str, &str)) -> Option<[&'static str; 2]> {
    match class {
        ("omegaconf.dictconfig", "DictConfig")
        | ("omegaconf.listconfig", "ListConfig")
        | ("omegaconf.base", "UnionNode") => Some(["_content", "content"]),
        ("omegaconf.nodes", _) => Some(["_val", "val"]),
        _ => None,
    }
}

/// What a call of a known class makes.
fn called(
    tree: &Tree,
    id: Id,
    object: Object,
    take: &mut impl FnMut(usize) -> Result<(), Unfit>,
) -> Result<Step, Unfit> {
    if is_dict(tree, object) {
        return map(tree, id, take);
    }
    let unknown = Err(Unfit::Unknown);
    let Some(class) = tree.global(object.callable) else { return unknown };
    let arguments: Vec<Id> = match tree.value(object.arguments) {
        Value::Tuple(list) => tree.items(list).collect(),
        _ => Vec::new(),
    };
    if let Some(fields) = content(class) {
        let field = |name: &&str| tree.entry(object.state?, name);
        return fields.iter().find_map(field).map_or(unknown, |id| Ok(Step::Same(id)));
    }
    let value = match (class, &arguments[..]) {
        (("torch", "Size"), [sizes]) => return Ok(Step::List(elements(tree, *sizes))),
        (("builtins" | "__builtin__", "set" | "frozenset"), [_]) => {
            return Ok(Step::List(elements(tree, id)));
        }
        (("argparse", "Namespace") | ("types", "SimpleNamespace"), []) if object.state.is_some() => {
            return object.state.map_or(unknown, |state| map(tree, state, take));
        }
        (("torch", "device"), [name]) => tree.text(*name).map(|name| MetadataValue::Text(name.to_owned())),
        (("torch", "device"), [name, index]) => tree
            .text(*name)
            .zip(tree.int(*index))
            .map(|(name, index)| MetadataValue::Text(format!("{name}:{index}"))),
        (("builtins" | "__builtin__", "complex"), [real, imaginary]) => {
            let keys = ["real", "imag"].map(|key| Some(key.to_owned())).to_vec();
            return Ok(Step::Map(keys, vec![*real, *imaginary]));
        }
        (("pathlib" | "pathlib._local", "PosixPath" | "WindowsPath" | "PurePosixPath"), parts) => {
            let texts = parts.iter().filter_map(|part| tree.text(*part));
            take(texts.map(str::len).sum::<usize>() / BYTES_PER_VALUE)?;
            path(tree, parts)
        }
        (("builtins" | "__builtin__", "bytearray" | "bytes") | ("_codecs", "encode"), _) => {
            bytes(tree, id).map(MetadataValue::Bytes)
        }
        (("numpy._core.multiarray" | "numpy.core.multiarray", "scalar"), [dtype, value]) => {
            bytes(tree, *value).and_then(|bytes| numpy::number(tree, *dtype, bytes))
        }
        _ => None,
    };
    let len = match &value {
        Some(MetadataValue::Text(text)) => text.len(),
        Some(MetadataValue::Bytes(bytes)) => bytes.len(),
        _ => 0,
    };
    take(len / BYTES_PER_VALUE)?;
    value.map_or(unknown, |value| Ok(Step::Value(value)))
}

fn path(tree: &Tree, parts: &[Id]) -> Option<MetadataValue> {
    let parts = parts.iter().map(|part| tree.text(*part)).collect::<Option<Vec<&str>>>()?;
    let joined = match parts.split_first() {
        Some((&"/", rest)) => format!("/{}", rest.join("/")),
        _ => parts.join("/"),
    };
    Some(MetadataValue::Text(joined))
}

/// The bytes that a value holds: as they are, or written as a text by protocols without bytes.
pub(crate) fn bytes(tree: &Tree, id: Id) -> Option<Vec<u8>> {
    let mut id = id;
    // bytearray(encode(text, 'latin1'))
    for _ in 0..3 {
        let object = match tree.value(id) {
            Value::Bytes(bytes) => return Some(bytes.to_vec()),
            Value::Text(text) => {
                return text.chars().map(|char| u8::try_from(u32::from(char)).ok()).collect();
            }
            Value::Object(object) => object,
            _ => return None,
        };
        id = match tree.global(object.callable)? {
            ("_codecs", "encode") => {
                let [text, encoding] = tree.tuple(object.arguments)?;
                tree.text(encoding).filter(|encoding| *encoding == "latin1")?;
                text
            }
            ("builtins" | "__builtin__", "bytearray" | "bytes") => match tree.tuple(object.arguments) {
                Some([inner]) => inner,
                None if tree.tuple::<0>(object.arguments).is_some() => return Some(Vec::new()),
                None => {
                    let [text, encoding] = tree.tuple(object.arguments)?;
                    tree.text(encoding).filter(|encoding| matches!(*encoding, "latin-1" | "latin1"))?;
                    text
                }
            },
            _ => return None,
        };
    }
    None
}

/// Types, layouts and formats of PyTorch.
fn is_constant(name: &str) -> bool {
    const OTHERS: &[&str] =
        &["strided", "sparse_coo", "contiguous_format", "preserve_format", "channels_last"];
    element_named(name).is_some() || OTHERS.contains(&name)
}

/// The text of a dict's key, as Python's `str` gives it; `None` for keys that have no short one.
pub(crate) fn key_text(tree: &Tree, key: Id) -> Option<String> {
    let one = |key: Id| {
        Some(match tree.value(key) {
            Value::None => "None".to_owned(),
            Value::Bool(true) => "True".to_owned(),
            Value::Bool(false) => "False".to_owned(),
            Value::Int(number) => number.to_string(),
            Value::Float(number) => format!("{number:?}"),
            _ => return None,
        })
    };
    match tree.value(key) {
        Value::Text(text) => Some(text.to_owned()),
        Value::Tuple(list) if list.len() <= 8 => {
            // Their length takes no look at them: many keys may share a long one.
            let texts = tree.items(list).filter_map(|id| tree.text_bytes(id));
            if texts.map(<[u8]>::len).sum::<usize>() > LONGEST_TUPLE {
                return None;
            }
            let parts = tree.items(list).map(|id| match tree.value(id) {
                Value::Text(text) => Some(format!("'{text}'")),
                _ => one(id),
            });
            let parts = parts.collect::<Option<Vec<String>>>()?;
            let comma = if parts.len() == 1 { "," } else { "" };
            Some(format!("({}{comma})", parts.join(", ")))
        }
        Value::Global(module, name) => Some(format!("{module}.{name}")),
        _ => one(key),
    }
}
