//! Whether what was written computes what its source computes.

use super::verifier::VerifierSettings;
use super::{Commit, Planned};
use crate::mapping::Mapping;
use crate::plan::MappingRecord;
use crate::recipe::Transform;
use crate::source::Source;
use ckpt_api::{Added, AddedAxis, LossKind, Result, Setting};
use serde::Serialize;

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
    fn worst(outcomes: impl IntoIterator<Item = Self>) -> Option<Self> {
        let doubt = |outcome: &Self| match outcome {
            Computed::Agree { rule, .. } => u8::from(rule != BITS),
            Computed::NotRun { .. } => 2,
        };
        outcomes.into_iter().reduce(|worst, next| if doubt(&next) > doubt(&worst) { next } else { worst })
    }
}

/// Runs the graph of each part that was written and the source's as it was opened. Returns the worst outcome of all
/// parts.
///
/// # Errors
/// [`ckpt_api::Kind::Mismatch`] where they do not agree.
pub(super) fn compute(planned: &Planned, parts: &[Source], commit: &Commit) -> Result<Computed> {
    let Some(verifier) = planned.registry.verifier() else {
        return Ok(Computed::not_run("this build does not include the forward pass"));
    };
    if let Some(reason) = differs_as_asked(planned, commit) {
        return Ok(Computed::not_run(reason));
    }
    let source = planned.source(commit)?;
    let parts: Vec<&Source> = parts.iter().filter(|part| part.checkpoint().graph.is_some()).collect();
    if parts.is_empty() {
        return Ok(Computed::not_run("the output has no graph"));
    }
    if source.checkpoint().graph.is_none() {
        return Ok(Computed::not_run("the source has no graph"));
    }
    let parse = |record: &MappingRecord| {
        let name = record.name.as_deref().unwrap_or("the conversion's mapping");
        Mapping::from_toml_within(&record.toml, name, &commit.limits)
    };
    let mapping = planned.plan.settings.mapping.as_ref().map(parse).transpose()?;
    let settings = VerifierSettings {
        formats: &planned.registry,
        mapping: mapping.as_ref(),
        memory: commit.resources.max_memory,
        limits: &commit.limits,
        vocabulary: &*commit.vocabulary,
    };
    let outcomes = parts.into_iter().map(|part| verifier.compare(&source, part, &settings));
    let outcomes = outcomes.collect::<Result<Vec<_>>>()?;
    Ok(Computed::worst(outcomes).unwrap_or_else(|| Computed::not_run("the output has no graph")))
}

/// Why the output computes something else than its source, as the conversion was asked to.
fn differs_as_asked(planned: &Planned, commit: &Commit) -> Option<String> {
    let Planned { plan, .. } = planned;
    if plan.losses.iter().any(|loss| loss.kind.changes_function() && !is_rounding(loss.kind)) {
        return Some("the conversion changed what the model computes, as allowed".to_owned());
    }
    if plan.tensors().flat_map(|entry| entry.to.added()).any(is_at_one_index) {
        let why = format!(
            "a tensor was folded into one channel of another, which gives the same results only if that channel's \
             input is 1; to verify, pass such inputs with {}",
            Setting::Inputs("")
        );
        return Some(commit.vocabulary.resolve(&why).into_owned());
    }
    if plan.settings.transforms.iter().any(|text| is_of_image(text)) {
        let why = "a transform reordered flattened images; to verify that, give the step in a mapping";
        return Some(why.to_owned());
    }
    None
}

/// A bias that became the weight of a constant input.
fn is_at_one_index(added: &Added) -> bool {
    added.axes.iter().any(|axis| matches!(axis, AddedAxis::At(_)))
}

/// Whether a recorded transform reorders flattened images.
fn is_of_image(text: &str) -> bool {
    Transform::parse(text).is_ok_and(|transform| transform.step.is_of_image())
}

/// Losses whose effect on the outputs has a bound that is checked.
fn is_rounding(kind: LossKind) -> bool {
    matches!(kind, LossKind::Narrowed | LossKind::Quantized)
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
