//! A mapping proposed from two checkpoints: what is sure, what is likely, and what is not known.

mod families;
mod names;
mod pairs;
mod values;
mod ways;

use super::pattern::{Pattern, Separators};
use super::print::print;
use super::relation::Relation;
use super::rule::Rule;
use super::{Mapping, quote, usual};
use crate::recipe::AxisStep;
use crate::source::Source;
use crate::words::count;
use ckpt_api::{Limit, Limits, Result, TensorId};
use families::{Family, families, ignored};
use pairs::Pairing;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use values::{Groups, equal};
use ways::Key;

/// A mapping proposed from two checkpoints.
#[derive(Clone, Debug, Serialize)]
pub struct Suggestion {
    /// The mapping. It names every tensor of the first checkpoint; what has no partner is in its `ignore`.
    #[serde(skip)]
    pub mapping: Mapping,
    /// What becomes what, sorted by source.
    pub pairs: Vec<Pair>,
    /// Tensors of the first checkpoint that could be several of the second, and which.
    pub ambiguous: Vec<Ambiguous>,
    /// Tensors of the first checkpoint without a partner.
    pub only_in_a: Vec<String>,
    /// Tensors of the second checkpoint that nothing becomes.
    pub only_in_b: Vec<String>,
}

/// Tensors of both checkpoints that are the same: one and one, or one and several that are equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// Names in the first checkpoint.
    pub sources: Vec<String>,
    /// Names in the second.
    pub targets: Vec<String>,
    /// What happens to the axes on the way.
    pub steps: Vec<AxisStep>,
    /// Why they are taken for the same.
    pub basis: Basis,
    /// Whether other steps would lead to the same shape, or the same value.
    pub unsure_steps: bool,
}

/// Why two tensors are taken for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// They alone have this value.
    Value,
    /// Several have this value; of these, their names are the most alike.
    ValueAndName,
    /// Their values differ; of those with this shape that nothing else decides, their names are the most alike.
    Name,
    /// Their values differ; they alone are left with this shape.
    Shape,
}

/// A tensor of the first checkpoint that could be several of the second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ambiguous {
    /// Its name.
    pub name: String,
    /// Names in the second checkpoint.
    pub candidates: Vec<String>,
}

/// Proposes a mapping from the names of `a` to those of `b`, reading the values of tensors whose shapes allow that
/// they are the same.
///
/// ```
/// # fn main() -> Result<(), ckpt::Error> {
/// let open = || ckpt::Source::open(&ckpt::Registry::builtin(), "examples/data/digits", &Default::default());
/// let suggestion = ckpt::mapping::suggest::suggest(&open()?, &open()?)?;
/// assert!(suggestion.pairs.iter().all(|pair| pair.sources == pair.targets));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Whatever keeps a tensor from being read; [`ckpt_api::Kind::Limit`] where more rules would be needed than a mapping
/// may have.
pub fn suggest(a: &Source, b: &Source) -> Result<Suggestion> {
    let groups = groups(a, b);
    let equal = equal(a, b, &groups)?;
    let mut pairing = Pairing::new(a, b);
    pairing.decide(&groups, &equal);
    let Pairing { mut pairs, ambiguous, .. } = pairing;
    pairs.sort_by(|a, b| a.sources.cmp(&b.sources));
    let name = |source: &Source, id: TensorId| {
        source.checkpoint().tensors.get(id.0).map(|tensor| tensor.name.clone()).unwrap_or_default()
    };
    let ambiguous = ambiguous.iter().map(|(id, of_b)| Ambiguous {
        name: name(a, *id),
        candidates: of_b.iter().map(|id| name(b, *id)).collect(),
    });
    let ambiguous: Vec<Ambiguous> = ambiguous.collect();
    let open: BTreeSet<&String> = ambiguous.iter().map(|one| &one.name).collect();
    let paired: BTreeSet<&String> = pairs.iter().flat_map(|pair| &pair.sources).collect();
    let made: BTreeSet<&String> = pairs.iter().flat_map(|pair| &pair.targets).collect();
    let names = |source: &Source| {
        let mut names: Vec<String> =
            source.checkpoint().tensors.iter().map(|tensor| tensor.name.clone()).collect();
        names.sort();
        names
    };
    let mut only_in_a = names(a);
    only_in_a.retain(|name| !paired.contains(name) && !open.contains(name));
    let mut only_in_b = names(b);
    only_in_b.retain(|name| !made.contains(name));
    let mapping = mapping(&pairs, &names(a))?;
    Ok(Suggestion { mapping, pairs, ambiguous, only_in_a, only_in_b })
}

/// The tensors of each that could be the same by their shapes.
fn groups(a: &Source, b: &Source) -> Groups {
    let mut groups = Groups::new();
    for (side, source) in [a, b].into_iter().enumerate() {
        for (id, tensor) in source.checkpoint().tensors.iter().enumerate() {
            let (of_a, of_b) = groups.entry(Key::new(tensor.dtype, &tensor.shape)).or_default();
            if side == 0 { of_a } else { of_b }.push(TensorId(id));
        }
    }
    groups
}

/// The mapping that says these pairs, and ignores the other names: with rules for families of names where that does the
/// same.
fn mapping(pairs: &[Pair], names: &[String]) -> Result<Mapping> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let exact = || said(pairs, Vec::new(), &names);
    let Ok(general) = said(pairs, sound(families(pairs.iter()), pairs), &names) else { return exact() };
    let mut wanted: Vec<(&[String], &[String])> = pairs
        .iter()
        .flat_map(|pair| pair.targets.chunks(1).map(|target| (target, &pair.sources[..])))
        .collect();
    wanted.sort();
    let does = general.apply(&names, &Limits::default()).is_ok_and(|applied| {
        let made =
            applied.targets.iter().map(|target| (std::slice::from_ref(&target.name), &target.sources[..]));
        made.eq(wanted)
    });
    if does { Ok(general) } else { exact() }
}

/// Families whose rules match no name of another pair; the largest, where there are too many.
fn sound<'p>(mut families: Vec<Family<'p>>, pairs: &[Pair]) -> Vec<Family<'p>> {
    families.sort_by_key(|family| std::cmp::Reverse(family.pairs.len()));
    families.truncate(usual(Limit::Rules));
    let separator = Separators::default().source;
    families.retain(|family| {
        let own: BTreeSet<&String> = family.pairs.iter().flat_map(|pair| &pair.sources).collect();
        let others = pairs.iter().flat_map(|pair| &pair.sources).filter(|name| !own.contains(name));
        let form = family.rule.from.first();
        form.is_some_and(|form| others.into_iter().all(|name| form.matches(name, separator).is_none()))
    });
    families
}

fn said(pairs: &[Pair], families: Vec<Family>, names: &[&str]) -> Result<Mapping> {
    let in_families: BTreeSet<&String> =
        families.iter().flat_map(|family| &family.pairs).flat_map(|pair| &pair.sources).collect();
    let mut mapping = Mapping { identity: false, ..Mapping::identity() };
    mapping.rules = families.into_iter().map(|family| family.rule).collect();
    for pair in pairs.iter().filter(|pair| !pair.sources.iter().any(|name| in_families.contains(name))) {
        match (&pair.sources[..], &pair.targets[..]) {
            ([source], [target]) if pair.steps.is_empty() => {
                mapping.lookup.insert(source.clone(), target.clone());
            }
            _ => mapping.rules.push(pair.rule()),
        }
    }
    let paired: BTreeSet<&str> = pairs.iter().flat_map(|pair| &pair.sources).map(String::as_str).collect();
    let (paired, others): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| paired.contains(*name));
    mapping.ignore = ignored(&others, &paired);
    if mapping.ignore.len() > usual(Limit::Rules) && mapping.rules.is_empty() {
        // The lookup goes first.
        mapping.ignore = vec![Pattern::ignored("**", &Limits::default())?];
    }
    super::file::check_count("rule", mapping.rules.len(), &Limits::default())?;
    super::file::check_count("ignore", mapping.ignore.len(), &Limits::default())?;
    Ok(mapping)
}

impl Pair {
    /// The rule that says it and no other.
    fn rule(&self) -> Rule {
        let forms = |names: &[String]| names.iter().map(|name| Pattern::literal(name)).collect();
        let tied = self.sources.len() > 1 || self.targets.len() > 1;
        Rule {
            line: None,
            from: forms(&self.sources),
            to: forms(&self.targets),
            relation: if tied { Relation::Tie } else { Relation::One },
            role: None,
            steps: self.steps.clone(),
            invertible: true,
        }
    }
}

impl Suggestion {
    /// The mapping as a file, with what is not sure in comments.
    pub fn to_toml(&self) -> String {
        let mut text = String::from("# Proposed from the names, shapes and values of two checkpoints.\n");
        let mut bases: BTreeMap<Basis, usize> = BTreeMap::new();
        for pair in &self.pairs {
            *bases.entry(pair.basis).or_default() += 1;
        }
        for (basis, number) in bases {
            text += &format!("# {}: {}\n", count(number, "pair"), basis.words());
        }
        if !self.mapping.ignore.is_empty() {
            text += "# ignore: what has no partner in the second checkpoint, or no certain one\n";
        }
        text += "\n";
        text += &print(&self.mapping);
        for basis in [Basis::ValueAndName, Basis::Name, Basis::Shape] {
            let pairs = self.pairs.iter().filter(|pair| pair.basis == basis);
            let pairs = pairs.map(|pair| format!("{} -> {}", list(&pair.sources), list(&pair.targets)));
            comment(&mut text, &format!("Look at these: {}", basis.words()), pairs);
        }
        let steps = self.pairs.iter().filter(|pair| pair.unsure_steps);
        let steps = steps.map(|pair| {
            let steps: Vec<String> = pair.steps.iter().map(ToString::to_string).collect();
            let steps = if steps.is_empty() { "none".to_owned() } else { steps.join(", ") };
            format!("{}: {steps}", list(&pair.sources))
        });
        comment(&mut text, "Other steps would do as well; these were taken", steps);
        let ambiguous =
            self.ambiguous.iter().map(|one| format!("{}: {}", quote(&one.name), several(&one.candidates)));
        comment(&mut text, "Ambiguous, so ignored: each could be any of", ambiguous);
        comment(
            &mut text,
            "Only in the first checkpoint, so ignored",
            self.only_in_a.iter().map(|name| quote(name)),
        );
        comment(
            &mut text,
            "Only in the second checkpoint: nothing becomes",
            self.only_in_b.iter().map(|name| quote(name)),
        );
        text
    }
}

impl Basis {
    fn words(self) -> &'static str {
        match self {
            Basis::Value => "they alone have that value",
            Basis::ValueAndName => "several have that value, and these the most similar names",
            Basis::Name => "the values differ; the names are the most similar of those with that shape",
            Basis::Shape => "the values differ; they alone are left with that shape",
        }
    }
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| quote(name)).collect::<Vec<_>>().join(", ")
}

/// The first few of many.
fn several(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let more = names.len().saturating_sub(SHOWN);
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    list(names.get(..SHOWN).unwrap_or(names)) + &tail
}

/// Lines of a comment under a heading, if there are any.
fn comment(text: &mut String, heading: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        *text += &format!("\n# {heading}:\n");
    }
    lines.for_each(|line| *text += &format!("#   {line}\n"));
}
