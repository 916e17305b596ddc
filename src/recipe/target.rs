//! Target tensors, and how they are made of source tensors.

use super::step::AxisStep;
use serde::Serialize;

/// A target tensor and how to make it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Target {
    /// The name of the target.
    pub name: String,
    /// The source tensors: one, or several for [`Join::Merged`] and [`Join::Tied`].
    pub sources: Vec<String>,
    /// How the target is made of its sources.
    pub recipe: Recipe,
}

/// How a target tensor is made of source tensors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Recipe {
    /// What is taken of the sources.
    pub join: Join,
    /// The steps on the axes: of the part, for [`Join::Part`]; of every source before the merge, for [`Join::Merged`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<AxisStep>,
}

/// What a target takes of its source tensors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "join", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Join {
    /// One tensor, whole.
    #[default]
    One,
    /// One part of a tensor that is split along an axis.
    Part {
        /// The axis of the source.
        axis: usize,
        /// The index of the part, from 0.
        part: usize,
        /// The number of parts.
        parts: usize,
        /// The lengths of the parts; `None` for equal parts.
        #[serde(skip_serializing_if = "Option::is_none")]
        sizes: Option<Vec<u64>>,
    },
    /// Several tensors, concatenated along an axis.
    Merged {
        /// The axis of the sources after their steps.
        axis: usize,
        /// The lengths that the sources must have; `None` for equal lengths.
        #[serde(skip_serializing_if = "Option::is_none")]
        sizes: Option<Vec<u64>>,
    },
    /// The first of several tensors that must be equal bit for bit.
    Tied,
}

impl Recipe {
    /// Returns whether the target is the source tensor, unchanged.
    pub fn is_plain(&self) -> bool {
        self.join == Join::One && self.steps.is_empty()
    }

    /// Describes the recipe in a few words; empty for a plain one.
    pub fn describe(&self) -> String {
        let join = match &self.join {
            Join::One => None,
            Join::Part { axis, part, parts, .. } => {
                Some(format!("part {} of {parts} along axis {axis}", part + 1))
            }
            Join::Merged { axis, .. } => Some(format!("merged along axis {axis}")),
            Join::Tied => Some("the first of equal tensors".to_owned()),
        };
        let steps = self.steps.iter().map(ToString::to_string);
        match &self.join {
            Join::Merged { .. } => steps.chain(join).collect::<Vec<_>>().join(", "),
            _ => join.into_iter().chain(steps).collect::<Vec<_>>().join(", "),
        }
    }
}
