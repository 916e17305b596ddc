//! The errors of a mapping on actual names: they quote names and rules, and suggest the nearest.

use super::definition::{Mapping, Origin};
use super::relation::{Link, Relation, Stack};
use crate::pattern::Pattern;
use crate::words::{count, printable, quote};
use ckpt_api::{Error, Result, Setting, first_few, nearest, text};
use std::collections::BTreeSet;

/// How many names an error lists.
const SHOWN: usize = 5;

/// Two patterns of one rule match one name.
pub(super) fn two_forms(mapping: &Mapping, rule: usize, first: usize, second: usize) -> Error {
    let pattern = |form: usize| {
        let pattern = mapping.rules.get(rule).and_then(|rule| rule.from.get(form));
        quote(&pattern.map(Pattern::as_source).unwrap_or_default())
    };
    Error::mapping("two patterns of one rule match the same name")
        .field(mapping.describe_rule(rule))
        .found(pattern(first) + " and " + &pattern(second))
        .help("narrow one of them")
}

/// Two rules match one name.
pub(super) fn overlap(mapping: &Mapping, name: &str, first: usize, second: usize) -> Error {
    Error::mapping("two rules match the same name")
        .tensor(printable(name))
        .found(format!("{} and {}", mapping.describe_rule(first), mapping.describe_rule(second)))
        .help("narrow one of them, put the name into [lookup], or set ordered = true to let the first win")
}

/// Two sources have one target.
pub(super) fn collision(
    mapping: &Mapping,
    target: &str,
    first: (&str, Origin),
    second: (&str, Origin),
) -> Error {
    let one = |(source, origin)| format!("{} by {}", quote(source), mapping.describe(origin, source));
    let is_stack = |origin| match origin {
        Origin::Rule(rule) => {
            mapping.rules.get(rule).is_some_and(|rule| matches!(rule.relation, Relation::Stack(_)))
        }
        _ => false,
    };
    let message = match is_stack(first.1) && is_stack(second.1) {
        true => "two sources become the same element of a stack",
        false => "two source names become the same target name",
    };
    Error::mapping(message)
        .tensor(printable(target))
        .found(format!("{} and {}", one(first), one(second)))
        .help("change one of them, or list one source in 'ignore'")
}

/// No entry of the mapping matches these names.
pub(super) fn unmapped(mapping: &Mapping, unmapped: &[&str]) -> Error {
    let rules = mapping.rules.iter().enumerate().flat_map(|(index, rule)| {
        rule.from
            .iter()
            .map(Pattern::as_source)
            .map(move |text| (format!("nearest: {}, {}", mapping.number_rule(index), quote(&text)), text))
    });
    let rules: Vec<(String, String)> = rules.collect();
    let one = |name: &&str| {
        let lookups = mapping.lookup.keys().map(String::as_str);
        let known = lookups.chain(rules.iter().map(|(_, text)| text.as_str()));
        match shortlist(name, known, 1).first() {
            None => quote(name),
            Some(best) => match rules.iter().find(|(_, text)| text == best) {
                Some((words, _)) => format!("{} ({words})", quote(name)),
                None => {
                    format!("{} (nearest: {}, {})", quote(name), mapping.describe_lookup(best), quote(best))
                }
            },
        }
    };
    Error::mapping(format!("the mapping does not cover {}", count(unmapped.len(), "source name")))
        .found(first_few(unmapped.iter().map(one), SHOWN))
        .help("map each name in a [[rule]] or in [lookup], drop it with 'ignore' or 'ignore_roles', or set identity = \
               true to keep it")
}

/// A rule with several sources finds only some of them.
pub(super) fn missing_source<'a>(missing: &str, present: impl Iterator<Item = &'a str>) -> Error {
    let present: Vec<String> = present.take(SHOWN).map(quote).collect();
    Error::mapping("a rule finds only some of its sources")
        .found(format!("{}, but not {}", present.join(", "), quote(missing)))
        .expected("all sources of the rule, or none")
        .help("if the missing one does not exist, or another entry matches it, write a separate rule for the others")
}

/// A rule that dequantizes finds elements without scales, or scales without elements: `absent` is the number of what is
/// missing.
pub(super) fn missing_half<'a>(
    absent: usize,
    missing: &str,
    present: impl Iterator<Item = &'a str>,
) -> Error {
    let present: Vec<String> = present.take(SHOWN).map(quote).collect();
    let (message, expected) = match absent {
        0 => ("scales belong to no tensor", "the quantized elements beside their scales"),
        _ => ("a quantized tensor has no scales", "its scales beside it"),
    };
    Error::mapping(message)
        .found(format!("{}, but not {}", present.join(", "), quote(missing)))
        .expected(expected)
        .help(text!["add the missing tensor, or leave the other one out with ", Setting::EXCLUDE])
}

/// A stack lacks an element before its last. `counted` is the tensor that states the number of elements, if there is one.
pub(super) fn gap(missing: &str, elements: usize, last: u64, counted: Option<(&str, u64)>) -> Error {
    let expected = match counted {
        None => "the numbers 0, 1, 2, …, each once".to_owned(),
        Some((counter, count)) => format!("{}, each number once", stated(counter, count)),
    };
    Error::mapping("a stack has a gap: the numbers of its elements do not follow each other from 0 on")
        .found(format!("{}, up to number {last}, but not {}", count(elements, "element"), quote(missing)))
        .expected(expected)
        .help(
            "add the missing tensor; if the numbers of the source begin elsewhere, rename its tensors first",
        )
}

/// A stack has another number of elements than the tensor that counts them states. `nearest` is the first source that is
/// missing, or the last of those that are too many.
pub(super) fn miscounted(nearest: &str, elements: u64, (counter, counted): (&str, u64)) -> Error {
    let (message, found, help) = match elements < counted {
        true => (
            "a stack lacks elements at its end",
            "but not",
            text!["add the missing tensor, or leave out what belongs to the stack with ", Setting::EXCLUDE],
        ),
        false => (
            "a stack has more elements than the tensor that counts them states",
            "up to",
            text![
                "leave the others out with ",
                Setting::EXCLUDE,
                "; if the mapping names the wrong tensor, correct its stack_count",
            ],
        ),
    };
    let elements = usize::try_from(elements).unwrap_or(usize::MAX);
    Error::mapping(message)
        .found(format!("{}, {found} {}", count(elements, "element"), quote(nearest)))
        .expected(stated(counter, counted))
        .help(help)
}

/// The number of elements of a stack, and the tensor that states it.
fn stated(counter: &str, counted: u64) -> String {
    let counted = usize::try_from(counted).unwrap_or(usize::MAX);
    format!("{}, the length of axis 0 of {}", count(counted, "element"), quote(counter))
}

/// A stack has fewer elements than the one beside it, which begins with the tensor `other`.
pub(super) fn short_stack(missing: &str, elements: usize, (other, most): (&str, usize)) -> Error {
    Error::mapping("a stack lacks elements that a stack beside it has")
        .found(format!("{}, but not {}", count(elements, "element"), quote(missing)))
        .expected(format!("{}, as from {} on", count(most, "element"), quote(other)))
        .help(text!["add the missing tensor, or leave the others of its number out with ", Setting::EXCLUDE])
}

/// The index of an element does not fit 64 bits.
pub(super) fn large_index(mapping: &Mapping, rule: usize, name: &str) -> Error {
    Error::mapping("the number of an element of a stack is too large")
        .field(mapping.describe_rule(rule))
        .tensor(printable(name))
}

/// A stack without elements would leave no tensor.
pub(super) fn nothing_to_unstack(stack: &Stack) -> Error {
    Error::mapping("a tensor has no elements to unstack")
        .found(format!("no axis {}, or one of length 0", stack.axis))
        .expected("an axis with an index for each target")
}

/// Names alone do not show how many elements a stack has.
pub(super) fn unknown_length(stack: &Stack) -> Error {
    Error::mapping("the names alone do not show how many tensors a rule unstacks")
        .expected(format!("the length of axis {} of the tensor", stack.axis))
        .help("apply the mapping to a checkpoint")
}

/// The inverse maps a target to other sources.
pub(super) fn wrong_inverse(expected: &Link, actual: Option<&Link>) -> Error {
    let list = |names: &[String]| names.iter().map(|name| quote(name)).collect::<Vec<_>>().join(" + ");
    let found = actual.map_or_else(|| "nothing".to_owned(), |link| list(&link.targets));
    Error::mapping("the rules cannot be inverted for these names")
        .tensor(expected.sources.first().map(|name| printable(name)).unwrap_or_default())
        .found(format!("applied backwards, they give {found}"))
        .expected(list(&expected.targets))
        .help("separate the captures in 'to' with text that they cannot contain, or give them narrower types")
}

/// Checks that every source of the lookup exists: a missing one is usually a typing error.
pub(super) fn check_lookups(mapping: &Mapping, sources: &BTreeSet<&str>) -> Result<()> {
    let missing = mapping.lookup.keys().filter(|name| !sources.contains(name.as_str()));
    let missing: Vec<&str> = missing.map(String::as_str).collect();
    let Some(first) = missing.first() else { return Ok(()) };
    let near = shortlist(first, sources.iter().copied(), 8);
    let near: Vec<String> = near.into_iter().map(printable).collect();
    Err(Error::mapping(format!("the lookup has {} that the source lacks", count(missing.len(), "name")))
        .field(mapping.describe_lookup(first))
        .found(first_few(missing.iter().map(|name| quote(name)), SHOWN))
        .help(format!(
            "{} is not among the {}; {}",
            quote(first),
            count(sources.len(), "source name"),
            nearest(first, near.iter().map(String::as_str))
        )))
}

/// Returns the candidates that share most of their beginning and end with `name`, best first. Cheap enough for millions
/// of long names, unlike the finer measure of [`nearest`].
fn shortlist<'a>(name: &str, candidates: impl Iterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    const COMPARED: usize = 512;
    let short = candidates.filter(|candidate| candidate.len() <= COMPARED);
    let mut scored: Vec<(usize, &str)> =
        short.map(|candidate| (shared(name.bytes(), candidate.bytes()), candidate)).collect();
    scored.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(most).map(|(_, candidate)| candidate).collect()
}

/// Returns the common bytes at the beginning and at the end.
fn shared(
    a: impl DoubleEndedIterator<Item = u8> + Clone,
    b: impl DoubleEndedIterator<Item = u8> + Clone,
) -> usize {
    let start = a.clone().zip(b.clone()).take_while(|(a, b)| a == b).count();
    start + a.rev().zip(b.rev()).take_while(|(a, b)| a == b).count()
}
