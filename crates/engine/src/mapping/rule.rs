//! One rule: patterns of source names, the forms of their targets, and the steps between them.

use super::relation::{Relation, Stack, inverse_steps};
use super::sizes::{Size, check_lengths};
use crate::pattern::{Class, Part, Pattern, SEPARATOR};
use crate::recipe::{AxisStep, Division};
use crate::settings;
use crate::words::{printable, quote};
use ckpt_api::{Error, Limit, Limits, Result, Text, text};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// The help for a rule without an inverse.
fn table() -> Text {
    text!["change the rule, or write a table for the names of one checkpoint: ", settings::INVERSE_TABLE]
}

/// The separators of source and target names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Separators {
    pub(crate) source: char,
    pub(crate) target: char,
}

impl Default for Separators {
    fn default() -> Self {
        Separators { source: SEPARATOR, target: SEPARATOR }
    }
}

/// `from` → `to`, over the same captures.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The line of the file; `None` if the rule was made in code.
    pub(crate) line: Option<usize>,
    /// One pattern; several for a merge, for a stack of merged tensors, and for a tie of several sources.
    pub from: Vec<Pattern>,
    /// One form; several for a split, for the elements of a stack that are split, and for a tie to several targets.
    pub(crate) to: Vec<Pattern>,
    pub(crate) relation: Relation,
    /// The role that gives the rule its steps, if any.
    pub(crate) role: Option<String>,
    pub(crate) steps: Vec<AxisStep>,
    /// How the parts of a split or a merge are in the whole.
    pub(crate) division: Division,
    /// The sizes of parts while a parameter of theirs has no value; after that, the relation has them.
    pub(crate) sizes: Vec<Size>,
    /// The source tensor that has as many indices on axis 0 as a stack has elements, if a rule states one. The inverse
    /// has none: there, the stack itself has the number.
    pub(crate) counted_by: Option<Pattern>,
    /// Whether the rule may be read backwards.
    pub(crate) invertible: bool,
}

impl Rule {
    /// A rule made in code, which may be read backwards: the tensors of these names become those, after the steps.
    pub fn new(from: Vec<Pattern>, to: Vec<Pattern>, relation: Relation, steps: Vec<AxisStep>) -> Self {
        Rule {
            line: None,
            from,
            to,
            relation,
            role: None,
            steps,
            division: Division::default(),
            sizes: Vec::new(),
            counted_by: None,
            invertible: true,
        }
    }

    /// The same rule for other names.
    #[must_use]
    pub fn with_names(self, from: Vec<Pattern>, to: Vec<Pattern>) -> Self {
        Rule { from, to, ..self }
    }
}

/// The values of captures, by name; numbers have no leading zeros.
pub(crate) type Values = BTreeMap<String, String>;

impl Rule {
    /// Returns the values of the captures if `name` matches the pattern of this index.
    pub(crate) fn capture(&self, form: usize, name: &str, separators: Separators) -> Option<Values> {
        let pattern = self.from.get(form)?;
        let texts = pattern.matches(name, separators.source)?;
        let values = pattern.captures().zip(texts).map(|((name, class), text)| {
            let value = if class.is_number() { significant(text) } else { text };
            (name.to_owned(), value.to_owned())
        });
        Some(values.collect())
    }

    /// Returns the target names for these values.
    pub(crate) fn targets(
        &self,
        values: &Values,
        separators: Separators,
        limits: &Limits,
    ) -> Result<Vec<String>> {
        self.to.iter().map(|pattern| render(pattern, values, Some(separators), limits)).collect()
    }

    /// Returns the source name of this form for these values.
    pub(crate) fn source(&self, form: usize, values: &Values, limits: &Limits) -> Result<String> {
        self.from.get(form).map_or(Ok(String::new()), |pattern| render(pattern, values, None, limits))
    }

    /// Returns the name of the tensor that has as many indices as a stack has elements.
    pub(crate) fn counter(&self, values: &Values, limits: &Limits) -> Result<Option<String>> {
        self.counted_by.as_ref().map(|pattern| render(pattern, values, None, limits)).transpose()
    }

    /// Returns the names of the elements of a stack, in order.
    ///
    /// # Errors
    /// As [`Rule::targets`]; [`ckpt_api::Kind::Limit`] for more elements than a checkpoint may have tensors.
    pub(crate) fn unstacked(
        &self,
        stack: &Stack,
        elements: u64,
        values: &Values,
        separators: Separators,
        limits: &Limits,
    ) -> Result<Vec<String>> {
        limits.check(Limit::Tensors, elements.saturating_mul(stack.names_of_element() as u64))?;
        let mut values = values.clone();
        let mut names = Vec::new();
        for index in 0..elements {
            values.insert(stack.index.clone(), index.to_string());
            names.extend(self.targets(&values, separators, limits)?);
        }
        Ok(names)
    }

    /// Returns the capture that is the index on the axis of a stack.
    pub(crate) fn stack_index(&self) -> Option<&str> {
        match &self.relation {
            Relation::Stack(stack) | Relation::Unstack(stack) => Some(stack.index.as_str()),
            _ => None,
        }
    }

    /// Returns the rule read backwards.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] if the rule cannot be inverted, with the reason.
    pub(crate) fn invert(&self) -> Result<Self> {
        if let Some(reason) = self.why_not_invertible() {
            return Err(Error::mapping("the rule cannot be inverted").found(reason).help(table()));
        }
        let shift = |name: &str| self.to.first().map_or(0, |to| to.shift_of(name));
        Ok(Rule {
            line: self.line,
            from: self.to.iter().map(|to| to.with_shifts(|_| 0)).collect(),
            to: self.from.iter().map(|from| from.with_shifts(|name| -shift(name))).collect(),
            relation: self.relation.inverse(),
            role: self.role.clone(),
            steps: inverse_steps(&self.steps),
            division: self.division.inverse(),
            sizes: self.sizes.clone(),
            counted_by: None,
            invertible: true,
        })
    }

    fn why_not_invertible(&self) -> Option<String> {
        if !self.invertible {
            return Some("the rule has inverse = false".to_owned());
        }
        if matches!(self.relation, Relation::Dequantize(_)) {
            return Some(
                "the rule dequantizes: the scales are not kept, so nothing can be quantized as it was"
                    .to_owned(),
            );
        }
        let stacked = self.stack_index();
        self.from.first()?.captures().filter(|(capture, _)| stacked != Some(*capture)).find_map(
            |(capture, class)| {
                let count = |to: &Pattern| to.captures().filter(|(name, _)| *name == capture).count();
                let counts = self.to.iter().map(count);
                if counts.clone().any(|count| count == 0) {
                    return Some(format!(
                        "the capture '{capture}' does not appear in 'to', so its value is lost"
                    ));
                }
                if counts.clone().any(|count| count > 1) {
                    return Some(format!("the capture '{capture}' appears more than once in 'to'"));
                }
                let mut written = self.to.iter().map(|to| (to.class_of(capture), to.shift_of(capture)));
                let first = written.next();
                let differs = class.is_number() && written.any(|other| Some(other) != first);
                differs.then(|| format!("the names in 'to' write the capture '{capture}' in different ways"))
            },
        )
    }

    /// Describes the rule: `'from' -> 'to', transpose`.
    pub(crate) fn describe(&self) -> String {
        let list = |forms: Vec<String>| forms.iter().map(|form| quote(form)).collect::<Vec<_>>().join(" + ");
        let from = list(self.from.iter().map(Pattern::as_source).collect());
        let to = list(self.to.iter().map(Pattern::as_target).collect());
        let steps = self.steps.iter().map(ToString::to_string);
        let how = if self.division.is_interleaved { ", interleaved" } else { "" };
        let joined = match &self.relation {
            Relation::One => None,
            Relation::Split { axis, .. } => Some(format!("split along axis {axis}{how}")),
            Relation::Merge { axis, .. } => Some(format!("merged along axis {axis}{how}")),
            Relation::Stack(stack) => {
                let merged = stack.parts.as_ref().map(|parts| format!("merged along axis {}, ", parts.axis));
                Some(format!(
                    "{}stacked by {{{}}} along axis {}",
                    merged.unwrap_or_default(),
                    stack.index,
                    stack.axis
                ))
            }
            Relation::Unstack(stack) => {
                let split = stack.parts.as_ref().map(|parts| format!(", split along axis {}", parts.axis));
                Some(format!(
                    "unstacked by {{{}}} along axis {}{}",
                    stack.index,
                    stack.axis,
                    split.unwrap_or_default()
                ))
            }
            Relation::Tie => Some("tied".to_owned()),
            Relation::Dequantize(how) => Some(how.to_string()),
            Relation::Terms | Relation::Sum => Some("summed".to_owned()),
            Relation::Assemble(assembly) => Some(match assembly.elements {
                None => format!("assembled along axis {}", assembly.axis),
                Some(elements) => {
                    format!("each of {elements} elements assembled along axis {}", assembly.axis)
                }
            }),
            Relation::Disassemble(assembly) => Some(format!("parts along axis {}", assembly.axis)),
        };
        let each = self.division.each.iter().zip(1..).filter(|(steps, _)| !steps.is_empty());
        let each = each.map(|(steps, part)| {
            let steps: Vec<String> = steps.iter().map(ToString::to_string).collect();
            format!("part {part}: {}", steps.join(", "))
        });
        let steps = steps.chain(each);
        let whole = self.division.whole.iter().map(ToString::to_string);
        let words: Vec<String> = match &self.relation {
            Relation::Merge { .. } | Relation::Stack(_) => steps.chain(joined).chain(whole).collect(),
            _ => whole.chain(joined).chain(steps).collect(),
        };
        [format!("{from} -> {to}")].into_iter().chain(words).collect::<Vec<_>>().join(", ")
    }
}

/// A default limit, for what the program writes itself.
pub fn default_limit(limit: Limit) -> usize {
    usize::try_from(limit.default_value()).unwrap_or(usize::MAX)
}

/// Checks the number of rules, or of other entries under `key`.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`] for more than the limits allow.
pub fn check_count(key: &str, count: usize, limits: &Limits) -> Result<()> {
    limits.check(Limit::Rules, count as u64).map_err(|error| error.field(key))
}

/// Returns the numbers of two rules of which a pattern matches exactly the same names, if there are any.
pub(crate) fn twins(rules: &[Rule]) -> Option<(usize, usize)> {
    let mut seen = HashMap::new();
    let mut forms =
        rules.iter().zip(1..).flat_map(|(rule, number)| rule.from.iter().map(move |form| (form, number)));
    forms.find_map(|(form, number)| Some((seen.insert(form.shape(), number)?, number)))
}

/// Removes leading zeros.
fn significant(digits: &str) -> &str {
    match digits.trim_start_matches('0') {
        "" => "0",
        number => number,
    }
}

/// Writes a name: the pattern with the values of its captures. With `separators`, the values come from a source name,
/// and paths in them get the separator of targets.
fn render(
    pattern: &Pattern,
    values: &Values,
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

/// Writes a number as `to` prescribes.
fn number<'v>(name: &str, value: &'v str, class: Class, shift: i64) -> Result<Cow<'v, str>> {
    let about = |message: &str| {
        Error::mapping(message).found(format!("the capture '{name}' is {}", printable(value)))
    };
    let shifted: Cow<str> = match (shift, value.parse::<u64>()) {
        (0, _) => value.into(),
        (_, Err(_)) => return Err(about("a number is too large to shift")),
        (_, Ok(number)) => match number.checked_add_signed(shift) {
            Some(number) => number.to_string().into(),
            None => {
                return Err(about("a shifted number is out of range")
                    .expected(format!("a number that is 0 or more after {shift:+}"))
                    .help("write a separate rule for the names with smaller numbers"));
            }
        },
    };
    let Class::Padded(width) = class else { return Ok(shifted) };
    let width = usize::from(width);
    if shifted.len() > width {
        return Err(about("a number has more digits than its padding allows")
            .expected(format!("at most {width} digits"))
            .help("write a wider type in 'to' (up to int9), or no padding"));
    }
    Ok(format!("{shifted:0>width$}").into())
}

impl Rule {
    /// Sets the value of a parameter in the sizes of the rule; once all have values, the relation gets the sizes.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] for sizes that do not fit 64 bits.
    pub(super) fn set_in_sizes(&mut self, parameter: &str, value: u64) -> Result<()> {
        self.sizes.iter_mut().for_each(|size| size.set(parameter, value));
        if self.sizes.is_empty() || self.sizes.iter().any(|size| size.parameters().next().is_some()) {
            return Ok(());
        }
        let values: Option<Vec<u64>> = self.sizes.iter().map(Size::value).collect();
        let values = values.filter(|sizes| check_lengths(sizes).is_ok());
        let sizes = values.ok_or_else(|| {
            let texts: Vec<String> = self.sizes.iter().map(ToString::to_string).collect();
            Error::mapping("the sizes are not valid lengths")
                .found(texts.join(", "))
                .expected("a sum that fits 64 bits")
        })?;
        self.sizes.clear();
        match &mut self.relation {
            Relation::Split { sizes: own, .. } | Relation::Merge { sizes: own, .. } => *own = Some(sizes),
            Relation::Stack(stack) | Relation::Unstack(stack) => {
                if let Some(parts) = &mut stack.parts {
                    parts.sizes = Some(sizes);
                }
            }
            Relation::One
            | Relation::Tie
            | Relation::Dequantize(_)
            | Relation::Terms
            | Relation::Sum
            | Relation::Assemble(_)
            | Relation::Disassemble(_) => {}
        }
        Ok(())
    }
}
