//! What runs graphs to verify a conversion.

use crate::formats::Formats;
use crate::mapping::Mapping;
use crate::source::Source;
use ckpt_api::{Limits, Result, Vocabulary};
use serde::Serialize;
use std::fmt::Debug;

/// Runs the graphs of a source and of what was written of it, and compares what they compute.
///
/// **For implementers.** The engine calls this only for conversions that keep what the model computes: at most, weights are
/// rounded. Both sources have a graph. Their tensors have been compared before.
pub trait Verifier: Debug + Send + Sync {
    /// Compares what both compute on the same inputs.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mismatch`] if they do not agree; what keeps a tensor from being read. That a graph cannot be run is
    /// no error, but [`Computed::NotRun`].
    fn compare(&self, source: &Source, written: &Source, settings: &VerifierSettings<'_>)
    -> Result<Computed>;
}

/// What a [`Verifier`] must keep to.
#[derive(Debug)]
#[non_exhaustive]
pub struct VerifierSettings<'a> {
    /// The formats by which both sides were opened.
    pub formats: &'a Formats,
    /// The mapping from the source's names to those that were written.
    pub mapping: Option<&'a Mapping>,
    /// Bytes of memory for weights and activations.
    pub memory: u64,
    /// Bounds on what is read.
    pub limits: &'a Limits,
    /// How texts name the settings of the interface.
    pub vocabulary: &'a dyn Vocabulary,
}

/// The name of the rule that all results have the same bits.
const BITS: &str = "bits";

/// What running both graphs on the same inputs found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Computed {
    /// They agree.
    Agree {
        /// What had to hold: `bits`, `bound`.
        rule: String,
        /// Why this rule was chosen.
        reason: String,
        /// What the graphs assume about the model, or do not show of it: the result holds as far as that is right.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        notes: Vec<String>,
    },
    /// They were not run.
    NotRun {
        /// Why.
        reason: String,
    },
}

impl Computed {
    /// The outcome of graphs that were not run.
    pub fn not_run(reason: impl Into<String>) -> Self {
        Computed::NotRun { reason: reason.into() }
    }

    /// Returns the outcome that says least: a part that was not run before one within a bound, and that before equal
    /// bits. Of equals, the first.
    pub(super) fn worst(outcomes: impl IntoIterator<Item = Self>) -> Option<Self> {
        let doubt = |outcome: &Self| match outcome {
            Computed::Agree { rule, .. } => u8::from(rule != BITS),
            Computed::NotRun { .. } => 2,
        };
        outcomes.into_iter().reduce(|worst, next| if doubt(&next) > doubt(&worst) { next } else { worst })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agree(rule: &str) -> Computed {
        Computed::Agree { rule: rule.to_owned(), reason: String::new(), notes: Vec::new() }
    }

    #[test]
    fn several_parts_report_the_worst_outcome_whatever_their_order() {
        let (bits, bound, not_run) = (agree("bits"), agree("bound"), Computed::not_run("too large"));
        for [a, b, worst] in [
            [&bits, &bound, &bound],
            [&bits, &not_run, &not_run],
            [&bound, &not_run, &not_run],
            [&bits, &bits, &bits],
        ] {
            for parts in [[a, b], [b, a]] {
                assert_eq!(Computed::worst(parts.map(Computed::clone)).as_ref(), Some(worst), "{parts:?}");
            }
        }
        assert_eq!(Computed::worst([]), None);
    }
}
