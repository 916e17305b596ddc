//! Writes a model: the one that was read if nothing changed, or else a new one of the checkpoint's graph.

mod assemble;
mod builder;
mod computed;
mod control;
mod layers;
mod locations;
mod moves;
mod ops;
mod read_back;
mod recurrent;
mod unchanged;

use crate::read::Parsed;
use ckpt_api::{
    Axis, Checkpoint, Error, Graph, Loss, LossKind, Options, OutputLayout, Placement, Result, Setting,
    Tensor, Value, text,
};
pub(crate) use ops::OPS;
use read_back::read_back;
use std::collections::HashMap;
use std::sync::Arc;

/// See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
    let threshold = options.size("external_data");
    if threshold.is_none()
        && let Some(layout) = unchanged::place(checkpoint, name)?
    {
        return Ok(layout);
    }
    let Some(graph) = &checkpoint.graph else { return Err(no_graph()) };
    graph.require_activations()?;
    let built = builder::build(checkpoint, graph)?;
    let assembled = assemble::assemble(&built, checkpoint, name, threshold)?;
    let read = read_back(&Arc::new(assembled.structure.clone()), name)?;
    let mut layout = assembled.layout(checkpoint, name)?;
    layout.losses.extend(lost_axes(checkpoint, &layout, &read));
    if !is_same(graph, read.contents.checkpoint.graph.as_ref()) {
        let detail =
            "the graph is stored in ONNX's terms: it computes the same, with other nodes or other names";
        layout.losses.push(Loss::new(LossKind::NamesDropped, "layers", detail));
    }
    Ok(layout)
}

/// Whether a graph comes back. One without a name gets one, and ONNX states the type of every input and output.
fn is_same(graph: &Graph, back: Option<&Graph>) -> bool {
    let Some(back) = back else { return false };
    let same_values = |own: &[Value], back: &[Value]| {
        own.len() == back.len()
            && own.iter().zip(back).all(|(own, back)| {
                own.name == back.name
                    && own.shape == back.shape
                    && (own.dtype.is_none() || own.dtype == back.dtype)
            })
    };
    graph.nodes == back.nodes
        && (graph.name.is_empty() || graph.name == back.name)
        && same_values(&graph.inputs, &back.inputs)
        && same_values(&graph.outputs, &back.outputs)
}

/// The loss of axes that do not follow from the layers.
fn lost_axes(checkpoint: &Checkpoint, layout: &OutputLayout, read: &Parsed) -> Option<Loss> {
    let back: HashMap<&str, &Tensor> =
        read.contents.checkpoint.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    let is_kept = |placement: &Placement| {
        let Some(tensor) = checkpoint.tensors.get(placement.tensor.0) else { return true };
        let Some(axes) = &tensor.axes else { return true };
        let stored: Vec<Axis> =
            placement.encoding.order.iter().filter_map(|axis| axes.get(*axis).copied()).collect();
        back.get(tensor.name.as_str()).is_some_and(|back| back.axes.as_deref() == Some(&stored))
    };
    let detail = "ONNX records no meaning of axes; only those that a layer implies are known again";
    let is_lost = !layout.placements.iter().all(is_kept);
    is_lost.then(|| Loss::new(LossKind::MetadataDropped, "axes", detail))
}

fn no_graph() -> Error {
    Error::unsupported("an ONNX model needs a graph, and the checkpoint has none").help(text![
        "describe the layers in an architecture file, given with ",
        Setting::ARCHITECTURE,
        ", or give an ONNX model of the same network there"
    ])
}
