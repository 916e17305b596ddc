//! What readers announced and nobody has fetched yet.

use super::object::Object;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Ranges that one reader reads in their order.
#[derive(Debug)]
struct Group {
    object: Arc<Object>,
    /// What is left to fetch.
    ranges: VecDeque<Range<u64>>,
    /// Whether something of it was read.
    is_started: bool,
    /// Bytes that were fetched, or are on their way, and were not read to their end.
    held: u64,
}

/// Groups in the order in which readers will take them. As many are fetched side by side as readers were seen at once, each
/// as far ahead as the others: a reader whose bytes are not there does not wait for what another one reads later.
#[derive(Debug)]
pub(super) struct Announced {
    groups: BTreeMap<u64, Group>,
    next: u64,
    /// Ranges of all groups.
    ranges: usize,
    /// Readers that were seen at once.
    readers: usize,
}

/// Announced ranges that are this close are fetched together.
const GAP: u64 = 64 << 10;
/// Ranges that are remembered.
const MOST: usize = 1 << 16;
/// Groups that are looked at to find a byte.
const NEAR: usize = 16;

impl Announced {
    pub(super) fn new() -> Self {
        Announced { groups: BTreeMap::new(), next: 0, ranges: 0, readers: 1 }
    }

    /// Adds ranges that one reader will read in this order.
    pub(super) fn add(&mut self, object: &Arc<Object>, ranges: &[Range<u64>]) {
        let mut group: VecDeque<Range<u64>> = VecDeque::new();
        for range in ranges {
            let range = range.start..range.end.min(object.size);
            let has_room = self.ranges + group.len() < MOST;
            match group.back_mut() {
                _ if range.is_empty() => {}
                Some(before)
                    if range.start >= before.start && range.start <= before.end.saturating_add(GAP) =>
                {
                    before.end = before.end.max(range.end);
                }
                _ if has_room => group.push_back(range),
                _ => break,
            }
        }
        if group.is_empty() {
            return;
        }
        self.ranges += group.len();
        let group = Group { object: object.clone(), ranges: group, is_started: false, held: 0 };
        self.groups.insert(self.next, group);
        self.next += 1;
    }

    /// The group that is the least far ahead of its reader, of those that are fetched now: its number, its object, and what is
    /// left of its first range.
    pub(super) fn first(&self) -> Option<(u64, Arc<Object>, Range<u64>)> {
        let now = self.groups.iter().take(self.readers);
        let (number, group) = now.min_by_key(|(_, group)| group.held)?;
        Some((*number, group.object.clone(), group.ranges.front()?.clone()))
    }

    /// Takes bytes that are fetched out of a group.
    pub(super) fn take(&mut self, number: u64, taken: &Range<u64>) {
        let Some(group) = self.groups.get_mut(&number) else { return };
        let before = group.ranges.len();
        take_out(&mut group.ranges, taken);
        self.ranges = self.ranges + group.ranges.len() - before;
        if group.ranges.is_empty() {
            self.groups.remove(&number);
        }
    }

    /// The group that would fetch a byte next, whose reader wants it now, and the end of its range.
    pub(super) fn find(&mut self, object: u64, offset: u64) -> Option<(u64, u64)> {
        let mut near = self.groups.iter().take(NEAR).filter(|(_, group)| group.object.id == object);
        let (number, end) = near.find_map(|(number, group)| {
            let front = group.ranges.front()?;
            front.contains(&offset).then_some((*number, front.end))
        })?;
        self.note_read(number);
        Some((number, end))
    }

    /// Puts back a range that was fetched for a group and had to go.
    pub(super) fn put_back(&mut self, number: u64, object: &Arc<Object>, range: Range<u64>) {
        let empty = || Group { object: object.clone(), ranges: VecDeque::new(), is_started: false, held: 0 };
        let group = self.groups.entry(number).or_insert_with(empty);
        match group.ranges.front_mut() {
            Some(front) if front.start == range.end => front.start = range.start,
            _ => {
                group.ranges.push_front(range);
                self.ranges += 1;
            }
        }
    }

    /// Notes that something of a group is being read.
    pub(super) fn note_read(&mut self, number: u64) {
        let Some(group) = self.groups.get_mut(&number).filter(|group| !group.is_started) else { return };
        group.is_started = true;
        let started = self.groups.values().take(NEAR).filter(|group| group.is_started).count();
        self.readers = self.readers.max(started);
    }

    /// Notes that so many bytes of a group are there.
    pub(super) fn hold(&mut self, number: u64, bytes: u64) {
        if let Some(group) = self.groups.get_mut(&number) {
            group.held = group.held.saturating_add(bytes);
        }
    }

    /// Notes that so many bytes of a group were read, or had to go.
    pub(super) fn release(&mut self, number: u64, bytes: u64) {
        if let Some(group) = self.groups.get_mut(&number) {
            group.held = group.held.saturating_sub(bytes);
        }
    }
}

/// Takes bytes out of the range that they are in, if there is one: what was announced before or behind them stays.
fn take_out(ranges: &mut VecDeque<Range<u64>>, taken: &Range<u64>) {
    let Some(at) = ranges.iter().position(|range| range.contains(&taken.start)) else { return };
    let Some(range) = ranges.remove(at) else { return };
    let left = [taken.end.min(range.end)..range.end, range.start..taken.start];
    left.into_iter().filter(|range| !range.is_empty()).for_each(|range| ranges.insert(at, range));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_leaves_what_was_announced_beside_it_and_nothing_else() {
        for (taken, expected) in [
            (0..10, &[(1000, 1010)][..]),
            (3..5, &[(0, 3), (5, 10), (1000, 1010)]),
            (1000..1010, &[(0, 10)]),
            (1004..2000, &[(0, 10), (1000, 1004)]),
            (500..600, &[(0, 10), (1000, 1010)]),
        ] {
            let mut ranges = VecDeque::from([0..10, 1000..1010]);
            take_out(&mut ranges, &taken);
            let left: Vec<(u64, u64)> = ranges.iter().map(|range| (range.start, range.end)).collect();
            assert_eq!(left, expected, "{taken:?}");
        }
    }
}
