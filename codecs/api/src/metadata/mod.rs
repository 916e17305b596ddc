//! Metadata: what a checkpoint records beside its graph and tensors.

mod json;
mod map;
mod size;
#[cfg(test)]
mod tests;
mod value;

pub use map::MetadataMap;
pub(crate) use size::check;
pub use value::MetadataValue;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
// Boxed, and `None` where it is empty: there can be many thousand tensors.
pub struct Metadata(Option<Box<Namespaces>>);

type Namespaces = BTreeMap<String, MetadataMap>;

impl From<Namespaces> for Metadata {
    fn from(namespaces: Namespaces) -> Self {
        Metadata((!namespaces.is_empty()).then(|| Box::new(namespaces)))
    }
}

impl From<Metadata> for Namespaces {
    fn from(metadata: Metadata) -> Self {
        metadata.0.map(|namespaces| *namespaces).unwrap_or_default()
    }
}

impl Metadata {
    /// Whether there is no namespace.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Sets one value, and replaces an earlier one.
    pub fn insert(&mut self, namespace: &str, key: &str, value: impl Into<MetadataValue>) {
        self.0.get_or_insert_default().entry(namespace.to_owned()).or_default().insert(key, value);
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
        self.0.as_ref()?.get(namespace)
    }

    /// Returns all namespaces, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &MetadataMap)> {
        self.0.iter().flat_map(|all| all.iter()).map(|(namespace, map)| (namespace.as_str(), map))
    }

    /// Removes a namespace and returns it.
    pub fn remove(&mut self, namespace: &str) -> Option<MetadataMap> {
        let removed = self.0.as_mut()?.remove(namespace);
        self.0.take_if(|left| left.is_empty());
        removed
    }
}
