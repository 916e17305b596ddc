//! Whether what was written computes what its source computes.

use super::{Commit, Planned};
use crate::source::Source;
#[cfg(feature = "forward")]
use ckpt_api::Setting;
use serde::Serialize;

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
    fn not_run(reason: impl Into<String>) -> Self {
        Computed::NotRun { reason: reason.into() }
    }

    /// Returns the outcome that says least: a part that was not run before one within a bound, and that before equal
    /// bits. Of equals, the first.
    #[cfg(feature = "forward")]
    fn worst(outcomes: impl IntoIterator<Item = Self>) -> Option<Self> {
        let doubt = |outcome: &Self| match outcome {
            Computed::Agree { rule, .. } => u8::from(rule != crate::verify::RuleName::Bits.name()),
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
#[cfg(feature = "forward")]
pub(super) fn compute(planned: &Planned, parts: &[Source], options: &Commit) -> ckpt_api::Result<Computed> {
    if planned.plan.losses.iter().any(|loss| loss.kind.changes_function() && !is_rounding(loss.kind)) {
        return Ok(Computed::not_run("the conversion changed what the model computes, as allowed"));
    }
    if planned.plan.tensors().flat_map(|entry| entry.to.added()).any(is_at_one_index) {
        let why = format!(
            "a tensor was folded into one channel of another, which gives the same results only if that channel's \
             input is 1; to verify, pass such inputs with {}",
            Setting::Inputs("")
        );
        return Ok(Computed::not_run(options.vocabulary.resolve(&why)));
    }
    if planned.plan.settings.transforms.iter().any(|text| is_of_image(text)) {
        let why = "a transform reordered flattened images; to verify that, give the step in a mapping";
        return Ok(Computed::not_run(why));
    }
    let source = planned.source(options)?;
    let parts = parts.iter().filter(|part| part.checkpoint().graph.is_some());
    let outcomes =
        parts.map(|part| pair(planned, &source, part, options)).collect::<ckpt_api::Result<Vec<_>>>()?;
    let worst = Computed::worst(outcomes);
    Ok(worst.unwrap_or_else(|| Computed::not_run("the output has no graph")))
}

#[cfg(not(feature = "forward"))]
#[expect(clippy::unnecessary_wraps, reason = "as it is with the feature")]
pub(super) fn compute(_: &Planned, _: &[Source], _: &Commit) -> ckpt_api::Result<Computed> {
    Ok(Computed::not_run("this build does not include the forward pass"))
}

/// A bias that became the weight of a constant input.
#[cfg(feature = "forward")]
fn is_at_one_index(added: &ckpt_api::Added) -> bool {
    added.axes.iter().any(|axis| matches!(axis, ckpt_api::AddedAxis::At(_)))
}

/// Whether a recorded transform reorders flattened images.
#[cfg(feature = "forward")]
fn is_of_image(text: &str) -> bool {
    crate::recipe::Transform::parse(text).is_ok_and(|transform| transform.step.is_of_image())
}

/// Losses whose effect on the outputs has a bound that is checked.
#[cfg(feature = "forward")]
fn is_rounding(kind: ckpt_api::LossKind) -> bool {
    matches!(kind, ckpt_api::LossKind::Narrowed | ckpt_api::LossKind::Quantized)
}

#[cfg(feature = "forward")]
fn pair(planned: &Planned, source: &Source, part: &Source, commit: &Commit) -> ckpt_api::Result<Computed> {
    use crate::mapping::Mapping;
    use crate::plan::MappingRecord;
    use crate::verify::{NamedMapping, Options, verify};
    use ckpt_api::Kind;

    if source.checkpoint().graph.is_none() {
        return Ok(Computed::not_run("the source has no graph"));
    }
    let mapping = planned.plan.settings.mapping.as_ref();
    let parse = |record: &MappingRecord| {
        let name = record.name.as_deref().unwrap_or("the conversion's mapping");
        let mapping = Mapping::from_toml_within(&record.toml, name, &commit.limits)?;
        ckpt_api::Result::Ok(NamedMapping { name: "the conversion's mapping".to_owned(), mapping })
    };
    let options = Options {
        mapping: mapping.map(parse).transpose()?,
        memory: commit.resources.max_memory,
        limits: commit.limits.clone(),
        ..Options::default()
    };
    let report = match verify(&planned.registry, source, part, &options) {
        Ok(report) => report,
        Err(error) if matches!(error.kind(), Kind::Corrupt | Kind::Io | Kind::Mismatch) => {
            return Err(error.help(format!(
                "nothing was kept; to look at the output, convert without {}",
                Setting::Verify
            )));
        }
        // Such as an activation that the target does not store, or a model larger than the budget.
        Err(error) => return Ok(Computed::not_run(error.text_in(&*commit.vocabulary))),
    };
    let Some(run) = report.runs.first() else {
        let reason = report.tensors.map(|tensors| tensors.reason);
        return Ok(Computed::not_run(reason.unwrap_or_else(|| "there was nothing to run".to_owned())));
    };
    if report.verdict.passes() {
        return Ok(Computed::Agree {
            rule: run.rule.name.name().to_owned(),
            reason: run.rule.reason.clone(),
            notes: [source, part].iter().flat_map(|side| side.contents().graph_notes.clone()).collect(),
        });
    }
    let layer = run.first_divergence.and_then(|index| run.layers.get(index));
    let error = ckpt_api::Error::mismatch("the output and the source give different results")
        .expected(run.rule.outputs.clone())
        .help(format!(
            "nothing was kept; for details, convert without {} and run {}",
            Setting::Verify,
            Setting::PerLayer
        ));
    Err(match layer {
        Some(layer) => error.field(layer.a.as_ref().or(layer.b.as_ref()).cloned().unwrap_or_default()),
        None => error,
    })
}

#[cfg(all(test, feature = "forward"))]
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
