//! Why a name becomes what it becomes.

use super::check::{Fate, Origin, Used, fate};
use super::pattern::Pattern;
use super::relation::Link;
use super::{Mapping, inverse, printable, quote};
use crate::recipe::Target;
use ckpt_api::{Error, Limit, Limits, Result, Vocabulary};
use serde::Serialize;
use std::collections::BTreeMap;

/// Why a name becomes what it becomes.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The source name.
    pub name: String,
    /// What decided.
    #[serde(flatten)]
    pub decision: Decision,
    /// The values of the rule's captures, by name; numbers without leading zeros.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub captures: BTreeMap<String, String>,
    /// What it becomes, or a part of; empty where it is dropped, or nothing decided.
    pub targets: Vec<Target>,
    /// What the inverse makes of `targets`; `None` where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back: Option<Back>,
}

/// What decided about a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "decision", rename_all = "kebab-case")]
pub enum Decision {
    /// The lookup has it.
    Lookup {
        /// Where a file says so.
        #[serde(skip_serializing_if = "Option::is_none")]
        line: Option<usize>,
    },
    /// A pattern of `ignore` drops it.
    Ignored {
        /// The pattern.
        pattern: String,
        /// Where a file says so.
        #[serde(skip_serializing_if = "Option::is_none")]
        line: Option<usize>,
    },
    /// A rule matches it.
    Rule {
        /// In words.
        rule: String,
    },
    /// Nothing matches, so it keeps its name.
    Identity,
    /// Nothing says what becomes of it: applying the mapping is an error.
    Nothing {
        /// The form of a rule that its beginning fits best.
        #[serde(skip_serializing_if = "Option::is_none")]
        nearest: Option<Nearest>,
    },
}

/// How far a name fits a rule that does not match it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Nearest {
    /// The rule in words.
    pub rule: String,
    /// The beginning of the name that fits.
    pub fits: String,
    /// The rest.
    pub rest: String,
}

/// What the inverse makes of a name's targets.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Back {
    /// These sources.
    Leads(Vec<Target>),
    /// Nothing, for this reason.
    None(String),
}

/// A rule, and what it is backwards.
#[derive(Clone, Debug, Serialize)]
pub struct RuleReport {
    /// The rule in words, with its number, and its line where a file says it.
    pub rule: String,
    /// The rule read backwards, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inverse: Option<String>,
    /// Why it has no inverse.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

/// Every rule and its inverse.
pub(super) fn rules(mapping: &Mapping) -> Vec<RuleReport> {
    let report = |index| {
        let rule = mapping.describe_rule(index);
        match inverse::invert_rule(mapping, index) {
            Ok(inverse) => RuleReport { rule, inverse: Some(inverse.describe()), why_not: None },
            Err(error) => {
                let why = error.context().found.unwrap_or(error.message()).to_owned();
                RuleReport { rule, inverse: None, why_not: Some(why) }
            }
        }
    };
    (0..mapping.rules.len()).map(report).collect()
}

pub(super) fn explain(
    mapping: &Mapping,
    name: &str,
    limits: &Limits,
    words: &dyn Vocabulary,
) -> Result<Explanation> {
    limits.check(Limit::NameBytes, u64::try_from(name.len()).unwrap_or(u64::MAX))?;
    let (decision, captures, link) =
        decide(mapping, name, limits).map_err(|error| error.tensor(printable(name)))?;
    let targets: Vec<Target> = link.iter().flat_map(Link::recipes).collect();
    let back = match mapping.inverse() {
        _ if targets.is_empty() => None,
        Err(error) => Some(Back::None(error.text_in(words))),
        Ok(inverse) => Some(back(&inverse, &targets, limits, words)),
    };
    Ok(Explanation { name: name.to_owned(), decision, captures, targets, back })
}

type Decided = (Decision, BTreeMap<String, String>, Option<Link>);

fn decide(mapping: &Mapping, name: &str, limits: &Limits) -> Result<Decided> {
    let plain = |decision, target: &str| (decision, BTreeMap::new(), Some(Link::rename(name, target)));
    Ok(match fate(mapping, name, &mut Used::new(mapping))? {
        Fate::Becomes(target, Origin::Lookup) => {
            plain(Decision::Lookup { line: mapping.places.lookup.get(name).copied() }, &target)
        }
        Fate::Becomes(target, _) => plain(Decision::Identity, &target),
        Fate::Dropped => {
            let matches = |form: &Pattern| form.matches(name, mapping.separators.source).is_some();
            let index = mapping.ignore.iter().position(matches).unwrap_or_default();
            let pattern = mapping.ignore.get(index).map(Pattern::as_source).unwrap_or_default();
            let line = mapping.places.ignore.get(index).copied();
            (Decision::Ignored { pattern, line }, BTreeMap::new(), None)
        }
        Fate::Unmapped => (Decision::Nothing { nearest: nearest(mapping, name) }, BTreeMap::new(), None),
        Fate::Matched(index, matched) => {
            let rule = mapping.describe_rule(index);
            let link =
                link(mapping, index, &matched.values, limits).map_err(|error| error.field(rule.clone()))?;
            (Decision::Rule { rule }, matched.values, Some(link))
        }
    })
}

/// All that a rule makes of these values.
fn link(mapping: &Mapping, index: usize, values: &BTreeMap<String, String>, limits: &Limits) -> Result<Link> {
    let rule = mapping.rules.get(index).ok_or_else(|| Error::mapping("no such rule"))?;
    let sources = (0..rule.from.len()).map(|form| rule.source(form, values, limits));
    Ok(Link {
        sources: sources.collect::<Result<_>>()?,
        targets: rule.targets(values, mapping.separators, limits)?,
        relation: rule.relation.clone(),
        steps: rule.steps.clone(),
    })
}

fn back(inverse: &Mapping, targets: &[Target], limits: &Limits, words: &dyn Vocabulary) -> Back {
    let Some(first) = targets.first() else { return Back::Leads(Vec::new()) };
    match decide(inverse, &first.name, limits) {
        Ok((_, _, Some(link))) => Back::Leads(link.recipes().collect()),
        Ok(_) => Back::None(format!("nothing matches {}", quote(&first.name))),
        Err(error) => Back::None(error.text_in(words)),
    }
}

/// The rule whose forms the longest beginning of `name` fits.
fn nearest(mapping: &Mapping, name: &str) -> Option<Nearest> {
    let mut best: Option<(usize, usize)> = None;
    for (index, rule) in mapping.rules.iter().enumerate() {
        let reach = rule.from.iter().map(|form| form.reach(name, mapping.separators.source)).max();
        let reach = reach.unwrap_or_default();
        if reach > best.map_or(0, |(_, reach)| reach) {
            best = Some((index, reach));
        }
    }
    let (index, reach) = best?;
    Some(Nearest {
        rule: mapping.describe_rule(index),
        fits: name.chars().take(reach).collect(),
        rest: name.chars().skip(reach).collect(),
    })
}
