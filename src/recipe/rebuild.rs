//! Recipes carried out on what a codec said about a checkpoint: placements are rewritten, no byte is read.

use super::axes::{Piece, cut, merge, reorder};
use super::follow::{graph, slots};
use super::{Join, Recipe, Target};
use ckpt_api::{Contents, Error, Loss, Result, Role, TensorId};
use std::collections::HashMap;

/// Replaces the tensors by the targets, which name each of them at least once; what goes with that is a loss. Targets
/// lie where their first source lay.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for a recipe that does not fit its tensors, naming both.
pub(crate) fn rebuild(contents: &mut Contents, targets: &[Target]) -> Result<Vec<Loss>> {
    let pieces = take_pieces(contents);
    let ids: HashMap<&str, usize> =
        pieces.iter().enumerate().map(|(id, piece)| (piece.tensor.name.as_str(), id)).collect();
    let mut made = Vec::with_capacity(targets.len());
    for target in targets {
        let sources = target.sources.iter().map(|name| {
            ids.get(name.as_str())
                .copied()
                .ok_or_else(|| Error::mapping("a recipe needs a tensor that is not there").tensor(name))
        });
        let sources = sources.collect::<Result<Vec<usize>>>()?;
        let piece = make(target, &sources, &pieces).map_err(|error| located(error, target))?;
        let part = if let Join::Part { part, .. } = target.recipe.join { part } else { 0 };
        made.push((sources.first().copied(), part, piece));
    }
    slots(made.iter_mut().map(|(_, _, piece)| &mut piece.tensor), targets, &pieces, &ids);
    made.sort_by(|a, b| (a.0, a.1, &a.2.tensor.name).cmp(&(b.0, b.1, &b.2.tensor.name)));
    for (id, (_, _, mut piece)) in made.into_iter().enumerate() {
        piece.placement.tensor = TensorId(id);
        contents.checkpoint.tensors.push(piece.tensor);
        contents.placements.push(piece.placement);
    }
    Ok(graph(contents, targets))
}

fn take_pieces(contents: &mut Contents) -> Vec<Piece> {
    let tensors = std::mem::take(&mut contents.checkpoint.tensors);
    let placements = std::mem::take(&mut contents.placements);
    let pieces = tensors.into_iter().zip(placements);
    pieces.map(|(tensor, placement)| Piece { tensor, placement }).collect()
}

fn located(error: Error, target: &Target) -> Error {
    let error = match target.recipe.describe() {
        words if words.is_empty() => error,
        words => error.field(format!("the recipe of '{}': {words}", target.name)),
    };
    match target.sources.first() {
        Some(source) if error.context().tensor.is_none() => error.tensor(source),
        _ => error,
    }
}

fn make(target: &Target, sources: &[usize], pieces: &[Piece]) -> Result<Piece> {
    let Recipe { join, steps } = &target.recipe;
    let source = |id: &usize| pieces.get(*id).cloned();
    let first = || sources.first().and_then(source).ok_or_else(|| Error::mapping("a recipe names no tensor"));
    let mut piece = match join {
        Join::One | Join::Tied => reorder(first()?, steps)?,
        Join::Part { axis, part, parts, sizes } => {
            let first = first()?;
            let sizes = match sizes {
                Some(sizes) => sizes.clone(),
                None => equal_parts(&first, *axis, *parts)?,
            };
            reorder(cut(first, *axis, *part, &sizes)?, steps)?
        }
        Join::Merged { axis, sizes } => {
            let each = sources.iter().filter_map(source).map(|piece| reorder(piece, steps));
            merge(each.collect::<Result<Vec<_>>>()?, *axis, sizes.as_deref())?
        }
    };
    if !target.recipe.is_plain() {
        // What formats noted about the tensor as it was stored is not true of this one.
        piece.tensor.metadata = Default::default();
    }
    if sources.iter().filter_map(|id| pieces.get(*id)).any(|piece| piece.tensor.role == Role::Weight) {
        // A weight that is tied to its duplicate, or merged with what is none, is still a weight.
        piece.tensor.role = Role::Weight;
    }
    piece.tensor.name.clone_from(&target.name);
    Ok(piece)
}

fn equal_parts(piece: &Piece, axis: usize, parts: usize) -> Result<Vec<u64>> {
    let len = piece.axis_len(axis)?;
    let count = parts as u64;
    if count == 0 || !len.is_multiple_of(count) {
        return Err(Error::mapping("the axis cannot be cut into equal parts")
            .found(format!("axis {axis} of {}", piece.tensor.shape))
            .expected(format!("a multiple of {parts}"))
            .help("give the length of each part with 'sizes'"));
    }
    Ok(vec![len / count; parts])
}
