//! A mapping over actual names: everything that could be wrong is found here, before any tensor byte is read.

use super::{Applied, Mapping, printable, quote};
use crate::words::count;
use ckpt_api::{Error, Limits, Result, nearest};
use std::collections::{BTreeMap, BTreeSet};

/// How many names an error lists.
const SHOWN: usize = 5;

/// Maps all names, then proves the inverse on them.
pub(super) fn apply(mapping: &Mapping, names: &[&str], limits: &Limits) -> Result<Applied> {
    let Resolved { names, dropped, unused } = resolve(mapping, names, limits)?;
    let inverse = proven_inverse(mapping, &names, limits);
    Ok(Applied { names, dropped, unused, inverse })
}

struct Resolved {
    names: BTreeMap<String, String>,
    dropped: Vec<String>,
    unused: Vec<String>,
}

/// What decided about one name.
#[derive(Clone, Copy)]
enum Origin {
    Lookup,
    Rule(usize),
    Identity,
}

enum Fate {
    Becomes(String, Origin),
    Dropped,
    Unmapped,
}

fn resolve(mapping: &Mapping, names: &[&str], limits: &Limits) -> Result<Resolved> {
    let sources = distinct(names, limits)?;
    check_lookups(mapping, &sources)?;
    let mut used = Used::new(mapping);
    let mut targets: BTreeMap<String, (&str, Origin)> = BTreeMap::new();
    let (mut dropped, mut unmapped) = (Vec::new(), Vec::new());
    for &source in &sources {
        match fate(mapping, source, &mut used, limits).map_err(|error| error.tensor(printable(source)))? {
            Fate::Dropped => dropped.push(source.to_owned()),
            Fate::Unmapped => unmapped.push(source),
            Fate::Becomes(target, origin) => {
                if let Some(other) = targets.get(&target) {
                    return Err(collision(mapping, &target, *other, (source, origin)));
                }
                targets.insert(target, (source, origin));
            }
        }
    }
    if !unmapped.is_empty() {
        return Err(nothing_maps(mapping, &unmapped));
    }
    let names = targets.into_iter().map(|(target, (source, _))| (source.to_owned(), target)).collect();
    Ok(Resolved { names, dropped, unused: used.complement(mapping) })
}

fn distinct<'n>(names: &[&'n str], limits: &Limits) -> Result<BTreeSet<&'n str>> {
    limits.check("tensors", u64::try_from(names.len()).unwrap_or(u64::MAX))?;
    let mut sources = BTreeSet::new();
    for name in names {
        let length = u64::try_from(name.len()).unwrap_or(u64::MAX);
        limits.check("name_bytes", length).map_err(|error| error.tensor(printable(name)))?;
        if !sources.insert(*name) {
            return Err(Error::mapping("the source has two tensors of one name").tensor(printable(name)));
        }
    }
    Ok(sources)
}

fn fate(mapping: &Mapping, name: &str, used: &mut Used, limits: &Limits) -> Result<Fate> {
    if let Some(target) = mapping.lookup.get(name) {
        return Ok(Fate::Becomes(target.clone(), Origin::Lookup));
    }
    let mut dropped = false;
    for (pattern, used) in mapping.ignore.iter().zip(&mut used.ignore) {
        let matches = pattern.matches(name, mapping.separators.source).is_some();
        *used |= matches;
        dropped |= matches;
    }
    if dropped {
        return Ok(Fate::Dropped);
    }
    let mut found: Option<(usize, String)> = None;
    for ((index, rule), used) in mapping.rules.iter().enumerate().zip(&mut used.rules) {
        let Some(target) = rule.rewrite(name, mapping.separators, limits) else { continue };
        if let Some((first, _)) = &found {
            return Err(overlap(mapping, name, *first, index));
        }
        *used = true;
        found = Some((index, target?));
        if mapping.ordered {
            break;
        }
    }
    Ok(match found {
        Some((index, target)) => Fate::Becomes(target, Origin::Rule(index)),
        None if mapping.identity => Fate::Becomes(name.to_owned(), Origin::Identity),
        None => Fate::Unmapped,
    })
}

/// Which rules and patterns have matched something.
struct Used {
    rules: Vec<bool>,
    ignore: Vec<bool>,
}

impl Used {
    fn new(mapping: &Mapping) -> Self {
        Used { rules: vec![false; mapping.rules.len()], ignore: vec![false; mapping.ignore.len()] }
    }

    fn complement(&self, mapping: &Mapping) -> Vec<String> {
        let rules = self.rules.iter().enumerate().filter(|(_, used)| !**used);
        let rules = rules.map(|(index, _)| describe(mapping, Origin::Rule(index)));
        let ignore = mapping.ignore.iter().zip(&self.ignore).filter(|(_, used)| !**used);
        let ignore = ignore.map(|(pattern, _)| format!("ignore {}", quote(&pattern.as_source())));
        rules.chain(ignore).collect()
    }
}

/// The inverse, if it leads from every target to its source.
fn proven_inverse(mapping: &Mapping, names: &BTreeMap<String, String>, limits: &Limits) -> Result<Mapping> {
    let inverse = mapping.inverse()?;
    let targets: Vec<&str> = names.values().map(String::as_str).collect();
    let back = resolve(&inverse, &targets, limits).map_err(|error| inverse.located(error))?;
    let wrong = names.iter().find(|(source, target)| back.names.get(*target) != Some(source));
    let Some((source, target)) = wrong else { return Ok(inverse) };
    let found = back.names.get(target).map_or_else(|| "nothing".to_owned(), |found| quote(found));
    Err(inverse.located(
        Error::mapping("the rules read backwards do not lead back")
            .tensor(printable(target))
            .found(found)
            .expected(quote(source))
            .help(
                "separate the captures of 'to' by text that they cannot contain, or give them narrower types",
            ),
    ))
}

fn describe(mapping: &Mapping, origin: Origin) -> String {
    match origin {
        Origin::Lookup => "lookup".to_owned(),
        Origin::Identity => "identity".to_owned(),
        Origin::Rule(index) => {
            let rule = mapping.rules.get(index).map(|rule| format!(" ({})", rule.describe()));
            format!("rule {}{}", index + 1, rule.unwrap_or_default())
        }
    }
}

fn overlap(mapping: &Mapping, name: &str, first: usize, second: usize) -> Error {
    let (first, second) = (Origin::Rule(first), Origin::Rule(second));
    Error::mapping("two rules match one name")
        .tensor(printable(name))
        .found(format!("{} and {}", describe(mapping, first), describe(mapping, second)))
        .help("narrow one of them, put the name into [lookup], or set ordered = true to let the first win")
}

fn collision(mapping: &Mapping, target: &str, first: (&str, Origin), second: (&str, Origin)) -> Error {
    let one = |(source, origin)| format!("{} by {}", quote(source), describe(mapping, origin));
    Error::mapping("two source names become one target name")
        .tensor(printable(target))
        .found(format!("{} and {}", one(first), one(second)))
        .help("change one of them, or list one source in 'ignore'")
}

fn nothing_maps(mapping: &Mapping, unmapped: &[&str]) -> Error {
    let rules = mapping.rules.iter().zip(1..).map(|(rule, number): (_, usize)| {
        let text = rule.from.as_source();
        (format!("nearest: rule {number}, {}", quote(&text)), text)
    });
    let rules: Vec<(String, String)> = rules.collect();
    let one = |name: &&str| {
        let lookups = mapping.lookup.keys().map(String::as_str);
        let known = lookups.chain(rules.iter().map(|(_, text)| text.as_str()));
        match shortlist(name, known, 1).first() {
            None => quote(name),
            Some(best) => match rules.iter().find(|(_, text)| text == best) {
                Some((words, _)) => format!("{} ({words})", quote(name)),
                None => format!("{} (nearest: lookup {})", quote(name), quote(best)),
            },
        }
    };
    let listed: Vec<String> = unmapped.iter().take(SHOWN).map(one).collect();
    Error::mapping(format!("nothing says what becomes of {}", count(unmapped.len(), "source name")))
        .found(listed.join(", ") + &more(unmapped.len()))
        .help("map each by a [[rule]] or in [lookup], drop it by 'ignore', or set identity = true to keep its name")
}

/// A lookup that finds no source is a typing error more often than not.
fn check_lookups(mapping: &Mapping, sources: &BTreeSet<&str>) -> Result<()> {
    let missing = mapping.lookup.keys().filter(|name| !sources.contains(name.as_str()));
    let missing: Vec<&str> = missing.map(String::as_str).collect();
    let Some(first) = missing.first() else { return Ok(()) };
    let listed: Vec<String> = missing.iter().take(SHOWN).map(|name| quote(name)).collect();
    let near = shortlist(first, sources.iter().copied(), 8);
    let near: Vec<String> = near.into_iter().map(printable).collect();
    Err(Error::mapping(format!("the lookup has {} that the source lacks", count(missing.len(), "name")))
        .field("lookup")
        .found(listed.join(", ") + &more(missing.len()))
        .help(format!(
            "{} is none of the {}; {}",
            quote(first),
            count(sources.len(), "source name"),
            nearest(first, near.iter().map(String::as_str))
        )))
}

/// The candidates that share most of their beginning and end with `name`, best first: cheap enough for
/// millions of long names, which the finer measure behind [`nearest`] is not.
fn shortlist<'a>(name: &str, candidates: impl Iterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    const COMPARED: usize = 512;
    let short = candidates.filter(|candidate| candidate.len() <= COMPARED);
    let mut scored: Vec<(usize, &str)> =
        short.map(|candidate| (shared(name.bytes(), candidate.bytes()), candidate)).collect();
    scored.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(most).map(|(_, candidate)| candidate).collect()
}

fn shared(
    a: impl DoubleEndedIterator<Item = u8> + Clone,
    b: impl DoubleEndedIterator<Item = u8> + Clone,
) -> usize {
    let start = a.clone().zip(b.clone()).take_while(|(a, b)| a == b).count();
    start + a.rev().zip(b.rev()).take_while(|(a, b)| a == b).count()
}

fn more(all: usize) -> String {
    match all.saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    }
}
