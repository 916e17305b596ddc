//! Recipes: what a target tensor is made of, where it is not one source tensor as it is.
//!
//! A mapping names them; nothing here reads a byte. Every recipe has an inverse, or says why not.

mod axes;
#[cfg(test)]
#[path = "tests.rs"]
mod carried_out;
mod follow;
mod rebuild;
mod transform;

pub(crate) use rebuild::rebuild;
pub use transform::Transform;
pub(crate) use transform::transform;

use ckpt_api::{Error, Result};
use serde::Serialize;

/// A target tensor, and what it is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// The source tensors: one, but for [`Join::Merged`] and [`Join::Tied`].
    pub sources: Vec<String>,
    /// How it is made of them.
    pub recipe: Recipe,
}

/// How a target tensor is made of source tensors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Recipe {
    /// How many source tensors, and what of them.
    pub join: Join,
    /// What happens to the axes: of the part, for [`Join::Part`]; of every source before it is joined, for
    /// [`Join::Merged`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<AxisStep>,
}

/// Which source tensors, and what of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "join", rename_all = "kebab-case")]
pub enum Join {
    /// One tensor, whole.
    #[default]
    One,
    /// One of several parts of one tensor, cut along an axis.
    Part {
        /// The axis, of the source.
        axis: usize,
        /// Which part, from 0.
        part: usize,
        /// How many parts.
        parts: usize,
        /// How long each is; equal where it is not said.
        #[serde(skip_serializing_if = "Option::is_none")]
        sizes: Option<Vec<u64>>,
    },
    /// Several tensors, one behind the other along an axis.
    Merged {
        /// The axis, of the sources after their steps.
        axis: usize,
        /// How long each must be; equal where it is not said.
        #[serde(skip_serializing_if = "Option::is_none")]
        sizes: Option<Vec<u64>>,
    },
    /// Several tensors that must be equal, bit for bit; the first is taken.
    Tied,
}

/// A reordering of a tensor's axes: the elements stay what they are.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AxisStep {
    /// Exchanges the two axes of a matrix.
    Transpose,
    /// Axis `k` of the result is axis `order[k]` of what comes in.
    Permute(Vec<usize>),
    /// Takes an axis of length 1 away.
    Squeeze(usize),
    /// Puts an axis of length 1 in, so that it has this number.
    Unsqueeze(usize),
}

/// Most axes that a step can name.
pub(crate) const MAX_AXES: usize = 64;

impl AxisStep {
    /// Parses `transpose`, `permute 3 2 0 1`, `squeeze 0` or `unsqueeze 0`.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`], saying what was found.
    pub fn parse(text: &str) -> Result<Self> {
        let mut words = text.split_whitespace();
        let verb = words.next().unwrap_or_default();
        let numbers: Vec<Option<usize>> =
            words.take(MAX_AXES + 1).map(|word| word.parse().ok().filter(|axis| *axis < MAX_AXES)).collect();
        let wrong = |expected: &str| {
            Err(Error::mapping("a step does not say which axes")
                .found(format!("'{text}'"))
                .expected(expected))
        };
        match (verb, &numbers[..]) {
            ("transpose", []) => Ok(AxisStep::Transpose),
            ("transpose", _) => wrong("'transpose' alone; 'permute' takes an order"),
            ("squeeze", [Some(axis)]) => Ok(AxisStep::Squeeze(*axis)),
            ("unsqueeze", [Some(axis)]) => Ok(AxisStep::Unsqueeze(*axis)),
            ("squeeze" | "unsqueeze", _) => wrong("one axis, such as 'squeeze 0'"),
            ("permute", numbers) => match permutation(numbers) {
                Some(order) => Ok(AxisStep::Permute(order)),
                None => wrong("every axis from 0 once, such as 'permute 3 2 0 1'"),
            },
            _ => {
                let known = ["transpose", "permute", "squeeze", "unsqueeze"];
                Err(Error::mapping("unknown step")
                    .found(format!("'{text}'"))
                    .help(ckpt_api::nearest(verb, known.into_iter())))
            }
        }
    }

    /// The step that undoes this one.
    #[must_use]
    pub fn inverse(&self) -> Self {
        match self {
            AxisStep::Transpose => AxisStep::Transpose,
            AxisStep::Permute(order) => AxisStep::Permute(crate::layout::inverse_permutation(order)),
            AxisStep::Squeeze(axis) => AxisStep::Unsqueeze(*axis),
            AxisStep::Unsqueeze(axis) => AxisStep::Squeeze(*axis),
        }
    }
}

/// As [`AxisStep::parse`] reads it.
impl std::fmt::Display for AxisStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AxisStep::Transpose => f.write_str("transpose"),
            AxisStep::Squeeze(axis) => write!(f, "squeeze {axis}"),
            AxisStep::Unsqueeze(axis) => write!(f, "unsqueeze {axis}"),
            AxisStep::Permute(order) => {
                f.write_str("permute")?;
                order.iter().try_for_each(|axis| write!(f, " {axis}"))
            }
        }
    }
}

fn permutation(numbers: &[Option<usize>]) -> Option<Vec<usize>> {
    let order = numbers.iter().copied().collect::<Option<Vec<usize>>>()?;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    (!order.is_empty() && sorted.into_iter().eq(0..order.len())).then_some(order)
}

impl Recipe {
    /// Whether the target is the source tensor as it is.
    pub fn is_plain(&self) -> bool {
        self.join == Join::One && self.steps.is_empty()
    }

    /// A few words for people; empty for a plain one.
    pub fn describe(&self) -> String {
        let join = match &self.join {
            Join::One => None,
            Join::Part { axis, part, parts, .. } => {
                Some(format!("part {} of {parts} along axis {axis}", part + 1))
            }
            Join::Merged { axis, .. } => Some(format!("merged along axis {axis}")),
            Join::Tied => Some("the first of equal ones".to_owned()),
        };
        let steps = self.steps.iter().map(ToString::to_string);
        match &self.join {
            Join::Merged { .. } => steps.chain(join).collect::<Vec<_>>().join(", "),
            _ => join.into_iter().chain(steps).collect::<Vec<_>>().join(", "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_read_as_it_is_written_and_undone_by_its_inverse() {
        for text in ["transpose", "permute 3 2 0 1", "permute 0", "squeeze 0", "unsqueeze 3"] {
            let step = AxisStep::parse(text).unwrap();
            assert_eq!(step.to_string(), text);
            assert_eq!(step.inverse().inverse(), step);
        }
        assert_eq!(AxisStep::parse("permute 2 0 1").unwrap().inverse().to_string(), "permute 1 2 0");
        assert_eq!(AxisStep::parse("squeeze 1").unwrap().inverse().to_string(), "unsqueeze 1");
    }

    #[test]
    fn a_step_that_says_no_axes_or_wrong_ones_is_refused() {
        let many = format!("permute{}", " 0".repeat(100_000));
        for text in [
            "",
            "transpose 1",
            "squeeze",
            "squeeze x",
            "squeeze 0 1",
            "squeeze 64",
            "unsqueeze -1",
            "permute",
            "permute 1",
            "permute 0 0",
            "permute 0 2",
            "flip 0",
            &many,
        ] {
            assert_eq!(AxisStep::parse(text).unwrap_err().kind(), ckpt_api::Kind::Mapping, "{text:.40}");
        }
        assert!(AxisStep::parse("transpoze").unwrap_err().to_string().contains("did you mean 'transpose'"));
    }
}
