//! Decides about one name at a time: the lookup, `ignore`, a rule, or `identity`.

use super::definition::{Mapping, Origin};
use super::problems;
use super::rule::Values;
use crate::pattern::{Pattern, PatternSet, hints};
use ckpt_api::{Error, Result};
use std::collections::BTreeSet;

/// A mapping made ready for many names: its patterns are compiled.
pub(super) struct Decider<'m> {
    mapping: &'m Mapping,
    ignore: PatternSet<'m>,
    /// The patterns of all rules, in the order of `forms`.
    rules: PatternSet<'m>,
    /// For each pattern of the rules: the index of the rule, and of the pattern in its `from`.
    forms: Vec<(usize, usize)>,
    used_ignores: Vec<bool>,
    used_rules: Vec<bool>,
}

impl Mapping {
    /// Adds to an error the mapping's file, and the entry that maps these sources.
    pub(crate) fn blame(&self, error: Error, sources: &[String]) -> Error {
        let Some(source) = sources.first() else { return error };
        let entry = match Decider::new(self).decide(source) {
            Ok(Fate::Renamed(_, origin @ Origin::Lookup)) => self.describe(origin, source),
            Ok(Fate::Matched(Match { rule, .. })) => self.describe_rule(rule),
            _ => return error,
        };
        if error.context().field.is_some() { error } else { self.located(error).field(entry) }
    }
}

/// The decision about one name.
pub(super) enum Fate {
    Renamed(String, Origin),
    /// The name is one source of a rule.
    Matched(Match),
    /// The index of the first ignore pattern that matches.
    Dropped(usize),
    Unmapped,
}

/// A name that matches a rule.
pub(super) struct Match {
    /// The index of the rule.
    pub(super) rule: usize,
    /// The index of the pattern in the rule's `from`.
    pub(super) form: usize,
    pub(super) values: Values,
}

impl<'m> Decider<'m> {
    pub(super) fn new(mapping: &'m Mapping) -> Self {
        let separator = mapping.separators.source;
        let forms = mapping.rules.iter().enumerate();
        let forms = forms.flat_map(|(rule, one)| (0..one.from.len()).map(move |form| (rule, form)));
        Decider {
            mapping,
            ignore: PatternSet::new(mapping.ignore.iter().map(|ignore| &ignore.pattern), separator),
            rules: PatternSet::new(mapping.rules.iter().flat_map(|rule| &rule.from), separator),
            forms: forms.collect(),
            used_ignores: vec![false; mapping.ignore.len()],
            used_rules: vec![false; mapping.rules.len()],
        }
    }

    /// Decides about `name`, and marks the entries that match it as used.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] if two rules, or two patterns of one rule, match.
    pub(super) fn decide(&mut self, name: &str) -> Result<Fate> {
        if let Some(entry) = self.mapping.lookup.get(name) {
            return Ok(Fate::Renamed(entry.target.clone(), Origin::Lookup));
        }
        let ignored = self.ignore.matches(name);
        mark(&mut self.used_ignores, &ignored);
        if let Some(first) = ignored.first() {
            return Ok(Fate::Dropped(*first));
        }
        Ok(match self.matching_rule(name)? {
            Some(matched) => Fate::Matched(matched),
            None if self.mapping.identity => Fate::Renamed(name.to_owned(), Origin::Identity),
            None => Fate::Unmapped,
        })
    }

    fn matching_rule(&mut self, name: &str) -> Result<Option<Match>> {
        let numbers = self.rules.matches(name);
        let mut found: Option<(usize, usize)> = None;
        for (rule, form) in numbers.iter().filter_map(|number| self.forms.get(*number)) {
            match found {
                Some((first, other)) if first == *rule => {
                    return Err(problems::two_forms(self.mapping, *rule, other, *form));
                }
                Some(_) if self.mapping.ordered => break,
                Some((first, _)) => return Err(problems::overlap(self.mapping, name, first, *rule)),
                None => found = Some((*rule, *form)),
            }
        }
        let Some((rule, form)) = found else { return Ok(None) };
        mark(&mut self.used_rules, &[rule]);
        let values = self.mapping.rules.get(rule);
        let values = values.and_then(|rule| rule.capture(form, name, self.mapping.separators));
        Ok(values.map(|values| Match { rule, form, values }))
    }

    /// Describes the rules and ignore patterns that have decided about none of these names.
    pub(super) fn unused(&self, names: &BTreeSet<&str>) -> Vec<String> {
        let mapping = self.mapping;
        let ignores = unused(&self.used_ignores);
        let patterns: Vec<&Pattern> =
            ignores.iter().filter_map(|index| Some(&mapping.ignore.get(*index)?.pattern)).collect();
        let hints = hints(&patterns, names.iter().copied(), mapping.separators.source);
        let ignores = ignores.into_iter().zip(hints).map(|(index, hint)| {
            let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
            mapping.describe_ignore(index) + &hint
        });
        let rules = unused(&self.used_rules).into_iter().map(|index| mapping.describe_rule(index));
        rules.chain(ignores).collect()
    }
}

fn unused(used: &[bool]) -> Vec<usize> {
    used.iter().enumerate().filter(|(_, used)| !**used).map(|(index, _)| index).collect()
}

fn mark(used: &mut [bool], indices: &[usize]) {
    for index in indices {
        if let Some(used) = used.get_mut(*index) {
            *used = true;
        }
    }
}
