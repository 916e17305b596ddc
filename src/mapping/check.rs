//! A mapping over actual names: everything that could be wrong is found here, before any tensor byte is read.

use super::relation::Link;
use super::rule::{Matched, Rule};
use super::{Applied, Mapping, printable, problems};
use crate::recipe::Target;
use ckpt_api::{Error, Limit, Limits, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Maps all names, then proves the inverse on them.
pub(super) fn apply(mapping: &Mapping, names: &[&str], limits: &Limits) -> Result<Applied> {
    let Resolved { links, dropped, unused } = resolve(mapping, names, limits)?;
    let inverse = proven_inverse(mapping, &links, limits);
    let mut targets: Vec<Target> = links.iter().flat_map(Link::recipes).collect();
    targets.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Applied { targets, dropped, unused, inverse, separators: mapping.separators, links })
}

struct Resolved {
    /// Sorted.
    links: Vec<Link>,
    dropped: Vec<String>,
    unused: Vec<String>,
}

/// What decided about one name.
#[derive(Clone, Copy)]
pub(super) enum Origin {
    Lookup,
    Rule(usize),
    Identity,
}

pub(super) enum Fate {
    Becomes(String, Origin),
    /// A rule has it as one of its sources.
    Matched(usize, Matched),
    Dropped,
    Unmapped,
}

/// Sources found so far for one target of a rule with several, by the captures' values.
type Groups<'n> = BTreeMap<(usize, BTreeMap<String, String>), Vec<Option<&'n str>>>;

fn resolve(mapping: &Mapping, names: &[&str], limits: &Limits) -> Result<Resolved> {
    let sources = distinct(names, limits)?;
    problems::check_lookups(mapping, &sources)?;
    let mut used = Used::new(mapping);
    let mut links = Links { mapping, limits, targets: BTreeMap::new(), links: Vec::new() };
    let mut groups = Groups::new();
    let (mut dropped, mut unmapped) = (Vec::new(), Vec::new());
    for &source in &sources {
        let about = |error: Error| error.tensor(printable(source));
        match fate(mapping, source, &mut used).map_err(about)? {
            Fate::Dropped => dropped.push(source.to_owned()),
            Fate::Unmapped => unmapped.push(source),
            Fate::Becomes(target, origin) => links.add(Link::rename(source, &target), origin)?,
            Fate::Matched(index, Matched { form, values }) => {
                let forms = mapping.rules.get(index).map_or(1, |rule| rule.from.len());
                let group = groups.entry((index, values)).or_insert_with(|| vec![None; forms]);
                group.get_mut(form).map(|slot| slot.replace(source));
            }
        }
    }
    if !unmapped.is_empty() {
        return Err(problems::nothing_maps(mapping, &unmapped));
    }
    for ((index, values), group) in groups {
        let Some(rule) = mapping.rules.get(index) else { continue };
        links.complete(rule, index, &values, &group)?;
    }
    links.links.sort_by(|a, b| a.targets.cmp(&b.targets));
    Ok(Resolved { links: links.links, dropped, unused: used.complement(mapping) })
}

/// What is mapped so far; no two targets have one name.
struct Links<'m> {
    mapping: &'m Mapping,
    limits: &'m Limits,
    /// The first source of each target, and what decided.
    targets: BTreeMap<String, (String, Origin)>,
    links: Vec<Link>,
}

impl Links<'_> {
    /// Adds what a rule makes of a group of sources that have all of its forms.
    fn complete(
        &mut self,
        rule: &Rule,
        index: usize,
        values: &BTreeMap<String, String>,
        group: &[Option<&str>],
    ) -> Result<()> {
        let present = || group.iter().flatten().copied();
        let about = |error: Error| {
            let error = error.field(self.mapping.describe_rule(index));
            error.tensor(present().next().map(printable).unwrap_or_default())
        };
        if let Some(missing) = group.iter().position(Option::is_none) {
            let missing = rule.source(missing, values, self.limits).map_err(about)?;
            return Err(about(problems::missing_source(&missing, present())));
        }
        let targets = rule.targets(values, self.mapping.separators, self.limits).map_err(about)?;
        let link = Link {
            sources: present().map(str::to_owned).collect(),
            targets,
            relation: rule.relation.clone(),
            steps: rule.steps.clone(),
        };
        self.add(link, Origin::Rule(index))
    }

    fn add(&mut self, link: Link, origin: Origin) -> Result<()> {
        let source = link.sources.first().map(String::as_str).unwrap_or_default();
        for target in &link.targets {
            if let Some((other, first)) = self.targets.get(target) {
                return Err(problems::collision(self.mapping, target, (other, *first), (source, origin)));
            }
            self.targets.insert(target.clone(), (source.to_owned(), origin));
        }
        self.limits.check(Limit::Tensors, u64::try_from(self.targets.len()).unwrap_or(u64::MAX))?;
        self.links.push(link);
        Ok(())
    }
}

fn distinct<'n>(names: &[&'n str], limits: &Limits) -> Result<BTreeSet<&'n str>> {
    limits.check(Limit::Tensors, u64::try_from(names.len()).unwrap_or(u64::MAX))?;
    let mut sources = BTreeSet::new();
    for name in names {
        let length = u64::try_from(name.len()).unwrap_or(u64::MAX);
        limits.check(Limit::NameBytes, length).map_err(|error| error.tensor(printable(name)))?;
        if !sources.insert(*name) {
            return Err(Error::mapping("the source has two tensors of one name").tensor(printable(name)));
        }
    }
    Ok(sources)
}

/// What decides about a name: the lookup, `ignore`, a rule, or nothing but `identity`.
pub(super) fn fate(mapping: &Mapping, name: &str, used: &mut Used) -> Result<Fate> {
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
    let mut found: Option<(usize, Matched)> = None;
    for ((index, rule), used) in mapping.rules.iter().enumerate().zip(&mut used.rules) {
        let matched = rule.matches(name, mapping.separators);
        let matched = matched.map_err(|error| error.field(mapping.describe_rule(index)))?;
        let Some(matched) = matched else { continue };
        if let Some((first, _)) = &found {
            return Err(problems::overlap(mapping, name, *first, index));
        }
        *used = true;
        found = Some((index, matched));
        if mapping.ordered {
            break;
        }
    }
    Ok(match found {
        Some((index, matched)) => Fate::Matched(index, matched),
        None if mapping.identity => Fate::Becomes(name.to_owned(), Origin::Identity),
        None => Fate::Unmapped,
    })
}

/// Which rules and patterns have matched something.
pub(super) struct Used {
    rules: Vec<bool>,
    ignore: Vec<bool>,
}

impl Used {
    pub(super) fn new(mapping: &Mapping) -> Self {
        Used { rules: vec![false; mapping.rules.len()], ignore: vec![false; mapping.ignore.len()] }
    }

    fn complement(&self, mapping: &Mapping) -> Vec<String> {
        let rules = self.rules.iter().enumerate().filter(|(_, used)| !**used);
        let rules = rules.map(|(index, _)| mapping.describe_rule(index));
        let ignore = self.ignore.iter().enumerate().filter(|(_, used)| !**used);
        let ignore = ignore.map(|(index, _)| mapping.describe_ignore(index));
        rules.chain(ignore).collect()
    }
}

/// The inverse, if it leads from every target to its sources.
fn proven_inverse(mapping: &Mapping, links: &[Link], limits: &Limits) -> Result<Mapping> {
    let inverse = mapping.inverse()?;
    let targets: Vec<&str> = links.iter().flat_map(|link| &link.targets).map(String::as_str).collect();
    let back = resolve(&inverse, &targets, limits).map_err(|error| inverse.located(error))?;
    let mut expected: Vec<Link> = links.iter().map(Link::inverse).collect();
    expected.sort_by(|a, b| a.targets.cmp(&b.targets));
    let found: BTreeMap<&[String], &Link> =
        back.links.iter().map(|link| (link.sources.as_slice(), link)).collect();
    let wrong = expected.iter().find(|link| found.get(link.sources.as_slice()) != Some(link));
    let Some(link) = wrong else { return Ok(inverse) };
    let actual = back.links.iter().find(|back| back.sources.iter().any(|name| link.sources.contains(name)));
    Err(inverse.located(problems::no_way_back(link, actual)))
}
