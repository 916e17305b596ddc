//! Trees: the names of leaves, and what each is.

pub(crate) mod metadata;
pub(crate) mod old;

use crate::msgpack::FlaxArray;
use ckpt_api::MetadataValue;

/// A leaf of a tree.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Leaf {
    /// The keys of its path, joined with dots.
    pub(crate) name: String,
    /// The keys, if the name alone does not tell them: a position in a list, or a key with a dot.
    pub(crate) path: Option<Vec<PathKey>>,
    pub(crate) content: Content,
}

/// A key of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PathKey {
    /// A position in a list or a tuple.
    Position(u64),
    /// The key of a dict, or a field.
    Name(String),
}

/// What a leaf is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    /// An array that is stored under the leaf's name.
    Array,
    /// An array that is stored under another name.
    Named(String),
    /// An array within the file of the tree.
    Within(FlaxArray),
    /// A text, under the leaf's name in the file of texts.
    Text,
    /// A value that is no array.
    Value(MetadataValue),
    /// An empty container, or nothing: what kind.
    Empty(String),
}

impl PathKey {
    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            PathKey::Position(_) => size_of::<PathKey>(),
            PathKey::Name(name) => size_of::<PathKey>() + name.len(),
        }
    }
}

impl Leaf {
    /// A leaf at the end of these keys.
    pub(crate) fn new(keys: Vec<PathKey>, content: Content) -> Leaf {
        let parts: Vec<String> = keys
            .iter()
            .map(|key| match key {
                PathKey::Position(at) => at.to_string(),
                PathKey::Name(name) => name.clone(),
            })
            .collect();
        let is_plain = keys.iter().all(|key| matches!(key, PathKey::Name(name) if !name.contains('.')));
        Leaf { name: parts.join("."), path: (!is_plain).then_some(keys), content }
    }
}

/// Keys as metadata: texts, and numbers for positions.
pub(crate) fn path_metadata(path: &[PathKey]) -> MetadataValue {
    let value = |key: &PathKey| match key {
        PathKey::Position(at) => MetadataValue::integer(*at),
        PathKey::Name(name) => name.as_str().into(),
    };
    MetadataValue::List(path.iter().map(value).collect())
}
