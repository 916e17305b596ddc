//! Which entries of a file are read as weights, and which store a weight once more.

use super::section::Section;
use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;

/// Marks the entries that are no weights of their own: all but one of each id, and those whose weight another includes.
pub(super) fn mark_copies(sections: &mut [Section<'_>]) {
    let weights = without_merged(sections, best_of_each(sections));
    for (index, section) in sections.iter_mut().enumerate() {
        section.is_copy = !weights.contains(&index);
    }
}

/// Returns the first weight that only copies store or include, and the first of these: reading would lose it.
pub(super) fn lost<'s, 'a>(sections: &'s [Section<'a>]) -> Option<(&'a str, &'s Section<'a>)> {
    let (copies, weights): (Vec<_>, Vec<_>) = sections.iter().partition(|section| section.is_copy);
    let kept: HashSet<&str> = weights.into_iter().flat_map(Section::included).collect();
    let is_lost = |id: &&str| !kept.contains(id);
    copies.into_iter().find_map(|copy| Some((copy.included().find(is_lost)?, copy)))
}

/// Returns the entry of each id that says most about its weight, in file order.
fn best_of_each(sections: &[Section<'_>]) -> Vec<usize> {
    let mut best: HashMap<&str, (Merit, usize)> = HashMap::new();
    let stored: HashSet<&str> = sections.iter().flat_map(Section::ids).collect();
    for (index, section) in sections.iter().enumerate() {
        let merit = Merit::of(section, &stored);
        let best = best.entry(&section.entry.id).or_insert((merit, index));
        // Of equal ones, the first stays.
        if merit > best.0 {
            *best = (merit, index);
        }
    }
    let mut best: Vec<usize> = best.into_values().map(|(_, index)| index).collect();
    best.sort_unstable();
    best
}

/// Returns these entries without those whose weight is merged into another of the rest: it would count twice.
fn without_merged(sections: &[Section<'_>], entries: Vec<usize>) -> HashSet<usize> {
    let mut open: Vec<(usize, &Section<'_>)> =
        entries.into_iter().filter_map(|index| Some((index, sections.get(index)?))).collect();
    let (mut kept, mut included) = (HashSet::new(), HashSet::new());
    while !open.is_empty() {
        // Only an entry that stays includes another, so what merges an entry is decided before it.
        let merged: HashSet<&str> = open.iter().filter_map(|(_, section)| section.merged).collect();
        let (mut later, mut next): (Vec<_>, Vec<_>) =
            open.into_iter().partition(|(_, section)| merged.contains(section.entry.id.as_str()));
        if next.is_empty() {
            // Entries that merge each other in a circle: the first of the file stays.
            next.push(later.remove(0));
        }
        for (index, section) in next {
            if !included.contains(section.entry.id.as_str()) {
                kept.insert(index);
                included.extend(section.merged);
            }
        }
        open = later;
    }
    kept
}

/// How much an entry says about its weight. The fields are in the order of their importance.
#[derive(Clone, Copy, Default, PartialEq, PartialOrd)]
struct Merit {
    /// Whether it includes a weight that the file does not store otherwise.
    has_all: bool,
    /// Whether it is the weight without another.
    is_alone: bool,
    is_unclipped: bool,
    is_float: bool,
    scale: Option<NonZeroU32>,
}

impl Merit {
    fn of(section: &Section<'_>, stored: &HashSet<&str>) -> Self {
        // raw.bin stores every entry in the same way.
        if section.is_raw {
            return Merit::default();
        }
        let entry = section.entry;
        Merit {
            has_all: section.merged.is_some_and(|merged| !stored.contains(merged)),
            is_alone: section.merged.is_none(),
            is_unclipped: entry.clip.is_none(),
            is_float: entry.scale.is_none(),
            scale: entry.scale,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::format::Content;
    use crate::net::architecture::Architecture;
    use crate::net::sections::{Sections, sections};
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use std::collections::HashSet;

    /// An entry: the number of a weight, that of a merged one, and the scale of its integers.
    type Written = (usize, Option<usize>, Option<u64>);

    fn architecture(saved: &[Written]) -> Architecture {
        let tensors: Vec<Value> = (0..5).map(|id| json!({ "id": format!("w{id}"), "rows": 2 })).collect();
        let saved = saved.iter().map(|(id, merge, scale)| {
            let mut entry =
                json!({ "id": format!("w{id}"), "type": if scale.is_some() { "i16" } else { "f32" } });
            if let Some(merge) = merge.filter(|merge| merge != id) {
                entry["merge"] = format!("w{merge}").into();
            }
            if let Some(scale) = scale {
                entry["scale"] = (*scale).into();
            }
            entry
        });
        let net = json!({
            "format": "bullet", "input": { "features": 1 }, "layers": [{ "size": 1 }],
            "tensors": tensors, "saved": saved.collect::<Vec<_>>(),
        });
        Architecture::new(serde_json::from_value(net).unwrap()).unwrap()
    }

    /// The entries that are read as weights, as `id`, or `id+merged`.
    fn weights(found: &Sections<'_>) -> Vec<String> {
        let weights = found.weights.iter().filter(|section| !section.is_copy);
        weights.map(|section| section.included().collect::<Vec<_>>().join("+")).collect()
    }

    fn weights_of(saved: &[Written]) -> Vec<String> {
        weights(&sections(&architecture(saved), Content::Quantised).unwrap())
    }

    #[test]
    fn of_entries_that_merge_each_other_the_first_stays() {
        assert_eq!(weights_of(&[(0, Some(1), None), (1, Some(0), None)]), ["w0+w1"]);
        assert_eq!(weights_of(&[(1, Some(0), None), (0, Some(1), None)]), ["w1+w0"]);
        let circle = [(0, Some(1), None), (1, Some(2), None), (2, Some(0), None)];
        assert_eq!(weights_of(&circle), ["w0+w1", "w2+w0"]);
    }

    #[test]
    fn a_weight_that_only_a_copy_includes_stays() {
        assert_eq!(weights_of(&[(0, Some(1), None), (1, Some(2), None), (2, None, None)]), ["w0+w1", "w2"]);
    }

    #[test]
    fn a_weight_that_is_in_no_other_entry_than_a_copy_is_lost() {
        for saved in [[(0, Some(1), None), (0, Some(2), None)], [(0, Some(1), None), (1, Some(2), None)]] {
            let architecture = architecture(&saved);
            let lost =
                |content| sections(&architecture, content).unwrap().lost().map(|(id, _)| id.to_owned());
            assert_eq!(lost(Content::Quantised), Some("w2".to_owned()));
            // raw.bin merges nothing.
            assert_eq!(lost(Content::Raw), None);
        }
    }

    fn saved() -> impl Strategy<Value = Vec<Written>> {
        let entry = (0..5usize, prop::option::of(0..5usize), prop::option::of(1..3u64));
        prop::collection::vec(entry, 1..9)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn every_weight_of_a_file_is_in_an_entry_that_is_no_copy_or_is_reported_as_lost(saved in saved()) {
            let architecture = architecture(&saved);
            let found = sections(&architecture, Content::Quantised).unwrap();
            let mut ids = HashSet::new();
            let kept: HashSet<&str> =
                found.weights.iter().filter(|section| !section.is_copy).flat_map(|section| section.included()).collect();
            for section in &found.weights {
                prop_assert!(section.is_copy || ids.insert(&section.entry.id), "one tensor for each weight");
            }
            let all: HashSet<&str> = found.weights.iter().flat_map(|section| section.included()).collect();
            prop_assert_eq!(found.lost().is_none(), all == kept, "{:?}", weights(&found));
            let stored: HashSet<usize> = saved.iter().map(|(id, ..)| *id).collect();
            if saved.iter().all(|(_, merge, _)| merge.is_none_or(|merge| stored.contains(&merge))) {
                prop_assert!(found.lost().is_none(), "each weight has an entry: {:?}", weights(&found));
            }
        }
    }
}
