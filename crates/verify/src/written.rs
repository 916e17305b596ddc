//! Verifies conversions: the output computes what its source computes.

use super::{NamedMapping, Options, verify};
use ckpt_api::{Error, Kind, Result, text};
use ckpt_engine::settings;
use ckpt_engine::source::Source;
use ckpt_engine::{Computed, Verifier, VerifierSettings};

/// Runs graphs with [`verify`].
#[derive(Debug)]
pub struct GraphVerifier;

impl Verifier for GraphVerifier {
    fn compare(
        &self,
        source: &Source,
        written: &Source,
        settings: &VerifierSettings<'_>,
    ) -> Result<Computed> {
        let mapping = settings.mapping.map(|mapping| NamedMapping {
            name: "the conversion's mapping".to_owned(),
            mapping: mapping.clone(),
        });
        let (memory, limits) = (settings.memory, settings.limits.clone());
        let options = Options { mapping, memory, limits, ..Options::default() };
        let report = match verify(settings.formats, source, written, &options) {
            Ok(report) => report,
            Err(error) if matches!(error.kind(), Kind::Corrupt | Kind::Io | Kind::Mismatch) => {
                return Err(error.help(text![
                    "nothing was kept; to look at the output, convert without ",
                    settings::VERIFY
                ]));
            }
            // Such as an activation that the target does not store, or a model larger than the budget.
            Err(error) => return Ok(Computed::not_run(error.text_in(settings.vocabulary))),
        };
        let Some(run) = report.runs.first() else {
            let reason = report.tensors.map(|tensors| tensors.reason);
            return Ok(Computed::not_run(reason.unwrap_or_else(|| "there was nothing to run".to_owned())));
        };
        if report.verdict.passes() {
            let sides = [source, written].into_iter();
            return Ok(Computed::Agree {
                rule: run.rule.name.name().to_owned(),
                reason: run.rule.reason.as_str().to_owned(),
                notes: sides
                    .flat_map(|side| side.contents().graph_notes.iter().map(|note| note.as_str().to_owned()))
                    .collect(),
            });
        }
        let layer = run.first_divergence.and_then(|index| run.layers.get(index));
        let error = Error::mismatch("the output and the source give different results")
            .expected(run.rule.outputs.clone())
            .help(text![
                "nothing was kept; for details, convert without ",
                settings::VERIFY,
                " and run ",
                settings::PER_LAYER
            ]);
        Err(match layer {
            Some(layer) => error.field(layer.a.as_ref().or(layer.b.as_ref()).cloned().unwrap_or_default()),
            None => error,
        })
    }
}
