//! Lists of values, of 4 bytes for each.

use super::arena::Arena;
use super::id::Id;

/// Values in order: see [`super::Tree::items`].
///
/// They are in one run. A list that grows after another one did has several, which are chained: picklers
/// append at most 1000 items at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    /// Index of the first item, or of the first run if there are several.
    first: u32,
    /// Index of the last run, or [`ONE_RUN`].
    last: u32,
    len: u32,
}

/// Marks a list that is in one run. Indexes have 31 bits.
const ONE_RUN: u32 = u32::MAX;

impl List {
    /// A list without values.
    pub const EMPTY: List = List { first: 0, last: ONE_RUN, len: 0 };

    /// How many values it has.
    pub fn len(self) -> usize {
        self.len as usize
    }

    /// Whether it has none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// Items that follow each other.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u32,
    len: u32,
    /// Index of the next run, if this is not the last one of its list.
    next: u32,
}

/// The items of all lists.
#[derive(Debug, Default)]
pub(super) struct Lists {
    items: Arena<Id>,
    runs: Arena<Run>,
}

impl Lists {
    /// Appends to a list; `None` if there are more items than can be counted.
    pub(super) fn append(&mut self, list: &mut List, items: &[Id]) -> Option<()> {
        let Some(len) = u32::try_from(items.len()).ok().filter(|len| *len > 0) else {
            return items.is_empty().then_some(());
        };
        let total = list.len.checked_add(len)?;
        let first = self.items.extend(items)?;
        if list.len == 0 {
            *list = List { first, last: ONE_RUN, len };
            return Some(());
        }
        if list.last == ONE_RUN && list.first + list.len != first {
            // Its items so far become a run.
            list.first = self.runs.push(Run { first: list.first, len: list.len, next: 0 })?;
            list.last = list.first;
        }
        if list.last != ONE_RUN {
            let next = self.runs.len() as u32;
            let last = self.runs.get_mut(list.last)?;
            if last.first + last.len == first {
                last.len += len;
            } else {
                last.next = next;
                list.last = self.runs.push(Run { first, len, next: 0 })?;
            }
        }
        list.len = total;
        Some(())
    }

    /// The items of a list.
    pub(super) fn items(&self, list: List) -> impl Iterator<Item = Id> {
        let one = Run { first: list.first, len: list.len, next: 0 };
        let mut run = if list.last == ONE_RUN { Some(one) } else { self.runs.get(list.first).copied() };
        (0..list.len).map_while(move |_| {
            if run?.len == 0 {
                run = self.runs.get(run?.next).copied();
            }
            let run = run.as_mut()?;
            let item = self.items.get(run.first).copied();
            (run.first, run.len) = (run.first + 1, run.len.saturating_sub(1));
            item
        })
    }

    /// The last item of a list.
    pub(super) fn last(&self, list: List) -> Option<Id> {
        let run = match list.last {
            ONE_RUN => Run { first: list.first, len: list.len, next: 0 },
            last => *self.runs.get(last)?,
        };
        run.len.checked_sub(1).and_then(|last| self.items.get(run.first + last)).copied()
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        self.items.bytes() + self.runs.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_takes_4_bytes_whatever_the_number_of_lists() {
        let mut lists = Lists::default();
        for _ in 0..10 {
            lists.append(&mut List::EMPTY.clone(), &[Id::NONE; 7]).unwrap();
        }
        assert_eq!(lists.bytes(), 4 * 70);
    }

    #[test]
    fn lists_that_grow_in_turn_keep_their_order() {
        let mut lists = Lists::default();
        let mut grown = [List::EMPTY; 3];
        let mut expected = [const { Vec::new() }; 3];
        let values = [Id::NONE, Id::TRUE, Id::FALSE];
        // List 0 grows every time, list 1 every other time, list 2 only at the end, twice in a row.
        let turns: Vec<usize> =
            (0..20).flat_map(|turn| [0, 1].into_iter().take(1 + turn % 2)).chain([2, 2]).collect();
        for (turn, which) in turns.into_iter().enumerate() {
            let items: Vec<Id> = (0..turn % 4).map(|item| values[(turn + item) % 3]).collect();
            lists.append(&mut grown[which], &items).unwrap();
            expected[which].extend(items);
            for (list, expected) in grown.iter().zip(&expected) {
                assert_eq!(lists.items(*list).collect::<Vec<Id>>(), *expected);
                assert_eq!((lists.last(*list), list.len()), (expected.last().copied(), expected.len()));
            }
        }
        assert!(expected.iter().all(|items| !items.is_empty()));
    }
}
