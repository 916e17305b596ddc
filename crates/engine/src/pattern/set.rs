//! Matches many patterns against many names.
//!
//! An [`Automaton`] follows many patterns at once. Most names have beginnings in common, so its steps are cached, in
//! tables of bounded size: then a name takes one look-up for each character.

use super::automaton::{Automaton, Bits, States};
use super::parts::Pattern;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Patterns that are matched together.
pub struct PatternSet<'p> {
    /// Literal patterns, and their numbers.
    literals: HashMap<&'p str, Vec<usize>>,
    /// The other patterns, by length: a name is too short for most patterns that are long.
    groups: Vec<Group>,
}

impl<'p> PatternSet<'p> {
    /// Compiles patterns, which are numbered from 0.
    pub fn new(patterns: impl IntoIterator<Item = &'p Pattern>, separator: char) -> Self {
        let mut literals: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut groups: BTreeMap<usize, Vec<(usize, &Pattern)>> = BTreeMap::new();
        for (number, pattern) in patterns.into_iter().enumerate() {
            match pattern.as_literal() {
                Some(name) => literals.entry(name).or_default().push(number),
                None => {
                    let length = (pattern.min_chars() / SHORT).next_power_of_two();
                    groups.entry(length).or_default().push((number, pattern));
                }
            }
        }
        let groups = groups.into_values().map(|patterns| Group::new(&patterns, separator));
        PatternSet { literals, groups: groups.collect() }
    }

    /// Returns the numbers of the patterns that match the whole of `name`, in order.
    pub fn matches(&mut self, name: &str) -> Vec<usize> {
        let mut numbers: Vec<usize> = self.literals.get(name).cloned().unwrap_or_default();
        for group in self.groups.iter_mut().filter(|group| group.min_chars <= name.len()) {
            let found = group.read(name);
            numbers.extend(found.iter().filter_map(|found| group.numbers.get(*found)));
        }
        numbers.sort_unstable();
        numbers
    }
}

/// Most names are longer than this many characters, or not much shorter: below, lengths are not distinguished.
const SHORT: usize = 64;

/// Patterns of about one length.
struct Group {
    /// The characters of the shortest name that a pattern matches.
    min_chars: usize,
    numbers: Vec<usize>,
    automaton: Automaton,
    cache: Cache,
}

impl Group {
    fn new(patterns: &[(usize, &Pattern)], separator: char) -> Self {
        let automaton = Automaton::new(patterns.iter().map(|(_, pattern)| *pattern), separator);
        let cache = Cache::new(&automaton);
        let min_chars = patterns.iter().map(|(_, pattern)| pattern.min_chars()).min().unwrap_or_default();
        let numbers = patterns.iter().map(|(number, _)| *number).collect();
        Group { min_chars, numbers, automaton, cache }
    }

    /// Returns the patterns of the group that match, by index.
    fn read(&mut self, name: &str) -> Rc<[usize]> {
        let mut known = START;
        for c in name.chars() {
            known = match self.cache.next(known, c) {
                Some(DEAD) => return self.cache.accepted(DEAD),
                Some(next) => next,
                None => {
                    let states = self.automaton.step(self.cache.states(known), c);
                    self.cache.remember(&self.automaton, known, c, &states)
                }
            };
        }
        self.cache.accepted(known)
    }
}

/// The number of no state at all, from which no pattern matches.
const DEAD: u32 = 0;
/// The number of the states before the first character.
const START: u32 = 1;

/// Steps of the automaton that were taken before: a deterministic automaton, made as far as names need it.
struct Cache {
    known: Vec<Known>,
    /// By [`fingerprint`].
    numbers: HashMap<u64, u32>,
    /// Steps by characters that are not ASCII.
    wide: HashMap<(u32, char), u32>,
    /// How many more blocks of states fit.
    room: usize,
}

/// States that were reached before.
struct Known {
    states: States,
    accepted: Rc<[usize]>,
    /// By ASCII character: the number of the next states, [`UNKNOWN`] where no name led there.
    next: Box<[u32; 128]>,
}

const UNKNOWN: u32 = u32::MAX;
/// At most 4096 tables of 512 bytes, 2 MiB.
const MAX_KNOWN: usize = 4096;
/// Blocks of states in all of them, 72 bytes each, 4.5 MiB.
const MAX_BLOCKS: usize = 1 << 16;
const MAX_WIDE: usize = 1 << 16;

impl Cache {
    fn new(automaton: &Automaton) -> Self {
        let mut cache =
            Cache { known: Vec::new(), numbers: HashMap::new(), wide: HashMap::new(), room: MAX_BLOCKS };
        cache.add(automaton, &[]);
        cache.add(automaton, automaton.start());
        cache
    }

    fn next(&self, from: u32, c: char) -> Option<u32> {
        match u8::try_from(c) {
            Ok(c) if c.is_ascii() => {
                let next = self.get(from)?.next.get(usize::from(c)).copied()?;
                (next != UNKNOWN).then_some(next)
            }
            _ => self.wide.get(&(from, c)).copied(),
        }
    }

    fn states(&self, number: u32) -> &[(usize, Bits)] {
        self.get(number).map_or(&[], |known| &known.states)
    }

    fn accepted(&self, number: u32) -> Rc<[usize]> {
        self.get(number).map(|known| known.accepted.clone()).unwrap_or_default()
    }

    fn get(&self, number: u32) -> Option<&Known> {
        self.known.get(usize::try_from(number).ok()?)
    }

    /// Remembers a step, and returns the number of the states that it leads to. Forgets all others if the cache is
    /// full.
    fn remember(&mut self, automaton: &Automaton, from: u32, c: char, states: &[(usize, Bits)]) -> u32 {
        let found = self.numbers.get(&fingerprint(states)).copied();
        if let Some(to) = found.filter(|number| self.states(*number) == states) {
            self.connect(from, c, to);
            return to;
        }
        if self.known.len() >= MAX_KNOWN || self.room < states.len() || self.wide.len() >= MAX_WIDE {
            *self = Cache::new(automaton);
            return self.add(automaton, states);
        }
        let to = self.add(automaton, states);
        self.connect(from, c, to);
        to
    }

    fn connect(&mut self, from: u32, c: char, to: u32) {
        let from_known = usize::try_from(from).ok().and_then(|from| self.known.get_mut(from));
        match from_known.and_then(|known| known.next.get_mut(c as usize)) {
            Some(next) => *next = to,
            None => {
                self.wide.insert((from, c), to);
            }
        }
    }

    fn add(&mut self, automaton: &Automaton, states: &[(usize, Bits)]) -> u32 {
        let number = u32::try_from(self.known.len()).unwrap_or(UNKNOWN);
        self.room = self.room.saturating_sub(states.len());
        self.numbers.insert(fingerprint(states), number);
        let accepted = automaton.accepted(states).into();
        self.known.push(Known { states: states.into(), accepted, next: Box::new([UNKNOWN; 128]) });
        number
    }
}

/// Returns a number that differs for most sets of states. A collision costs time, and nothing else: the states are
/// compared.
fn fingerprint(states: &[(usize, Bits)]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let words = states.iter().flat_map(|(at, bits)| bits.iter().copied().chain([*at as u64]));
    words.fold(0, |sum: u64, word| (sum.rotate_left(5) ^ word).wrapping_mul(ODD))
}
