//! Slices of partitioned tensors: their regions, their entries, and their notation.

use crate::format::{Entry, SliceExtent, WHOLE_AXIS};
use crate::index::Index;
use crate::key_text;
use crate::ordered_code::slice_key;
use ckpt_api::{Error, Region, Result, Shape, count};

/// One slice of a partitioned tensor.
pub(crate) struct Slice<'a> {
    /// The part of the tensor that the slice holds.
    pub(crate) region: Region,
    /// The slice's own entry.
    pub(crate) entry: &'a Entry,
}

/// Finds the slices of a partitioned tensor, and checks the dtype, rank and shape of each. Whether they cover the
/// tensor is checked by [`check_cover`] and [`ckpt_api::Contents::check`].
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`], naming the slice.
pub(crate) fn find<'a>(index: &'a Index, key: &[u8], whole: &Entry) -> Result<Vec<Slice<'a>>> {
    let slices = whole.slices.iter().enumerate().map(|(number, extents)| {
        find_one(index, key, whole, extents)
            .map_err(|error| error.tensor(key_text::abbreviate(key)).field(format!("slices[{number}]")))
    });
    slices.collect()
}

fn find_one<'a>(index: &'a Index, key: &[u8], whole: &Entry, extents: &[SliceExtent]) -> Result<Slice<'a>> {
    let region = region(extents, &whole.shape)?;
    let found = index.find(&slice_key(key, extents)).and_then(|position| index.entries.get(position));
    let (_, entry) = found.ok_or_else(|| Error::corrupt("the index lacks a slice that the tensor lists"))?;
    if entry.dtype != whole.dtype {
        return Err(Error::corrupt("a slice has another dtype than its tensor")
            .found(entry.dtype.name())
            .expected(whole.dtype.name()));
    }
    if entry.shape != region.shape {
        return Err(Error::corrupt("a slice's entry has another shape than the slice")
            .found(entry.shape.to_string())
            .expected(region.shape.to_string()));
    }
    if !entry.slices.is_empty() {
        return Err(Error::corrupt("a slice is itself stored in slices"));
    }
    Ok(Slice { region, entry })
}

/// Returns the part of a tensor of this shape that the stored extents describe.
pub(crate) fn region(extents: &[SliceExtent], shape: &Shape) -> Result<Region> {
    if extents.len() != shape.rank() {
        return Err(Error::corrupt("a slice has another number of axes than its tensor")
            .found(extents.len().to_string())
            .expected(shape.rank().to_string()));
    }
    let mut start = Vec::with_capacity(extents.len());
    let mut lengths = Vec::with_capacity(extents.len());
    for (extent, dim) in extents.iter().zip(shape.iter()) {
        let (from, length) = match extent {
            SliceExtent { start: 0, length: -1 } => (0, *dim),
            SliceExtent { start, length } => match (u64::try_from(*start), u64::try_from(*length)) {
                (Ok(start), Ok(length)) => (start, length),
                _ => {
                    return Err(Error::corrupt("a slice has a negative start or length")
                        .found(format!("start {start}, length {length}")));
                }
            },
        };
        if from.checked_add(length).is_none_or(|end| end > *dim) {
            return Err(Error::corrupt("a slice reaches past the end of its tensor")
                .found(format!("start {from}, length {length}"))
                .expected(format!("an end of at most {dim}")));
        }
        start.push(from);
        lengths.push(length);
    }
    Ok(Region { start, shape: Shape::new(lengths)? })
}

/// Formats a slice in TensorFlow's notation: `start,length` for each axis, or `-` for a whole axis, joined by colons.
pub(crate) fn slice_text(extents: &[SliceExtent]) -> String {
    let mut text = String::new();
    for (axis, SliceExtent { start, length }) in extents.iter().enumerate() {
        if axis > 0 {
            text.push(':');
        }
        match (start, *length) {
            (0, WHOLE_AXIS) => text.push('-'),
            _ => text.push_str(&format!("{start},{length}")),
        }
    }
    text
}

/// Parses [`slice_text`]'s notation.
pub(crate) fn parse_slice(text: &str) -> Option<Vec<SliceExtent>> {
    let extent = |axis: &str| match axis {
        "-" => Some(SliceExtent { start: 0, length: WHOLE_AXIS }),
        _ => {
            let (start, length) = axis.split_once(',')?;
            Some(SliceExtent { start: start.parse().ok()?, length: length.parse().ok()? })
        }
    };
    if text.is_empty() { Some(Vec::new()) } else { text.split(':').map(extent).collect() }
}

/// Checks that slices have as many elements as the tensor. [`ckpt_api::Contents::check`] checks that none overlap.
pub(crate) fn check_cover<'a>(
    whole: &Shape,
    regions: impl ExactSizeIterator<Item = &'a Region>,
) -> Result<()> {
    let slices = regions.len();
    let elements = regions.fold(0u64, |sum, region| sum.saturating_add(region.shape.elements()));
    if elements == whole.elements() {
        return Ok(());
    }
    Err(Error::corrupt("the slices do not have as many elements as the tensor")
        .found(format!("{} in {}", count(elements, "element"), count(slices, "slice")))
        .expected(count(whole.elements(), "element")))
}

/// Returns the row-major positions in the whole tensor of the elements of a region, in the region's row-major order.
pub(crate) fn flat_indices(whole: &Shape, region: &Region) -> impl Iterator<Item = u64> {
    (0..region.shape.elements()).map(|position| {
        let (mut rest, mut flat, mut stride) = (position, 0, 1);
        let axes = region.shape.iter().zip(&region.start).zip(whole.iter());
        for ((len, start), dim) in axes.rev() {
            flat += (start + rest % len) * stride;
            rest /= len;
            stride *= dim;
        }
        flat
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_in_tensorflows_notation_can_be_parsed() {
        let extent = |start, length| SliceExtent { start, length };
        let slices = [vec![], vec![extent(0, -1)], vec![extent(0, -1), extent(70, 0), extent(0, 5)]];
        for (slice, text) in slices.iter().zip(["", "-", "-:70,0:0,5"]) {
            assert_eq!(slice_text(slice), text);
            assert_eq!(parse_slice(text).as_ref(), Some(slice));
        }
        for text in [":", "1", "1,", "a,1", "-:"] {
            assert_eq!(parse_slice(text), None, "{text}");
        }
    }
}
