//! Lists of tensors, as loops take and make them.

use super::pattern::View;
use super::reach::Edge;
use std::collections::BTreeMap;

/// Limit on the items of a list.
const MAX_ITEMS: usize = 1 << 10;

/// What a list holds.
pub(super) enum List {
    /// The rows of a tensor.
    Rows(Edge),
    /// Items by their numbers, and how many there are.
    Items(BTreeMap<i64, Edge>, i64),
}

impl View<'_> {
    /// Returns what a list holds.
    pub fn list(&self, mut edge: Edge) -> Option<List> {
        let mut items = BTreeMap::new();
        for _ in 0..MAX_ITEMS {
            match (self.kind(edge), self.inputs(edge)) {
                ("TensorListSetItem", [list, at, item, ..]) => {
                    let [at] = self.ints(*at)?[..] else { return None };
                    items.entry(at).or_insert(*item);
                    edge = *list;
                }
                ("TensorListReserve", [_, count, ..]) => {
                    let [count] = self.ints(*count)?[..] else { return None };
                    return Some(List::Items(items, count));
                }
                ("TensorListFromTensor", [rows, ..]) if items.is_empty() => return Some(List::Rows(*rows)),
                _ => return None,
            }
        }
        None
    }

    /// Returns all items of a list in their order.
    pub fn items(&self, edge: Edge) -> Option<Vec<Edge>> {
        let List::Items(items, count) = self.list(edge)? else { return None };
        let is_whole = items.keys().copied().eq(0..count) && count > 0;
        is_whole.then(|| items.into_values().collect())
    }

    /// Returns the item of a list that an operation takes, if it was put there by itself.
    pub fn item(&self, edge: Edge) -> Option<Edge> {
        let (list, at) = self.pair(edge, &["TensorListGetItem"])?;
        let [at] = self.ints(at)?[..] else { return None };
        match self.list(list)? {
            List::Items(items, _) => items.get(&at).copied(),
            List::Rows(_) => None,
        }
    }
}
