//! Writes partitioned tensors in the slices that they were read from.

use crate::format::{SliceExtent, joins_slices};
use crate::round_trip::SLICES_DTYPE;
use crate::slices::{flat_indices, parse_slice, region};
use crate::write::data_entry::{DataEntry, Segment};
use ckpt_api::{
    Checkpoint, DType, Encoding, Endian, Extent, FileId, Limit, Limits, MetadataValue, OutputFile,
    OutputLayout, Placement, Region, Tensor, TensorId,
};

/// A slice that the metadata records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordedSlice {
    /// The slice as stored; its key encodes these numbers.
    pub(crate) extents: Vec<SliceExtent>,
    /// The part of the tensor that the slice holds.
    pub(crate) region: Region,
}

/// Returns the slices that the tensor was read from, if they still cover it exactly, and if TensorFlow can join slices of
/// `stored`, the dtype that is written, or the source already had them of this dtype.
pub(crate) fn recorded_slices(tensor: &Tensor, stored: DType) -> Option<Vec<RecordedSlice>> {
    let recorded = tensor.metadata.value("tf2", "slices")?.as_list()?;
    let source = tensor.metadata.value("tf2", SLICES_DTYPE).and_then(MetadataValue::as_text);
    if !joins_slices(stored) && source != Some(stored.name()) {
        return None;
    }
    Limits::default().check(Limit::Slices, recorded.len() as u64).ok()?;
    let slices = recorded.iter().map(|slice| parse(tensor, slice)).collect::<Option<Vec<_>>>()?;
    let covered = match tensor.dtype {
        DType::Variant => false,
        DType::String => cover_strings(tensor, &slices),
        _ => cover(tensor, &slices),
    };
    covered.then_some(slices)
}

fn parse(tensor: &Tensor, slice: &MetadataValue) -> Option<RecordedSlice> {
    let extents = parse_slice(slice.as_text()?)?;
    let region = region(&extents, &tensor.shape).ok()?;
    Some(RecordedSlice { extents, region })
}

/// Whether the contract accepts the slices as the tensor's extents.
fn cover(tensor: &Tensor, slices: &[RecordedSlice]) -> bool {
    let encoding = Encoding::row_major(tensor);
    let mut end = 0u64;
    let mut extents = Vec::with_capacity(slices.len());
    for slice in slices {
        let Some(len) = encoding.stored_len(slice.region.shape.elements()) else { return false };
        extents.push(Extent::new(FileId(0), end, len).with_region(slice.region.clone()));
        end = end.saturating_add(len);
    }
    let placed = OutputLayout::default()
        .with_files(vec![OutputFile::of_unknown_length("slices")])
        .with_placements(vec![Placement::new(TensorId(0), "", extents, encoding)]);
    placed.check(&Checkpoint { tensors: vec![tensor.clone()], ..Checkpoint::default() }).is_ok()
}

/// Whether each string is in exactly one slice.
fn cover_strings(tensor: &Tensor, slices: &[RecordedSlice]) -> bool {
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

/// Fills each entry of `data` with the strings of its region. Returns the segments in the order of the tensor's
/// elements.
pub(crate) fn split_strings(
    tensor: &Tensor,
    regions: &[Region],
    data: &mut [DataEntry],
    endian: Endian,
) -> Vec<Segment> {
    let all = tensor.lengths.as_deref().unwrap_or_default();
    let mut elements = Vec::with_capacity(all.len());
    for (number, (region, data)) in regions.iter().zip(data).enumerate() {
        let length = |index: u64| usize::try_from(index).ok().and_then(|at| all.get(at)).copied();
        let indices: Vec<u64> = flat_indices(&tensor.shape, region).collect();
        let lengths: Vec<u64> = indices.iter().map(|index| length(*index).unwrap_or_default()).collect();
        let key = std::mem::take(&mut data.key);
        *data = DataEntry::strings(key, region.shape.clone(), &lengths, endian);
        let mut offset = data.head.len() as u64;
        for (index, len) in indices.into_iter().zip(lengths).filter(|(_, len)| *len > 0) {
            elements.push((index, number, offset, len));
            offset = offset.saturating_add(len);
        }
    }
    elements.sort_unstable();
    let mut segments: Vec<Segment> = Vec::new();
    for (_, entry, offset, len) in elements {
        match segments.last_mut() {
            Some(last) if last.entry == entry && last.offset.saturating_add(last.len) == offset => {
                last.len = last.len.saturating_add(len);
            }
            _ => segments.push(Segment { entry, offset, len, region: None }),
        }
    }
    segments
}
