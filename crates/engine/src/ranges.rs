//! Ranges of bytes that are in order and apart from each other.

use std::ops::Range;

/// Adds a range to those that are in order and apart from each other.
pub fn add(ranges: &mut Vec<Range<u64>>, new: Range<u64>) {
    if new.is_empty() {
        return;
    }
    let first = ranges.partition_point(|range| range.end < new.start);
    let last = ranges.partition_point(|range| range.start <= new.end);
    let touched = ranges.get(first..last).unwrap_or_default();
    let start = touched.first().map_or(new.start, |range| range.start.min(new.start));
    let end = touched.last().map_or(new.end, |range| range.end.max(new.end));
    ranges.splice(first..last, std::iter::once(start..end));
}

/// What ranges that are in order and apart from each other leave out of another one.
pub fn missing(ranges: &[Range<u64>], of: Range<u64>) -> Vec<Range<u64>> {
    let (mut left, mut start) = (Vec::new(), of.start);
    let first = ranges.partition_point(|range| range.end <= of.start);
    for range in ranges.get(first..).unwrap_or_default().iter().take_while(|range| range.start < of.end) {
        if start < range.start {
            left.push(start..range.start);
        }
        start = start.max(range.end);
    }
    if start < of.end {
        left.push(start..of.end);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_ranges_leave_out_is_all_that_they_do_not_have(
            given in prop::collection::vec((0u64..50, 0u64..12), 0..10),
            start in 0u64..60,
            len in 0u64..30,
        ) {
            let (mut ranges, of) = (Vec::new(), start..start + len);
            given.into_iter().for_each(|(start, len)| add(&mut ranges, start..start + len));
            let expected: Vec<u64> =
                of.clone().filter(|at| !ranges.iter().any(|range| range.contains(at))).collect();
            let found = missing(&ranges, of);
            prop_assert!(found.iter().all(|range| !range.is_empty()));
            prop_assert_eq!(found.into_iter().flatten().collect::<Vec<_>>(), expected);
        }

        #[test]
        fn ranges_are_merged_whatever_their_order(given in prop::collection::vec((0u64..50, 0u64..12), 0..30)) {
            let (mut ranges, mut bytes) = (Vec::new(), std::collections::BTreeSet::new());
            for (start, len) in given {
                add(&mut ranges, start..start + len);
                bytes.extend(start..start + len);
            }
            prop_assert_eq!(ranges.iter().cloned().flatten().collect::<Vec<_>>(), bytes.into_iter().collect::<Vec<_>>());
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }
}
