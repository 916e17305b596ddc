//! Leaves out second copies of tensors: those of the role [`Role::Duplicate`].

use super::select::remove;
use crate::mapping::Mapping;
use ckpt_api::{Contents, Loss, LossKind, Role, Setting};
use std::collections::HashSet;

/// Removes the duplicates that neither the mapping nor the graph names, and returns a loss for each.
///
/// Copies without an original stay: then the user left out the originals.
pub(super) fn leave_out(contents: &mut Contents, mapping: Option<&Mapping>) -> Vec<Loss> {
    let tensors = &contents.checkpoint.tensors;
    if !tensors.iter().any(|tensor| tensor.role == Role::Weight) {
        return Vec::new();
    }
    let nodes = contents.checkpoint.graph.iter().flat_map(|graph| &graph.nodes);
    let used: HashSet<&str> = nodes.flat_map(|node| node.parameters.values()).map(String::as_str).collect();
    let copies = tensors.iter().filter(|tensor| tensor.role == Role::Duplicate);
    let copies = copies.map(|tensor| tensor.name.as_str()).filter(|name| !used.contains(name));
    let unnamed: Vec<String> = match mapping {
        Some(mapping) => mapping.unnamed(copies).into_iter().map(str::to_owned).collect(),
        None => copies.map(str::to_owned).collect(),
    };
    let detail = format!("a second copy of another tensor; to write it, select it with {}", Setting::Include);
    let removed = remove(contents, unnamed);
    let losses =
        removed.names.iter().map(|name| Loss::new(LossKind::DuplicateDropped, name, detail.as_str()));
    losses.chain(removed.losses).collect()
}
