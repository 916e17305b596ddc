//! Whether one pattern matches every name that another matches.

use super::matching::{START, State, accepts, step};
use super::pattern::{Class, Part, Pattern};
use std::collections::{BTreeSet, HashSet};

/// Whether every name of the form `smaller` has the form `larger` too: both are followed over all names at once, each
/// character that behaves like others standing for them. Takes away from `steps`; with none left, nothing is proved.
pub(super) fn includes(larger: &Pattern, smaller: &Pattern, separator: char, steps: &mut usize) -> bool {
    let alphabet = alphabet(larger, smaller, separator);
    let (larger, smaller) = (Automaton::new(larger, separator), Automaton::new(smaller, separator));
    let start = larger.closure(BTreeSet::from([(0, START)]));
    let mut open: Vec<(Place, BTreeSet<Place>)> = smaller
        .closure(BTreeSet::from([(0, START)]))
        .into_iter()
        .map(|place| (place, start.clone()))
        .collect();
    let mut seen: HashSet<(Place, BTreeSet<Place>)> = open.iter().cloned().collect();
    while let Some((place, places)) = open.pop() {
        if smaller.is_end(place) && !places.iter().any(|place| larger.is_end(*place)) {
            return false;
        }
        for c in &alphabet {
            let Some(left) = steps.checked_sub(places.len() + 1) else { return false };
            *steps = left;
            let Some(next) = smaller.step(place, *c) else { continue };
            let others = larger.closure(places.iter().filter_map(|place| larger.step(*place, *c)).collect());
            for next in smaller.closure(BTreeSet::from([next])) {
                let both = (next, others.clone());
                if seen.insert(both.clone()) {
                    open.push(both);
                }
            }
        }
    }
    true
}

/// A part's number, and how far in it: characters of a literal, the state of a class.
type Place = (usize, State);

/// A pattern as a machine that reads a name.
struct Automaton {
    parts: Vec<Read>,
    separator: char,
}

enum Read {
    Literal(Vec<char>),
    Class(Class),
}

impl Automaton {
    fn new(pattern: &Pattern, separator: char) -> Self {
        let parts = pattern.parts.iter().map(|part| match part {
            Part::Literal(text) => Read::Literal(text.chars().collect()),
            Part::Capture { class, .. } | Part::Wildcard(class) => Read::Class(*class),
        });
        Automaton { parts: parts.collect(), separator }
    }

    fn is_end(&self, (part, _): Place) -> bool {
        part == self.parts.len()
    }

    fn step(&self, (part, state): Place, c: char) -> Option<Place> {
        match self.parts.get(part)? {
            Read::Literal(text) => (text.get(state) == Some(&c)).then_some((part, state + 1)),
            Read::Class(class) => Some((part, step(*class, state, c, self.separator)?)),
        }
    }

    /// These places, and those that are reached from them without a character.
    fn closure(&self, mut places: BTreeSet<Place>) -> BTreeSet<Place> {
        let mut open: Vec<Place> = places.iter().copied().collect();
        while let Some((part, state)) = open.pop() {
            let done = match self.parts.get(part) {
                Some(Read::Literal(text)) => state == text.len(),
                Some(Read::Class(class)) => accepts(*class, state),
                None => false,
            };
            if done && places.insert((part + 1, START)) {
                open.push((part + 1, START));
            }
        }
        places
    }
}

/// Characters such that every other behaves like one of them in both patterns.
fn alphabet(a: &Pattern, b: &Pattern, separator: char) -> BTreeSet<char> {
    let literals = a.parts.iter().chain(&b.parts).filter_map(|part| match part {
        Part::Literal(text) => Some(text),
        _ => None,
    });
    let mut alphabet: BTreeSet<char> = literals.flat_map(|text| text.chars()).collect();
    let fresh =
        |mut of: std::ops::RangeInclusive<char>| of.find(|c| !alphabet.contains(c) && *c != separator);
    // A digit, a letter, and what is neither: private use.
    let others = [fresh('1'..='9'), fresh('A'..='Z').or(fresh('a'..='z')), fresh('\u{e000}'..='\u{f8ff}')];
    alphabet.extend(others.into_iter().flatten().chain(['0', '_', separator]));
    alphabet
}
