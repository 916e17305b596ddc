//! Losses of a conversion: those that the target's codec declares, and those that the engine sees by itself.
//!
//! The engine compares the tensors given to a codec with their placements, and what the checkpoint has with what the
//! format keeps. A loss that the codec declares, too, appears once, in the codec's words.

use super::Entry;
use crate::layout::Step;
use crate::transform::exact;
use crate::words;
use ckpt_api::{
    Aspect, Checkpoint, Contents, FormatInfo, Graph, KEY_WEIGHTS, Loss, LossKind, OutputLayout, Placement,
    Role, Scaling, Tensor, TensorId,
};
use std::collections::{HashMap, HashSet};

/// Returns all losses of writing `contents` as `placed` places it.
pub(super) fn losses(contents: &Contents, placed: &OutputLayout, info: &FormatInfo) -> Vec<Loss> {
    let target = Target { contents, placed, info, stored: stored(&contents.checkpoint, placed) };
    let declared = Declared::new(&placed.losses);
    let mut losses = placed.losses.clone();
    let found =
        target.unstored().into_iter().chain(target.changed()).chain(target.untied()).chain(target.not_kept());
    losses.extend(found.filter(|loss| !declared.covers(loss)));
    losses
}

/// Returns a loss for each tensor whose numbers are read from blocks, or stored in blocks, where the codec declares none.
pub(super) fn of_blocks(checkpoint: &Checkpoint, placed: &OutputLayout, entries: &[Entry]) -> Vec<Loss> {
    let declared = Declared::new(&placed.losses);
    let each = entries.iter().filter_map(|Entry { number, route }| {
        let tensor = checkpoint.tensors.get(placed.placements.get(*number)?.tensor.0)?;
        let (mut from, mut to) = (None, None);
        for step in route.steps() {
            match step {
                Step::DecodeBlocks { blocks } => from = Some(blocks),
                Step::EncodeBlocks { blocks } => to = Some(blocks),
                _ => {}
            }
        }
        let (kind, detail) = match (from, to) {
            (Some(from), None) => {
                (LossKind::Dequantized, format!("stored in blocks of {from}, and now as plain numbers"))
            }
            (Some(from), Some(to)) => {
                (LossKind::Quantized, format!("blocks of {from} are read, and stored in blocks of {to}"))
            }
            (None, Some(to)) => {
                (LossKind::Quantized, format!("{} is stored in blocks of {to}", tensor.dtype))
            }
            (None, None) => return None,
        };
        Some(Loss::new(kind, &tensor.name, detail))
    });
    each.filter(|loss| !declared.covers(loss)).collect()
}

/// The losses that a codec declares.
struct Declared<'a> {
    by_subject: HashSet<(LossKind, &'a str)>,
    kinds: HashSet<LossKind>,
}

impl<'a> Declared<'a> {
    fn new(losses: &'a [Loss]) -> Self {
        Declared {
            by_subject: losses.iter().map(|loss| (loss.kind, loss.subject.as_str())).collect(),
            kinds: losses.iter().map(|loss| loss.kind).collect(),
        }
    }

    /// Whether the codec declares the same thing, or something worse, about the same subject.
    fn covers(&self, loss: &Loss) -> bool {
        let same = |kind: &LossKind| self.by_subject.contains(&(*kind, loss.subject.as_str()));
        match loss.kind {
            // There is one graph, whatever it is called.
            LossKind::GraphDropped => self.kinds.contains(&loss.kind),
            LossKind::Retyped => [LossKind::Retyped, LossKind::Narrowed].iter().any(same),
            kind if is_absence(kind) => {
                let is_as_bad = |other: &&LossKind| other.changes_function() || !kind.changes_function();
                LossKind::ALL.iter().filter(|kind| is_absence(**kind)).filter(is_as_bad).any(same)
            }
            kind => same(&kind),
        }
    }
}

/// Whether a loss of this kind explains why a tensor is not stored by itself.
fn is_absence(kind: LossKind) -> bool {
    kind == LossKind::Merged || Role::ALL.iter().any(|role| LossKind::of_dropping(*role) == kind)
}

/// A target that is laid out.
struct Target<'a> {
    contents: &'a Contents,
    placed: &'a OutputLayout,
    info: &'a FormatInfo,
    /// For each tensor, the placement that loses least of it.
    stored: Vec<Option<&'a Placement>>,
}

/// For each tensor, the placement that loses least of it: one that is stored twice loses what both lose.
fn stored<'a>(checkpoint: &Checkpoint, placed: &'a OutputLayout) -> Vec<Option<&'a Placement>> {
    let mut stored: Vec<Option<&Placement>> = vec![None; checkpoint.tensors.len()];
    for placement in &placed.placements {
        let id = placement.tensor.0;
        let (Some(best), Some(tensor)) = (stored.get_mut(id), checkpoint.tensors.get(id)) else { continue };
        let rank = |placement: &Placement| severity(tensor, placement);
        if best.is_none_or(|best| rank(placement) < rank(best)) {
            *best = Some(placement);
        }
    }
    stored
}

/// Orders placements of one tensor by how much of its values they lose.
fn severity(tensor: &Tensor, placement: &Placement) -> u8 {
    let encoding = &placement.encoding;
    match encoding.scaling() {
        _ if encoding.blocks().is_some() && encoding.blocks() != tensor.blocks.as_deref() => 3,
        Some(Scaling { limit: Some(_), .. }) => 4,
        Some(_) => 3,
        None if encoding.dtype == tensor.dtype => 0,
        None if exact(tensor.dtype, encoding.dtype) => 1,
        None => 2,
    }
}

impl<'a> Target<'a> {
    /// The tensors, each with its best placement.
    fn tensors(&self) -> impl Iterator<Item = (TensorId, &'a Tensor, &'a Placement)> {
        let tensors = self.contents.checkpoint.tensors.iter().zip(&self.stored).enumerate();
        tensors.filter_map(|(id, (tensor, placement))| Some((TensorId(id), tensor, (*placement)?)))
    }

    /// Tensors without a place of their own.
    fn unstored(&self) -> Vec<Loss> {
        let checkpoint = &self.contents.checkpoint;
        let used = checkpoint.graph.as_ref().map(parameters);
        let absent = |(_, tensor): (TensorId, &Tensor)| {
            let is_unused = used.as_ref().is_some_and(|used| !used.contains(tensor.name.as_str()));
            let detail = match (tensor.dtype.bytes(), is_unused && !self.info.free_names) {
                (None, _) => format!("format '{}' has no {} tensors", self.info.id, tensor.dtype),
                (_, true) => {
                    format!(
                        "not used by any layer, and format '{}' stores only the tensors of layers",
                        self.info.id
                    )
                }
                _ if !self.info.dtypes.contains(&tensor.dtype) => {
                    format!("format '{}' cannot store {} tensors", self.info.id, tensor.dtype)
                }
                _ => self.no_place(),
            };
            Loss::new(LossKind::of_dropping(tensor.role), &tensor.name, detail)
        };
        let mut losses: Vec<Loss> = self.placed.unplaced(checkpoint).map(absent).collect();
        let mut merged = HashSet::new();
        for placement in &self.placed.placements {
            for added in placement.added() {
                let id = added.tensor;
                let Ok((tensor, _)) = self.contents.tensor_at(id) else { continue };
                if self.stored.get(id.0).is_none_or(Option::is_none) && merged.insert(id) {
                    let into = checkpoint.tensors.get(placement.tensor.0).map_or("", |tensor| &tensor.name);
                    let detail = format!("added to '{into}' and not stored by itself");
                    losses.push(Loss::new(LossKind::Merged, &tensor.name, detail));
                }
            }
        }
        losses
    }

    /// Tensors whose stored values can differ from theirs, or have another dtype.
    fn changed(&self) -> Vec<Loss> {
        let mut losses = Vec::new();
        let whole: HashSet<TensorId> = self.placed.whole_units.iter().copied().collect();
        for (id, tensor, placement) in self.tensors() {
            let (own, dtype) = (tensor.dtype, placement.encoding.dtype);
            let mut lose = |kind, detail| losses.push(Loss::new(kind, &tensor.name, detail));
            match placement.encoding.scaling() {
                // Whether blocks are stored as they are depends on the route.
                _ if placement.encoding.blocks().is_some() => {}
                Some(scaling) => {
                    let scale = scaling.scale;
                    if !whole.contains(&id) && !self.is_copied(id, placement) {
                        lose(LossKind::Quantized, format!("{own} is stored as scaled {dtype}"));
                    }
                    if let Some(limit) = scaling.limit.filter(|_| !self.is_copied(id, placement)) {
                        let bound = format!("±{limit}/{scale}");
                        lose(LossKind::Clipped, format!("values outside {bound} are stored as {bound}"));
                    }
                }
                None if own == dtype => {}
                None if exact(own, dtype) => {
                    lose(LossKind::Retyped, format!("{own} is stored as {dtype}, exactly"));
                }
                None => lose(LossKind::Narrowed, format!("{own} is stored as {dtype}")),
            }
        }
        losses
    }

    /// Tensors that share their bytes in the source, and not in the target. Those that a mapping made of one tensor
    /// have its stored name.
    fn untied(&self) -> Vec<Loss> {
        let mut kept: HashMap<TensorId, TensorId> = HashMap::new();
        let mut losses = Vec::new();
        for (tensor, first) in self.contents.checkpoint.ties.iter() {
            let Some(own) = self.placement(tensor) else { continue };
            let known = if self.placement(first).is_some() { first } else { tensor };
            let other = *kept.entry(first).or_insert(known);
            let is_shared = self.placement(other).is_some_and(|other| other.extents == own.extents);
            let sources = (self.contents.tensor_at(tensor), self.contents.tensor_at(other));
            let (Ok((own, from)), Ok((other, others_from))) = sources else { continue };
            if !is_shared && from.name != others_from.name {
                let detail =
                    format!("shares its bytes with '{}' in the source, and is stored separately", other.name);
                losses.push(Loss::new(LossKind::Untied, &own.name, detail));
            }
        }
        losses
    }

    fn placement(&self, tensor: TensorId) -> Option<&'a Placement> {
        self.stored.get(tensor.0).copied().flatten()
    }

    /// Whether the source stores the same integers, which are copied.
    fn is_copied(&self, id: TensorId, placement: &Placement) -> bool {
        let to = &placement.encoding;
        let from = self.contents.placements.get(id.0).map(|source| &source.encoding);
        let is_same = from.is_some_and(|from| from.dtype == to.dtype && from.scaling() == to.scaling());
        is_same && placement.added().is_empty()
    }

    /// What the checkpoint has beside its tensors' values, and the format does not keep.
    fn not_kept(&self) -> Vec<Loss> {
        let checkpoint = &self.contents.checkpoint;
        let mut losses = Vec::new();
        if let (Some(graph), Some(why)) = (&checkpoint.graph, self.missing(Aspect::Graph)) {
            let name = if graph.name.is_empty() { "graph" } else { &graph.name };
            losses.push(Loss::new(LossKind::GraphDropped, name, why));
        }
        for (aspect, subject) in OF_TENSORS {
            let Some(why) = self.missing(aspect) else { continue };
            let count = self.tensors().filter(|(_, tensor, _)| self.has(tensor, aspect)).count();
            if count > 0 {
                let detail = format!("{why} ({})", words::count(count, "tensor"));
                losses.push(Loss::new(LossKind::MetadataDropped, subject, detail));
            }
        }
        if let Some(why) = self.missing(Aspect::Scales) {
            let scaled = self.tensors().filter_map(|(_, t, _)| Some((&t.name, t.quantization.as_ref()?)));
            losses.extend(
                scaled.map(|(name, own)| Loss::new(LossKind::ScaleDropped, name, format!("{own}: {why}"))),
            );
        }
        if let Some(why) = self.missing(Aspect::Metadata) {
            let foreign = checkpoint.metadata.iter().filter(|(_, keys)| !keys.is_empty());
            let foreign = foreign.filter(|(namespace, _)| !self.info.owns(namespace));
            losses.extend(foreign.map(|(namespace, keys)| match keys.get(KEY_WEIGHTS) {
                Some(numbers) => {
                    let numbers = numbers.as_text().unwrap_or("some");
                    let detail = format!("numbers of the model that are no tensors ({numbers}): {why}");
                    Loss::new(LossKind::WeightDropped, namespace, detail)
                }
                None => Loss::new(LossKind::MetadataDropped, namespace, why.clone()),
            }));
        }
        losses
    }

    /// Why the target does not have this aspect; `None` if it keeps it.
    fn missing(&self, aspect: Aspect) -> Option<String> {
        match self.placed.left_out.get(&aspect) {
            Some(why) => Some(why.clone()),
            None => (!self.info.keeps.contains(&aspect)).then(|| self.no_place()),
        }
    }

    fn no_place(&self) -> String {
        format!("not supported by format '{}'", self.info.id)
    }

    /// Whether a tensor has something of this aspect. What a codec leaves out includes its own format's metadata.
    fn has(&self, tensor: &Tensor, aspect: Aspect) -> bool {
        match aspect {
            Aspect::Axes => tensor.axes.is_some(),
            Aspect::Roles => tensor.role != Role::Weight,
            Aspect::Slots => tensor.slot.is_some(),
            Aspect::TensorMetadata => {
                let is_left_out = self.placed.left_out.contains_key(&aspect);
                tensor.metadata.iter().any(|(namespace, _)| is_left_out || !self.info.owns(namespace))
            }
            _ => false,
        }
    }
}

/// Aspects that many tensors have, and what losses call them.
const OF_TENSORS: [(Aspect, &str); 4] = [
    (Aspect::Axes, "axes"),
    (Aspect::Roles, "roles"),
    (Aspect::Slots, "slots"),
    (Aspect::TensorMetadata, "metadata of tensors"),
];

/// The tensors that a graph uses.
fn parameters(graph: &Graph) -> HashSet<&str> {
    graph.tensors().collect()
}

#[cfg(test)]
mod tests;
