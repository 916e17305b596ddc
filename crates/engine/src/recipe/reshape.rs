//! The step that divides axes into several, or joins neighbors into one.

use super::limits::MAX_AXES;
use crate::pattern::is_name;
use serde::Serialize;

/// The lengths of neighboring axes before and after [`AxisStep::Reshape`](super::AxisStep::Reshape): as many elements,
/// in the same order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct Reshape {
    /// The lengths before: one for each axis that changes.
    pub from: Vec<Length>,
    /// The lengths after.
    pub to: Vec<Length>,
    /// The number of the first axis.
    pub axis: usize,
}

/// A length of an axis that a [`Reshape`] names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Length {
    /// This many indices, at least 1.
    Of(u64),
    /// What the other lengths leave, written `_`; at most one on each side.
    Rest,
    /// The value of a mapping's parameter, written in braces.
    Parameter(String),
}

impl Reshape {
    /// Changes the axes from number `axis` on, whose lengths are `from`, into axes of the lengths `to`.
    pub fn new(from: Vec<Length>, to: Vec<Length>, axis: usize) -> Self {
        Reshape { from, to, axis }
    }

    /// Parses `4096 -> 32 2 64` or `_ -> 32 2 _ on 1`.
    pub(super) fn parse<'a>(words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let words: Vec<&str> = words.take(2 * MAX_AXES + 3).collect();
        let arrow = words.iter().position(|word| *word == "->")?;
        let (from, to) = (words.get(..arrow)?, words.get(arrow + 1..)?);
        let (to, axis) = match to {
            [to @ .., "on", axis] => (to, axis.parse().ok().filter(|axis| *axis < MAX_AXES)?),
            to => (to, 0),
        };
        let reshape = Reshape { from: lengths(from)?, to: lengths(to)?, axis };
        reshape.may_fit().then_some(reshape)
    }

    /// Returns the step that undoes this one.
    pub(super) fn inverse(&self) -> Self {
        Reshape { from: self.to.clone(), to: self.from.clone(), axis: self.axis }
    }

    /// Returns the lengths that axes of the lengths `found` get; `None` if they do not fit.
    pub(crate) fn lengths_after(&self, found: &[u64]) -> Option<Vec<u64>> {
        let fits =
            |(wanted, found): (&Length, &u64)| *wanted == Length::Rest || *wanted == Length::Of(*found);
        if self.parameters().next().is_some() {
            return None;
        }
        if found.len() != self.from.len() || !self.from.iter().zip(found).all(fits) {
            return None;
        }
        let elements = product(found)?;
        let named = known_product(&self.to)?;
        let rest = elements / named;
        let has_rest = self.to.contains(&Length::Rest);
        (elements.is_multiple_of(named) && (has_rest || rest == 1)).then_some(())?;
        let after = self.to.iter().map(|length| if let Length::Of(len) = length { *len } else { rest });
        Some(after.collect())
    }

    /// Returns the parameters that have no value yet.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &str> {
        self.from.iter().chain(&self.to).filter_map(|length| match length {
            Length::Parameter(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Replaces a parameter by its value.
    pub(crate) fn set(&mut self, parameter: &str, value: u64) {
        for length in self.from.iter_mut().chain(&mut self.to) {
            if matches!(length, Length::Parameter(name) if name == parameter) {
                *length = Length::Of(value);
            }
        }
    }

    /// Whether tensors exist that the step fits; parameters may have any value.
    fn may_fit(&self) -> bool {
        let sides = [&self.from, &self.to];
        if self.parameters().next().is_some() {
            return true;
        }
        let rests = sides.map(|side| side.contains(&Length::Rest));
        match sides.map(|side| known_product(side)) {
            [Some(from), Some(to)] => match rests {
                [false, false] => from == to,
                [false, true] => from.is_multiple_of(to),
                [true, false] => to.is_multiple_of(from),
                [true, true] => true,
            },
            _ => false,
        }
    }
}

/// As [`AxisStep::parse`](super::AxisStep::parse) reads it, after the name of the step.
impl std::fmt::Display for Reshape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.from.iter().try_for_each(|length| write!(f, " {length}"))?;
        f.write_str(" ->")?;
        self.to.iter().try_for_each(|length| write!(f, " {length}"))?;
        if self.axis > 0 { write!(f, " on {}", self.axis) } else { Ok(()) }
    }
}

impl std::fmt::Display for Length {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Length::Of(len) => write!(f, "{len}"),
            Length::Rest => f.write_str("_"),
            Length::Parameter(name) => write!(f, "{{{name}}}"),
        }
    }
}

fn lengths(words: &[&str]) -> Option<Vec<Length>> {
    let length = |word: &&str| match *word {
        "_" => Some(Length::Rest),
        word if word.starts_with('{') => {
            let name = word.strip_prefix('{')?.strip_suffix('}')?;
            is_name(name).then(|| Length::Parameter(name.to_owned()))
        }
        word => word.parse().ok().filter(|len| *len > 0).map(Length::Of),
    };
    let lengths: Vec<Length> = words.iter().map(length).collect::<Option<_>>()?;
    let rests = lengths.iter().filter(|length| **length == Length::Rest).count();
    (!lengths.is_empty() && lengths.len() < MAX_AXES && rests < 2).then_some(lengths)
}

fn known_product(lengths: &[Length]) -> Option<u64> {
    let known =
        lengths.iter().filter_map(|length| if let Length::Of(len) = length { Some(*len) } else { None });
    product(&known.collect::<Vec<u64>>())
}

fn product(lens: &[u64]) -> Option<u64> {
    lens.iter().try_fold(1u64, |product, len| product.checked_mul(*len))
}
