//! Losses that the engine sees by itself, whatever a codec declares.

use super::Entry;
use crate::layout::Step;
use ckpt_api::{Checkpoint, FormatInfo, Loss, LossKind, Placed};

/// Tensors whose blocks are read as numbers.
pub(super) fn dequantized(checkpoint: &Checkpoint, placed: &Placed, entries: &[Entry]) -> Vec<Loss> {
    let each = entries.iter().filter_map(|Entry { number, route }| {
        let blocks = route.steps.iter().find_map(|step| match step {
            Step::DecodeBlocks { blocks } => Some(blocks),
            _ => None,
        })?;
        let name = &checkpoint.tensors.get(placed.placements.get(*number)?.tensor.0)?.name;
        Some(Loss::new(
            LossKind::Dequantized,
            name,
            format!("stored in blocks of {blocks}, and as numbers now"),
        ))
    });
    each.collect()
}

/// What the target's format cannot hold by its own account, and its codec does not name: nothing is lost silently.
pub(super) fn undeclared(checkpoint: &Checkpoint, to: &FormatInfo, losses: &[Loss]) -> Vec<Loss> {
    let told = |kind, subject: Option<&str>| {
        losses.iter().any(|loss| loss.kind == kind && subject.is_none_or(|subject| loss.subject == subject))
    };
    let mut found = Vec::new();
    if to.free_metadata {
        return found;
    }
    let why = format!("format '{}' has no place for it", to.id);
    if checkpoint.graph.is_some() && to.ops.is_empty() && !told(LossKind::GraphDropped, None) {
        found.push(Loss::new(LossKind::GraphDropped, "graph", &why));
    }
    for (namespace, _) in checkpoint.metadata.iter().filter(|(namespace, _)| *namespace != to.id) {
        if !told(LossKind::MetadataDropped, Some(namespace)) {
            found.push(Loss::new(LossKind::MetadataDropped, namespace, &why));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_or_metadata_that_the_target_cannot_hold_is_lost_aloud_even_if_its_codec_is_silent() {
        static PLAIN: FormatInfo = FormatInfo::new("plain", "")
            .with_extensions(&[])
            .with_reads(&[])
            .with_writes(ckpt_api::Network::ALL)
            .with_dtypes(&[])
            .with_free_names();
        let mut checkpoint = Checkpoint { graph: Some(ckpt_api::Graph::default()), ..Checkpoint::default() };
        for namespace in ["nn", "plain"] {
            checkpoint.metadata.insert(namespace, "key", "value");
        }
        let found = undeclared(&checkpoint, &PLAIN, &[]);
        let subjects: Vec<&str> = found.iter().map(|loss| loss.subject.as_str()).collect();
        assert_eq!(subjects, ["graph", "nn"]);
        assert_eq!(undeclared(&checkpoint, &PLAIN, &found), []);
        let rich = PLAIN.clone().with_free_metadata();
        assert_eq!(undeclared(&checkpoint, &rich, &[]), []);
    }
}
