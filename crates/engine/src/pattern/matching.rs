//! Matches one pattern against one name, in time proportional to name × pattern.

use super::parts::{Class, Part, Pattern};

impl Pattern {
    /// Returns the texts of the captures, in order, if the pattern matches the whole of `name`. Where several
    /// divisions of the name match, returns the one with the shortest first capture, then the shortest second, and so
    /// on.
    pub fn matches<'n>(&self, name: &'n str, separator: char) -> Option<Vec<&'n str>> {
        if !self.may_match(name) {
            return None;
        }
        let text = Text::new(name, separator);
        let rows = text.rows(&self.parts);
        if !holds(rows.first()?, 0) {
            return None;
        }
        let (mut at, mut values) = (0, Vec::new());
        for (part, after) in self.parts.iter().zip(rows.iter().skip(1)) {
            let end = match part {
                Part::Literal(literal) => at + literal.chars().count(),
                Part::Capture { class, .. } | Part::Wildcard(class) => text.shortest(*class, at, after)?,
            };
            if matches!(part, Part::Capture { .. }) {
                values.push(name.get(text.offset(at)..text.offset(end))?);
            }
            at = end;
        }
        Some(values)
    }

    /// Returns the length, in characters, of the longest beginning of `name` with which a matching name could begin.
    pub(crate) fn reach(&self, name: &str, separator: char) -> usize {
        let text = Text::new(name, separator);
        let mut starts = vec![false; text.chars.len() + 1];
        starts.iter_mut().take(1).for_each(|start| *start = true);
        let mut furthest = 0;
        for part in &self.parts {
            let (next, reached) = match part {
                Part::Literal(literal) => text.literal_reach(literal, &starts),
                Part::Capture { class, .. } | Part::Wildcard(class) => text.class_reach(*class, &starts),
            };
            furthest = furthest.max(reached);
            starts = next;
        }
        furthest
    }

    /// Rejects most names cheaply: a matching name has the literals in order, the first and last at its ends.
    fn may_match(&self, name: &str) -> bool {
        let mut rest = name;
        for (index, part) in self.parts.iter().enumerate() {
            let Part::Literal(literal) = part else { continue };
            let found = match index {
                0 => rest.strip_prefix(literal.as_str()),
                _ => rest.split_once(literal.as_str()).map(|(_, rest)| rest),
            };
            let Some(after) = found else { return false };
            rest = after;
        }
        match self.parts.last() {
            Some(Part::Literal(literal)) => name.ends_with(literal.as_str()),
            _ => true,
        }
    }
}

/// A name as characters, so that no capture ends inside one.
struct Text<'n> {
    name: &'n str,
    chars: Vec<(usize, char)>,
    separator: char,
}

impl<'n> Text<'n> {
    fn new(name: &'n str, separator: char) -> Self {
        Text { name, chars: name.char_indices().collect(), separator }
    }

    /// Returns the byte offset of a character; the length of the name after the last.
    fn offset(&self, index: usize) -> usize {
        self.chars.get(index).map_or(self.name.len(), |(offset, _)| *offset)
    }

    fn step(&self, class: Class, state: State, index: usize) -> Option<State> {
        step(class, state, self.chars.get(index)?.1, self.separator)
    }

    /// Returns a table: row p, entry i is whether the parts from p on match the characters from i on. The last row,
    /// after all parts, is true at the end of the name alone; each row follows from the next.
    fn rows(&self, parts: &[Part]) -> Vec<Vec<bool>> {
        let mut last = vec![false; self.chars.len()];
        last.push(true);
        let mut rows = vec![last];
        for part in parts.iter().rev() {
            let row = match (part, rows.last()) {
                (Part::Literal(literal), Some(next)) => self.literal_row(literal, next),
                (Part::Capture { class, .. } | Part::Wildcard(class), Some(next)) => {
                    self.class_row(*class, next)
                }
                (_, None) => Vec::new(),
            };
            rows.push(row);
        }
        rows.reverse();
        rows
    }

    fn literal_row(&self, literal: &str, next: &[bool]) -> Vec<bool> {
        let length = literal.chars().count();
        let stands =
            |index: usize| self.name.get(self.offset(index)..).is_some_and(|rest| rest.starts_with(literal));
        let here = |index: usize| holds(next, index + length) && stands(index);
        (0..=self.chars.len()).map(here).collect()
    }

    fn class_row(&self, class: Class, next: &[bool]) -> Vec<bool> {
        let mut row = vec![false; self.chars.len() + 1];
        let mut reach = [false; STATES];
        for (index, entry) in row.iter_mut().enumerate().rev() {
            let after = reach;
            let end = holds(next, index);
            for (state, reached) in reach.iter_mut().enumerate().take(states(class)) {
                *reached = end && accepts(class, state)
                    || self.step(class, state, index).is_some_and(|state| holds(&after, state));
            }
            *entry = holds(&reach, START);
        }
        row
    }

    /// Returns where the literal ends if it begins at one of `starts`, and the furthest character that a beginning of
    /// it reaches.
    fn literal_reach(&self, literal: &str, starts: &[bool]) -> (Vec<bool>, usize) {
        let (mut ends, mut furthest) = (vec![false; starts.len()], 0);
        for (start, _) in starts.iter().enumerate().filter(|(_, start)| **start) {
            let here = self.chars.iter().skip(start).map(|(_, c)| *c);
            let same = here.zip(literal.chars()).take_while(|(a, b)| a == b).count();
            furthest = furthest.max(start + same);
            if same == literal.chars().count() {
                ends.iter_mut().skip(start + same).take(1).for_each(|end| *end = true);
            }
        }
        (ends, furthest)
    }

    /// Returns where the class may end if it begins at one of `starts`, and the furthest character that it reaches.
    fn class_reach(&self, class: Class, starts: &[bool]) -> (Vec<bool>, usize) {
        let (mut ends, mut furthest) = (vec![false; starts.len()], 0);
        let mut active = [false; STATES];
        for (index, end) in ends.iter_mut().enumerate() {
            active[START] |= holds(starts, index);
            let states: Vec<State> = (0..STATES).filter(|state| holds(&active, *state)).collect();
            if !states.is_empty() {
                furthest = index;
            }
            *end = states.iter().any(|state| accepts(class, *state));
            active = [false; STATES];
            for state in states.iter().filter_map(|state| self.step(class, *state, index)) {
                active.iter_mut().skip(state).take(1).for_each(|active| *active = true);
            }
        }
        (ends, furthest)
    }

    /// Returns the first index, from `start` on, where the class may end and the parts after it match.
    fn shortest(&self, class: Class, start: usize, after: &[bool]) -> Option<usize> {
        let (mut index, mut state) = (start, START);
        while !(accepts(class, state) && holds(after, index)) {
            state = self.step(class, state, index)?;
            index += 1;
        }
        Some(index)
    }
}

fn holds(row: &[bool], index: usize) -> bool {
    row.get(index).copied().unwrap_or(false)
}

/// The state of a class while it reads a name; an index into arrays of [`STATES`].
pub(super) type State = usize;
const STATES: usize = 10;
/// Has read nothing.
pub(super) const START: State = 0;
/// May end here or go on.
const INSIDE: State = 1;
/// Has read a separator: must go on.
const AFTER_SEPARATOR: State = 2;
/// Must end here.
const DONE: State = 3;

/// Returns the number of states of a class; a state of a padded number is the count of digits read.
fn states(class: Class) -> usize {
    match class {
        Class::Padded(width) => usize::from(width) + 1,
        _ => DONE + 1,
    }
}

/// Returns whether the class may end in this state.
pub(super) fn accepts(class: Class, state: State) -> bool {
    if let Class::Padded(width) = class {
        return state == usize::from(width);
    }
    match state {
        START => matches!(class, Class::Star | Class::DoubleStar),
        INSIDE | DONE => true,
        _ => false,
    }
}

/// Returns the state after the class reads `c`; `None` if it cannot.
pub(super) fn step(class: Class, state: State, c: char, separator: char) -> Option<State> {
    let takes = match class {
        Class::Padded(width) => {
            return (state < usize::from(width) && c.is_ascii_digit()).then_some(state + 1);
        }
        Class::Int if state == START && c == '0' => return Some(DONE),
        Class::QuestionMark => return (state == START && c != separator).then_some(DONE),
        Class::Int => state != DONE && c.is_ascii_digit(),
        Class::Word => c.is_ascii_alphanumeric() || c == '_',
        Class::Segment | Class::Star => c != separator,
        Class::Path if c == separator => return (state == INSIDE).then_some(AFTER_SEPARATOR),
        Class::Path | Class::DoubleStar => true,
    };
    takes.then_some(INSIDE)
}
