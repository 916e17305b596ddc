//! Names that differ in their numbers only, said by one rule.

use super::Pair;
use crate::mapping::pattern::{Class, Part, Pattern};
use crate::mapping::relation::Relation;
use crate::mapping::rule::Rule;
use crate::mapping::usual;
use ckpt_api::Limit;
use std::collections::BTreeMap;

/// A name cut at its numbers: one more text than numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cut {
    texts: Vec<String>,
    numbers: Vec<String>,
}

impl Cut {
    fn new(name: &str) -> Self {
        let mut cut = Cut { texts: vec![String::new()], numbers: Vec::new() };
        let mut in_number = false;
        for c in name.chars() {
            let place = match (c.is_ascii_digit(), in_number) {
                (true, false) => {
                    cut.numbers.push(String::new());
                    cut.texts.push(String::new());
                    cut.numbers.last_mut()
                }
                (true, true) => cut.numbers.last_mut(),
                (false, _) => cut.texts.last_mut(),
            };
            in_number = c.is_ascii_digit();
            if let Some(text) = place {
                text.push(c);
            }
        }
        cut
    }

    fn number(&self, position: usize) -> &str {
        self.numbers.get(position).map(String::as_str).unwrap_or_default()
    }
}

/// A pair cut on both sides.
struct Member<'p> {
    pair: &'p Pair,
    from: Cut,
    to: Cut,
}

/// A rule, and the pairs that it says.
pub(super) struct Family<'p> {
    pub(super) rule: Rule,
    pub(super) pairs: Vec<&'p Pair>,
}

/// The rules that say several pairs each, where all of these agree.
pub(super) fn families<'p>(pairs: impl Iterator<Item = &'p Pair>) -> Vec<Family<'p>> {
    let mut groups: BTreeMap<(Vec<String>, Vec<String>, String), Vec<Member>> = BTreeMap::new();
    for pair in pairs {
        let ([source], [target]) = (&pair.sources[..], &pair.targets[..]) else { continue };
        let (from, to) = (Cut::new(source), Cut::new(target));
        let steps = pair.steps.iter().map(|step| format!("{step};")).collect();
        let key = (from.texts.clone(), to.texts.clone(), steps);
        groups.entry(key).or_default().push(Member { pair, from, to });
    }
    groups.into_values().flat_map(|members| split(&members)).collect()
}

/// One rule for all, or else one for each value of the number that needs the fewest rules so.
fn split<'p>(members: &[Member<'p>]) -> Vec<Family<'p>> {
    let all: Vec<&Member> = members.iter().collect();
    if let Some(family) = family(&all) {
        return vec![family];
    }
    let positions = members.first().map_or(0, |member| member.from.numbers.len());
    let parts = (0..positions).map(|position| {
        let mut parts: BTreeMap<&str, Vec<&Member<'p>>> = BTreeMap::new();
        for member in members {
            parts.entry(member.from.number(position)).or_default().push(member);
        }
        parts.values().filter_map(|part| family(part)).collect::<Vec<Family>>()
    });
    let said = |families: &Vec<Family>| {
        let pairs: usize = families.iter().map(|family| family.pairs.len()).sum();
        (pairs, usize::MAX - families.len())
    };
    parts.max_by_key(said).unwrap_or_default()
}

/// The rule for all of these, if they agree.
fn family<'p>(members: &[&Member<'p>]) -> Option<Family<'p>> {
    let (first, rest) = members.split_first()?;
    if rest.is_empty() || first.from.numbers.len() > usual(Limit::Captures) {
        return None;
    }
    let varies = |cut: for<'m> fn(&'m Member<'p>) -> &'m Cut, position: usize| {
        rest.iter().any(|member| cut(member).number(position) != cut(first).number(position))
    };
    let sources: Vec<usize> =
        (0..first.from.numbers.len()).filter(|at| varies(|member| &member.from, *at)).collect();
    let targets: Vec<usize> =
        (0..first.to.numbers.len()).filter(|at| varies(|member| &member.to, *at)).collect();
    if sources.len() != targets.len() {
        return None;
    }
    let mut free = sources.clone();
    let mut used: BTreeMap<usize, (usize, i64)> = BTreeMap::new();
    for target in targets {
        let fitting = free.iter().filter_map(|source| Some((*source, shift(members, *source, target)?)));
        let (source, shift) = fitting.min_by_key(|(_, shift)| shift.abs())?;
        free.retain(|other| *other != source);
        used.insert(target, (source, shift));
    }
    let name = |source: usize| match sources.iter().position(|at| *at == source) {
        Some(0) if sources.len() == 1 => "n".to_owned(),
        index => format!("n{}", index.unwrap_or_default() + 1),
    };
    let mut captured = BTreeMap::new();
    for source in &sources {
        let class = class(members.iter().map(|member| member.from.number(*source)))?;
        captured.insert(*source, Part::Capture { name: name(*source), class, shift: 0 });
    }
    let mut written = BTreeMap::new();
    for (target, (source, shift)) in used {
        let class = class(members.iter().map(|member| member.to.number(target)))?;
        written.insert(target, Part::Capture { name: name(source), class, shift });
    }
    let (from, to) = (pattern(&first.from, &captured), pattern(&first.to, &written));
    if from.as_source().len().max(to.as_target().len()) > usual(Limit::PatternBytes) {
        return None;
    }
    let rule = Rule {
        line: None,
        from: vec![from],
        to: vec![to],
        relation: Relation::One,
        role: None,
        steps: first.pair.steps.clone(),
        invertible: true,
    };
    Some(Family { rule, pairs: members.iter().map(|member| member.pair).collect() })
}

/// By how much the target's number is larger, if that is so in all.
fn shift(members: &[&Member], source: usize, target: usize) -> Option<i64> {
    let mut shifts = members.iter().map(|member| {
        let (from, to): (i64, i64) =
            (member.from.number(source).parse().ok()?, member.to.number(target).parse().ok()?);
        to.checked_sub(from)
    });
    let first = shifts.next()??;
    (shifts.all(|shift| shift == Some(first)) && first.abs() < 1000).then_some(first)
}

/// How all of these numbers are written.
fn class<'n>(numbers: impl Iterator<Item = &'n str> + Clone) -> Option<Class> {
    if numbers.clone().all(|number| number == "0" || !number.starts_with('0')) {
        return Some(Class::Int);
    }
    let width = numbers.clone().next()?.len();
    let padded = (2..=9).contains(&width) && numbers.clone().all(|number| number.len() == width);
    if padded { u8::try_from(width).ok().map(Class::Padded) } else { None }
}

/// The cut name with captures for some of its numbers.
fn pattern(cut: &Cut, captures: &BTreeMap<usize, Part>) -> Pattern {
    let mut parts: Vec<Part> = Vec::new();
    let mut literal = String::new();
    for (position, text) in cut.texts.iter().enumerate() {
        literal.push_str(text);
        match captures.get(&position) {
            None => literal.push_str(cut.number(position)),
            Some(capture) => {
                if !literal.is_empty() {
                    parts.push(Part::Literal(std::mem::take(&mut literal)));
                }
                parts.push(capture.clone());
            }
        }
    }
    if !literal.is_empty() {
        parts.push(Part::Literal(literal));
    }
    Pattern { parts }
}

/// Patterns that match these names and none of the others.
pub(super) fn ignored(names: &[&str], others: &[&str]) -> Vec<Pattern> {
    let mut groups: BTreeMap<Vec<String>, Vec<&str>> = BTreeMap::new();
    for name in names {
        groups.entry(Cut::new(name).texts).or_default().push(name);
    }
    let mut patterns = Vec::new();
    let are_few = groups.len() <= usual(Limit::Rules);
    for group in groups.into_values() {
        let literals = || group.iter().map(|name| Pattern::literal(name));
        let Some(first) = group.first().map(|name| Cut::new(name)) else { continue };
        let captures = (0..first.numbers.len()).map(|position| {
            (position, Part::Capture { name: format!("n{}", position + 1), class: Class::Int, shift: 0 })
        });
        let form = pattern(&first, &captures.collect());
        let matches = |name: &&str| form.matches(name, '/').is_some();
        if are_few
            && group.len() > 1
            && first.numbers.len() <= 8
            && form.as_source().len() <= usual(Limit::PatternBytes)
            && group.iter().all(matches)
            && !others.iter().any(matches)
        {
            patterns.push(form);
        } else {
            patterns.extend(literals());
        }
    }
    patterns
}
