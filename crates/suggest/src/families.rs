//! Finds rules for families of pairs: names that differ in their numbers alone.

use super::suggestion::Pair;
use ckpt_api::Limit;
use ckpt_engine::mapping::{Rule, default_limit};
use ckpt_engine::pattern::{Class, Part, Pattern, PatternSet, SEPARATOR};
use std::collections::BTreeMap;

/// A name cut at its numbers. There is one text more than numbers.
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

/// A pair with all names cut; there is one name on a side, or the rule splits or merges.
struct Member<'p> {
    pair: &'p Pair,
    from: Vec<Cut>,
    to: Vec<Cut>,
}

impl Member<'_> {
    /// Returns the number at a position of the first source name.
    fn number(&self, position: usize) -> &str {
        self.from.first().map_or("", |cut| cut.number(position))
    }

    /// Returns the cut names, those of the sources first.
    fn names(&self) -> impl Iterator<Item = &Cut> {
        self.from.iter().chain(&self.to)
    }
}

/// What pairs of one family have in common.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Form {
    from: Vec<Vec<String>>,
    to: Vec<Vec<String>>,
    steps: String,
    axis: Option<(usize, Option<Vec<u64>>)>,
}

/// A rule and the pairs that it covers.
pub(super) struct Family<'p> {
    pub(super) rule: Rule,
    pub(super) pairs: Vec<&'p Pair>,
}

/// Returns rules that cover several pairs each.
pub(super) fn families<'p>(pairs: impl Iterator<Item = &'p Pair>) -> Vec<Family<'p>> {
    let mut groups: BTreeMap<Form, Vec<Member>> = BTreeMap::new();
    for pair in pairs {
        if pair.joined.is_none() && (pair.sources.len() > 1 || pair.targets.len() > 1) {
            continue;
        }
        let [from, to] = [&pair.sources, &pair.targets]
            .map(|names| names.iter().map(|name| Cut::new(name)).collect::<Vec<Cut>>());
        let texts = |cuts: &[Cut]| cuts.iter().map(|cut| cut.texts.clone()).collect();
        let form = Form {
            from: texts(&from),
            to: texts(&to),
            steps: pair.steps.iter().map(|step| format!("{step};")).collect(),
            axis: pair.joined.as_ref().map(|joined| (joined.axis, joined.sizes.clone())),
        };
        groups.entry(form).or_default().push(Member { pair, from, to });
    }
    groups.into_values().flat_map(|members| split(&members)).collect()
}

/// Returns one rule for all members, or else one for each value of one number: of the number that covers the most
/// pairs, with the fewest rules.
fn split<'p>(members: &[Member<'p>]) -> Vec<Family<'p>> {
    let all: Vec<&Member> = members.iter().collect();
    if let Some(family) = family(&all) {
        return vec![family];
    }
    let positions = members.first().and_then(|member| member.from.first());
    let positions = positions.map_or(0, |cut| cut.numbers.len());
    let parts = (0..positions).map(|position| {
        let mut parts: BTreeMap<&str, Vec<&Member<'p>>> = BTreeMap::new();
        for member in members {
            parts.entry(member.number(position)).or_default().push(member);
        }
        parts.values().filter_map(|part| family(part)).collect::<Vec<Family>>()
    });
    let coverage = |families: &Vec<Family>| {
        let pairs: usize = families.iter().map(|family| family.pairs.len()).sum();
        (pairs, usize::MAX - families.len())
    };
    parts.max_by_key(coverage).unwrap_or_default()
}

/// Returns the rule for all of these, if there is one.
fn family<'p>(members: &[&Member<'p>]) -> Option<Family<'p>> {
    let (first, rest) = members.split_first()?;
    let cut = first.from.first()?;
    if rest.is_empty() || cut.numbers.len() > default_limit(Limit::Captures) {
        return None;
    }
    let sources = varying(members, 0);
    let name = |source: usize| match sources.iter().position(|at| *at == source) {
        Some(0) if sources.len() == 1 => "n".to_owned(),
        index => format!("n{}", index.unwrap_or_default() + 1),
    };
    let mut patterns = Vec::new();
    for (number, cut) in first.names().enumerate() {
        let mut captures = BTreeMap::new();
        for (position, source, shift) in pair_numbers(members, &sources, number)? {
            let class = class(
                members
                    .iter()
                    .filter_map(|member| member.names().nth(number))
                    .map(|cut| cut.number(position)),
            )?;
            captures.insert(position, Part::Capture { name: name(source), class, shift });
        }
        patterns.push(pattern(cut, &captures));
        // Only target names are written with other numbers.
        let is_shifted = |part: &Part| matches!(part, Part::Capture { shift, .. } if *shift != 0);
        if number < first.from.len() && patterns.last()?.parts.iter().any(is_shifted) {
            return None;
        }
    }
    let to = patterns.split_off(first.from.len());
    let lengths = patterns.iter().map(|from| from.as_source().len());
    let longest = lengths.chain(to.iter().map(|to| to.as_target().len())).max()?;
    if longest > default_limit(Limit::PatternBytes) {
        return None;
    }
    let rule = first.pair.rule().with_names(patterns, to);
    Some(Family { rule, pairs: members.iter().map(|member| member.pair).collect() })
}

/// Returns the positions of the numbers that are not the same in this name of all members.
fn varying(members: &[&Member], name: usize) -> Vec<usize> {
    let cuts: Vec<&Cut> = members.iter().filter_map(|member| member.names().nth(name)).collect();
    let Some((first, rest)) = cuts.split_first() else { return Vec::new() };
    let varies = |at: &usize| rest.iter().any(|cut| cut.number(*at) != first.number(*at));
    (0..first.numbers.len()).filter(varies).collect()
}

/// Returns (position, source, shift) for each varying number of a name: the free number of the first source name with
/// the smallest shift. `None` if a number is left over.
fn pair_numbers(members: &[&Member], sources: &[usize], name: usize) -> Option<Vec<(usize, usize, i64)>> {
    let targets = varying(members, name);
    if sources.len() != targets.len() {
        return None;
    }
    let mut free = sources.to_vec();
    let pairs = targets.into_iter().map(|target| {
        let fitting =
            free.iter().filter_map(|source| Some((*source, shift(members, *source, (name, target))?)));
        let (source, shift) = fitting.min_by_key(|(_, shift)| shift.abs())?;
        free.retain(|other| *other != source);
        Some((target, source, shift))
    });
    pairs.collect()
}

/// Returns the difference between a number of a name and one of the first source name, if it is the same in all
/// members.
fn shift(members: &[&Member], source: usize, (name, position): (usize, usize)) -> Option<i64> {
    let mut shifts = members.iter().map(|member| {
        let to: i64 = member.names().nth(name)?.number(position).parse().ok()?;
        to.checked_sub(member.number(source).parse().ok()?)
    });
    let first = shifts.next()??;
    (shifts.all(|shift| shift == Some(first)) && first.abs() < 1000).then_some(first)
}

/// Returns the class of a capture that writes all of these numbers.
fn class<'n>(numbers: impl Iterator<Item = &'n str> + Clone) -> Option<Class> {
    if numbers.clone().all(|number| number == "0" || !number.starts_with('0')) {
        return Some(Class::Int);
    }
    let width = numbers.clone().next()?.len();
    let padded = (2..=9).contains(&width) && numbers.clone().all(|number| number.len() == width);
    if padded { u8::try_from(width).ok().map(Class::Padded) } else { None }
}

/// Returns the pattern of a cut name, with captures for some of its numbers.
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

/// Returns patterns that match these names and none of the others.
pub(super) fn ignored(names: &[&str], others: &[&str]) -> Vec<Pattern> {
    let mut groups: BTreeMap<Vec<String>, Vec<&str>> = BTreeMap::new();
    for name in names {
        groups.entry(Cut::new(name).texts).or_default().push(name);
    }
    let are_few = groups.len() <= default_limit(Limit::Rules);
    let forms: Vec<Option<Pattern>> =
        groups.values().map(|group| common_form(group).filter(|_| are_few)).collect();
    let mut matches_other = vec![false; forms.len()];
    // A group without a form has a pattern that matches nothing.
    let nothing = Pattern::literal("");
    let compiled = forms.iter().map(|form| form.as_ref().unwrap_or(&nothing));
    let mut set = PatternSet::new(compiled, SEPARATOR);
    for number in others.iter().flat_map(|name| set.matches(name)) {
        matches_other.get_mut(number).into_iter().for_each(|matches| *matches = true);
    }
    let patterns = groups.values().zip(&forms).zip(matches_other);
    let patterns = patterns.flat_map(|((group, form), matches_other)| match form {
        Some(form) if !matches_other => vec![form.clone()],
        _ => group.iter().map(|name| Pattern::literal(name)).collect(),
    });
    patterns.collect()
}

/// Returns the pattern of names that differ in their numbers alone, if it is short enough.
fn common_form(names: &[&str]) -> Option<Pattern> {
    const MAX_NUMBERS: usize = 8;
    let first = Cut::new(names.first()?);
    if names.len() < 2 || first.numbers.len() > MAX_NUMBERS {
        return None;
    }
    let captures = (0..first.numbers.len()).map(|position| {
        (position, Part::Capture { name: format!("n{}", position + 1), class: Class::Int, shift: 0 })
    });
    let form = pattern(&first, &captures.collect());
    let is_short = form.as_source().len() <= default_limit(Limit::PatternBytes);
    let matches = |name: &&str| form.matches(name, SEPARATOR).is_some();
    (is_short && names.iter().all(matches)).then_some(form)
}
