//! Finds stretches of a sequence in which a block of items repeats, and names them.

use std::cmp::Reverse;

/// Most items of a block.
const LONGEST: usize = 128;

/// Consecutive blocks that are alike: items `start .. start + period * times`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) start: usize,
    /// Items of one block.
    pub(super) period: usize,
    /// Number of blocks, at least 2.
    pub(super) times: usize,
}

impl Run {
    pub(super) fn end(self) -> usize {
        self.start + self.period * self.times
    }
}

/// Returns the runs among `len` items, in order, none overlapping: long runs of short blocks rather than short runs of
/// long blocks. `same(start, index, period)` returns whether items `index` and `index + period` are alike in a run that
/// starts at `start`. A repetition can be cut into blocks at several places: the one of least `cost(start, period)` is
/// chosen. Only runs that are `wanted` are returned.
pub(super) fn runs<C: Ord>(
    len: usize,
    same: impl Fn(usize, usize, usize) -> bool,
    cost: impl Fn(usize, usize) -> C,
    wanted: impl Fn(Run) -> bool,
) -> Vec<Run> {
    let mut stretches: Vec<(usize, usize, usize)> = Vec::new();
    for period in 1..=LONGEST.min(len / 2) {
        let mut start = 0;
        for index in 0..=len - period {
            if index < len - period && same(start, index, period) {
                continue;
            }
            if index - start >= period {
                stretches.push((start, index + period, period));
            }
            start = index + 1;
        }
    }
    stretches.sort_by_key(|(start, end, period)| {
        let len = end - start;
        (Reverse(len - 2 * period), Reverse(len), *period, *start)
    });
    let mut taken = vec![false; len];
    let mut found: Vec<Run> = Vec::new();
    for (mut start, mut end, period) in stretches {
        while start < end && taken[start] {
            start += 1;
        }
        while start < end && taken[end - 1] {
            end -= 1;
        }
        if end - start < 2 * period || taken[start..end].contains(&true) {
            continue;
        }
        let run = |start: usize| Run { start, period, times: (end - start) / period };
        let starts = (start..start + period).filter(|start| end - start >= 2 * period);
        let best = starts.min_by_key(|start| (cost(*start, period), Reverse(run(*start).times), *start));
        if let Some(run) = best.map(run).filter(|run| wanted(*run)) {
            taken[run.start..run.end()].fill(true);
            found.push(run);
        }
    }
    found.sort_by_key(|run| run.start);
    found
}

/// Returns a name without its numbers, and without what separates them from the rest: equal for `conv2d` and
/// `conv2d_1`.
pub(super) fn unnumbered(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if out.ends_with('_') {
            out.pop();
        }
    }
    out
}

/// Whether the names of two consecutive blocks show that each is one block: by a start of all its names, which ends
/// with the block's number, or by the same number in all of them.
pub(super) fn are_numbered(block: &[&str], next: &[&str]) -> bool {
    match (stem(block), stem(next)) {
        (Some(one), Some(other)) if one != other => true,
        _ => {
            let mut numbers = next.iter().map(|name| last_number(name));
            numbers.next().flatten().is_some_and(|first| numbers.all(|number| number == Some(first)))
        }
    }
}

/// Returns what to call the first and the last block of a run, by the names in them.
pub(super) fn names<'a>(first: &[&'a str], last: &[&'a str]) -> (&'a str, &'a str) {
    match (stem(first), stem(last)) {
        (Some(one), Some(other)) if one != other => (one, other),
        _ => {
            let start = |names: &[&'a str]| names.first().copied().unwrap_or_default();
            (start(first), start(last))
        }
    }
}

/// Returns the longest start of all names that ends with a number, before a separator or the end of a name.
fn stem<'a>(names: &[&'a str]) -> Option<&'a str> {
    let (first, others) = names.split_first()?;
    let common = others.iter().fold(first.len(), |len, name| {
        let alike = first.bytes().zip(name.bytes()).take(len).take_while(|(a, b)| a == b).count();
        alike.min(len)
    });
    let is_number = |at: usize| first.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let is_separator =
        |name: &str, at: usize| name.as_bytes().get(at).is_none_or(|byte| b"./_-: ".contains(byte));
    let ends = (1..=common).rev();
    let mut ends = ends.filter(|end| is_number(end - 1) && names.iter().all(|name| is_separator(name, *end)));
    first.get(..ends.next()?)
}

fn last_number(name: &str) -> Option<&str> {
    let end = name.rfind(|c: char| c.is_ascii_digit())? + 1;
    let start = name.get(..end)?.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name.get(start..end)
}

/// Returns a label of at most `fit` characters, if one can be had: both names, or the number alone of the second.
pub(super) fn label(first: &str, last: &str, fit: usize) -> String {
    let whole = format!("{first} … {last}");
    let text = |name: &str| name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (start, end) = (first.get(..text(first)), last.get(..text(last)));
    // Keras names the first of several layers without a number.
    let is_alike = start == end || end.and_then(|end| end.strip_suffix('_')) == Some(first);
    match (whole.chars().count() > fit, last.get(text(last)..)) {
        (true, Some(number)) if !number.is_empty() && is_alike => format!("{first} … {number}"),
        _ => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The runs of a text's letters, with equal cost of all starts.
    fn of(text: &str) -> Vec<(usize, usize, usize)> {
        let letters = text.as_bytes();
        let found = runs(
            letters.len(),
            |_, index, period| letters[index] == letters[index + period],
            |_, _| 0,
            |_| true,
        );
        found.iter().map(|run| (run.start, run.period, run.times)).collect()
    }

    #[test]
    fn the_longest_repetition_is_found_with_its_shortest_block() {
        assert_eq!(of(""), []);
        assert_eq!(of("abc"), []);
        assert_eq!(of("sabababz"), [(1, 2, 3)]);
        assert_eq!(of("aaaaaa"), [(0, 1, 6)]);
        assert_eq!(of("aabaab"), [(0, 3, 2)], "not the two in each");
        assert_eq!(of("ababxcdcdcd"), [(0, 2, 2), (5, 2, 3)]);
    }

    #[test]
    fn blocks_start_where_it_costs_least() {
        let letters = b"babababa";
        let same = |_: usize, index: usize, period: usize| letters[index] == letters[index + period];
        let found = runs(letters.len(), same, |start, _| letters[start], |_| true);
        assert_eq!(found, [Run { start: 1, period: 2, times: 3 }]);
    }

    #[test]
    fn a_sequence_without_repetitions_takes_time_in_proportion_to_its_length() {
        let count = std::cell::Cell::new(0);
        runs(
            100_000,
            |_, _, _| {
                count.set(count.get() + 1);
                false
            },
            |_, _| 0,
            |_| true,
        );
        assert!(count.get() <= 100_000 * LONGEST);
    }

    #[test]
    fn names_differ_by_numbers_only() {
        let pairs = [("conv2d", "conv2d_1"), ("block0_1_conv", "block12_1_conv"), ("h.0.q", "h.1.q")];
        assert!(pairs.iter().all(|(a, b)| unnumbered(a) == unnumbered(b)));
        assert_ne!(unnumbered("q_proj"), unnumbered("k_proj"));
    }

    #[test]
    fn a_block_is_named_by_the_common_start_of_its_layers_or_by_the_first() {
        let named =
            |first: &[&'static str], last: &[&'static str]| (are_numbered(first, last), names(first, last));
        assert_eq!(named(&["h.0.q", "h.0.k.1"], &["h.1.q", "h.1.k.1"]), (true, ("h.0", "h.1")));
        let keras =
            named(&["conv2_block1_1_conv", "conv2_block1_add"], &["conv2_block2_1_conv", "conv2_block2_add"]);
        assert_eq!(keras, (true, ("conv2_block1", "conv2_block2")));
        assert_eq!(named(&["conv_0", "bn_0"], &["conv_1", "bn_1"]), (true, ("conv_0", "conv_1")));
        assert_eq!(named(&["bn_0", "conv_1"], &["bn_1", "conv_2"]), (false, ("bn_0", "bn_1")));
        assert_eq!(
            named(&["conv2d", "conv2d_1"], &["conv2d_2", "conv2d_3"]),
            (false, ("conv2d", "conv2d_2"))
        );
        assert_eq!(named(&["dense"], &["dense_1"]), (true, ("dense", "dense_1")));
    }

    #[test]
    fn a_label_has_both_names_where_they_fit() {
        assert_eq!(label("conv_0", "conv_59", 27), "conv_0 … conv_59");
        assert_eq!(label("model.layers.0", "model.layers.59", 27), "model.layers.0 … 59");
        assert_eq!(label("multi_head_attention", "multi_head_attention_2", 27), "multi_head_attention … 2");
    }
}
