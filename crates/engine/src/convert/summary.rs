//! What a conversion did.

use super::verifier::Computed;
use crate::execute::Finished;
use crate::plan::{Plan, Step};
use crate::store::{Committed, Earlier};
use ckpt_api::Loss;
use serde::Serialize;
use std::path::PathBuf;

/// What a conversion did.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// The files written, as the output's store shows them.
    pub files: Vec<PathBuf>,
    /// How many tensors.
    pub tensors: usize,
    /// Bytes in all files.
    pub bytes: u64,
    /// Of these, bytes that share blocks with the source's files.
    pub cloned: u64,
    /// Whether checksums of the source were left alone: [`crate::Conversion::unchecked`].
    pub unchecked: bool,
    /// What the output does not hold as the source has it: that of the plan.
    #[serde(skip)]
    pub losses: Vec<Loss>,
    /// How far off the values are that were rounded, in the order of the plan's tensors; empty if none was cast to a
    /// dtype that does not hold all values, or stored in blocks.
    pub rounding: Vec<Rounded>,
    /// What comparing the output with the source found, if that was asked for.
    pub verification: Option<Verification>,
    /// The receipt, if one was asked for.
    pub receipt: Option<PathBuf>,
    /// What was kept of a conversion that was killed, where resuming was asked for.
    pub resumed: Option<Resumed>,
    /// Temporary files that could not be removed, and why, for people; the output is complete all the same.
    pub left: Vec<String>,
}

impl Summary {
    pub(super) fn new(plan: &Plan, finished: &Finished, committed: Committed, bytes: u64) -> Self {
        Summary {
            files: committed.names.into_iter().map(PathBuf::from).collect(),
            left: committed.left,
            tensors: plan.tensors().len(),
            bytes,
            cloned: finished.cloned,
            unchecked: plan.settings.unchecked,
            losses: plan.losses.clone(),
            rounding: Rounded::all(plan, finished),
            verification: None,
            receipt: None,
            resumed: None,
        }
    }
}

/// What comparing the output with the source found: no difference, or there would be no output.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Verification {
    /// How many tensors were read back and compared: by checksum where no byte changes, else element by element.
    pub tensors: usize,
    /// How many hold the source's numbers, bit for bit.
    pub equal: usize,
    /// The others hold, bit for bit, what casting, quantizing or adding makes of the source's numbers; here is how far
    /// off that is, in the order of the plan's tensors.
    pub changed: Vec<Rounded>,
    /// Whether both graphs compute the same.
    pub computed: Computed,
    /// Whether the output had its names by then: a store may not show it before.
    pub after_commit: bool,
}

impl Verification {
    /// The tensor that is furthest off, the first of equals.
    pub fn largest_error(&self) -> Option<&Rounded> {
        Rounded::largest(&self.changed)
    }
}

/// What a conversion kept of one that was killed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Resumed {
    /// How many tensors were there, with the right checksums.
    pub tensors: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Why it began anew, where it did.
    pub anew: Option<&'static str>,
}

impl Resumed {
    pub(super) fn new(earlier: Earlier, plan: &Plan, finished: &Finished) -> Self {
        let kept = plan.tensors().zip(&finished.kept).filter(|(_, kept)| **kept);
        let extents = kept.clone().flat_map(|(entry, _)| &entry.to.extents);
        let anew = match earlier {
            Earlier::Kept | Earlier::Complete => None,
            Earlier::Nothing => Some("no conversion to this output was interrupted"),
            Earlier::Other => Some(
                "the source, the options or the program differ from those of the interrupted \
                                    conversion",
            ),
        };
        // Of what began anew, an empty plan keeps all of nothing.
        let tensors = if anew.is_some() { 0 } else { kept.count() };
        Resumed {
            tensors,
            bytes: if anew.is_some() { 0 } else { extents.map(|extent| extent.len).sum() },
            anew,
        }
    }
}

/// A tensor whose values were cast to a dtype that does not hold all of them, or stored in blocks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Rounded {
    /// Its name, as in the plan.
    pub tensor: String,
    /// The largest absolute difference between a value and what is stored for it; 0 if all were kept.
    pub largest_error: f64,
}

impl Rounded {
    pub(super) fn largest(all: &[Rounded]) -> Option<&Rounded> {
        all.iter().rev().max_by(|a, b| a.largest_error.total_cmp(&b.largest_error))
    }

    /// The tensors that a plan rounds.
    pub(super) fn all(plan: &Plan, finished: &Finished) -> Vec<Rounded> {
        let rounds = |steps: &[Step]| {
            steps
                .iter()
                .any(|step| matches!(step, Step::Cast { exact: false, .. } | Step::EncodeBlocks { .. }))
        };
        let pairs = plan.tensors().zip(&finished.rounding).filter(|(entry, _)| rounds(entry.steps));
        pairs
            .map(|(entry, error)| Rounded { tensor: entry.tensor.to_owned(), largest_error: *error })
            .collect()
    }
}

impl Summary {
    /// The tensor with the largest rounding error, the first of equals.
    pub fn largest_rounding(&self) -> Option<&Rounded> {
        Rounded::largest(&self.rounding)
    }
}
