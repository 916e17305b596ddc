//! Carries out recipes on the contents of a checkpoint: rewrites placements, and reads no byte.

mod assembly;
mod digits;
mod division;
mod image;
mod numbers;
mod parts;
mod placed;
mod references;
mod reorder;
mod reshape;
mod scaled;
mod stack;
mod sums;
#[cfg(test)]
mod tests;
mod zeros;

use super::flatten::reorder_images;
use crate::recipe::{Join, PartOf, Parts, Recipe, Target};
use ckpt_api::{Contents, Error, Loss, Result, Role, Tensor, TensorId};
use placed::{PlacedTensor, merge, split};
use references::{reassign_slots, rename_in_graph};
use reorder::reorder;
use stack::{element, stack};
use std::collections::HashMap;

pub(crate) use sums::Addend;

/// What rebuilding costs, and what is left to add to its results.
pub(super) struct Rebuilt {
    pub(super) losses: Vec<Loss>,
    pub(super) addends: Vec<Addend>,
}

impl Rebuilt {
    /// The losses, where nothing is left to add.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a sum, which only a conversion computes.
    pub(super) fn complete(self) -> Result<Vec<Loss>> {
        match self.addends.first() {
            None => Ok(self.losses),
            Some(addend) => Err(Error::unsupported("a sum of tensors is computed only by a conversion")
                .tensor(&addend.target)
                .help("convert first, and use the result")),
        }
    }
}

/// Replaces the tensors by the targets and returns the losses. Every tensor must be a source of a target. Targets take
/// the places of their first sources.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for a recipe that does not fit its tensors, naming both.
pub(super) fn rebuild(contents: &mut Contents, targets: &[Target]) -> Result<Vec<Loss>> {
    rebuild_as(contents, targets, &|error, _| error)?.complete()
}

/// As [`rebuild`]; `located` adds to an error where the target comes from.
pub(super) fn rebuild_as(
    contents: &mut Contents,
    targets: &[Target],
    located: &dyn Fn(Error, &Target) -> Error,
) -> Result<Rebuilt> {
    let tensors = take_tensors(contents);
    let ids: HashMap<&str, usize> =
        tensors.iter().enumerate().map(|(id, placed)| (placed.tensor.name.as_str(), id)).collect();
    let (mut made, mut changed) = (Vec::with_capacity(targets.len()), Vec::new());
    let mut addends = Vec::new();
    for target in targets {
        let sources = target.sources.iter().map(|name| {
            ids.get(name.as_str())
                .copied()
                .ok_or_else(|| Error::mapping("a recipe needs a tensor that does not exist").tensor(name))
        });
        let sources = sources.collect::<Result<Vec<usize>>>()?;
        let made_from = make(target, &sources, &tensors);
        let placed = made_from.map_err(|error| named(located(error, target), target))?;
        let from: Vec<&Tensor> = sources.iter().filter_map(|id| Some(&tensors.get(*id)?.tensor)).collect();
        changed.extend(scaled::losses(target, &from));
        changed.extend(numbers::losses(target, &placed.tensor, &from));
        let terms = sums::addends(target, &sources, &tensors);
        addends.extend(terms.map_err(|error| named(located(error, target), target))?);
        let part = target.recipe.join.number();
        made.push((sources.first().copied(), part, placed));
    }
    reassign_slots(made.iter_mut().map(|(_, _, placed)| &mut placed.tensor), targets, &tensors, &ids);
    made.sort_by(|a, b| (a.0, a.1, &a.2.tensor.name).cmp(&(b.0, b.1, &b.2.tensor.name)));
    let stored: HashMap<&str, &Tensor> =
        ids.iter().filter_map(|(name, id)| Some((*name, &tensors.get(*id)?.tensor))).collect();
    let reordered = reorder_images(&mut contents.checkpoint.graph, &stored, targets)?;
    for (id, (_, _, mut placed)) in made.into_iter().enumerate() {
        placed.placement.tensor = TensorId(id);
        contents.checkpoint.tensors.push(placed.tensor);
        contents.placements.push(placed.placement);
    }
    let mut losses = rename_in_graph(contents, &stored, targets);
    losses.extend(reordered);
    losses.extend(changed);
    Ok(Rebuilt { losses, addends })
}

fn take_tensors(contents: &mut Contents) -> Vec<PlacedTensor> {
    let tensors = std::mem::take(&mut contents.checkpoint.tensors);
    let placements = std::mem::take(&mut contents.placements);
    let placed = tensors.into_iter().zip(placements);
    placed.map(|(tensor, placement)| PlacedTensor { tensor, placement }).collect()
}

/// Adds the target and its source to an error.
fn named(error: Error, target: &Target) -> Error {
    let error = match target.recipe.describe() {
        words if words.is_empty() => error,
        words => error.field(format!("the recipe of '{}': {words}", target.name)),
    };
    match target.sources.first() {
        Some(source) if error.context().tensor.is_none() => error.tensor(source),
        _ => error,
    }
}

/// Makes a target of the tensors with these numbers.
fn make(target: &Target, sources: &[usize], tensors: &[PlacedTensor]) -> Result<PlacedTensor> {
    let Recipe { join, steps, division } = &target.recipe;
    let source = |id: &usize| tensors.get(*id).cloned();
    let all = || sources.iter().filter_map(source);
    let first = || all().next().ok_or_else(|| Error::mapping("a recipe has no source"));
    let part_of = |whole: PlacedTensor, part: usize, of: &Parts| {
        let sizes = match &of.sizes {
            Some(sizes) => sizes.clone(),
            None => equal_parts(&whole, of.axis, of.parts)?,
        };
        split(whole, of.axis, part, &sizes)
    };
    let mut made = match join {
        Join::One | Join::Tied | Join::Sum => reorder(first()?, steps)?,
        Join::Zeros => zeros::zeros(reorder(first()?, steps)?)?,
        Join::Part { axis, part, parts, sizes } => {
            let of = Parts { axis: *axis, parts: *parts, sizes: sizes.clone() };
            let whole = reorder(first()?, &division.whole)?;
            let part = match division.is_interleaved {
                true => division::interleaved_part(whole, *axis, *part, *parts)?,
                false => part_of(whole, *part, &of)?,
            };
            reorder(part, steps)?
        }
        Join::Element { axis, index, part } => {
            let whole = sources.first().and_then(|id| tensors.get(*id));
            let whole = whole.ok_or_else(|| Error::mapping("a recipe has no source"))?;
            let element = element(whole, *axis, *index)?;
            let part = match part {
                Some(PartOf { part, of }) => part_of(element, *part, of)?,
                None => element,
            };
            reorder(part, steps)?
        }
        Join::Dequantized(how) => {
            let mut both = all();
            let (Some(elements), Some(scales)) = (both.next(), both.next()) else {
                return Err(Error::mapping("a recipe that dequantizes needs elements and scales"));
            };
            let numbers = scaled::dequantize(elements, scales, how)?;
            let part = match &division.part {
                None => numbers,
                Some(PartOf { part, of }) if division.is_interleaved => {
                    division::interleaved_part(numbers, of.axis, *part, of.parts)?
                }
                Some(PartOf { part, of }) => part_of(numbers, *part, of)?,
            };
            reorder(part, steps)?
        }
        Join::Merged { axis, sizes } => {
            let each = all().enumerate();
            let each = each.map(|(part, placed)| reorder(placed, division.each.get(part).unwrap_or(steps)));
            let each = each.collect::<Result<Vec<_>>>()?;
            let merged = match division.is_interleaved {
                true => division::interleave(each, *axis)?,
                false if division.is_plain() => merge(each, *axis, sizes.as_deref())?,
                false => merge(division::alike(each, *axis)?, *axis, sizes.as_deref())?,
            };
            reorder(merged, &division.whole)?
        }
        Join::Assembled { axis, element, pieces } => {
            assembly::assembled(&all().collect::<Vec<_>>(), (*axis, *element), pieces, steps)?
        }
        Join::Disassembled { places, .. } => {
            let place = places.first().ok_or_else(|| Error::defect("a tensor is assembled nowhere"))?;
            assembly::disassembled(&all().collect::<Vec<_>>(), join, place, steps)?
        }
        Join::Stacked { axis, merged } => {
            let each = all().map(|placed| reorder(placed, steps));
            stack(each.collect::<Result<Vec<_>>>()?, *axis, merged.as_ref())?
        }
    };
    if !target.recipe.is_plain() {
        // A format's metadata describes the tensor as it was stored.
        made.tensor.metadata = Default::default();
    }
    if sources.iter().filter_map(|id| tensors.get(*id)).any(|source| source.tensor.role == Role::Weight) {
        // A weight stays a weight when it is tied to its duplicate, or merged with another role.
        made.tensor.role = Role::Weight;
    }
    made.tensor.name = (&target.name).into();
    Ok(made)
}

fn equal_parts(placed: &PlacedTensor, axis: usize, parts: usize) -> Result<Vec<u64>> {
    let len = placed.axis_len(axis)?;
    let count = parts as u64;
    if count == 0 || !len.is_multiple_of(count) {
        return Err(Error::mapping("the axis cannot be split into equal parts")
            .found(format!("axis {axis} of {}", placed.tensor.shape))
            .expected(format!("a multiple of {parts}"))
            .help("set the length of each part with 'sizes'"));
    }
    Ok(vec![len / count; parts])
}
