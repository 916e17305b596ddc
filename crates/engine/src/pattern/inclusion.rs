//! Proves that one pattern matches every name that another matches.

use super::matching::{START, State, accepts, step};
use super::parts::{Class, Part, Pattern};
use std::collections::{BTreeSet, HashSet};

/// Returns whether `larger` provably matches every name that `smaller` matches. Runs both over all names at once, with
/// one character for all that neither pattern distinguishes. Each step counts down `steps`; at 0, the proof fails.
pub(crate) fn includes(larger: &Pattern, smaller: &Pattern, separator: char, steps: &mut usize) -> bool {
    let alphabet = alphabet(larger, smaller, separator);
    let (larger, smaller) = (Automaton::new(larger, separator), Automaton::new(smaller, separator));
    let start = larger.closure(BTreeSet::from([(0, START)]));
    let mut open: Vec<(Position, BTreeSet<Position>)> = smaller
        .closure(BTreeSet::from([(0, START)]))
        .into_iter()
        .map(|position| (position, start.clone()))
        .collect();
    let mut seen: HashSet<(Position, BTreeSet<Position>)> = open.iter().cloned().collect();
    while let Some((position, positions)) = open.pop() {
        if smaller.is_end(position) && !positions.iter().any(|position| larger.is_end(*position)) {
            return false;
        }
        for c in &alphabet {
            let Some(left) = steps.checked_sub(positions.len() + 1) else { return false };
            *steps = left;
            let Some(next) = smaller.step(position, *c) else { continue };
            let others =
                larger.closure(positions.iter().filter_map(|position| larger.step(*position, *c)).collect());
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

/// The index of a part, and the state in it: the characters read of a literal, or the state of a class.
type Position = (usize, State);

/// A pattern as an automaton that reads a name.
struct Automaton {
    parts: Vec<Reader>,
    separator: char,
}

enum Reader {
    Literal(Vec<char>),
    Class(Class),
}

impl Automaton {
    fn new(pattern: &Pattern, separator: char) -> Self {
        let parts = pattern.parts.iter().map(|part| match part {
            Part::Literal(text) => Reader::Literal(text.chars().collect()),
            Part::Capture { class, .. } | Part::Wildcard(class) => Reader::Class(*class),
        });
        Automaton { parts: parts.collect(), separator }
    }

    fn is_end(&self, (part, _): Position) -> bool {
        part == self.parts.len()
    }

    fn step(&self, (part, state): Position, c: char) -> Option<Position> {
        match self.parts.get(part)? {
            Reader::Literal(text) => (text.get(state) == Some(&c)).then_some((part, state + 1)),
            Reader::Class(class) => Some((part, step(*class, state, c, self.separator)?)),
        }
    }

    /// Adds the positions that these reach without reading a character.
    fn closure(&self, mut positions: BTreeSet<Position>) -> BTreeSet<Position> {
        let mut open: Vec<Position> = positions.iter().copied().collect();
        while let Some((part, state)) = open.pop() {
            let done = match self.parts.get(part) {
                Some(Reader::Literal(text)) => state == text.len(),
                Some(Reader::Class(class)) => accepts(*class, state),
                None => false,
            };
            if done && positions.insert((part + 1, START)) {
                open.push((part + 1, START));
            }
        }
        positions
    }
}

/// Returns characters of which one stands for every other character in both patterns.
fn alphabet(a: &Pattern, b: &Pattern, separator: char) -> BTreeSet<char> {
    let literals = a.parts.iter().chain(&b.parts).filter_map(|part| match part {
        Part::Literal(text) => Some(text),
        _ => None,
    });
    let mut alphabet: BTreeSet<char> = literals.flat_map(|text| text.chars()).collect();
    let fresh =
        |mut of: std::ops::RangeInclusive<char>| of.find(|c| !alphabet.contains(c) && *c != separator);
    // A digit, a letter, and a character that is neither (private use).
    let others = [fresh('1'..='9'), fresh('A'..='Z').or(fresh('a'..='z')), fresh('\u{e000}'..='\u{f8ff}')];
    alphabet.extend(others.into_iter().flatten().chain(['0', '_', separator]));
    alphabet
}
