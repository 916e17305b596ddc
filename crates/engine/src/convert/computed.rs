//! Whether what was written computes what its source computes.

use super::planned::{Commit, Planned};
use super::verifier::{Computed, VerifierSettings};
use crate::mapping::Mapping;
use crate::plan::MappingRecord;
use crate::recipe::Transform;
use crate::settings;
use crate::source::Source;
use ckpt_api::{Added, AddedAxis, LossKind, Result, text};

/// Runs the graph of each part that was written and the source's as it was opened. Returns the worst outcome of all
/// parts.
///
/// # Errors
/// [`ckpt_api::Kind::Mismatch`] if they do not agree.
pub(super) fn compute(planned: &Planned, parts: &[Source], commit: &Commit) -> Result<Computed> {
    let Some(verifier) = planned.registry.verifier() else {
        return Ok(Computed::not_run("this build does not include the forward pass"));
    };
    if let Some(reason) = differs_as_asked(planned, commit) {
        return Ok(Computed::not_run(reason));
    }
    if planned.is_merge_of_another_process() {
        return Ok(Computed::not_run("the source is merged from several checkpoints, by another process"));
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
        let why = text![
            "a tensor was folded into one channel of another, which gives the same results only if that \
             channel's input is 1; to verify, pass such inputs with ",
            settings::INPUTS,
        ];
        return Some(why.in_words(&*commit.vocabulary).into_owned());
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
