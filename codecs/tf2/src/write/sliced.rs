//! Partitioned tensors that are written in the boxes that they were read in.

use crate::format::SliceExtent;
use crate::slices::{flat_indices, region, slice_of_text};
use crate::write::pieces::{Part, Piece};
use ckpt_api::{
    Checkpoint, DType, Encoding, Endian, Extent, FileId, Limit, Limits, OutputFile, Placed, Placement,
    Region, Tensor, TensorId,
};
use serde_json::Value;

/// One box of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    /// As it was stored: its key is made of these.
    pub(crate) extents: Vec<SliceExtent>,
    /// The box that they name.
    pub(crate) region: Region,
}

/// The boxes that the tensor was read in, if they still cover it exactly.
pub(crate) fn of(tensor: &Tensor) -> Option<Vec<Slice>> {
    let stated = tensor.metadata.value("tf2", "slices")?.as_array()?;
    Limits::default().check(Limit::Slices, stated.len() as u64).ok()?;
    let slices = stated.iter().map(|slice| parse(tensor, slice)).collect::<Option<Vec<_>>>()?;
    let covered = match tensor.dtype {
        DType::Variant => false,
        DType::String => cover_strings(tensor, &slices),
        _ => cover(tensor, &slices),
    };
    covered.then_some(slices)
}

fn parse(tensor: &Tensor, slice: &Value) -> Option<Slice> {
    let extents = slice_of_text(slice.as_str()?)?;
    let region = region(&extents, &tensor.shape).ok()?;
    Some(Slice { extents, region })
}

/// Whether the boxes would be accepted as the tensor's places.
fn cover(tensor: &Tensor, slices: &[Slice]) -> bool {
    let encoding = Encoding::row_major(tensor);
    let mut end = 0u64;
    let mut extents = Vec::with_capacity(slices.len());
    for slice in slices {
        let Some(len) = encoding.stored_len(slice.region.shape.elements()) else { return false };
        let region = Some(Box::new(slice.region.clone()));
        extents.push(Extent { file: FileId(0), offset: end, len, region, checksum: None });
        end = end.saturating_add(len);
    }
    let placed = Placed {
        files: vec![OutputFile { name: "slices".to_owned(), len: None }],
        placements: vec![Placement::new(TensorId(0), "", extents, encoding)],
        ..Placed::default()
    };
    placed.check(&Checkpoint { tensors: vec![tensor.clone()], ..Checkpoint::default() }).is_ok()
}

/// Whether every string lies in exactly one box.
fn cover_strings(tensor: &Tensor, slices: &[Slice]) -> bool {
    let lengths = tensor.lengths.as_deref().unwrap_or_default();
    let elements = slices.iter().fold(0u64, |sum, slice| sum.saturating_add(slice.region.shape.elements()));
    if elements != lengths.len() as u64 {
        return false;
    }
    let mut covered = vec![false; lengths.len()];
    slices.iter().all(|slice| {
        flat_indices(&tensor.shape, &slice.region).all(|index| {
            let index = usize::try_from(index).unwrap_or(usize::MAX);
            covered.get_mut(index).is_some_and(|covered| !std::mem::replace(covered, true))
        })
    })
}

/// Makes each of `pieces`, the first of which is number `first`, the strings of its box. The parts are in the order
/// of the tensor's elements.
pub(crate) fn split_strings(
    tensor: &Tensor,
    boxes: &[Region],
    pieces: &mut [Piece],
    first: usize,
    endian: Endian,
) -> Vec<Part> {
    let all = tensor.lengths.as_deref().unwrap_or_default();
    let mut elements = Vec::with_capacity(all.len());
    for (number, (region, piece)) in boxes.iter().zip(pieces).enumerate() {
        let length = |index: u64| usize::try_from(index).ok().and_then(|at| all.get(at)).copied();
        let indices: Vec<u64> = flat_indices(&tensor.shape, region).collect();
        let lengths: Vec<u64> = indices.iter().map(|index| length(*index).unwrap_or_default()).collect();
        let key = std::mem::take(&mut piece.key);
        *piece = Piece::strings(key, region.shape.clone(), &lengths, endian);
        let mut offset = piece.head.len() as u64;
        for (index, len) in indices.into_iter().zip(lengths).filter(|(_, len)| *len > 0) {
            elements.push((index, first + number, offset, len));
            offset = offset.saturating_add(len);
        }
    }
    elements.sort_unstable();
    let mut parts: Vec<Part> = Vec::new();
    for (_, piece, offset, len) in elements {
        match parts.last_mut() {
            Some(part) if part.piece == piece && part.offset.saturating_add(part.len) == offset => {
                part.len = part.len.saturating_add(len);
            }
            _ => parts.push(Part { piece, offset, len, region: None }),
        }
    }
    parts
}
