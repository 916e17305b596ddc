//! Leaves out second copies of tensors: those of the role [`Role::Duplicate`].

use super::select::remove;
use crate::mapping::Mapping;
use ckpt_api::{Checksum, Contents, DType, Loss, LossKind, Placement, Role, Setting, Shape, Tensor, text};
use std::collections::{HashMap, HashSet};

/// Removes the duplicates that neither the mapping nor the graph names, and returns a loss for each.
///
/// A copy stays if the user left out its original, a weight of `source`. Formats do not say which weight that is: a
/// copy also stays if its original may be one that is left out.
pub(super) fn leave_out(contents: &mut Contents, source: &Contents, mapping: Option<&Mapping>) -> Vec<Loss> {
    let tensors = &contents.checkpoint.tensors;
    if !tensors.iter().any(|tensor| tensor.role == Role::Weight) {
        return Vec::new();
    }
    let originals = Originals::new(contents, source);
    let used: HashSet<&str> = contents.checkpoint.graph.iter().flat_map(|graph| graph.tensors()).collect();
    let copies = placed(contents, Role::Duplicate).filter(|copy| originals.has_that_of(*copy));
    let copies = copies.map(|(tensor, _)| tensor.name.as_str()).filter(|name| !used.contains(name));
    let unnamed: Vec<String> = match mapping {
        Some(mapping) => mapping.unnamed(copies).into_iter().map(str::to_owned).collect(),
        None => copies.map(str::to_owned).collect(),
    };
    let detail = text!["a second copy of another tensor; to write it, select it with ", Setting::INCLUDE];
    let removed = remove(contents, unnamed);
    let losses = removed.names.iter().map(|name| Loss::new(LossKind::DuplicateDropped, name, detail.clone()));
    losses.chain(removed.losses).collect()
}

/// A tensor, and where its bytes are.
type Placed<'c> = (&'c Tensor, &'c Placement);

fn placed(contents: &Contents, role: Role) -> impl Iterator<Item = Placed<'_>> {
    let tensors = contents.checkpoint.tensors.iter().zip(&contents.placements);
    tensors.filter(move |(tensor, _)| tensor.role == role)
}

/// The weights that copies may be copies of.
struct Originals<'c> {
    kept: Weights<'c>,
    left_out: Weights<'c>,
}

impl<'c> Originals<'c> {
    fn new(contents: &'c Contents, source: &'c Contents) -> Self {
        let names: HashSet<&str> =
            placed(contents, Role::Weight).map(|(tensor, _)| tensor.name.as_str()).collect();
        let (kept, left_out): (Vec<Placed>, Vec<Placed>) =
            placed(source, Role::Weight).partition(|(tensor, _)| names.contains(tensor.name.as_str()));
        Originals { kept: Weights::new(&kept), left_out: Weights::new(&left_out) }
    }

    /// Whether the original of a copy is kept.
    fn has_that_of(&self, copy: Placed<'_>) -> bool {
        let is_possible = || self.kept.may_have(copy) && !self.left_out.may_have(copy);
        self.left_out.0.is_empty() || self.kept.has(copy) || is_possible()
    }
}

/// Weights, by their shapes.
struct Weights<'c>(HashMap<&'c Shape, Alike<'c>>);

/// Weights of one shape.
#[derive(Default)]
struct Alike<'c> {
    values: HashSet<Values<'c>>,
    /// Whether there are others, of which only the shape is known.
    has_others: bool,
}

/// What a file states of the values of a tensor: equal ones have the same bytes.
type Values<'c> = (DType, u64, &'c Checksum);

fn values<'c>((tensor, placement): Placed<'c>) -> Option<Values<'c>> {
    let [extent] = &placement.extents[..] else { return None };
    let checksum = extent.checksum.as_ref().filter(|checksum| checksum.value.is_some())?;
    Some((tensor.dtype, extent.len, checksum))
}

impl<'c> Weights<'c> {
    fn new(weights: &[Placed<'c>]) -> Self {
        let mut by_shape: HashMap<&Shape, Alike<'_>> = HashMap::new();
        for weight in weights {
            let alike = by_shape.entry(&weight.0.shape).or_default();
            match values(*weight) {
                Some(values) => drop(alike.values.insert(values)),
                None => alike.has_others = true,
            }
        }
        Weights(by_shape)
    }

    /// Whether one of them has the values of this tensor.
    fn has(&self, copy: Placed<'_>) -> bool {
        let alike = self.0.get(&copy.0.shape);
        alike.zip(values(copy)).is_some_and(|(alike, values)| alike.values.contains(&values))
    }

    /// Whether one of them has the values of this tensor, as far as the file shows them.
    fn may_have(&self, copy: Placed<'_>) -> bool {
        let alike = self.0.get(&copy.0.shape);
        alike.is_some_and(|alike| alike.has_others || values(copy).is_none()) || self.has(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::super::select::select;
    use super::*;
    use ckpt_api::{Checkpoint, ChecksumAlgorithm, Encoding, Extent, FileId, TensorId};

    /// Weights and copies of one axis of these lengths; a number is the checksum of the values.
    fn contents(tensors: &[(&str, u64, Option<u32>)]) -> Contents {
        let (mut made, mut placements) = (Vec::new(), Vec::new());
        for (id, (name, len, value)) in tensors.iter().enumerate() {
            let mut tensor = Tensor::new(*name, DType::F32, Shape::new(vec![*len]).unwrap());
            tensor.role = if name.starts_with("copy") { Role::Duplicate } else { Role::Weight };
            let algorithm = ChecksumAlgorithm::Crc32;
            let checksum = value.map(|value| Checksum { algorithm, seed: 0, value: Some(value) });
            let extent = Extent::new(FileId(0), 0, tensor.value_bytes()).with_checksum(checksum);
            let encoding = Encoding::row_major(&tensor);
            placements.push(Placement::new(TensorId(id), *name, vec![extent], encoding));
            made.push(tensor);
        }
        let checkpoint = Checkpoint { tensors: made, ..Checkpoint::default() };
        Contents::default().with_checkpoint(checkpoint).with_placements(placements)
    }

    /// The tensors that stay where these are excluded.
    fn left(tensors: &[(&str, u64, Option<u32>)], exclude: &[&str]) -> Vec<String> {
        let source = contents(tensors);
        let mut contents = source.clone();
        if !exclude.is_empty() {
            let exclude: Vec<String> = exclude.iter().map(|name| (*name).to_owned()).collect();
            select(&mut contents, &[], &exclude).unwrap();
        }
        leave_out(&mut contents, &source, None);
        contents.checkpoint.tensors.into_iter().map(|tensor| tensor.name.into()).collect()
    }

    #[test]
    fn a_copy_stays_if_its_original_is_left_out() {
        let by_shape = [("a", 2, None), ("b", 3, None), ("copy_a", 2, None), ("copy_b", 3, None)];
        assert_eq!(left(&by_shape, &[]), ["a", "b"]);
        assert_eq!(left(&by_shape, &["a"]), ["b", "copy_a"]);
        assert_eq!(left(&by_shape, &["b"]), ["a", "copy_b"]);
        assert_eq!(left(&by_shape, &["a", "b"]), ["copy_a", "copy_b"]);
        let by_value = [("a", 2, Some(1)), ("b", 2, Some(2)), ("copy_a", 2, Some(1)), ("copy_b", 2, Some(2))];
        assert_eq!(left(&by_value, &[]), ["a", "b"]);
        assert_eq!(left(&by_value, &["a"]), ["b", "copy_a"]);
        assert_eq!(left(&by_value, &["b"]), ["a", "copy_b"]);
    }

    #[test]
    fn a_copy_stays_if_its_original_may_be_left_out() {
        let alike = [("a", 2, None), ("b", 2, None), ("copy", 2, None)];
        assert_eq!(left(&alike, &["a"]), ["b", "copy"]);
        // Of another shape than all weights, as one that is merged into another.
        let merged = [("a", 2, None), ("b", 3, None), ("copy", 4, None)];
        assert_eq!(left(&merged, &[]), ["a", "b"]);
        assert_eq!(left(&merged, &["b"]), ["a", "copy"]);
    }

    #[test]
    fn a_copy_is_left_out_if_a_kept_weight_has_its_values() {
        let zeros = [("a", 2, Some(0)), ("b", 2, Some(0)), ("copy_a", 2, Some(0)), ("copy_b", 2, Some(0))];
        assert_eq!(left(&zeros, &["a"]), ["b"]);
    }
}
