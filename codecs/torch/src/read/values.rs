//! Values that are no tensors, as metadata.

use super::children::{Part, children, cost, elements, is_dict};
use super::numpy;
use crate::format::element_named;
use crate::pickle::{Id, Object, Tree, Value};
use ckpt_api::{MetadataMap, MetadataValue};

/// Levels of lists and maps; a value may lie within others.
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
pub(crate) enum Unfit {
    /// It, or something in it, has no counterpart: this one.
    Unknown(Id),
    /// It has too many values or levels.
    TooLarge,
}

/// What a value is.
enum Step {
    Value(MetadataValue),
    /// The values of a list, or of a map under these keys.
    Container(Option<Vec<String>>, Vec<Id>),
}

/// A list or map that is being converted.
struct Frame {
    keys: Option<Vec<String>>,
    values: Vec<MetadataValue>,
    rest: std::vec::IntoIter<Id>,
}

impl Frame {
    fn finish(self) -> MetadataValue {
        match self.keys {
            None => MetadataValue::List(self.values),
            Some(keys) => MetadataValue::Map(keys.into_iter().zip(self.values).collect::<MetadataMap>()),
        }
    }
}

/// Converts a value and all within it.
///
/// # Errors
/// The reason why it cannot be converted.
pub(crate) fn convert(tree: &Tree, id: Id, budget: &mut Budget) -> Result<MetadataValue, Unfit> {
    let allowed = budget.each.min(budget.all);
    let mut left = allowed;
    let converted = convert_within(tree, id, &mut left);
    budget.all = budget.all.saturating_sub(allowed - left);
    converted
}

fn convert_within(tree: &Tree, id: Id, left: &mut usize) -> Result<MetadataValue, Unfit> {
    let mut frames: Vec<Frame> = Vec::new();
    let mut next = id;
    loop {
        let mut done = match step(tree, next, left)? {
            Step::Value(value) => Some(value),
            Step::Container(keys, items) => {
                frames.push(Frame { keys, values: Vec::with_capacity(items.len()), rest: items.into_iter() });
                None
            }
        };
        if frames.len() > MOST_LEVELS {
            return Err(Unfit::TooLarge);
        }
        // Completes every list and map that has all of its values now.
        next = loop {
            let Some(frame) = frames.last_mut() else {
                return done.ok_or(Unfit::TooLarge);
            };
            frame.values.extend(done.take());
            if let Some(id) = frame.rest.next() {
                break id;
            }
            done = frames.pop().map(Frame::finish);
        };
    }
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
            return Ok(Step::Container(None, tree.items(list).collect()));
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
        _ => return Err(Unfit::Unknown(id)),
    };
    Ok(Step::Value(value))
}

fn map(tree: &Tree, id: Id, take: &mut impl FnMut(usize) -> Result<(), Unfit>) -> Result<Step, Unfit> {
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for (part, value) in children(tree, id) {
        let Part::Key(key) = part else { return Err(Unfit::Unknown(id)) };
        let text = key_text(tree, key).ok_or(Unfit::Unknown(key))?;
        take(text.len() / BYTES_PER_VALUE)?;
        keys.push(text);
        values.push(value);
    }
    Ok(Step::Container(Some(keys), values))
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
    let unknown = Err(Unfit::Unknown(id));
    let Some(class) = tree.global(object.callable) else { return unknown };
    let arguments: Vec<Id> = match tree.value(object.arguments) {
        Value::Tuple(list) => tree.items(list).collect(),
        _ => Vec::new(),
    };
    let value = match (class, &arguments[..]) {
        (("torch", "Size"), [sizes]) => return Ok(Step::Container(None, elements(tree, *sizes))),
        (("builtins" | "__builtin__", "set" | "frozenset"), [_]) => {
            return Ok(Step::Container(None, elements(tree, id)));
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
            let keys = ["real", "imag"].map(str::to_owned).to_vec();
            return Ok(Step::Container(Some(keys), vec![*real, *imaginary]));
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
            numpy::number(tree, *dtype, *value)
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
            let texts = tree.items(list).filter_map(|id| tree.text(id));
            if texts.map(str::len).sum::<usize>() > LONGEST_TUPLE {
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
