//! Steps on the axes of a tensor.

use crate::layout::inverse_permutation;
use ckpt_api::{Error, Result};
use serde::Serialize;

/// A step that reorders the axes of a tensor. The elements stay the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AxisStep {
    /// Exchanges the two axes of a matrix.
    Transpose,
    /// Axis `k` of the result is axis `order[k]` of the input.
    Permute(Vec<usize>),
    /// Removes an axis of length 1.
    Squeeze(usize),
    /// Inserts an axis of length 1 that gets this number.
    Unsqueeze(usize),
}

/// The number of axes that a step can name.
pub(crate) const MAX_AXES: usize = 64;

impl AxisStep {
    /// Parses `transpose`, `permute 3 2 0 1`, `squeeze 0` or `unsqueeze 0`.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] for any other text.
    pub fn parse(text: &str) -> Result<Self> {
        let mut words = text.split_whitespace();
        let verb = words.next().unwrap_or_default();
        let numbers: Vec<Option<usize>> =
            words.take(MAX_AXES + 1).map(|word| word.parse().ok().filter(|axis| *axis < MAX_AXES)).collect();
        let wrong = |expected: &str| {
            Err(Error::mapping("the axes of a step are wrong").found(format!("'{text}'")).expected(expected))
        };
        match (verb, &numbers[..]) {
            ("transpose", []) => Ok(AxisStep::Transpose),
            ("transpose", _) => wrong("'transpose' alone; 'permute' takes an order of axes"),
            ("squeeze", [Some(axis)]) => Ok(AxisStep::Squeeze(*axis)),
            ("unsqueeze", [Some(axis)]) => Ok(AxisStep::Unsqueeze(*axis)),
            ("squeeze" | "unsqueeze", _) => wrong("one axis, such as 'squeeze 0'"),
            ("permute", numbers) => match permutation(numbers) {
                Some(order) => Ok(AxisStep::Permute(order)),
                None => wrong("every axis from 0, once, such as 'permute 3 2 0 1'"),
            },
            _ => {
                let known = ["transpose", "permute", "squeeze", "unsqueeze"];
                Err(Error::mapping("unknown step")
                    .found(format!("'{text}'"))
                    .help(ckpt_api::nearest(verb, known.into_iter())))
            }
        }
    }

    /// Returns the step that undoes this one.
    #[must_use]
    pub fn inverse(&self) -> Self {
        match self {
            AxisStep::Transpose => AxisStep::Transpose,
            AxisStep::Permute(order) => AxisStep::Permute(inverse_permutation(order)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_parsed_as_it_is_printed_and_undone_by_its_inverse() {
        for text in ["transpose", "permute 3 2 0 1", "permute 0", "squeeze 0", "unsqueeze 3"] {
            let step = AxisStep::parse(text).unwrap();
            assert_eq!(step.to_string(), text);
            assert_eq!(step.inverse().inverse(), step);
        }
        assert_eq!(AxisStep::parse("permute 2 0 1").unwrap().inverse().to_string(), "permute 1 2 0");
        assert_eq!(AxisStep::parse("squeeze 1").unwrap().inverse().to_string(), "unsqueeze 1");
    }

    #[test]
    fn a_step_with_missing_or_wrong_axes_is_refused() {
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
