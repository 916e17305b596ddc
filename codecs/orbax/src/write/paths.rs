//! Paths of leaves in a tree, from their names.

use crate::tree::PathKey;
use ckpt_api::{Metadata, MetadataValue};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Keys within each other, at most: readers bound them.
const MOST_DEPTH: usize = 100;

/// The path that metadata of a namespace states for a name; `None` if it is that of another name.
pub(super) fn stated(metadata: &Metadata, namespace: &str, name: &str) -> Option<Vec<PathKey>> {
    let mut path = parse(metadata.value(namespace, "path")?)?;
    if let Some(item) = metadata.text(namespace, "item") {
        path.insert(0, PathKey::Name(item.to_owned()));
    }
    (joined(&path) == name).then_some(path)
}

/// Keys from metadata: texts, and numbers for positions.
pub(super) fn parse(value: &MetadataValue) -> Option<Vec<PathKey>> {
    let key = |value: &MetadataValue| match value.as_text() {
        Some(text) => Some(PathKey::Name(text.to_owned())),
        None => value.as_u64().map(PathKey::Position),
    };
    value.as_list()?.iter().map(key).collect()
}

/// The path of a name without any other information: its parts between dots, or the name as one key.
pub(super) fn of_name(name: &str) -> Vec<PathKey> {
    let parts: Vec<PathKey> = name.split('.').map(|part| PathKey::Name(part.to_owned())).collect();
    let is_nested = parts.len() <= MOST_DEPTH && !name.split('.').any(str::is_empty);
    if is_nested { parts } else { vec![PathKey::Name(name.to_owned())] }
}

/// Makes paths those of one tree: a leaf that would be within another gets its name as one key, and positions that are not all
/// there are names.
pub(super) fn reconcile(paths: &mut [Vec<PathKey>]) {
    let leaves: HashSet<Vec<PathKey>> = paths.iter().cloned().collect();
    for path in paths.iter_mut() {
        let is_within =
            (1..path.len()).any(|len| path.get(..len).is_some_and(|start| leaves.contains(start)));
        if is_within {
            *path = vec![PathKey::Name(joined(path))];
        }
    }
    let mut children: HashMap<Vec<PathKey>, BTreeSet<(u64, bool)>> = HashMap::new();
    for path in paths.iter() {
        for (len, key) in path.iter().enumerate() {
            let child = match key {
                PathKey::Position(at) => (*at, true),
                PathKey::Name(_) => (0, false),
            };
            children.entry(path.get(..len).unwrap_or_default().to_vec()).or_default().insert(child);
        }
    }
    let is_list = |parent: &[PathKey]| {
        let children = children.get(parent);
        children.is_some_and(|children| {
            children.iter().enumerate().all(|(at, child)| *child == (at as u64, true))
        })
    };
    for path in paths.iter_mut() {
        let kept: Vec<bool> =
            (0..path.len()).map(|len| is_list(path.get(..len).unwrap_or_default())).collect();
        for (key, is_list) in path.iter_mut().zip(kept) {
            if let (PathKey::Position(at), false) = (&*key, is_list) {
                *key = PathKey::Name(at.to_string());
            }
        }
    }
}

/// The keys of a path, joined with dots.
pub(super) fn joined(path: &[PathKey]) -> String {
    let parts: Vec<String> = path.iter().map(text).collect();
    parts.join(".")
}

/// A key as a text.
pub(super) fn text(key: &PathKey) -> String {
    match key {
        PathKey::Position(at) => at.to_string(),
        PathKey::Name(name) => name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_within_another_gets_its_name_as_one_key() {
        let mut paths = ["a", "a.b", "c.d"].map(of_name);
        reconcile(&mut paths);
        assert_eq!(paths.map(|path| path.len()), [1, 1, 2]);
    }

    #[test]
    fn positions_that_are_not_all_there_are_names() {
        let list = |at| vec![PathKey::Name("l".to_owned()), PathKey::Position(at)];
        let mut whole = [list(0), list(1)];
        reconcile(&mut whole);
        assert_eq!(whole, [list(0), list(1)]);
        let mut holes = [list(0), list(2)];
        reconcile(&mut holes);
        assert_eq!(holes[1][1], PathKey::Name("2".to_owned()));
    }
}
