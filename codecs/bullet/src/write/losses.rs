//! Reports the losses that only bullet's files have.

use super::context::Context;
use super::output::Output;
use crate::format::{ID, KEY_LOG, KEY_STEP, LOG, RecordForm, STEP};
use crate::graph;
use ckpt_api::{LossKind, OutputFile, Placement, TensorId};
use std::collections::HashSet;

/// Adds the losses of an output that is laid out.
pub(super) fn report(context: &Context<'_>, output: &mut Output) {
    report_texts(context, output);
    output.placed.whole_units = whole_units(context, &output.placed.placements);
    report_shapes(context, output);
    report_graph(context, output);
}

/// step.txt and log.txt.
fn report_texts(context: &Context<'_>, output: &mut Output) {
    for (key, name, kind) in
        [(KEY_STEP, STEP, LossKind::CounterDropped), (KEY_LOG, LOG, LossKind::MetadataDropped)]
    {
        let is_written = |file: &OutputFile| file.name.rsplit('/').next() == Some(name);
        if context.checkpoint.metadata.text(ID, key).is_some()
            && !output.placed.files.iter().any(is_written)
            && !output.placed.losses.iter().any(|loss| loss.subject == name)
        {
            output.add_loss(kind, name, "the written files cannot store it");
        }
    }
}

/// Tensors that are stored as the integers that they were read from, possibly in another format since.
fn whole_units(context: &Context<'_>, placements: &[Placement]) -> Vec<TensorId> {
    let scale = |placement: &Placement| Some(u64::from(placement.encoding.scaling()?.scale.get()));
    let stored: HashSet<(TensorId, Option<u64>)> =
        placements.iter().map(|placement| (placement.tensor, scale(placement))).collect();
    let bindings = context.bindings.iter().chain(context.bindings.copies());
    let bindings = bindings.filter(|binding| !binding.is_inexact());
    let bindings = bindings.filter(|binding| binding.quantised().is_some());
    let whole = bindings.filter(|binding| stored.contains(&(binding.tensor, binding.quantised())));
    whole.map(|binding| binding.tensor).collect()
}

/// A record states how many numbers it has, or rows and columns: an architecture has the shapes.
fn report_shapes(context: &Context<'_>, output: &mut Output) {
    if context.architecture.is_some() {
        return;
    }
    let kept = |rank| rank == 1 || (rank == 2 && context.form == RecordForm::Rows);
    let bindings = context.bindings.iter();
    let flattened = bindings.filter(|binding| !kept(binding.source.shape.rank())).count();
    if flattened > 0 {
        let why = format!(
            "of {}: records have none, and an architecture file does",
            ckpt_api::count(flattened, "tensor")
        );
        output.add_loss(LossKind::MetadataDropped, "shapes", &why);
    }
}

fn report_graph(context: &Context<'_>, output: &mut Output) {
    let Some(own) = &context.checkpoint.graph else { return };
    let built =
        context.architecture.and_then(|architecture| graph::build(architecture, context.checkpoint).ok());
    if built.as_ref() != Some(own) {
        let name = if own.name.is_empty() { "graph" } else { &own.name };
        let why = "bullet's files do not say what the net computes: keep the architecture file";
        output.add_loss(LossKind::GraphDropped, name, why);
    }
}
