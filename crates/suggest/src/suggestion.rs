//! The type [`Suggestion`], and the file that it writes.

use ckpt_api::first_few;
use ckpt_engine::mapping::{Mapping, Relation, Rule};
use ckpt_engine::pattern::Pattern;
use ckpt_engine::recipe::AxisStep;
use ckpt_engine::words::{count, quote, verb};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// How many candidates the file lists for an ambiguous tensor.
const CANDIDATES: usize = 8;

/// How many candidates a question lists.
const ASKED: usize = 4;

/// A mapping proposed from two checkpoints.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Suggestion {
    /// The mapping. It covers every tensor of the first checkpoint; tensors without a partner are in its `ignore`, or
    /// have a role that it ignores.
    #[serde(skip)]
    pub mapping: Mapping,
    /// The pairs of tensors, sorted by source.
    pub pairs: Vec<Pair>,
    /// Tensors of the first checkpoint that could be several of the second.
    pub ambiguous: Vec<Ambiguous>,
    /// Tensors without a partner that have the same elements in another shape, which no step changes.
    pub reshaped: Vec<Reshaped>,
    /// Tensors of the first checkpoint without a partner: weights, and those of a role of which others have a partner.
    pub only_in_a: Vec<String>,
    /// The same of the second checkpoint.
    pub only_in_b: Vec<String>,
    /// How many weights of the first checkpoint have a partner.
    pub weights_of_a: Coverage,
    /// How many weights of the second checkpoint have a partner.
    pub weights_of_b: Coverage,
}

/// How many weights of a checkpoint have a partner in the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Coverage {
    /// The number of weights with a partner.
    pub paired: usize,
    /// The number of weights without one.
    pub left: usize,
}

impl Coverage {
    fn is_complete(self) -> bool {
        self.left == 0 && self.paired > 0
    }
}

/// Tensors that are the same in both checkpoints: one and one, one and several equal ones, or one and its parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Pair {
    /// Names in the first checkpoint.
    pub sources: Vec<String>,
    /// Names in the second.
    pub targets: Vec<String>,
    /// The steps from the source to the target.
    pub steps: Vec<AxisStep>,
    /// The reason for the pair.
    pub basis: Basis,
    /// The reason for the steps.
    pub steps_basis: StepsBasis,
    /// Where the steps are open: all that are possible. Otherwise empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub possible_steps: Vec<Vec<AxisStep>>,
    /// Of one tensor and its parts: how they are joined. `None` for equal tensors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joined: Option<JoinedAxis>,
    /// Where [`Basis::Elements`] is the reason for the pair: why steps remain that were not tried. `None` if all were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untried: Option<Untried>,
}

/// Why not all steps were tried that could make one tensor of another with the same elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Untried {
    /// The tensors have many axes, of which only some orders are tried.
    ManyAxes,
    /// The axes have too many indices for a sum at each.
    LongAxes,
    /// One of the tensors cannot be read in the order of its axes.
    Unreadable,
    /// Images of many lengths agree with all sums, of which only some are compared.
    ManyImages,
}

impl Untried {
    fn words(self) -> &'static str {
        match self {
            Untried::ManyAxes => "only some orders of so many axes are tried",
            Untried::LongAxes => "the axes are too long to compare their parts",
            Untried::Unreadable => "one of the two cannot be read in the order of its axes",
            Untried::ManyImages => "more orders of images are possible than are compared",
        }
    }
}

/// The axis on which several tensors are joined to one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct JoinedAxis {
    /// The axis of the one tensor.
    pub axis: usize,
    /// The lengths of the parts on this axis; `None` for equal lengths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Vec<u64>>,
}

/// The reason for the steps of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StepsBasis {
    /// Shapes, values and the meanings of the axes allow no others.
    Only,
    /// Others are possible; these fit all pairs whose names end in the same way.
    Neighbors,
    /// Others are possible; both tensors have the same name, so none are needed.
    Name,
    /// Others are possible; the values are equal with each.
    Equal,
    /// Others are equally possible.
    Open,
    /// Shapes and names suggest them, but with them the values differ in checkpoints that are otherwise equal.
    Doubtful,
}

/// The reason for a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Basis {
    /// No other tensors have this value.
    Value,
    /// Several tensors have this value; of these, the two names are the most similar.
    ValueAndName,
    /// The elements are the same, in an order that no steps make, or none of those that were tried.
    Elements,
    /// The values differ; of the remaining tensors with this shape, the two names are the most similar.
    Name,
    /// The values differ; no other tensors remain with this shape.
    Shape,
}

/// A tensor of the first checkpoint that could be several of the second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Ambiguous {
    /// The name of the tensor.
    pub name: String,
    /// The tensors of the second checkpoint that it could be.
    pub candidates: Vec<String>,
}

/// One tensor and the others that have its elements in another shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Reshaped {
    /// Names in the first checkpoint.
    pub sources: Vec<String>,
    /// Names in the second.
    pub targets: Vec<String>,
    /// Why steps remain that were not tried; `None` if none makes the shapes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untried: Option<Untried>,
}

impl Pair {
    pub(super) fn new(
        sources: Vec<String>,
        targets: Vec<String>,
        steps: Vec<AxisStep>,
        basis: Basis,
        steps_basis: StepsBasis,
    ) -> Self {
        let (possible_steps, joined, untried) = (Vec::new(), None, None);
        Pair { sources, targets, steps, basis, steps_basis, possible_steps, joined, untried }
    }

    /// Returns the rule for this pair alone.
    pub(super) fn rule(&self) -> Rule {
        let forms = |names: &[String]| names.iter().map(|name| Pattern::literal(name)).collect();
        let relation = match &self.joined {
            Some(JoinedAxis { axis, sizes }) if self.sources.len() > 1 => {
                Relation::Merge { axis: *axis, sizes: sizes.clone() }
            }
            Some(JoinedAxis { axis, sizes }) => Relation::Split { axis: *axis, sizes: sizes.clone() },
            None if self.sources.len() > 1 || self.targets.len() > 1 => Relation::Tie,
            None => Relation::One,
        };
        Rule::new(forms(&self.sources), forms(&self.targets), relation, self.steps.clone())
    }
}

impl Pair {
    fn reason(&self) -> &'static str {
        match self.untried {
            Some(_) => "the elements are the same, in an order for which not all steps were tried",
            None => self.basis.words(),
        }
    }

    fn question(&self) -> String {
        let (sources, targets) = (list(&self.sources), list(&self.targets));
        match (self.steps_basis, self.basis) {
            (StepsBasis::Doubtful, Basis::Elements) => {
                let why = match self.untried {
                    Some(untried) => format!("not all steps were tried: {}", untried.words()),
                    None => "no steps make it".to_owned(),
                };
                format!("in which order does {targets} have the elements of {sources}? {why}")
            }
            (StepsBasis::Doubtful, _) => format!(
                "does {sources} -> {targets} need {}? these values differ, but most tensors have equal values",
                words(&self.steps)
            ),
            _ => {
                let possible: Vec<String> = self.possible_steps.iter().map(|steps| words(steps)).collect();
                format!("which steps does {sources} -> {targets} need: {}?", possible.join(", or "))
            }
        }
    }
}

impl Suggestion {
    /// Returns what the checkpoints leave open, one question a line: the steps of pairs, tensors that could be several,
    /// and tensors with the same elements in another shape.
    pub fn questions(&self) -> Vec<String> {
        let steps = self.open_steps().map(Pair::question);
        let pairs = self.ambiguous.iter().map(|one| {
            let candidates = first_few(one.candidates.iter().map(|name| quote(name)), ASKED);
            format!("what is {}: {candidates}?", quote(&one.name))
        });
        let reshaped = self.reshaped.iter().map(|one| {
            let shown = |names: &[String]| first_few(names.iter().map(|name| quote(name)), ASKED);
            let (sources, targets) = (shown(&one.sources), shown(&one.targets));
            let why = match one.untried {
                Some(untried) => format!("and not all steps were tried: {}", untried.words()),
                None => "but no steps make the shapes".to_owned(),
            };
            format!("what makes {targets} of {sources}? the elements are the same, {why}")
        });
        steps.chain(pairs).chain(reshaped).collect()
    }

    /// Whether one checkpoint has more weights without a partner than with one, and is no larger model that has all
    /// weights of the other: the two are hardly one model.
    ///
    /// ```
    /// # fn main() -> Result<(), ckpt::Error> {
    /// let open = |path| ckpt::Source::open(&ckpt::Registry::builtin(), path, &Default::default());
    /// let digits = open("examples/data/digits")?;
    /// assert!(!ckpt::suggest::suggest(&digits, &digits)?.is_mostly_unpaired());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_mostly_unpaired(&self) -> bool {
        let sides = [self.weights_of_a, self.weights_of_b];
        sides.iter().any(|side| side.left > side.paired) && !sides.iter().any(|side| side.is_complete())
    }

    /// Returns how many pairs there are for which reason, one reason a line.
    pub fn summary(&self) -> Vec<String> {
        let mut reasons: BTreeMap<(Basis, &str), usize> = BTreeMap::new();
        for pair in &self.pairs {
            *reasons.entry((pair.basis, pair.reason())).or_default() += 1;
        }
        let pairs =
            reasons.into_iter().map(|((_, reason), number)| format!("{}: {reason}", count(number, "pair")));
        let by_neighbors = self.with_steps(StepsBasis::Neighbors).count();
        let steps = (by_neighbors > 0).then(|| {
            let have = verb(by_neighbors, "has", "have");
            let steps = "the steps that all pairs with such names fit; others would be possible";
            format!("{} {have} {steps}", count(by_neighbors, "pair"))
        });
        pairs.chain(steps).collect()
    }

    fn open_steps(&self) -> impl Iterator<Item = &Pair> {
        let is_open = |pair: &&Pair| matches!(pair.steps_basis, StepsBasis::Open | StepsBasis::Doubtful);
        self.pairs.iter().filter(is_open)
    }

    fn with_steps(&self, basis: StepsBasis) -> impl Iterator<Item = &Pair> {
        self.pairs.iter().filter(move |pair| pair.steps_basis == basis)
    }

    /// Writes the mapping as a TOML file, with comments on everything uncertain.
    pub fn to_toml(&self) -> String {
        let mut text = String::from("# Proposed from the names, shapes and values of two checkpoints.\n");
        for line in self.summary() {
            text += &format!("# {line}\n");
        }
        if !self.mapping.ignore.is_empty() {
            text += "# ignore: tensors that have no clear match in the second checkpoint\n";
        }
        if !self.mapping.ignore_roles.is_empty() {
            text += "# ignore_roles: tensors that are no weights, and second copies\n";
        }
        text += "\n";
        text += &self.mapping.to_toml();
        let unsure = self.pairs.iter().filter(|pair| pair.basis != Basis::Value);
        let reasons: BTreeSet<(Basis, &str)> = unsure.map(|pair| (pair.basis, pair.reason())).collect();
        for reason in reasons {
            let pairs = self.pairs.iter().filter(|pair| (pair.basis, pair.reason()) == reason);
            let pairs = pairs.map(|pair| format!("{} -> {}", list(&pair.sources), list(&pair.targets)));
            comment(&mut text, &format!("Check these pairs: {}", reason.1), pairs);
        }
        for (basis, heading) in [
            (
                StepsBasis::Equal,
                "Check these steps for other values: these values are equal with others, too",
            ),
            (StepsBasis::Open, "Check these steps: others are equally possible"),
            (StepsBasis::Doubtful, "Check these steps: most tensors have equal values, but not these"),
        ] {
            let pairs = self.with_steps(basis);
            let pairs = pairs.map(|pair| format!("{}: {}", list(&pair.sources), words(&pair.steps)));
            comment(&mut text, heading, pairs);
        }
        let ambiguous = self.ambiguous.iter().map(Ambiguous::describe);
        comment(&mut text, "Ambiguous, so ignored; each could be any of", ambiguous);
        for (heading, has_untried) in [
            ("The same elements in shapes that no steps make, so ignored", false),
            ("The same elements in shapes for which not all steps were tried, so ignored", true),
        ] {
            let reshaped = self.reshaped.iter().filter(|one| one.untried.is_some() == has_untried);
            let reshaped = reshaped.map(|one| format!("{} -> {}", list(&one.sources), list(&one.targets)));
            comment(&mut text, heading, reshaped);
        }
        comment(
            &mut text,
            "Only in the first checkpoint, so ignored",
            self.only_in_a.iter().map(|name| quote(name)),
        );
        comment(
            &mut text,
            "Only in the second checkpoint, so no source",
            self.only_in_b.iter().map(|name| quote(name)),
        );
        text
    }
}

impl Ambiguous {
    fn describe(&self) -> String {
        let candidates = first_few(self.candidates.iter().map(|name| quote(name)), CANDIDATES);
        format!("{}: {candidates}", quote(&self.name))
    }
}

fn words(steps: &[AxisStep]) -> String {
    match steps {
        [] => "no step".to_owned(),
        steps => steps.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

impl Basis {
    /// Whether the values of the pair are equal after its steps.
    pub(super) fn is_by_value(self) -> bool {
        matches!(self, Basis::Value | Basis::ValueAndName)
    }

    fn words(self) -> &'static str {
        match self {
            Basis::Value => "matched by value, which no other tensor has",
            Basis::ValueAndName => "several tensors have the same value; matched by the most similar names",
            Basis::Elements => "the elements are the same, in an order that no steps make",
            Basis::Name => "the values differ; matched by shape and the most similar names",
            Basis::Shape => "the values differ; matched by shape, which no other remaining tensor has",
        }
    }
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| quote(name)).collect::<Vec<_>>().join(", ")
}

/// Adds lines of comment under a heading, if there are any.
fn comment(text: &mut String, heading: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        *text += &format!("\n# {heading}:\n");
    }
    lines.for_each(|line| *text += &format!("#   {line}\n"));
}
