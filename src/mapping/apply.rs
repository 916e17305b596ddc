//! Applies a mapping to actual names. Finds everything that could be wrong before any tensor is read.

use super::decide::{Decider, Fate, Match};
use super::definition::{Mapping, Origin};
use super::inverse::table;
use super::problems;
use super::relation::Link;
use super::rule::{Rule, Separators, Values};
use crate::recipe::Target;
use crate::words::printable;
use ckpt_api::{Error, Limit, Limits, Result, Role, Tensor};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// The result of a mapping for actual names.
#[derive(Debug)]
pub struct Applied {
    /// Every target tensor with its recipe, sorted by name; no two names are equal.
    pub targets: Vec<Target>,
    /// Source names that `ignore` drops, sorted.
    pub dropped: Vec<String>,
    /// Descriptions of the rules and `ignore` patterns that matched nothing (or, with `ordered`, came too late).
    pub unused: Vec<String>,
    /// The mapping from exactly these target names to exactly these source names, or the reason why the rules give
    /// none; [`Applied::inverse_table`] exists even then.
    pub inverse: Result<Mapping>,
    separators: Separators,
    links: Vec<Link>,
}

impl Mapping {
    /// Gives every source name its targets. Checks that every name is mapped or dropped, that every entry of the lookup
    /// and every merge finds its sources, and that no two targets have one name; proves whether the inverse returns the
    /// sources. Does not check that steps fit the shapes of tensors.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] naming the sources, the rules and the nearest names; [`ckpt_api::Kind::Limit`] for
    /// too many names or one that is too long.
    pub fn apply(&self, names: &[&str], limits: &Limits) -> Result<Applied> {
        apply(self, names, limits).map_err(|error| self.located(error))
    }

    /// As [`Mapping::apply`], to the names of tensors; drops the tensors whose roles the mapping ignores, and second
    /// copies of tensors that it does not map.
    ///
    /// # Errors
    /// As [`Mapping::apply`].
    pub fn apply_to(&self, tensors: &[Tensor], limits: &Limits) -> Result<Applied> {
        let copies = tensors.iter().filter(|tensor| tensor.role == Role::Duplicate && !self.identity);
        let unmapped: HashSet<&str> =
            self.unnamed(copies.map(|tensor| tensor.name.as_str())).into_iter().collect();
        let is_ignored = |tensor: &&Tensor| {
            let by_role = self.ignore_roles.contains(&tensor.role) && !self.lookup.contains_key(&tensor.name);
            by_role || unmapped.contains(tensor.name.as_str())
        };
        let names: Vec<&str> =
            tensors.iter().filter(|tensor| !is_ignored(tensor)).map(|tensor| tensor.name.as_str()).collect();
        let mut applied = self.apply(&names, limits)?;
        applied.dropped.extend(tensors.iter().filter(is_ignored).map(|tensor| tensor.name.clone()));
        applied.dropped.sort();
        Ok(applied)
    }

    /// Returns those of the names that no lookup, rule or `ignore` pattern matches.
    pub(crate) fn unnamed<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
        let mut names = names.peekable();
        if names.peek().is_none() {
            return Vec::new();
        }
        let mut decider = Decider::new(self);
        let mut is_unnamed = |name: &&str| {
            matches!(decider.decide(name), Ok(Fate::Unmapped | Fate::Renamed(_, Origin::Identity)))
        };
        names.filter(|name| is_unnamed(name)).collect()
    }
}

impl Applied {
    /// Returns (source, target) for every target that is one source tensor, unchanged. A source that is tied to several
    /// names occurs once for each.
    pub fn plain(&self) -> impl Iterator<Item = (&str, &str)> {
        let plain = self.targets.iter().filter(|target| target.recipe.is_plain());
        plain.filter_map(|target| Some((target.sources.first()?.as_str(), target.name.as_str())))
    }

    /// Returns the inverse as a table of exactly these names. It exists even if the rules have no inverse.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`] if more targets need a rule than a mapping may have.
    pub fn inverse_table(&self) -> Result<Mapping> {
        table(&self.links, self.separators)
    }
}

fn apply(mapping: &Mapping, names: &[&str], limits: &Limits) -> Result<Applied> {
    let Resolved { links, dropped, unused } = resolve(mapping, names, limits)?;
    let inverse = proven_inverse(mapping, &links, limits);
    let mut targets: Vec<Target> = links.iter().flat_map(Link::recipes).collect();
    targets.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Applied { targets, dropped, unused, inverse, separators: mapping.separators, links })
}

struct Resolved {
    /// Sorted by their targets.
    links: Vec<Link>,
    dropped: Vec<String>,
    unused: Vec<String>,
}

/// The sources found so far, by rule and values: one for each pattern of the rule.
type Groups<'n> = BTreeMap<(usize, Values), Vec<Option<&'n str>>>;

fn resolve(mapping: &Mapping, names: &[&str], limits: &Limits) -> Result<Resolved> {
    let sources = distinct(names, limits)?;
    problems::check_lookups(mapping, &sources)?;
    let mut decider = Decider::new(mapping);
    let mut links = Links { mapping, limits, targets: BTreeMap::new(), links: Vec::new() };
    let mut groups = Groups::new();
    let (mut dropped, mut unmapped) = (Vec::new(), Vec::new());
    for &source in &sources {
        match decider.decide(source).map_err(|error| error.tensor(printable(source)))? {
            Fate::Dropped(_) => dropped.push(source.to_owned()),
            Fate::Unmapped => unmapped.push(source),
            Fate::Renamed(target, origin) => links.add(Link::rename(source, &target), origin)?,
            Fate::Matched(Match { rule, form, values }) => {
                let forms = mapping.rules.get(rule).map_or(1, |rule| rule.from.len());
                let group = groups.entry((rule, values)).or_insert_with(|| vec![None; forms]);
                group.get_mut(form).map(|slot| slot.replace(source));
            }
        }
    }
    if !unmapped.is_empty() {
        return Err(problems::unmapped(mapping, &unmapped));
    }
    for ((index, values), group) in groups {
        let Some(rule) = mapping.rules.get(index) else { continue };
        links.complete(rule, index, &values, &group)?;
    }
    links.links.sort_by(|a, b| a.targets.cmp(&b.targets));
    Ok(Resolved { links: links.links, dropped, unused: decider.unused(&sources) })
}

/// The links found so far; no two targets have one name.
struct Links<'m> {
    mapping: &'m Mapping,
    limits: &'m Limits,
    /// The first source of each target, and the entry that maps it.
    targets: BTreeMap<String, (String, Origin)>,
    links: Vec<Link>,
}

impl Links<'_> {
    /// Adds the link of a rule and the sources that match it; all of the rule's patterns must have one.
    fn complete(&mut self, rule: &Rule, index: usize, values: &Values, group: &[Option<&str>]) -> Result<()> {
        let present = || group.iter().flatten().copied();
        let located = |error: Error| {
            let error = error.field(self.mapping.describe_rule(index));
            error.tensor(present().next().map(printable).unwrap_or_default())
        };
        if let Some(missing) = group.iter().position(Option::is_none) {
            let missing = rule.source(missing, values, self.limits).map_err(located)?;
            return Err(located(problems::missing_source(&missing, present())));
        }
        let targets = rule.targets(values, self.mapping.separators, self.limits).map_err(located)?;
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
        self.limits.check(Limit::Tensors, self.targets.len() as u64)?;
        self.links.push(link);
        Ok(())
    }
}

/// Sorts the names, and checks their number, their lengths, and that no two are equal.
fn distinct<'n>(names: &[&'n str], limits: &Limits) -> Result<BTreeSet<&'n str>> {
    limits.check(Limit::Tensors, names.len() as u64)?;
    let mut sources = BTreeSet::new();
    for name in names {
        let length = name.len() as u64;
        limits.check(Limit::NameBytes, length).map_err(|error| error.tensor(printable(name)))?;
        if !sources.insert(*name) {
            return Err(Error::mapping("the source has two tensors of one name").tensor(printable(name)));
        }
    }
    Ok(sources)
}

/// Returns the inverse if it maps every target to its sources.
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
    Err(inverse.located(problems::wrong_inverse(link, actual)))
}
