//! What a checkpoint says beside its graph and tensors.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// JSON values by namespace and key. The namespace is the id of the format that owns the keys, so that what one
/// format cannot say survives a stay in another (`nn` → safetensors → `nn` is byte-identical).
///
/// A checkpoint has some ([`crate::Checkpoint::metadata`]), and so has every tensor ([`crate::Tensor::metadata`]):
/// what concerns one tensor belongs there, for a list by tensor name goes wrong as soon as a mapping renames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Namespaces", into = "Namespaces")]
// Boxed, and nothing where nothing is said: there can be many thousand tensors.
pub struct Metadata(Option<Box<Namespaces>>);

type Namespaces = BTreeMap<String, Map<String, Value>>;

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
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Sets one value, replacing an earlier one.
    pub fn insert(&mut self, namespace: &str, key: &str, value: impl Into<Value>) {
        self.0
            .get_or_insert_default()
            .entry(namespace.to_owned())
            .or_default()
            .insert(key.to_owned(), value.into());
    }

    /// One value.
    pub fn value(&self, namespace: &str, key: &str) -> Option<&Value> {
        self.namespace(namespace)?.get(key)
    }

    /// One value that is a string.
    pub fn text(&self, namespace: &str, key: &str) -> Option<&str> {
        self.value(namespace, key)?.as_str()
    }

    /// All keys of one namespace.
    pub fn namespace(&self, namespace: &str) -> Option<&Map<String, Value>> {
        self.0.as_ref()?.get(namespace)
    }

    /// All namespaces, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Map<String, Value>)> {
        self.0.iter().flat_map(|all| all.iter()).map(|(namespace, map)| (namespace.as_str(), map))
    }

    /// Takes a whole namespace out.
    pub fn remove(&mut self, namespace: &str) -> Option<Map<String, Value>> {
        let removed = self.0.as_mut()?.remove(namespace);
        self.0.take_if(|left| left.is_empty());
        removed
    }
}
