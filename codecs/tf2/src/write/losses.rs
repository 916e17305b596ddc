//! Losses of axes, roles and layers: what a reader would infer differently.

use crate::describe::{self, Description, Sources, TensorInfo};
use crate::format::{OBJECT_GRAPH, holder};
use crate::key_text;
use crate::naming::{Assignment, ExtraEntry, Naming};
use crate::object_graph;
use ckpt_api::{Axis, Checkpoint, Graph, Limits, Loss, LossKind, Op, Role, Shape, Tensor};
use std::borrow::Cow;

/// Returns the losses of roles, axes and layers: a reader infers them from keys and the object graph, and may infer
/// something else.
pub(crate) fn inference_losses(checkpoint: &Checkpoint, naming: &Naming) -> Vec<Loss> {
    let has_any = |tensor: &Tensor| tensor.role != Role::Weight || axes(tensor).is_some();
    if checkpoint.graph.is_none() && !checkpoint.tensors.iter().any(has_any) {
        return Vec::new();
    }
    let tensors = checkpoint.tensors.iter().zip(&naming.tensors);
    let tensors: Vec<StoredTensor> = tensors
        .filter_map(|(tensor, assignment)| Some(StoredTensor::new(tensor, assignment.as_ref()?)))
        .collect();
    let inferred = infer(checkpoint, naming, &tensors);
    let of_tensors = tensors.iter().filter_map(|tensor| tensor.loss(&inferred));
    of_tensors.chain(graph_loss(checkpoint, &inferred)).collect()
}

/// Returns the loss of the graph, unless a reader infers the same operators.
fn graph_loss(checkpoint: &Checkpoint, inferred: &Description) -> Option<Loss> {
    let ops = |graph: &Graph| graph.nodes.iter().map(|node| node.op.clone()).collect::<Vec<Op>>();
    let graph = checkpoint.graph.as_ref()?;
    let is_same = inferred.graph.as_ref().is_some_and(|inferred| ops(inferred) == ops(graph));
    (!is_same).then(|| {
        Loss::new(LossKind::GraphDropped, "graph", "a checkpoint does not store what its layers compute")
    })
}

/// Returns the axes of a weight with several.
fn axes(tensor: &Tensor) -> Option<&[Axis]> {
    tensor.axes.as_deref().filter(|axes| axes.len() > 1 && tensor.role == Role::Weight)
}

/// A tensor with its key and shape in the checkpoint to write.
struct StoredTensor<'a> {
    tensor: &'a Tensor,
    key: String,
    shape: Shape,
    order: &'a [usize],
}

impl<'a> StoredTensor<'a> {
    fn new(tensor: &'a Tensor, assignment: &'a Assignment) -> Self {
        let key = key_text::escape(&assignment.key);
        let shape = tensor.shape.permuted(&assignment.order);
        StoredTensor { tensor, key: key.into_owned(), shape, order: &assignment.order }
    }

    fn loss(&self, inferred: &Description) -> Option<Loss> {
        let role = inferred.roles.get(&self.key).copied().unwrap_or_default();
        if role != self.tensor.role {
            let (stored, inferred) = (self.tensor.role.name(), role.name());
            let detail = format!("its role '{stored}' is not stored; a reader infers '{inferred}'");
            return Some(Loss::new(LossKind::MetadataDropped, &self.tensor.name, detail));
        }
        let axes = axes(self.tensor)?;
        let axes: Vec<Axis> = self.order.iter().filter_map(|axis| axes.get(*axis).copied()).collect();
        let inferred = inferred.axes.get(&self.key);
        if inferred == Some(&axes) {
            return None;
        }
        let names = |axes: &[Axis]| axes.iter().map(|axis| axis.name()).collect::<Vec<_>>().join(", ");
        let inferred = inferred.map_or("none".to_owned(), |inferred| format!("[{}]", names(inferred)));
        let detail = format!("its axes [{}] are not stored; a reader infers {inferred}", names(&axes));
        Some(Loss::new(LossKind::MetadataDropped, &self.tensor.name, detail))
    }
}

/// Returns what a reader infers from the keys and the object graph.
fn infer<'a>(checkpoint: &Checkpoint, naming: &Naming, tensors: &'a [StoredTensor<'a>]) -> Description {
    let extra: Vec<(Cow<'_, str>, &ExtraEntry)> =
        naming.extra.iter().map(|extra| (key_text::escape(&extra.key), extra)).collect();
    let extra_infos =
        extra.iter().map(|(key, extra)| TensorInfo { key, dtype: extra.dtype, shape: &extra.shape });
    let info = |tensor: &'a StoredTensor| TensorInfo {
        key: &tensor.key,
        dtype: holder(tensor.tensor.dtype),
        shape: &tensor.shape,
    };
    let mut infos: Vec<TensorInfo> = tensors.iter().map(info).chain(extra_infos).collect();
    infos.sort_by_key(|info| info.key);
    let new_graph = naming.extra.iter().find(|extra| extra.key == *OBJECT_GRAPH);
    let object_graph = match new_graph {
        Some(graph) => Some(graph.value.clone()),
        None => {
            let is_kept = tensors.iter().any(|tensor| tensor.key == OBJECT_GRAPH);
            is_kept.then(|| object_graph::recorded(checkpoint)).flatten()
        }
    };
    let sources = Sources {
        object_graph: object_graph.as_deref(),
        saved_model: None,
        keras_metadata: None,
        meta_graph: None,
        assume_chain: false,
        file: "",
    };
    // A reader that fails to describe the tensors infers nothing.
    describe::describe(&infos, &sources, &Limits::default()).unwrap_or_default()
}
