//! How many tensors are within each value, however values share and nest.

use super::children::{Sort, Work, children, sort};
use crate::tensor::call::is_tensor;
use ckpt_api::{Error, Result};
use ckpt_containers::pickle::{Id, Tree, Value};

/// Levels of containers around a tensor: so many have a name that a person can read.
const MOST_LEVELS: u32 = 256;

/// The number of names that the tensors within each value have.
#[derive(Debug)]
pub(crate) struct Counts {
    names: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    No,
    /// Its children are being counted.
    Open,
    /// The same, and one of them holds it.
    Cyclic,
    Done,
}

struct Frame {
    id: Id,
    children: std::vec::IntoIter<Id>,
    names: u32,
    levels: u32,
}

impl Counts {
    /// Counts for everything below `root`, in time linear in the pickle.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] if a container that has tensors holds itself; [`ckpt_api::Kind::Limit`] for more
    /// names than the pickle has values, and for tensors below too many levels.
    pub(crate) fn new(tree: &Tree, root: Id) -> Result<Self> {
        let mut counts = Counts { names: vec![0; tree.value_count()] };
        let mut seen = vec![Seen::No; tree.value_count()];
        let mut levels = vec![0u32; tree.value_count()];
        let mut work = Work::new(tree);
        let mut open = |id: Id| {
            work.take(tree, id)?;
            let children = holders(tree, id);
            let names = u32::from(tree.object(id).is_some_and(|object| is_tensor(tree, object)));
            Ok::<_, Error>(Frame { id, children: children.into_iter(), names, levels: 0 })
        };
        let mut frames = Vec::new();
        if let Some(entry) = tree.index(root).and_then(|index| seen.get_mut(index)) {
            *entry = Seen::Open;
            frames.push(open(root)?);
        }
        while let Some(frame) = frames.last_mut() {
            if let Some(child) = frame.children.next() {
                let Some(index) = tree.index(child) else { continue };
                match seen.get(index).copied().unwrap_or(Seen::Done) {
                    Seen::Done => {
                        frame.add(counts.of(tree, child), levels.get(index).copied().unwrap_or(0));
                    }
                    Seen::Open | Seen::Cyclic => {
                        if let Some(entry) = seen.get_mut(index) {
                            *entry = Seen::Cyclic;
                        }
                    }
                    Seen::No => {
                        // Nothing is within a tensor.
                        let is_tensor = tree.object(child).is_some_and(|object| is_tensor(tree, object));
                        if let Some(entry) = seen.get_mut(index) {
                            *entry = if is_tensor { Seen::Done } else { Seen::Open };
                        }
                        if !is_tensor {
                            frames.push(open(child)?);
                        } else if let Some(names) = counts.names.get_mut(index) {
                            *names = 1;
                            frame.add(1, 0);
                        }
                    }
                }
                continue;
            }
            let Some(done) = frames.pop() else { break };
            if let Some(index) = tree.index(done.id) {
                let places = (counts.names.get_mut(index), seen.get_mut(index), levels.get_mut(index));
                if let (Some(names), Some(seen), Some(own)) = places {
                    if done.names > 0 && *seen == Seen::Cyclic {
                        let message = "a container of the pickle holds itself, so that its tensors have no end of names";
                        return Err(Error::corrupt(message));
                    }
                    (*names, *seen, *own) = (done.names, Seen::Done, done.levels);
                }
            }
            if let Some(parent) = frames.last_mut() {
                parent.add(done.names, done.levels);
            }
            if done.names > 0 && done.levels > MOST_LEVELS {
                return Err(Error::limit("a tensor lies within too many containers")
                    .expected(format!("at most {MOST_LEVELS} levels")));
            }
        }
        counts.check(tree, root)?;
        Ok(counts)
    }

    /// The number of names within a value.
    pub(crate) fn of(&self, tree: &Tree, id: Id) -> u32 {
        tree.index(id).and_then(|index| self.names.get(index)).copied().unwrap_or(0)
    }

    fn check(&self, tree: &Tree, root: Id) -> Result<()> {
        let found = self.of(tree, root);
        if found as usize <= tree.value_count() {
            return Ok(());
        }
        Err(Error::limit("containers of the pickle are shared so often that its tensors have too many names")
            .found(if found == u32::MAX { "more than can be counted".to_owned() } else { found.to_string() })
            .expected(format!("at most {}, as many as the pickle has values", tree.value_count())))
    }
}

impl Frame {
    fn add(&mut self, names: u32, levels: u32) {
        self.names = self.names.saturating_add(names);
        if names > 0 {
            self.levels = self.levels.max(levels.saturating_add(1));
        }
    }
}

/// The values within another that may have tensors. Those of a large list or dict of plain values take no memory.
fn holders(tree: &Tree, id: Id) -> Vec<Id> {
    match tree.value(id) {
        Value::Tuple(list) | Value::List(list) | Value::Set(list) => {
            tree.items(list).filter(|id| can_hold(tree, *id)).collect()
        }
        Value::Dict(list) if !tree.entries(list).any(|(_, value)| can_hold(tree, value)) => Vec::new(),
        _ => children(tree, id).into_iter().map(|(_, id)| id).filter(|id| can_hold(tree, *id)).collect(),
    }
}

/// Whether there may be tensors within a value.
pub(super) fn can_hold(tree: &Tree, id: Id) -> bool {
    tree.object(id).is_some() || sort(tree, id) != Sort::Leaf
}
