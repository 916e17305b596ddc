//! Reports what no written file holds as the source has it.

use super::bind::Binding;
use super::context::Context;
use super::output::Output;
use crate::format::{ID, KEY_LOG, KEY_STEP, LOG, RecordForm, STEP};
use crate::graph;
use ckpt_api::{Loss, LossKind, OutputFile, Placed, Placement, Scaling, TensorId};
use std::collections::{HashMap, HashSet};

/// Adds the losses of an output that is laid out.
pub(super) fn report(context: &Context<'_>, output: &mut Output) {
    report_texts(context, output);
    report_tensors(context, output);
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
            output.add_loss(kind, name, "the written files have no place for it");
        }
    }
}

fn report_tensors(context: &Context<'_>, output: &mut Output) {
    let Placed { placements, losses, .. } = &mut output.placed;
    let mut by_tensor: HashMap<TensorId, Vec<&Placement>> = HashMap::new();
    for placement in &*placements {
        by_tensor.entry(placement.tensor).or_default().push(placement);
    }
    let added = placements.iter().flat_map(|placement| &placement.added);
    let added: HashSet<TensorId> = added.map(|added| added.tensor).collect();
    for binding in context.bindings.iter() {
        let mut lose = |kind, why: &str| losses.push(Loss::new(kind, &binding.source.name, why));
        match by_tensor.get(&binding.tensor) {
            None if added.contains(&binding.tensor) => {
                lose(LossKind::Merged, "added to other tensors and not stored by itself");
            }
            None => {
                let kind = LossKind::of_dropping(binding.source.role);
                lose(kind, "the written files do not hold it");
            }
            Some(own) => {
                if own.iter().all(|placement| changes_values(placement, binding)) {
                    lose(LossKind::Quantized, "stored as scaled integers");
                }
                let bounds: Option<Vec<String>> = own.iter().map(|placement| clip_bound(placement)).collect();
                if let Some(bound) = bounds.and_then(|bounds| bounds.into_iter().next()) {
                    lose(LossKind::Clipped, &format!("values outside ±{bound} are stored as ±{bound}"));
                }
            }
        }
        for (namespace, _) in binding.source.metadata.iter().filter(|(namespace, _)| *namespace != ID) {
            lose(
                LossKind::MetadataDropped,
                &format!("its metadata of '{namespace}' has no place in bullet's files"),
            );
        }
    }
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
        let why = format!("of {flattened} tensor(s): records have none, and an architecture file does");
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

/// Whether this placement stores other values than the tensor's.
fn changes_values(placement: &Placement, binding: &Binding<'_>) -> bool {
    let scale = placement.encoding.scaling.map(|scaling| u64::from(scaling.scale.get()));
    scale.is_some() && binding.quantised() != scale
}

/// The bound to which this placement clips values, as a fraction of units.
fn clip_bound(placement: &Placement) -> Option<String> {
    let Scaling { scale, limit, .. } = placement.encoding.scaling?;
    limit.map(|limit| format!("{limit}/{scale}"))
}
