//! The dicts and lists that the names of a file's tensors come from, so that a distributed checkpoint has them, too.

use crate::format::ID;
use crate::format::keys::{KEY_CONTAINERS, KEY_PICKLE, ZIP};
use crate::format::metadata::Step;
use crate::object::walk::{Container, walk};
use ckpt_api::{Checkpoint, File, Limits, MetadataMap, MetadataValue};
use ckpt_containers::pickle::{Feed, parse};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Keys of the metadata.
const DICTS: &str = "dicts";
const LISTS: &str = "lists";
/// Levels of a value that is no tensor; deeper ones are entries as they are.
const MOST_LEVELS: usize = 32;

/// Containers by their names.
#[derive(Debug, Default)]
pub(super) struct Nesting(BTreeMap<String, Container>);

impl Nesting {
    /// The containers of the file that was read.
    pub(super) fn of(checkpoint: &Checkpoint) -> Self {
        Self::of_pickle(checkpoint).or_else(|| Self::kept(checkpoint)).unwrap_or_default()
    }

    pub(super) fn new(containers: Vec<(String, Container)>) -> Self {
        Nesting(containers.into_iter().filter(|(name, _)| !name.is_empty()).collect())
    }

    fn of_pickle(checkpoint: &Checkpoint) -> Option<Self> {
        let pickle = checkpoint.metadata.value(ZIP, KEY_PICKLE)?.as_bytes()?;
        let limits = Limits::default();
        let file = File::new(Arc::new(pickle.to_vec()), "data.pkl").ok()?;
        let tree = parse(Feed::new(&file, 0, file.len(), &limits)).ok()?;
        Some(Self::new(walk(&tree, tree.root(), ID).ok()?.containers))
    }

    fn kept(checkpoint: &Checkpoint) -> Option<Self> {
        let kept = checkpoint.metadata.value(ZIP, KEY_CONTAINERS)?.as_map()?;
        let named = |key: &str, kind: Container| {
            let names = kept.get(key).and_then(MetadataValue::as_list).unwrap_or_default();
            names.iter().filter_map(move |name| Some((name.as_text()?.to_owned(), kind)))
        };
        Some(Nesting(named(DICTS, Container::Dict).chain(named(LISTS, Container::List)).collect()))
    }

    /// The form in the metadata; `None` if there are none.
    pub(super) fn value(&self) -> Option<MetadataValue> {
        let named = |kind: Container| -> Vec<MetadataValue> {
            let own = self.0.iter().filter(|(_, own)| **own == kind);
            own.map(|(name, _)| name.as_str().into()).collect()
        };
        let lists = [(DICTS, named(Container::Dict)), (LISTS, named(Container::List))];
        let map: MetadataMap =
            lists.into_iter().map(|(key, names)| (key, MetadataValue::List(names))).collect();
        (!self.0.is_empty()).then_some(MetadataValue::Map(map))
    }

    /// The keys and indexes that lead to a value of this name.
    pub(super) fn steps(&self, name: &str) -> Vec<Step> {
        let (mut steps, mut start, mut container) = (Vec::new(), 0, Container::Dict);
        for (dot, _) in name.match_indices('.') {
            let Some(next) = name.get(..dot).and_then(|prefix| self.0.get(prefix)) else { continue };
            steps.push(step(container, name.get(start..dot).unwrap_or_default()));
            (start, container) = (dot + 1, *next);
        }
        steps.push(step(container, name.get(start..).unwrap_or_default()));
        steps
    }
}

fn step(container: Container, text: &str) -> Step {
    match (container, text.parse()) {
        (Container::List, Ok(index)) => Step::Index(index),
        _ => Step::Key(text.to_owned()),
    }
}

/// A value that is no tensor, as an entry of a distributed checkpoint.
pub(super) struct Entry<'a> {
    pub(super) name: String,
    pub(super) steps: Vec<Step>,
    pub(super) value: &'a MetadataValue,
}

/// The entries that PyTorch makes of a value: it descends into dicts, and into lists that hold dicts.
pub(super) fn entries<'a>(name: &str, steps: Vec<Step>, value: &'a MetadataValue) -> Vec<Entry<'a>> {
    let mut entries = Vec::new();
    let mut open = vec![Entry { name: name.to_owned(), steps, value }];
    while let Some(Entry { name, steps, value }) = open.pop() {
        let within = |key: String, step: Step, value: &'a MetadataValue| {
            let steps = steps.iter().cloned().chain([step]).collect();
            Entry { name: format!("{name}.{key}"), steps, value }
        };
        let from = open.len();
        match value {
            _ if steps.len() >= MOST_LEVELS => entries.push(Entry { name, steps, value }),
            MetadataValue::Map(map) => {
                open.extend(
                    map.iter().map(|(key, value)| within(key.to_owned(), Step::Key(key.to_owned()), value)),
                );
            }
            MetadataValue::List(values) if has_dict(values) => {
                let indexed = values.iter().enumerate();
                open.extend(indexed.map(|(at, value)| within(at.to_string(), Step::Index(at as u64), value)));
            }
            _ => entries.push(Entry { name, steps, value }),
        }
        // The first one is taken next.
        open.get_mut(from..).unwrap_or_default().reverse();
    }
    entries
}

/// Whether a dict is in these values, or in lists of theirs.
fn has_dict(values: &[MetadataValue]) -> bool {
    let mut open = vec![values.iter()];
    while let Some(values) = open.last_mut() {
        match values.next() {
            None => drop(open.pop()),
            Some(MetadataValue::Map(_)) => return true,
            Some(MetadataValue::List(inner)) => open.push(inner.iter()),
            Some(_) => {}
        }
    }
    false
}

/// Where values are, by name, of which the container is not the outermost dict.
pub(super) fn paths<'a>(named: impl Iterator<Item = (&'a str, Vec<Step>)>) -> HashMap<String, Vec<Step>> {
    named.filter(|(_, steps)| steps.len() > 1).map(|(name, steps)| (name.to_owned(), steps)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nesting() -> Nesting {
        let dict = ["model", "optimizer", "optimizer.state", "optimizer.state.0"];
        let dicts = dict.map(|name| (name.to_owned(), Container::Dict));
        let lists = ["list", "list.0"].map(|name| (name.to_owned(), Container::List));
        Nesting::new(dicts.into_iter().chain(lists).collect())
    }

    fn shown(steps: &[Step]) -> String {
        let one = |step: &Step| match step {
            Step::Key(key) => format!("'{key}'"),
            Step::Index(index) => index.to_string(),
        };
        steps.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn names_are_split_where_their_containers_end() {
        for (name, expected) in [
            ("w", "'w'"),
            ("model.layer.0.weight", "'model' 'layer.0.weight'"),
            ("optimizer.state.0.exp_avg", "'optimizer' 'state' '0' 'exp_avg'"),
            ("list.0.1", "'list' 0 1"),
            ("other.list.0", "'other.list.0'"),
        ] {
            assert_eq!(shown(&nesting().steps(name)), expected);
        }
    }

    #[test]
    fn containers_that_are_kept_are_the_same() {
        let mut checkpoint = Checkpoint::default();
        checkpoint.metadata.insert(ZIP, KEY_CONTAINERS, nesting().value().unwrap());
        assert_eq!(Nesting::of(&checkpoint).0, nesting().0);
        assert!(Nesting::default().value().is_none());
    }

    #[test]
    fn values_are_entries_where_pytorch_does_not_descend() {
        let map = |pairs: Vec<(&str, MetadataValue)>| {
            MetadataValue::Map(pairs.into_iter().collect::<MetadataMap>())
        };
        let list = |values: Vec<MetadataValue>| MetadataValue::List(values);
        let value = map(vec![
            ("lr", 1.into()),
            ("groups", list(vec![map(vec![("betas", list(vec![1.into(), 2.into()]))]), 3.into()])),
            ("nothing", map(vec![])),
            ("lists", list(vec![list(vec![])])),
        ]);
        let found = entries("o", vec![Step::Key("o".to_owned())], &value);
        let found: Vec<String> =
            found.iter().map(|entry| format!("{} {}", entry.name, shown(&entry.steps))).collect();
        let expected = [
            "o.lr 'o' 'lr'",
            "o.groups.0.betas 'o' 'groups' 0 'betas'",
            "o.groups.1 'o' 'groups' 1",
            "o.lists 'o' 'lists'",
        ];
        assert_eq!(found, expected);
    }
}
