//! Metadata by namespace and key.

use super::key::Key;
use super::{MetadataMap, MetadataValue};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// The key that says that a namespace holds numbers of the model that no tensor has, such as the thresholds of a tree in an
/// ONNX model: its value is a text that names them. A target that keeps no metadata of other formats then loses weights,
/// which stops a conversion.
pub const KEY_WEIGHTS: &str = "weights";

/// Values by namespace and key.
///
/// The namespace is the id of the format that owns the keys. What one format cannot store survives a stay in another:
/// `nn` → safetensors → `nn` is byte-identical.
///
/// A checkpoint has metadata ([`crate::Checkpoint::metadata`]), and so has every tensor ([`crate::Tensor::metadata`]).
/// What concerns one tensor belongs there: a list by tensor name breaks when a mapping renames the tensor.
///
/// ```
/// use ckpt_api::{Metadata, MetadataValue};
/// let mut metadata = Metadata::default();
/// metadata.insert("toy", "epoch", 7u32);
/// metadata.insert("toy", "tags", ["a", "b"]);
/// assert_eq!(metadata.value("toy", "epoch"), Some(&MetadataValue::U32(7)));
/// assert_eq!(metadata.value("toy", "epoch").and_then(|epoch| epoch.as_u64()), Some(7));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Namespaces", into = "Namespaces")]
// There can be millions of tensors: if it is empty, this takes 8 bytes.
pub struct Metadata(Option<Box<Sorted>>);

/// Entries sorted by namespace. Most tensors have one, for which a `BTreeMap` would allocate 632 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sorted(SmallVec<[(Key, MetadataMap); 1]>);

impl Sorted {
    fn position(&self, namespace: &str) -> std::result::Result<usize, usize> {
        self.0.binary_search_by(|(own, _)| own.as_bytes().cmp(namespace.as_bytes()))
    }
}

/// The form that is serialized.
type Namespaces = BTreeMap<String, MetadataMap>;

impl From<Namespaces> for Metadata {
    fn from(namespaces: Namespaces) -> Self {
        let is_empty = namespaces.is_empty();
        let entries = namespaces.into_iter().map(|(namespace, map)| (Key::from(namespace), map));
        Metadata((!is_empty).then(|| Box::new(Sorted(entries.collect()))))
    }
}

impl From<Metadata> for Namespaces {
    fn from(metadata: Metadata) -> Self {
        let own = |(namespace, map): (Key, MetadataMap)| (namespace.as_str().to_owned(), map);
        metadata.0.map(|sorted| sorted.0.into_iter().map(own).collect()).unwrap_or_default()
    }
}

impl Metadata {
    /// Whether there is no namespace.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Sets one value, and replaces an earlier one.
    pub fn insert(&mut self, namespace: &str, key: &str, value: impl Into<MetadataValue>) {
        let sorted = self.0.get_or_insert_default();
        match sorted.position(namespace) {
            Ok(found) => {
                if let Some((_, map)) = sorted.0.get_mut(found) {
                    map.insert(key, value);
                }
            }
            Err(place) => {
                sorted.0.insert(place, (namespace.into(), MetadataMap::from_iter([(key, value)])));
            }
        }
    }

    /// Returns one value.
    pub fn value(&self, namespace: &str, key: &str) -> Option<&MetadataValue> {
        self.namespace(namespace)?.get(key)
    }

    /// Returns one value that is a text.
    pub fn text(&self, namespace: &str, key: &str) -> Option<&str> {
        self.value(namespace, key)?.as_text()
    }

    /// Returns all keys of one namespace.
    pub fn namespace(&self, namespace: &str) -> Option<&MetadataMap> {
        let sorted = self.0.as_ref()?;
        sorted.0.get(sorted.position(namespace).ok()?).map(|(_, map)| map)
    }

    /// Returns all namespaces, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &MetadataMap)> {
        self.0.iter().flat_map(|sorted| &sorted.0).map(|(namespace, map)| (namespace.as_str(), map))
    }

    /// Removes a namespace and returns it.
    pub fn remove(&mut self, namespace: &str) -> Option<MetadataMap> {
        let sorted = self.0.as_mut()?;
        let found = sorted.position(namespace).ok()?;
        let (_, removed) = sorted.0.remove(found);
        self.0.take_if(|sorted| sorted.0.is_empty());
        Some(removed)
    }
}
