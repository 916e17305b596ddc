//! Finding the tensors that share their stored bytes.

use crate::{Contents, DType, Encoding, Extent, FileId, Placement, Shape, Tensor, TensorId, Ties, Window};
use std::collections::HashMap;

impl Ties {
    /// Finds the ties of what was read: tensors with the same extents, encoding, dtype and shape. Tensors without bytes
    /// are none. Tensors with the same extents that are read as another dtype or shape are remembered, too: they may share
    /// bytes where each is stored as it is.
    pub fn of(contents: &Contents) -> Ties {
        let placements = &contents.placements;
        // Most formats store tensors in their order; then nothing is allocated.
        if placements.iter().filter_map(start).is_sorted_by(|one, next| one < next) {
            return Ties::default();
        }
        let mut order: Vec<(usize, &Placement)> = placements.iter().enumerate().collect();
        order.retain(|(_, placement)| start(placement).is_some());
        order.sort_unstable_by_key(|(id, placement)| (start(placement), *id));
        let mut ties = Ties::default();
        for run in order.chunk_by(|(_, one), (_, next)| start(one) == start(next)).filter(|run| run.len() > 1)
        {
            ties.add_run(&contents.checkpoint.tensors, run);
        }
        ties
    }

    /// Adds the ties among tensors whose bytes begin at one place.
    fn add_run(&mut self, tensors: &[Tensor], run: &[(usize, &Placement)]) {
        let mut seen: HashMap<Key<'_>, TensorId> = HashMap::with_capacity(run.len());
        let mut views: HashMap<&[Extent], Vec<(TensorId, DType)>> = HashMap::new();
        for (id, placement) in run {
            let Some(tensor) = tensors.get(*id) else { continue };
            let first = *seen.entry(Key::new(tensor, placement)).or_insert(TensorId(*id));
            if first != TensorId(*id) {
                self.add(TensorId(*id), first);
            } else if placement.is_plain(tensor.dtype) {
                views.entry(&placement.extents).or_default().push((TensorId(*id), tensor.dtype));
            }
        }
        views.values().for_each(|views| self.add_views(views));
    }
}

/// Where a tensor's bytes begin; `None` for one without bytes.
fn start(placement: &Placement) -> Option<(FileId, u64)> {
    let extent = placement.extents.iter().find(|extent| extent.len > 0)?;
    Some((extent.file, extent.offset))
}

/// Everything that decides the value of a stored tensor.
#[derive(PartialEq, Eq, Hash)]
struct Key<'a> {
    extents: &'a [Extent],
    encoding: &'a Encoding,
    window: Option<&'a Window>,
    dtype: DType,
    shape: &'a Shape,
    lengths: Option<&'a [u64]>,
}

impl<'a> Key<'a> {
    fn new(tensor: &'a Tensor, placement: &'a Placement) -> Self {
        Key {
            extents: &placement.extents,
            encoding: &placement.encoding,
            window: placement.window(),
            dtype: tensor.dtype,
            shape: &tensor.shape,
            lengths: tensor.lengths.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Checkpoint;

    /// Tensors of 8 bytes at these offsets of one file.
    fn at(offsets: &[u64]) -> Contents {
        let shape = || Shape::new([2]).unwrap();
        let tensors: Vec<Tensor> = offsets
            .iter()
            .enumerate()
            .map(|(id, _)| Tensor::new(id.to_string(), DType::F32, shape()))
            .collect();
        let placement = |(id, offset): (usize, &u64)| {
            let extent = Extent::new(FileId(0), *offset, 8);
            let encoding = Encoding::row_major(&tensors[id]);
            Placement::new(TensorId(id), id.to_string(), vec![extent], encoding)
        };
        let placements = offsets.iter().enumerate().map(placement).collect();
        Contents {
            checkpoint: Checkpoint { tensors, ..Checkpoint::default() },
            placements,
            ..Contents::default()
        }
    }

    fn pairs(contents: &Contents) -> Vec<(usize, usize)> {
        Ties::of(contents).iter().map(|(tensor, first)| (tensor.0, first.0)).collect()
    }

    #[test]
    fn tensors_with_the_same_extents_are_ties_with_the_first_of_them() {
        assert_eq!(pairs(&at(&[8, 0, 8, 16, 8])), [(2, 0), (4, 0)]);
        let ties = Ties::of(&at(&[8, 0, 8]));
        assert_eq!((ties.first_of(TensorId(2)), ties.first_of(TensorId(1))), (TensorId(0), TensorId(1)));
    }

    #[test]
    fn tensors_with_other_extents_are_no_ties_even_if_they_overlap() {
        assert_eq!(pairs(&at(&[0, 8, 16])), []);
        assert_eq!(pairs(&at(&[4, 0])), []);
    }

    #[test]
    fn the_same_bytes_read_in_another_way_are_no_ties() {
        let mut contents = at(&[0, 0]);
        contents.placements[1].encoding.dtype = DType::I32;
        assert_eq!(pairs(&contents), []);
        let mut contents = at(&[0, 0]);
        contents.checkpoint.tensors[1].shape = Shape::new([1, 2]).unwrap();
        assert_eq!(pairs(&contents), []);
    }

    #[test]
    fn the_same_plain_bytes_of_another_dtype_or_shape_are_views() {
        let mut contents = at(&[16, 16, 16, 0]);
        contents.checkpoint.tensors[1].dtype = DType::I32;
        contents.placements[1].encoding.dtype = DType::I32;
        contents.checkpoint.tensors[2].shape = Shape::new([1, 2]).unwrap();
        contents.placements[2].encoding = Encoding::row_major(&contents.checkpoint.tensors[2]);
        let ties = Ties::of(&contents);
        assert_eq!(ties.iter().count(), 0);
        let views = [0, 1, 2, 3].map(|id| ties.viewed(TensorId(id)));
        let first = |dtype| Some((TensorId(0), dtype));
        assert_eq!(views, [first(DType::F32), first(DType::I32), first(DType::F32), None]);
        contents.placements[1].encoding = contents.placements[1].encoding.clone().big_endian();
        assert_eq!(Ties::of(&contents).viewed(TensorId(1)), None);
    }

    #[test]
    fn tensors_without_bytes_are_no_ties() {
        let mut contents = at(&[0, 0]);
        contents.placements.iter_mut().for_each(|placement| placement.extents[0].len = 0);
        assert_eq!(pairs(&contents), []);
    }
}
