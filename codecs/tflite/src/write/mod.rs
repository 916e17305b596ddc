//! Writes a model: the one that was read if nothing changed, or else a new one.

mod flat;
mod fresh;
mod tensors;
mod unchanged;

use crate::format::NAMESPACE;
use ckpt_api::{Aspect, Checkpoint, Loss, LossKind, OutputLayout, Result};

/// See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str) -> Result<OutputLayout> {
    if let Some(layout) = unchanged::place(checkpoint, name) {
        return Ok(layout);
    }
    let mut layout = fresh::place(checkpoint, name)?;
    for aspect in [Aspect::Graph, Aspect::Axes] {
        layout.left_out.insert(aspect, "the model has the tensors alone".to_owned());
    }
    if let Some(number) = checkpoint.metadata.value(NAMESPACE, "operators").and_then(|value| value.as_u64()) {
        let detail = format!(
            "the tensors are not those of the model that was read, so that its {} are not written",
            ckpt_api::count(number, "operator")
        );
        layout.losses.push(Loss::new(LossKind::LayerDropped, "operators", detail));
    }
    Ok(layout)
}
