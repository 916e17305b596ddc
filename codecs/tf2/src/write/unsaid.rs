//! What tensors say that the format has no place for, and no reader would find out.

use crate::describe::{self, Description, Sources};
use crate::format::{OBJECT_GRAPH, holder};
use crate::names;
use crate::naming::{Made, Named, Naming};
use base64::prelude::{BASE64_STANDARD, Engine};
use ckpt_api::{Axis, Checkpoint, Graph, Limits, Loss, LossKind, Op, Role, Shape, Tensor};
use std::borrow::Cow;

/// A loss for each thing that is not told by the file when `checkpoint` is stored under these names.
pub(crate) fn unsaid(checkpoint: &Checkpoint, naming: &Naming) -> Vec<Loss> {
    let mut losses = Vec::new();
    let foreign = |tensor: &&Tensor| tensor.metadata.iter().any(|(name, _)| name != "tf2");
    let count = checkpoint.tensors.iter().filter(foreign).count();
    if count > 0 {
        let detail = format!("what other formats say of {count} tensor(s) has no place");
        losses.push(Loss::new(LossKind::MetadataDropped, "metadata of tensors", detail));
    }
    for tensor in &checkpoint.tensors {
        if let Some(quantization) = &tensor.quantization {
            let detail = format!("its scale of {} per 1.0 has no place", quantization.scale);
            losses.push(Loss::new(LossKind::MetadataDropped, &tensor.name, detail));
        }
    }
    losses.extend(meanings(checkpoint, naming));
    losses
}

/// Roles, axes and layers that a reader would not find out, or would take for others.
fn meanings(checkpoint: &Checkpoint, naming: &Naming) -> Vec<Loss> {
    let says = |tensor: &Tensor| tensor.role != Role::Weight || axes(tensor).is_some();
    if checkpoint.graph.is_none() && !checkpoint.tensors.iter().any(says) {
        return Vec::new();
    }
    let stored = checkpoint.tensors.iter().zip(&naming.tensors);
    let stored: Vec<Stored> =
        stored.filter_map(|(tensor, named)| Some(Stored::new(tensor, named.as_ref()?))).collect();
    let told = read_again(checkpoint, naming, &stored);
    let tensors = stored.iter().filter_map(|stored| stored.loss(&told));
    tensors.chain(layers(checkpoint, &told)).collect()
}

/// The layers, unless a reader finds the same ones: objects say which dense layers there are, and no activations.
fn layers(checkpoint: &Checkpoint, told: &Description) -> Option<Loss> {
    let ops = |graph: &Graph| graph.nodes.iter().map(|node| node.op.clone()).collect::<Vec<Op>>();
    let graph = checkpoint.graph.as_ref()?;
    let same = told.graph.as_ref().is_some_and(|told| ops(told) == ops(graph));
    (!same).then(|| {
        Loss::new(LossKind::GraphDropped, "graph", "a checkpoint does not say what its layers compute")
    })
}

/// What the axes of a weight mean, where there are several.
fn axes(tensor: &Tensor) -> Option<&[Axis]> {
    tensor.axes.as_deref().filter(|axes| axes.len() > 1 && tensor.role == Role::Weight)
}

/// A tensor as a reader finds it.
struct Stored<'a> {
    tensor: &'a Tensor,
    key: String,
    shape: Shape,
    order: &'a [usize],
}

impl<'a> Stored<'a> {
    fn new(tensor: &'a Tensor, named: &'a Named) -> Self {
        let key = names::text(&named.key);
        let shape = tensor.shape.permuted(&named.order);
        Stored { tensor, key: key.into_owned(), shape, order: &named.order }
    }

    fn loss(&self, told: &Description) -> Option<Loss> {
        let role = told.roles.get(&self.key).copied().unwrap_or_default();
        if role != self.tensor.role {
            let (is, told) = (what(self.tensor.role), what(role));
            let detail = format!("that it is {is} has no place, and its name tells {told}");
            return Some(Loss::new(LossKind::MetadataDropped, &self.tensor.name, detail));
        }
        let axes = axes(self.tensor)?;
        let axes: Vec<Axis> = self.order.iter().filter_map(|axis| axes.get(*axis).copied()).collect();
        let told = told.axes.get(&self.key);
        if told == Some(&axes) {
            return None;
        }
        let shown = |axes: &[Axis]| axes.iter().map(|axis| axis.name()).collect::<Vec<_>>().join(", ");
        let detail = match told {
            None => format!("that its axes are [{}] has no place, and its name does not tell", shown(&axes)),
            Some(told) => format!("its axes are [{}], and its name tells [{}]", shown(&axes), shown(told)),
        };
        Some(Loss::new(LossKind::MetadataDropped, &self.tensor.name, detail))
    }
}

/// What names and the object graph say.
fn read_again<'a>(checkpoint: &Checkpoint, naming: &Naming, stored: &'a [Stored<'a>]) -> Description {
    let made: Vec<(Cow<'_, str>, &Made)> =
        naming.made.iter().map(|made| (names::text(&made.key), made)).collect();
    let made = made.iter().map(|(key, made)| describe::Entry { key, dtype: made.dtype, shape: &made.shape });
    let entry = |stored: &'a Stored| describe::Entry {
        key: &stored.key,
        dtype: holder(stored.tensor.dtype),
        shape: &stored.shape,
    };
    let mut entries: Vec<describe::Entry> = stored.iter().map(entry).chain(made).collect();
    entries.sort_by_key(|entry| entry.key);
    let made = naming.made.iter().find(|made| made.key == OBJECT_GRAPH.as_bytes());
    let kept =
        || checkpoint.metadata.text("tf2", "object_graph").and_then(|text| BASE64_STANDARD.decode(text).ok());
    let object_graph = match made {
        Some(made) => Some(made.value.clone()),
        None => stored.iter().any(|stored| stored.key == OBJECT_GRAPH).then(kept).flatten(),
    };
    let sources = Sources {
        object_graph: object_graph.as_deref(),
        saved_model: None,
        keras_metadata: None,
        chained: false,
        file: "",
    };
    // What cannot be described tells nothing.
    describe::describe(&entries, &sources, &Limits::default()).unwrap_or_default()
}

fn what(role: Role) -> &'static str {
    match role {
        Role::Weight => "a weight",
        Role::Optimizer => "an optimizer's",
        Role::Counter => "a counter",
        Role::Bookkeeping => "book-keeping",
        Role::Duplicate => "a copy",
        _ => "of another use",
    }
}
