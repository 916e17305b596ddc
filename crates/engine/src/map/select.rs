//! Selects tensors by name.

use crate::pattern::Selector;
use ckpt_api::{Contents, Loss, LossKind, Result, TensorId};
use std::collections::HashSet;

/// The tensors that were removed from a checkpoint at the user's request.
#[derive(Debug, Default)]
pub(super) struct Removed {
    /// Their names.
    pub(super) names: Vec<String>,
    /// What was lost with them.
    pub(super) losses: Vec<Loss>,
}

/// Keeps the tensors that match an `include` pattern (all, if there is none) and no `exclude` pattern.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for a malformed pattern, a pattern that matches nothing, or when no tensor is left.
pub(super) fn select(contents: &mut Contents, include: &[String], exclude: &[String]) -> Result<Removed> {
    let names: Vec<&str> = contents.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let kept = Selector::choose(include, exclude, &names)?;
    let dropped: Vec<String> =
        names.iter().zip(kept).filter(|(_, kept)| !kept).map(|(name, _)| (*name).to_owned()).collect();
    Ok(remove(contents, dropped))
}

/// Removes tensors, and the graph if it needs one of them. The optimizer slots of a removed tensor belong to no tensor
/// then.
pub(super) fn remove(contents: &mut Contents, names: Vec<String>) -> Removed {
    let gone: HashSet<&str> = names.iter().map(String::as_str).collect();
    if gone.is_empty() {
        return Removed::default();
    }
    let tensors = std::mem::take(&mut contents.checkpoint.tensors);
    let placements = std::mem::take(&mut contents.placements);
    for (mut tensor, mut placement) in tensors.into_iter().zip(placements) {
        if !gone.contains(tensor.name.as_str()) {
            tensor.slot = tensor.slot.filter(|slot| !gone.contains(slot.variable.as_str()));
            placement.tensor = TensorId(contents.checkpoint.tensors.len());
            contents.checkpoint.tensors.push(tensor);
            contents.placements.push(placement);
        }
    }
    let losses = drop_graph_without(contents, &gone, "is left out").into_iter().collect();
    Removed { losses, names }
}

/// Removes the graph if it needs a tensor that is gone; `why` completes the sentence "layer needs tensor, which …".
pub(super) fn drop_graph_without(contents: &mut Contents, gone: &HashSet<&str>, why: &str) -> Option<Loss> {
    let nodes = contents.checkpoint.graph.iter().flat_map(|graph| &graph.nodes);
    let needed = nodes
        .filter_map(|node| {
            Some((&node.name, node.tensors().map(|(_, name)| name).find(|name| gone.contains(name))?))
        })
        .map(|(layer, tensor)| format!("layer '{layer}' needs '{tensor}', which {why}"))
        .next()?;
    contents.checkpoint.graph = None;
    Some(Loss::new(LossKind::GraphDropped, "graph", needed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::{Checkpoint, DType, Encoding, Graph, Node, Op, Placement, Shape, Tensor};

    fn contents() -> Contents {
        let tensors: Vec<Tensor> =
            ["a/w", "b/w", "c"].map(|name| Tensor::new(name, DType::F32, Shape::scalar())).into();
        let placement = |(id, tensor): (usize, &Tensor)| {
            Placement::new(TensorId(id), tensor.name.clone(), Vec::new(), Encoding::row_major(tensor))
        };
        let placements = tensors.iter().enumerate().map(placement).collect();
        let node = Node::new("dense", Op::Gemm).parameter("weight", "b/w");
        let graph = Some(Graph::sequential("m", vec![], vec![], vec![node]));
        let checkpoint = Checkpoint { graph, tensors, ..Checkpoint::default() };
        Contents::default().with_checkpoint(checkpoint).with_placements(placements)
    }

    #[test]
    fn the_selected_tensors_keep_their_places_and_a_graph_that_needs_no_others() {
        let mut contents = contents();
        let removed = select(&mut contents, &["**w".into()], &["a/*".into()]).unwrap();
        assert_eq!((removed.names, removed.losses), (vec!["a/w".to_owned(), "c".to_owned()], vec![]));
        assert_eq!(
            (contents.placements[0].tensor, contents.placements[0].name.as_str()),
            (TensorId(0), "b/w")
        );
        assert!(contents.checkpoint.graph.is_some());
    }

    #[test]
    fn a_graph_that_needs_an_excluded_tensor_is_a_loss() {
        let mut contents = contents();
        let removed = select(&mut contents, &[], &["b/w".into()]).unwrap();
        assert!(contents.checkpoint.graph.is_none());
        assert_eq!(removed.losses[0].kind, LossKind::GraphDropped);
        assert!(
            removed.losses[0].detail.contains("'dense' needs 'b/w'"),
            "{}",
            removed.losses[0].detail.as_str()
        );
    }

    #[test]
    fn the_slot_of_an_excluded_tensor_stays_as_a_tensor_of_its_own() {
        let mut contents = contents();
        let slot =
            |variable: &str| Some(Box::new(ckpt_api::Slot { variable: variable.into(), name: "m".into() }));
        contents.checkpoint.tensors[0].slot = slot("b/w");
        contents.checkpoint.tensors[2].slot = slot("a/w");
        select(&mut contents, &[], &["b/w".into()]).unwrap();
        let slots: Vec<_> = contents.checkpoint.tensors.iter().map(|tensor| tensor.slot.clone()).collect();
        assert_eq!(slots, [None, slot("a/w")]);
    }

    #[test]
    fn a_pattern_that_matches_nothing_and_a_selection_that_leaves_nothing_are_errors() {
        for (include, exclude) in [(vec!["x*".to_owned()], vec![]), (vec![], vec!["**".to_owned()])] {
            let error = select(&mut contents(), &include, &exclude).unwrap_err();
            assert_eq!(error.kind(), ckpt_api::Kind::Usage);
        }
    }
}
