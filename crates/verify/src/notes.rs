//! Remarks on a comparison of graphs.

use super::report::{OutputReport, RuleName, Run, TensorDiagnosis};
use ckpt_api::{Text, text};
use ckpt_engine::settings;
use ckpt_engine::source::Source;

/// Returns remarks on what the runs show and on how to go on.
pub(super) fn on_runs(runs: &[Run]) -> Vec<Text> {
    let mut notes: Vec<Text> = Vec::new();
    let is_blank = |output: &OutputReport| output.comparison.metrics.cosine.is_none();
    if runs.iter().any(|run| run.outputs.iter().any(is_blank)) {
        let note = "for these inputs, an output has only zeros, infinities or NaN, which proves little: use other \
                    inputs";
        notes.push(note.into());
    }
    for run in runs.iter().filter(|run| !run.verdict.passes()) {
        if run.first_divergence.is_none() {
            notes.push(format!(
                "on {}, every layer agrees if it gets the reference's inputs, but the outputs differ: errors grow \
                 from layer to layer, or the graphs are connected differently",
                run.device
            ).into());
        }
        if run.rule.name == RuleName::Bits && has_rounded_tensors(run) {
            notes.push(text![
                "equal bits are required because the second checkpoint should have been converted from the \
                 first: if it was the other way around, swap them; if an intermediate format used a \
                 narrower dtype, set ",
                settings::TOLERANCE,
            ]);
        }
    }
    notes.dedup();
    notes
}

/// Returns what the sources' graphs assume or do not show: the results hold only as far as that is right.
pub(super) fn on_graphs(sources: [&Source; 2]) -> Vec<Text> {
    let mut found = Vec::new();
    for source in sources {
        let shown = source.shown();
        for note in &source.contents().graph_notes {
            let note = text![format!("{shown}: "), note.clone()];
            if !found.contains(&note) {
                found.push(note);
            }
        }
    }
    found
}

/// Whether a tensor looks rounded: one weight that differs is a fault, many may be rounding.
fn has_rounded_tensors(run: &Run) -> bool {
    let is_rounded =
        |tensor: &TensorDiagnosis| tensor.cause.is_none() && tensor.differing > tensor.elements / 4;
    let diagnoses = run.layers.iter().filter_map(|layer| layer.diagnosis.as_ref());
    diagnoses.flat_map(|diagnosis| &diagnosis.tensors).any(is_rounded)
}
