//! Writes a model: the one that was read if nothing changed, or else a new one.

mod flat;
mod fresh;
mod operators;
mod quantize;
mod tensors;
mod unchanged;

use crate::format::NAMESPACE;
use ckpt_api::{Aspect, Checkpoint, Kind, Loss, LossKind, OutputLayout, Result};
use ckpt_tf_operators::{Model, Program, model_of};
use quantize::before;
pub(crate) use quantize::{QUANTIZE, prepare};

/// See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str) -> Result<OutputLayout> {
    if let Some(layout) = unchanged::place(checkpoint, name) {
        return Ok(layout);
    }
    let (model, why) = match &checkpoint.graph {
        None => (Model::default(), None),
        Some(own) => match model_of(&before(checkpoint), own, Program::Lite) {
            Ok(model) => (model, None),
            Err(error) if error.kind() == Kind::Unsupported => (Model::default(), Some(error)),
            Err(error) => return Err(error),
        },
    };
    let has_operators = !model.steps.is_empty();
    let mut layout = fresh::place(checkpoint, model, name)?;
    if checkpoint.tensors.iter().any(quantize::is_quantized) {
        layout.asked.push(LossKind::Quantized);
    }
    if has_operators {
        let detail =
            "the graph is stored in TensorFlow Lite's operators: it computes the same, with other layers";
        layout.losses.push(Loss::new(LossKind::NamesDropped, "layers", detail));
        layout
            .left_out
            .insert(Aspect::Axes, "axes are stored in the order that the operators have".to_owned());
        return Ok(layout);
    }
    let why = why.map_or("the model has the tensors alone".to_owned(), |error| error.to_string());
    for aspect in [Aspect::Graph, Aspect::Axes] {
        layout.left_out.insert(aspect, why.clone());
    }
    if let Some(number) = checkpoint.metadata.value(NAMESPACE, "operators").and_then(|value| value.as_u64()) {
        let detail = format!(
            "the {} of the model that was read are not written: {why}",
            ckpt_api::count(number, "operator")
        );
        layout.losses.push(Loss::new(LossKind::LayerDropped, "operators", detail));
    }
    Ok(layout)
}
