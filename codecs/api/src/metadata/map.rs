//! A map that keeps the order in which its keys were inserted.

use super::MetadataValue;
use super::key::Key;
use std::collections::HashMap;

/// Values by key, in the order in which the keys were inserted.
///
/// Two maps are equal if they have the same entries, in any order.
///
/// ```
/// use ckpt_api::{MetadataMap, MetadataValue};
/// let map: MetadataMap = [("b", 1i64), ("a", 2)].into_iter().collect();
/// assert_eq!(map.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["b", "a"]);
/// assert_eq!(map.get("a"), Some(&MetadataValue::I64(2)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct MetadataMap {
    entries: Vec<(Key, MetadataValue)>,
    /// `None` while there are few: comparing those is faster, and most maps have few.
    positions: Option<Box<Positions>>,
}

/// Position of every key.
#[derive(Clone, Debug)]
struct Positions(HashMap<Box<str>, usize>);

/// Number of entries that are searched one by one.
const FEW: usize = 16;

impl MetadataMap {
    /// An empty map.
    pub fn new() -> Self {
        MetadataMap::default()
    }

    /// Sets one value. Returns the one that it replaces; the key keeps its place then.
    pub fn insert(
        &mut self,
        key: impl Into<String>,
        value: impl Into<MetadataValue>,
    ) -> Option<MetadataValue> {
        let (key, value): (String, MetadataValue) = (key.into(), value.into());
        let position = self.position(&key);
        if let Some((_, old)) = position.and_then(|position| self.entries.get_mut(position)) {
            return Some(std::mem::replace(old, value));
        }
        if let Some(positions) = &mut self.positions {
            positions.0.insert(key.as_str().into(), self.entries.len());
        }
        if self.entries.is_empty() {
            // Many maps have one entry, and `push` alone would make room for four.
            self.entries.reserve_exact(1);
        }
        self.entries.push((key.into(), value));
        if self.positions.is_none() && self.entries.len() > FEW {
            self.index();
        }
        None
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&MetadataValue> {
        self.entries.get(self.position(key)?).map(|(_, value)| value)
    }

    /// Removes a key and returns its value. Takes time linear in the number of entries.
    pub fn remove(&mut self, key: &str) -> Option<MetadataValue> {
        let position = self.position(key)?;
        let (_, value) = self.entries.remove(position);
        self.index();
        Some(value)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the entries in the order in which their keys were inserted.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &MetadataValue)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    fn position(&self, key: &str) -> Option<usize> {
        match &self.positions {
            Some(positions) => positions.0.get(key).copied(),
            None => self.entries.iter().position(|(own, _)| own.as_bytes() == key.as_bytes()),
        }
    }

    fn index(&mut self) {
        let keys =
            self.entries.iter().enumerate().map(|(position, (key, _))| (key.as_str().into(), position));
        self.positions = (self.entries.len() > FEW).then(|| Box::new(Positions(keys.collect())));
    }
}

impl PartialEq for MetadataMap {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl Eq for MetadataMap {}

impl IntoIterator for MetadataMap {
    type Item = (String, MetadataValue);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        let entries = self.entries.into_iter().map(|(key, value)| (key.as_str().to_owned(), value));
        entries.collect::<Vec<_>>().into_iter()
    }
}

impl<K: Into<String>, V: Into<MetadataValue>> FromIterator<(K, V)> for MetadataMap {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = MetadataMap::new();
        map.extend(entries);
        map
    }
}

impl<K: Into<String>, V: Into<MetadataValue>> Extend<(K, V)> for MetadataMap {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}
