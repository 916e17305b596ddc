//! Applies a mapping to actual names. Finds everything that could be wrong before any tensor is read.

use super::decide::{Decider, Fate, Match};
use super::definition::{Mapping, Origin};
use super::inverse::table;
use super::problems;
use super::relation::{Link, Relation};
use super::rule::{Rule, Separators, Values};
use crate::recipe::Target;
use crate::words::printable;
use ckpt_api::{DType, Error, Limit, Limits, Result, Role, Tensor};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

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
    /// [`ckpt_api::Kind::Mapping`] naming the sources, the rules and the nearest names, and for a rule that unstacks,
    /// which needs the lengths that [`Mapping::apply_to`] knows; [`ckpt_api::Kind::Limit`] for too many names or one
    /// that is too long.
    pub fn apply(&self, names: &[&str], limits: &Limits) -> Result<Applied> {
        apply(self, names, &Facts::NONE, limits).map_err(|error| self.located(error))
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
            let by_role =
                self.ignore_roles.contains(&tensor.role) && !self.lookup.contains_key(tensor.name.as_str());
            by_role || unmapped.contains(tensor.name.as_str())
        };
        let names: Vec<&str> =
            tensors.iter().filter(|tensor| !is_ignored(tensor)).map(|tensor| tensor.name.as_str()).collect();
        let by_name: HashMap<&str, &Tensor> =
            tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
        let facts = Facts {
            len: &|name, axis| by_name.get(name).map(|tensor| tensor.shape.get(axis).copied().unwrap_or(0)),
            dtype: &|name| by_name.get(name).map(|tensor| tensor.dtype),
        };
        let mut applied = apply(self, &names, &facts, limits).map_err(|error| self.located(error))?;
        applied.dropped.extend(tensors.iter().filter(is_ignored).map(|tensor| tensor.name.to_string()));
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

/// What is known of the sources beside their names.
#[derive(Clone, Copy)]
struct Facts<'a> {
    /// The length of an axis; 0 if the source lacks the axis, `None` if only its name is known.
    len: &'a dyn Fn(&str, usize) -> Option<u64>,
    /// The dtype; `None` if only the name is known.
    dtype: &'a dyn Fn(&str) -> Option<DType>,
}

impl Facts<'_> {
    const NONE: Facts<'static> = Facts { len: &|_, _| None, dtype: &|_| None };
}

fn apply(mapping: &Mapping, names: &[&str], facts: &Facts<'_>, limits: &Limits) -> Result<Applied> {
    mapping.check_parameters()?;
    if mapping.is_generated() {
        return Err(Error::mapping("the mapping is made for a graph, and there is none")
            .help("name the checkpoint of a model, or the model that gives the graph"));
    }
    let Resolved { links, dropped, unused } = resolve(mapping, names, facts, limits)?;
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

/// The sources of stacks found so far, by rule and the values of all captures but the index; then by the index.
type Stacks<'n> = BTreeMap<(usize, Values), BTreeMap<u64, Vec<Option<&'n str>>>>;

fn resolve(mapping: &Mapping, names: &[&str], facts: &Facts<'_>, limits: &Limits) -> Result<Resolved> {
    let sources = distinct(names, limits)?;
    problems::check_lookups(mapping, &sources)?;
    let mut decider = Decider::new(mapping);
    let mut links = Links { mapping, limits, facts, targets: BTreeMap::new(), links: Vec::new() };
    let (mut groups, mut stacks) = (Groups::new(), Stacks::new());
    let (mut dropped, mut unmapped) = (Vec::new(), Vec::new());
    for &source in &sources {
        match decider.decide(source).map_err(|error| error.tensor(printable(source)))? {
            Fate::Dropped(_) => dropped.push(source.to_owned()),
            Fate::Unmapped => unmapped.push(source),
            Fate::Renamed(target, origin) => links.add(Link::rename(source, &target), origin)?,
            Fate::Matched(Match { rule, form, mut values }) => {
                let found = mapping.rules.get(rule);
                let forms = vec![None; found.map_or(1, |rule| rule.from.len())];
                let group = match found.map(|rule| &rule.relation) {
                    Some(Relation::Stack(stack)) => {
                        let index = values.remove(&stack.index).unwrap_or_default();
                        let index =
                            index.parse().map_err(|_| problems::large_index(mapping, rule, source))?;
                        stacks.entry((rule, values)).or_default().entry(index).or_insert(forms)
                    }
                    _ => groups.entry((rule, values)).or_insert(forms),
                };
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
    for ((index, values), elements) in &stacks {
        let Some(rule) = mapping.rules.get(*index) else { continue };
        links.complete_stack(rule, *index, values, elements)?;
    }
    check_lengths(mapping, &stacks, limits)?;
    links.links.sort_by(|a, b| a.targets.cmp(&b.targets));
    Ok(Resolved { links: links.links, dropped, unused: decider.unused(&sources) })
}

/// The links found so far; no two targets have one name.
struct Links<'m> {
    mapping: &'m Mapping,
    limits: &'m Limits,
    facts: &'m Facts<'m>,
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
        if let Some(absent) = group.iter().position(Option::is_none) {
            let missing = rule.source(absent, values, self.limits).map_err(located)?;
            if let Relation::Dequantize(how) = &rule.relation {
                let is_quantized = |source: &str| {
                    (self.facts.dtype)(source).is_some_and(|dtype| how.format.is_quantized(dtype))
                };
                let is_number = |source: &&str| absent == 1 && how.split.is_none() && !is_quantized(source);
                return match present().next().filter(is_number) {
                    // Numbers that were never quantized have no scales: only their names change.
                    Some(source) => self.rename_all(rule, index, values, source).map_err(located),
                    None => Err(located(problems::missing_half(absent, &missing, present()))),
                };
            }
            return Err(located(problems::missing_source(&missing, present())));
        }
        let targets = self.targets(rule, values, present().next().unwrap_or_default()).map_err(located)?;
        let link = Link {
            sources: present().map(str::to_owned).collect(),
            targets,
            relation: rule.relation.clone(),
            steps: rule.steps.clone(),
            division: rule.division.clone(),
        };
        self.add(link, Origin::Rule(index))
    }

    /// Gives a source the targets of a rule, unchanged.
    fn rename_all(&mut self, rule: &Rule, index: usize, values: &Values, source: &str) -> Result<()> {
        let targets = rule.targets(values, self.mapping.separators, self.limits)?;
        targets.iter().try_for_each(|target| self.add(Link::rename(source, target), Origin::Rule(index)))
    }

    /// Returns the targets of a rule whose first source is `source`.
    fn targets(&self, rule: &Rule, values: &Values, source: &str) -> Result<Vec<String>> {
        let separators = self.mapping.separators;
        let Relation::Unstack(stack) = &rule.relation else {
            return rule.targets(values, separators, self.limits);
        };
        match (self.facts.len)(source, stack.axis) {
            Some(0) => Err(problems::nothing_to_unstack(stack)),
            Some(elements) => rule.unstacked(stack, elements, values, separators, self.limits),
            None => Err(problems::unknown_length(stack)),
        }
    }

    /// Adds the link of a rule and the elements of one stack: all from 0 on, and all of their parts.
    fn complete_stack(
        &mut self,
        rule: &Rule,
        index: usize,
        values: &Values,
        elements: &BTreeMap<u64, Vec<Option<&str>>>,
    ) -> Result<()> {
        let present = || elements.values().flatten().flatten().copied();
        let located = |error: Error| {
            let error = error.field(self.mapping.describe_rule(index));
            error.tensor(present().next().map(printable).unwrap_or_default())
        };
        let name = |element: u64, form: usize| {
            let mut values = values.clone();
            values.extend(rule.stack_index().map(|capture| (capture.to_owned(), element.to_string())));
            rule.source(form, &values, self.limits)
        };
        let last = elements.keys().next_back().copied().unwrap_or_default();
        let counted = self.counted(rule, values).map_err(located)?;
        let gap = (0u64..).zip(elements.keys()).find(|(expected, found)| expected != *found);
        if let Some((gap, _)) = gap {
            let missing = name(gap, 0).map_err(located)?;
            let counted = counted.as_ref().map(|(counter, count)| (counter.as_str(), *count));
            return Err(located(problems::gap(&missing, elements.len(), last, counted)));
        }
        for (element, forms) in elements {
            if let Some(missing) = forms.iter().position(Option::is_none) {
                let missing = name(*element, missing).map_err(located)?;
                return Err(located(problems::missing_source(&missing, forms.iter().flatten().copied())));
            }
        }
        let found = elements.len() as u64;
        if let Some((counter, count)) = counted.filter(|(_, count)| *count != found) {
            let nearest = name(if found < count { found } else { last }, 0).map_err(located)?;
            return Err(located(problems::miscounted(&nearest, found, (&counter, count))));
        }
        let targets = rule.targets(values, self.mapping.separators, self.limits).map_err(located)?;
        let link = Link {
            sources: present().map(str::to_owned).collect(),
            targets,
            relation: rule.relation.clone(),
            steps: rule.steps.clone(),
            division: rule.division.clone(),
        };
        self.add(link, Origin::Rule(index))
    }

    /// Returns the tensor that counts the elements of a stack, and their number; `None` if the rule names none, or if
    /// the source does not have it.
    fn counted(&self, rule: &Rule, values: &Values) -> Result<Option<(String, u64)>> {
        let Some(counter) = rule.counter(values, self.limits)? else { return Ok(None) };
        Ok((self.facts.len)(&counter, 0).map(|count| (counter, count)))
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

/// Checks that stacks side by side have as many elements: those whose sources have the same name up to the number, such
/// as the matrices of the same experts.
fn check_lengths(mapping: &Mapping, stacks: &Stacks<'_>, limits: &Limits) -> Result<()> {
    let mut named = Vec::with_capacity(stacks.len());
    for ((index, values), elements) in stacks {
        let Some(rule) = mapping.rules.get(*index) else { continue };
        let name = |element: u64| {
            let mut values = values.clone();
            values.extend(rule.stack_index().map(|capture| (capture.to_owned(), element.to_string())));
            rule.source(0, &values, limits)
        };
        let [first, second] = [name(0)?, name(1)?];
        let same = first.bytes().zip(second.bytes()).take_while(|(a, b)| a == b).count();
        let beginning = first.get(..same).unwrap_or_default().to_owned();
        named.push((beginning, *index, elements.len(), name(elements.len() as u64)?, first));
    }
    let mut longest: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for (beginning, _, len, _, first) in &named {
        let known = longest.entry(beginning).or_insert((*len, first.as_str()));
        if known.0 < *len {
            *known = (*len, first);
        }
    }
    for (beginning, index, len, missing, first) in &named {
        let Some((most, other)) = longest.get(beginning.as_str()).filter(|(most, _)| most > len) else {
            continue;
        };
        return Err(problems::short_stack(missing, *len, (other, *most))
            .field(mapping.describe_rule(*index))
            .tensor(printable(first)));
    }
    Ok(())
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
    // Of a stack, the inverse makes as many tensors as it has elements.
    let stacks: HashMap<&str, u64> = links.iter().filter_map(Link::elements).collect();
    let facts = Facts { len: &|name, _| stacks.get(name).copied(), ..Facts::NONE };
    let back = resolve(&inverse, &targets, &facts, limits).map_err(|error| inverse.located(error))?;
    let mut expected: Vec<Link> = links.iter().map(Link::inverse).collect();
    expected.sort_by(|a, b| a.targets.cmp(&b.targets));
    let found: BTreeMap<&[String], &Link> =
        back.links.iter().map(|link| (link.sources.as_slice(), link)).collect();
    let wrong = expected.iter().find(|link| found.get(link.sources.as_slice()) != Some(link));
    let Some(link) = wrong else { return Ok(inverse) };
    let actual = back.links.iter().find(|back| back.sources.iter().any(|name| link.sources.contains(name)));
    Err(inverse.located(problems::wrong_inverse(link, actual)))
}
