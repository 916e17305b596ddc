//! One rule: forms of source names, forms of their targets, and what happens between them.

use super::pattern::{Class, Part, Pattern, Separators};
use super::relation::Relation;
use super::{printable, quote};
use crate::recipe::AxisStep;
use ckpt_api::{Error, Limit, Limits, Result, Setting};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// What is left where a rule has no inverse.
fn table() -> String {
    format!("change the rule, or take the table of one checkpoint's names: {}", Setting::InverseTable)
}

/// `from` → `to`, over the same captures.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// Where a file says it; none for one that was made.
    pub(super) line: Option<usize>,
    /// One, but for a merge and a tie of several.
    pub(super) from: Vec<Pattern>,
    /// One, but for a split and a tie to several.
    pub(super) to: Vec<Pattern>,
    pub(super) relation: Relation,
    /// What names its steps, if a role does.
    pub(super) role: Option<String>,
    pub(super) steps: Vec<AxisStep>,
    /// Whether it may be read backwards.
    pub(super) invertible: bool,
}

/// A name that has one of a rule's forms.
pub(super) struct Matched {
    /// Which of the forms.
    pub(super) form: usize,
    /// The captures' values by name, numbers without leading zeros.
    pub(super) values: BTreeMap<String, String>,
}

impl Rule {
    /// Which form `name` has, and its captures' values.
    pub(super) fn matches(&self, name: &str, separators: Separators) -> Result<Option<Matched>> {
        let mut found: Option<Matched> = None;
        for (form, pattern) in self.from.iter().enumerate() {
            let Some(values) = pattern.matches(name, separators.source) else { continue };
            if let Some(first) = &found {
                return Err(Error::mapping("one name has two forms of one rule")
                    .found(self.form(first.form) + " and " + &self.form(form))
                    .help("narrow one of them"));
            }
            let values = pattern.captures().zip(values).map(|((name, class), value)| {
                let value = if class.is_number() { significant(value) } else { value };
                (name.to_owned(), value.to_owned())
            });
            found = Some(Matched { form, values: values.collect() });
        }
        Ok(found)
    }

    fn form(&self, index: usize) -> String {
        self.from.get(index).map(|pattern| quote(&pattern.as_source())).unwrap_or_default()
    }

    /// The target names for these values.
    pub(super) fn targets(
        &self,
        values: &BTreeMap<String, String>,
        separators: Separators,
        limits: &Limits,
    ) -> Result<Vec<String>> {
        self.to.iter().map(|pattern| render(pattern, values, Some(separators), limits)).collect()
    }

    /// The source name of this form for these values.
    pub(super) fn source(
        &self,
        form: usize,
        values: &BTreeMap<String, String>,
        limits: &Limits,
    ) -> Result<String> {
        self.from.get(form).map_or(Ok(String::new()), |pattern| render(pattern, values, None, limits))
    }

    /// The rule read backwards.
    pub(super) fn invert(&self) -> Result<Self> {
        let none = || Error::mapping("the rule has no inverse");
        if !self.invertible {
            return Err(none().found("it says so itself: inverse = false").help(table()));
        }
        let Some(from) = self.from.first() else { return Err(none()) };
        for (capture, class) in from.captures() {
            for to in &self.to {
                let problem = match to.captures().filter(|(name, _)| *name == capture).count() {
                    1 => continue,
                    0 => "does not appear in 'to', so it cannot be restored",
                    _ => "appears more than once in 'to'",
                };
                return Err(none()
                    .found(format!("the capture '{capture}' {problem}"))
                    .expected("every capture of 'from' once in 'to'")
                    .help(table()));
            }
            let written = |to: &Pattern| (to.class_of(capture), to.shift_of(capture));
            if class.is_number() && self.to.iter().any(|to| Some(written(to)) != self.to.first().map(written))
            {
                return Err(none()
                    .found(format!("the names of 'to' write the capture '{capture}' in different ways"))
                    .help(table()));
            }
        }
        let shift = |name: &str| self.to.first().map_or(0, |to| to.shift_of(name));
        Ok(Rule {
            line: self.line,
            from: self.to.iter().map(|to| to.shifted(|_| 0)).collect(),
            to: self.from.iter().map(|from| from.shifted(|name| -shift(name))).collect(),
            relation: self.relation.inverse(),
            role: self.role.clone(),
            steps: inverse_steps(&self.steps),
            invertible: true,
        })
    }

    /// `'from' -> 'to', transpose`, for people.
    pub(super) fn describe(&self) -> String {
        let list = |forms: Vec<String>| forms.iter().map(|form| quote(form)).collect::<Vec<_>>().join(" + ");
        let from = list(self.from.iter().map(Pattern::as_source).collect());
        let to = list(self.to.iter().map(Pattern::as_target).collect());
        let steps = self.steps.iter().map(ToString::to_string);
        let joined = match &self.relation {
            Relation::One => None,
            Relation::Split { axis, .. } => Some(format!("split along axis {axis}")),
            Relation::Merge { axis, .. } => Some(format!("merged along axis {axis}")),
            Relation::Tie => Some("tied".to_owned()),
        };
        let words: Vec<String> = match &self.relation {
            Relation::Merge { .. } => steps.chain(joined).collect(),
            _ => joined.into_iter().chain(steps).collect(),
        };
        [format!("{from} -> {to}")].into_iter().chain(words).collect::<Vec<_>>().join(", ")
    }
}

/// The steps that undo these, last first.
pub(super) fn inverse_steps(steps: &[AxisStep]) -> Vec<AxisStep> {
    steps.iter().rev().map(AxisStep::inverse).collect()
}

/// The forms of two rules that match the same names, as numbers of rules, if there are any.
pub(super) fn twins(rules: &[Rule]) -> Option<(usize, usize)> {
    let mut seen = HashMap::new();
    let mut forms =
        rules.iter().zip(1..).flat_map(|(rule, number)| rule.from.iter().map(move |form| (form, number)));
    forms.find_map(|(form, number)| Some((seen.insert(form.shape(), number)?, number)))
}

/// A number without its leading zeros.
fn significant(digits: &str) -> &str {
    match digits.trim_start_matches('0') {
        "" => "0",
        number => number,
    }
}

/// A pattern with its captures' values; `separators` where it is a target and the values are a source's.
fn render(
    pattern: &Pattern,
    values: &BTreeMap<String, String>,
    separators: Option<Separators>,
    limits: &Limits,
) -> Result<String> {
    let mut text = String::new();
    for part in &pattern.parts {
        let piece: Cow<str> = match part {
            Part::Literal(text) => text.into(),
            Part::Wildcard(_) => "".into(),
            Part::Capture { name, class, shift } => {
                let value = values.get(name).map(String::as_str).unwrap_or_default();
                match (class, separators) {
                    (Class::Int | Class::Padded(_), _) => number(name, value, *class, *shift)?,
                    (Class::Path, Some(separators)) => exchange(value, separators).into(),
                    _ => value.into(),
                }
            }
        };
        let length = text.len().saturating_add(piece.len());
        limits.check(Limit::NameBytes, u64::try_from(length).unwrap_or(u64::MAX))?;
        text.push_str(&piece);
    }
    Ok(text)
}

fn exchange(path: &str, separators: Separators) -> String {
    let exchanged = |c| if c == separators.source { separators.target } else { c };
    path.chars().map(exchanged).collect()
}

/// A number as `to` writes it.
fn number<'v>(name: &str, value: &'v str, class: Class, shift: i64) -> Result<Cow<'v, str>> {
    let about = |message: &str| {
        Error::mapping(message).found(format!("the capture '{name}' is {}", printable(value)))
    };
    let shifted: Cow<str> = match (shift, value.parse::<u64>()) {
        (0, _) => value.into(),
        (_, Err(_)) => return Err(about("a number is too large to be shifted")),
        (_, Ok(number)) => match number.checked_add_signed(shift) {
            Some(number) => number.to_string().into(),
            None => {
                return Err(about("a shifted number leaves the range of numbers")
                    .expected(format!("a number that {shift:+} leaves at 0 or more"))
                    .help("map the names with smaller numbers by a rule of their own"));
            }
        },
    };
    let Class::Padded(width) = class else { return Ok(shifted) };
    let width = usize::from(width);
    if shifted.len() > width {
        return Err(about("a number has more digits than its padding")
            .expected(format!("at most {width} digits"))
            .help("write a wider type in 'to', up to int9, or the number without padding"));
    }
    Ok(format!("{shifted:0>width$}").into())
}
