//! What reading an output gives, as far as it is known before it is written.

use crate::format::{FILES, KEY_GRAPH};
use crate::graph;
use ckpt_api::{Checkpoint, Contents, Limit, Limits, OutputLayout, Result, Role, Tensor};
use serde_json::Value;

/// What reading the output gives, but for the bytes of its tensors.
pub(super) fn read_again(placed: &OutputLayout, checkpoint: &Checkpoint, model: &Value) -> Result<Contents> {
    let mut contents = Contents::default();
    for placement in &placed.placements {
        let Some(tensor) = checkpoint.tensors.get(placement.tensor.0) else { continue };
        let shape = tensor.shape.permuted(&placement.encoding.order);
        let mut again = Tensor::new(placement.name.clone(), placement.encoding.dtype, shape);
        if matches!(tensor.role, Role::Optimizer | Role::Counter) {
            crate::read::mark(&mut again);
        }
        contents.checkpoint.tensors.push(again);
    }
    let limits = Limits::default().with(Limit::TextBytes, u64::MAX).with(Limit::TextTokens, u64::MAX);
    graph::describe(model, &mut contents, None, &limits)?;
    let own = checkpoint.graph.as_ref().filter(|_| graph::is_graph(model));
    let mark = own.and_then(graph::mark);
    if mark.is_some() && mark.as_deref() == checkpoint.metadata.text(FILES, KEY_GRAPH) {
        // Its constants are not read again: it is the graph that was read.
        contents.checkpoint.graph.clone_from(&checkpoint.graph);
        for (placement, again) in placed.placements.iter().zip(&mut contents.checkpoint.tensors) {
            again.axes = checkpoint.tensors.get(placement.tensor.0).and_then(|own| own.axes.clone());
        }
    }
    Ok(contents)
}
