//! Explains the decision about one name.

use super::decide::{Decider, Fate, Match};
use super::definition::{Mapping, Origin};
use super::inverse::invert_rule;
use super::relation::{Link, Relation};
use super::rule::Values;
use crate::recipe::Target;
use crate::words::{printable, quote};
use ckpt_api::{Error, LibraryWords, Limit, Limits, Result, Vocabulary};
use serde::Serialize;
use std::collections::BTreeMap;

/// The decision of a mapping about one name, and its reason.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The source name.
    pub name: String,
    /// The entry of the mapping that decides.
    #[serde(flatten)]
    pub decision: Decision,
    /// The values of the rule's captures, by name; numbers have no leading zeros.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub captures: BTreeMap<String, String>,
    /// The targets made of the name; empty if it is dropped, or nothing decides.
    pub targets: Vec<Target>,
    /// What the inverse makes of `targets`; `None` if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back: Option<Back>,
}

/// The entry of a mapping that decides about a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "decision", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Decision {
    /// The lookup.
    Lookup {
        /// The line of the file; `None` if the mapping was made in code.
        #[serde(skip_serializing_if = "Option::is_none")]
        line: Option<usize>,
    },
    /// A pattern of `ignore`, which drops the name.
    Ignored {
        /// The pattern.
        pattern: String,
        /// The line of the file; `None` if the mapping was made in code.
        #[serde(skip_serializing_if = "Option::is_none")]
        line: Option<usize>,
    },
    /// A rule.
    Rule {
        /// Its description.
        rule: String,
    },
    /// No entry matches, and `identity` keeps the name.
    Identity,
    /// No entry matches: applying the mapping is an error.
    Nothing {
        /// The rule that matches the longest beginning of the name.
        #[serde(skip_serializing_if = "Option::is_none")]
        nearest: Option<Nearest>,
    },
}

/// A rule that matches the beginning of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Nearest {
    /// The description of the rule.
    pub rule: String,
    /// The beginning of the name that matches.
    pub fits: String,
    /// The rest.
    pub rest: String,
}

/// The result of the inverse for the targets of a name.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Back {
    /// These sources.
    Leads(Vec<Target>),
    /// No result, for this reason.
    None(String),
}

/// A rule and its inverse.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RuleReport {
    /// The description of the rule, with its number, and its line in the file.
    pub rule: String,
    /// The description of the rule read backwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inverse: Option<String>,
    /// The reason why it has no inverse.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

impl Mapping {
    /// Explains the decision about `name` alone. Does not check whether other names collide with it.
    ///
    /// ```
    /// let gpt2 = ckpt::Registry::builtin().mapping("gpt2-tf-to-hf").expect("it is built in");
    /// let explained = gpt2.explain("model/h3/ln_1/g", &ckpt_api::Limits::default())?;
    /// assert_eq!(explained.captures["layer"], "3");
    /// assert_eq!(explained.targets[0].name, "h.3.ln_1.weight");
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Mapping::apply`]: rules that overlap, a number that does not fit, a name that is too long.
    pub fn explain(&self, name: &str, limits: &Limits) -> Result<Explanation> {
        self.explain_in(name, limits, &LibraryWords)
    }

    /// As [`Mapping::explain`], with settings named as `words` does.
    pub fn explain_in(&self, name: &str, limits: &Limits, words: &dyn Vocabulary) -> Result<Explanation> {
        explain(self, name, limits, words).map_err(|error| self.located(error))
    }

    /// Returns every rule with its inverse, or the reason why it has none.
    pub fn rules(&self) -> Vec<RuleReport> {
        (0..self.rules.len()).map(|index| report(self, index)).collect()
    }
}

fn report(mapping: &Mapping, index: usize) -> RuleReport {
    let rule = mapping.describe_rule(index);
    match invert_rule(mapping, index) {
        Ok(inverse) => RuleReport { rule, inverse: Some(inverse.describe()), why_not: None },
        Err(error) => {
            let why = error.context().found.unwrap_or(error.message()).to_owned();
            RuleReport { rule, inverse: None, why_not: Some(why) }
        }
    }
}

fn explain(mapping: &Mapping, name: &str, limits: &Limits, words: &dyn Vocabulary) -> Result<Explanation> {
    limits.check(Limit::NameBytes, name.len() as u64)?;
    let Explained { decision, captures, link } =
        decide(mapping, name, limits).map_err(|error| error.tensor(printable(name)))?;
    let targets: Vec<Target> = link.iter().flat_map(Link::recipes).collect();
    let back = match mapping.inverse() {
        _ if targets.is_empty() => None,
        Err(error) => Some(Back::None(error.text_in(words))),
        Ok(inverse) => Some(back(&inverse, &targets, limits, words)),
    };
    Ok(Explanation { name: name.to_owned(), decision, captures, targets, back })
}

struct Explained {
    decision: Decision,
    captures: Values,
    /// `None` if the name is dropped, or nothing decides.
    link: Option<Link>,
}

fn decide(mapping: &Mapping, name: &str, limits: &Limits) -> Result<Explained> {
    let fate = Decider::new(mapping).decide(name)?;
    let decision = decision(mapping, name, &fate);
    let (captures, link) = match fate {
        Fate::Renamed(target, _) => (Values::new(), Some(Link::rename(name, &target))),
        Fate::Dropped(_) | Fate::Unmapped => (Values::new(), None),
        Fate::Matched(Match { rule, values, .. }) => {
            let link = link(mapping, rule, &values, limits)
                .map_err(|error| error.field(mapping.describe_rule(rule)))?;
            (values, Some(link))
        }
    };
    Ok(Explained { decision, captures, link })
}

/// Describes the entry of the mapping that decided about `name`.
fn decision(mapping: &Mapping, name: &str, fate: &Fate) -> Decision {
    match fate {
        Fate::Renamed(_, Origin::Lookup) => {
            Decision::Lookup { line: mapping.lookup.get(name).and_then(|entry| entry.line) }
        }
        Fate::Renamed(..) => Decision::Identity,
        Fate::Dropped(index) => {
            let ignore = mapping.ignore.get(*index);
            let pattern = ignore.map(|ignore| ignore.pattern.as_source()).unwrap_or_default();
            Decision::Ignored { pattern, line: ignore.and_then(|ignore| ignore.line) }
        }
        Fate::Unmapped => Decision::Nothing { nearest: nearest(mapping, name) },
        Fate::Matched(Match { rule, .. }) => Decision::Rule { rule: mapping.describe_rule(*rule) },
    }
}

/// The decisions of a mapping about many names, whose patterns are compiled once.
pub struct Decisions<'m> {
    mapping: &'m Mapping,
    decider: std::cell::RefCell<Decider<'m>>,
}

impl<'m> Decisions<'m> {
    /// Compiles the patterns of a mapping.
    pub fn new(mapping: &'m Mapping) -> Self {
        Decisions { mapping, decider: std::cell::RefCell::new(Decider::new(mapping)) }
    }

    /// Returns the decision about `name`; `None` if two rules match.
    pub fn of(&self, name: &str) -> Option<Decision> {
        let fate = self.decider.borrow_mut().decide(name).ok()?;
        Some(decision(self.mapping, name, &fate))
    }
}

/// Returns all sources and targets of a rule for these values.
fn link(mapping: &Mapping, index: usize, values: &Values, limits: &Limits) -> Result<Link> {
    let rule = mapping.rules.get(index).ok_or_else(|| Error::mapping("no such rule"))?;
    let sources = (0..rule.from.len()).map(|form| rule.source(form, values, limits));
    // Of a stack, the element of this name, or the first.
    let targets = match &rule.relation {
        Relation::Unstack(stack) => rule.unstacked(stack, 1, values, mapping.separators, limits)?,
        _ => rule.targets(values, mapping.separators, limits)?,
    };
    Ok(Link {
        sources: sources.collect::<Result<_>>()?,
        targets,
        relation: rule.relation.clone(),
        steps: rule.steps.clone(),
        division: rule.division.clone(),
    })
}

fn back(inverse: &Mapping, targets: &[Target], limits: &Limits, words: &dyn Vocabulary) -> Back {
    let Some(first) = targets.first() else { return Back::Leads(Vec::new()) };
    match decide(inverse, &first.name, limits) {
        Ok(Explained { link: Some(link), .. }) => Back::Leads(link.recipes().collect()),
        Ok(_) => Back::None(format!("nothing matches {}", quote(&first.name))),
        Err(error) => Back::None(error.text_in(words)),
    }
}

/// Returns the rule that matches the longest beginning of `name`.
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
