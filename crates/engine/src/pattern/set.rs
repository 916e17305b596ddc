//! Matches many patterns against many names.

use super::automaton::Automaton;
use super::parts::Pattern;
use std::cell::OnceCell;
use std::collections::HashMap;

/// Patterns that are matched together.
pub struct PatternSet<'p> {
    /// Literal patterns, and their numbers.
    literals: HashMap<&'p str, Vec<usize>>,
    /// The other patterns, the short ones first.
    groups: Vec<Group<'p>>,
    separator: char,
}

impl<'p> PatternSet<'p> {
    /// Compiles patterns, which are numbered from 0.
    pub fn new(patterns: impl IntoIterator<Item = &'p Pattern>, separator: char) -> Self {
        let mut literals: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut others: Vec<(usize, &Pattern)> = Vec::new();
        for (number, pattern) in patterns.into_iter().enumerate() {
            match pattern.as_literal() {
                Some(name) => literals.entry(name).or_default().push(number),
                None => others.push((number, pattern)),
            }
        }
        // Patterns side by side often begin alike, and patterns of about one length stay in their order.
        others.sort_by_cached_key(|(_, pattern)| (pattern.min_chars() / SHORT).next_power_of_two());
        let groups = others.chunks(GROUP).map(Group::new).collect();
        PatternSet { literals, groups, separator }
    }

    /// Returns the numbers of the patterns that match the whole of `name`, in order.
    pub fn matches(&mut self, name: &str) -> Vec<usize> {
        let mut numbers: Vec<usize> = self.literals.get(name).cloned().unwrap_or_default();
        for group in self.groups.iter_mut().filter(|group| group.min_chars <= name.len()) {
            group.matches(name, self.separator, &mut numbers);
        }
        numbers.sort_unstable();
        numbers
    }
}

/// The states of an automaton are combinations of what each pattern has read, so one of 1,000 patterns took 20 s for
/// names that eight of 128 take 0.2 s for.
const GROUP: usize = 128;

/// Most names are longer than this many characters, or not much shorter: below, lengths are not distinguished.
const SHORT: usize = 64;

/// Patterns of about one length.
struct Group<'p> {
    /// The characters of the shortest name that a pattern matches.
    min_chars: usize,
    /// Numbers and patterns.
    patterns: Vec<(usize, &'p Pattern)>,
    /// What the first name that is long enough makes; `None` if it would be too large.
    automaton: OnceCell<Option<Automaton>>,
}

impl<'p> Group<'p> {
    fn new(patterns: &[(usize, &'p Pattern)]) -> Self {
        let min_chars = patterns.iter().map(|(_, pattern)| pattern.min_chars()).min().unwrap_or_default();
        Group { min_chars, patterns: patterns.to_vec(), automaton: OnceCell::new() }
    }

    /// Adds the numbers of the patterns that match.
    fn matches(&mut self, name: &str, separator: char, numbers: &mut Vec<usize>) {
        self.automaton.get_or_init(|| Automaton::new(self.patterns.iter().map(|(_, one)| *one), separator));
        let automaton = self.automaton.get_mut().and_then(Option::as_mut);
        match automaton.and_then(|automaton| automaton.matches(name)) {
            Some(indices) => {
                numbers
                    .extend(indices.filter_map(|index| self.patterns.get(index)).map(|(number, _)| *number));
            }
            None => {
                let own =
                    self.patterns.iter().filter(|(_, pattern)| pattern.matches(name, separator).is_some());
                numbers.extend(own.map(|(number, _)| *number));
            }
        }
    }
}
