//! Target tensors, and how they are made of source tensors.

use super::dequantize::Dequantize;
use super::step::AxisStep;
use serde::Serialize;

/// A target tensor and how to make it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Target {
    /// The name of the target.
    pub name: String,
    /// The source tensors: one, or several for [`Join::Merged`], [`Join::Stacked`], [`Join::Tied`] and
    /// [`Join::Dequantized`].
    pub sources: Vec<String>,
    /// How the target is made of its sources.
    pub recipe: Recipe,
}

/// How a target tensor is made of source tensors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Recipe {
    /// What is taken of the sources.
    pub join: Join,
    /// The steps: on the part, for [`Join::Part`] and [`Join::Element`]; on the numbers, for [`Join::Dequantized`]; on
    /// every source, before it is joined to others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<AxisStep>,
    /// How the parts of [`Join::Part`] and [`Join::Merged`] are in the whole, beyond the axis and the lengths.
    #[serde(skip_serializing_if = "Division::is_plain")]
    pub division: Division,
}

/// How the parts of a split or a merge are in the whole, beyond the axis and the lengths. Plain ones are side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct Division {
    /// Whether the parts take turns on the axis: part `k` of `n` has the indices `k`, `k + n`, `k + 2n` and so on.
    pub is_interleaved: bool,
    /// The part of the numbers of [`Join::Dequantized`] that is taken; `None` for all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<PartOf>,
    /// Steps on the whole: before it is split, or after it is merged.
    pub whole: Vec<AxisStep>,
    /// Steps on each part, instead of those of the recipe; empty if all parts have the same. Of one part, they are the recipe's.
    pub each: Vec<Vec<AxisStep>>,
}

impl Division {
    /// Returns whether the parts are side by side, and nothing else happens to them.
    pub fn is_plain(&self) -> bool {
        *self == Division::default()
    }

    /// Returns the division that undoes this one.
    pub(crate) fn inverse(&self) -> Self {
        let undone = |steps: &Vec<AxisStep>| steps.iter().rev().map(AxisStep::inverse).collect();
        Division {
            is_interleaved: self.is_interleaved,
            whole: undone(&self.whole),
            each: self.each.iter().map(undone).collect(),
            part: self.part.clone(),
        }
    }

    /// Returns all steps, to be changed.
    pub(crate) fn steps_mut(&mut self) -> impl Iterator<Item = &mut AxisStep> {
        self.whole.iter_mut().chain(self.each.iter_mut().flatten())
    }

    /// Returns all steps.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &AxisStep> {
        self.whole.iter().chain(self.each.iter().flatten())
    }
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
    /// Several tensors of one shape, side by side along a new axis.
    Stacked {
        /// The new axis.
        axis: usize,
        /// How groups of sources are concatenated before; `None` if each source is an element of the stack.
        #[serde(skip_serializing_if = "Option::is_none")]
        merged: Option<Parts>,
    },
    /// What one index on an axis holds; the axis goes.
    Element {
        /// The axis of the source.
        axis: usize,
        /// The index on it, from 0.
        index: u64,
        /// The part that is taken of it; `None` for all of it.
        #[serde(skip_serializing_if = "Option::is_none")]
        part: Option<PartOf>,
    },
    /// The first of several tensors that must be equal bit for bit.
    Tied,
    /// Quantized elements, the first tensor, times their scales, the second.
    Dequantized(Dequantize),
    /// As many zeros as the source has elements: what is added to it where a target stores a sum as its terms.
    Zeros,
    /// The sum of several tensors of 32-bit floats.
    Sum,
    /// Pieces of several tensors, side by side along an axis.
    Assembled {
        /// The axis of the pieces after their steps.
        axis: usize,
        /// The element of each source that is taken, if the sources are stacks along their first axis.
        #[serde(skip_serializing_if = "Option::is_none")]
        element: Option<u64>,
        /// The pieces, in order.
        pieces: Vec<Piece>,
    },
    /// What [`Join::Assembled`] made several tensors of: the sum of its places in these.
    Disassembled {
        /// The axis of the pieces.
        axis: usize,
        /// The number of elements that are stacked along the first axis; `None` for no stack.
        #[serde(skip_serializing_if = "Option::is_none")]
        elements: Option<u64>,
        /// Sources of one element.
        each: usize,
        /// The places, at least one; those that hold zeros unless the model was trained come last.
        places: Vec<Place>,
    },
}

/// A piece of an assembled tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct Piece {
    /// The number of the source.
    pub source: usize,
    /// Whether the piece is as many zeros as the source has elements.
    pub is_zero: bool,
}

impl Piece {
    /// The source of this number, or as many zeros.
    pub fn new(source: usize, is_zero: bool) -> Self {
        Piece { source, is_zero }
    }
}

/// Where a tensor is in assembled ones: one of equal parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct Place {
    /// The number of the assembled tensor, among those of one element.
    pub tensor: usize,
    /// The number of the part.
    pub part: usize,
    /// The number of parts.
    pub parts: usize,
}

/// One of several parts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct PartOf {
    /// The index of the part, from 0.
    pub part: usize,
    /// All parts.
    #[serde(flatten)]
    pub of: Parts,
}

/// Neighboring parts along an axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct Parts {
    /// The axis.
    pub axis: usize,
    /// The number of parts.
    pub parts: usize,
    /// Their lengths; `None` for equal lengths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Vec<u64>>,
}

impl Join {
    /// Returns the number of this target among those of one source, in order.
    pub fn number(&self) -> usize {
        match self {
            Join::Part { part, .. } => *part,
            Join::Element { index, part, .. } => {
                let index = usize::try_from(*index).unwrap_or(usize::MAX);
                let (part, parts) = part.as_ref().map_or((0, 1), |part| (part.part, part.of.parts));
                index.saturating_mul(parts).saturating_add(part)
            }
            Join::Zeros => 1,
            Join::Assembled { element, .. } => element.and_then(|own| usize::try_from(own).ok()).unwrap_or(0),
            Join::One
            | Join::Disassembled { .. }
            | Join::Merged { .. }
            | Join::Stacked { .. }
            | Join::Tied
            | Join::Sum
            | Join::Dequantized(_) => 0,
        }
    }
}

impl Recipe {
    /// Returns whether the target is the source tensor, unchanged.
    pub fn is_plain(&self) -> bool {
        self.join == Join::One && self.steps.is_empty()
    }

    /// Describes the recipe in a few words; empty for a plain one.
    pub fn describe(&self) -> String {
        let how = if self.division.is_interleaved { ", interleaved" } else { "" };
        let part = |part: usize, parts: usize, axis: usize| {
            format!("part {} of {parts} along axis {axis}{how}", part.saturating_add(1))
        };
        let join = match &self.join {
            Join::One => None,
            Join::Part { axis, part: number, parts, .. } => Some(part(*number, *parts, *axis)),
            Join::Merged { axis, .. } => Some(format!("merged along axis {axis}{how}")),
            Join::Stacked { axis, merged: None } => Some(format!("stacked along axis {axis}")),
            Join::Stacked { axis, merged: Some(Parts { axis: along, parts, .. }) } => {
                Some(format!("each {parts} merged along axis {along}, stacked along axis {axis}"))
            }
            Join::Element { axis, index, part: None } => Some(format!("element {index} of axis {axis}")),
            Join::Element { axis, index, part: Some(PartOf { part: number, of }) } => {
                let part = part(*number, of.parts, of.axis);
                Some(format!("element {index} of axis {axis}, {part}"))
            }
            Join::Tied => Some("the first of equal tensors".to_owned()),
            Join::Dequantized(how) => match &self.division.part {
                None => Some(how.to_string()),
                Some(PartOf { part: number, of }) => {
                    Some(format!("{how}, {}", part(*number, of.parts, of.axis)))
                }
            },
            Join::Zeros => Some("zeros of the same shape".to_owned()),
            Join::Sum => Some("the sum".to_owned()),
            Join::Assembled { axis, element, pieces } => Some(assembled(*axis, *element, pieces)),
            Join::Disassembled { axis, elements, places, .. } => {
                let places: Vec<String> =
                    places.iter().map(|place| part(place.part, place.parts, *axis)).collect();
                let stacked = if elements.is_some() { ", stacked along axis 0" } else { "" };
                Some(format!("{}{stacked}", places.join(" plus ")))
            }
        };
        let words = |steps: &[AxisStep]| steps.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (steps, whole) = (words(&self.steps), words(&self.division.whole));
        let each = self.division.each.iter().zip(1..).filter(|(steps, _)| !steps.is_empty());
        let each = each.map(|(steps, part)| format!("part {part}: {}", words(steps).join(", "))).collect();
        let (join, steps) = (join.into_iter().collect(), steps);
        let in_order = match &self.join {
            Join::Merged { .. } | Join::Stacked { .. } | Join::Assembled { .. } => [each, steps, join, whole],
            _ => [whole, join, steps, Vec::new()],
        };
        in_order.concat().join(", ")
    }
}

/// An assembled tensor in a few words.
fn assembled(axis: usize, element: Option<u64>, pieces: &[Piece]) -> String {
    let element = element.map(|index| format!("element {index} of axis 0")).into_iter();
    let zeros = pieces.iter().filter(|piece| piece.is_zero).count();
    let joined = match (pieces.len(), zeros) {
        (1, 0) => None,
        (1, _) => Some("zeros of the same shape".to_owned()),
        (_, 0) => Some(format!("merged along axis {axis}")),
        (all, zeros) => Some(format!("merged along axis {axis}, {zeros} of {all} as zeros")),
    };
    element.chain(joined).collect::<Vec<_>>().join(", ")
}
