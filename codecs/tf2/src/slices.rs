//! Partitioned tensors: boxes stored one by one, put together again.

use crate::bundle::Index;
use crate::format::{Entry, SliceExtent, WHOLE_AXIS, checksum, mask};
use crate::names;
use crate::ordered_code::slice_key;
use crate::strings::{Elements, Run};
use ckpt_api::{DType, Error, Region, Result, Shape};

/// One slice: its box, and its own entry.
pub(crate) struct Slice<'a> {
    /// Which part of the tensor it is.
    pub(crate) region: Region,
    /// Where that part is stored.
    pub(crate) entry: &'a Entry,
}

/// The slices of a partitioned tensor, each checked against it. That they cover it is left to
/// [`ckpt_api::Contents::check`].
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`], naming the slice.
pub(crate) fn of<'a>(index: &'a Index, key: &[u8], whole: &Entry) -> Result<Vec<Slice<'a>>> {
    let slices = whole.slices.iter().enumerate().map(|(number, extents)| {
        slice(index, key, whole, extents)
            .map_err(|error| error.tensor(names::shown(key)).field(format!("slices[{number}]")))
    });
    slices.collect()
}

fn slice<'a>(index: &'a Index, key: &[u8], whole: &Entry, extents: &[SliceExtent]) -> Result<Slice<'a>> {
    let region = region(extents, &whole.shape)?;
    let found = index.find(&slice_key(key, extents)).and_then(|position| index.entries.get(position));
    let (_, entry) = found.ok_or_else(|| Error::corrupt("a slice is not in the index"))?;
    if entry.dtype != whole.dtype {
        return Err(Error::corrupt("a slice has another dtype than its tensor")
            .found(entry.dtype.name())
            .expected(whole.dtype.name()));
    }
    if entry.shape != region.shape {
        return Err(Error::corrupt("a slice's own shape is not that of its box")
            .found(entry.shape.to_string())
            .expected(region.shape.to_string()));
    }
    if !entry.slices.is_empty() {
        return Err(Error::corrupt("a slice is sliced itself"));
    }
    Ok(Slice { region, entry })
}

/// The box that stored extents name.
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
                    return Err(Error::corrupt("a slice begins or ends before its tensor")
                        .found(format!("start {start}, length {length}")));
                }
            },
        };
        if from.checked_add(length).is_none_or(|end| end > *dim) {
            return Err(Error::corrupt("a slice lies outside its tensor")
                .found(format!("start {from}, length {length}"))
                .expected(format!("an end of at most {dim}")));
        }
        start.push(from);
        lengths.push(length);
    }
    Ok(Region { start, shape: Shape::new(lengths)? })
}

/// A slice as TensorFlow shows it: `start,length` by axis, or `-` for the whole axis, joined by colons.
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

/// The slice that [`slice_text`] shows.
pub(crate) fn slice_of_text(text: &str) -> Option<Vec<SliceExtent>> {
    let extent = |axis: &str| match axis {
        "-" => Some(SliceExtent { start: 0, length: WHOLE_AXIS }),
        _ => {
            let (start, length) = axis.split_once(',')?;
            Some(SliceExtent { start: start.parse().ok()?, length: length.parse().ok()? })
        }
    };
    if text.is_empty() { Some(Vec::new()) } else { text.split(':').map(extent).collect() }
}

/// Checks that slices have as many elements as the tensor. That none overlap is left to
/// [`ckpt_api::Contents::check`].
pub(crate) fn check_cover<'a>(
    whole: &Shape,
    regions: impl ExactSizeIterator<Item = &'a Region>,
) -> Result<()> {
    let slices = regions.len();
    let elements = regions.fold(0u64, |sum, region| sum.saturating_add(region.shape.elements()));
    if elements == whole.elements() {
        return Ok(());
    }
    Err(Error::corrupt("the slices do not cover the tensor exactly")
        .found(format!("{elements} elements in {slices} slices"))
        .expected(format!("{} elements", whole.elements())))
}

/// Checks an entry's size, and the checksum of one that has no bytes to read.
pub(crate) fn check_size(entry: &Entry) -> Result<()> {
    let expected = entry.dtype.bytes().map(|bytes| entry.shape.elements() * bytes);
    if expected.is_some_and(|expected| expected != entry.size) {
        return Err(Error::corrupt("the stored size does not fit the shape")
            .field("size")
            .found(format!("{} bytes", entry.size))
            .expected(format!(
                "{} bytes for {} of {}",
                expected.unwrap_or_default(),
                entry.shape,
                entry.dtype
            ))
            .help("the file was damaged: copy it again"));
    }
    if entry.size == 0 && entry.crc != mask(0) {
        return Err(Error::corrupt("the checksum does not match")
            .field("crc32c")
            .found(format!("{:#010x} computed over no bytes", mask(0)))
            .expected(format!("{:#010x} stored", entry.crc))
            .help("the file was damaged: copy it again"));
    }
    Ok(())
}

/// The bytes of an entry of fixed-size elements as one run.
pub(crate) fn run(entry: &Entry) -> Run {
    Run { offset: entry.offset, len: entry.size, checksum: Some(checksum(0, entry.crc)) }
}

/// Elements of one slice and the number of the slice they are from.
pub(crate) struct Part {
    /// The slice's box.
    pub(crate) region: Region,
    /// The slice's elements.
    pub(crate) elements: Elements,
}

/// A string tensor put together from its slices.
pub(crate) struct Joined {
    /// Bytes of each element, row-major.
    pub(crate) lengths: Vec<u64>,
    /// The runs that hold them, in order, each with the number of the part it is from.
    pub(crate) runs: Vec<(usize, Run)>,
}

/// Puts string slices in row-major order. A part whose bytes are not read as a whole is verified with `verify`.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] where the slices do not cover the tensor exactly, and those of `verify`.
pub(crate) fn join(
    whole: &Shape,
    mut parts: Vec<Part>,
    mut verify: impl FnMut(usize, &mut [Run]) -> Result<()>,
) -> Result<Joined> {
    let mut elements = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        let mut offset = part.elements.runs.first().map_or(0, |run| run.offset);
        for (index, len) in flat_indices(whole, &part.region).zip(&part.elements.lengths) {
            elements.push((index, number, offset, *len));
            offset += len;
        }
    }
    elements.sort_unstable();
    let in_order = elements.iter().zip(0u64..).all(|((index, ..), expected)| *index == expected);
    if !in_order || elements.len() as u64 != whole.elements() {
        return Err(Error::corrupt("two slices overlap, and the tensor is not covered"));
    }
    let mut runs: Vec<(usize, Run)> = Vec::new();
    for (_, number, offset, len) in elements.iter().filter(|(.., len)| *len > 0) {
        match runs.last_mut() {
            Some((last, run)) if last == number && run.offset + run.len == *offset => run.len += len,
            _ => runs.push((*number, Run { offset: *offset, len: *len, checksum: None })),
        }
    }
    let mut first_runs = vec![None; parts.len()];
    for (at, (number, _)) in runs.iter().enumerate() {
        if let Some(first) = first_runs.get_mut(*number) {
            first.get_or_insert(at);
        }
    }
    for (number, (part, first)) in parts.iter_mut().zip(first_runs).enumerate() {
        let bodies = &mut part.elements.runs;
        let first = first.and_then(|at| runs.get_mut(at)).map(|(_, run)| run);
        match (first, bodies.first_mut()) {
            (Some(run), Some(body)) if (run.offset, run.len) == (body.offset, body.len) => {
                run.checksum = body.checksum.take();
            }
            _ => verify(number, bodies)?,
        }
    }
    let lengths = elements.into_iter().map(|(.., len)| len).collect();
    Ok(Joined { lengths, runs })
}

/// Row-major positions in the whole tensor of a box's elements, row-major within the box.
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

/// Slices of variants have no meaning in TensorFlow.
pub(crate) fn refuse_variants(entry: &Entry) -> Result<()> {
    match entry.dtype {
        DType::Variant => Err(Error::unsupported("a variant tensor is stored in slices")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_shown_as_tensorflow_shows_it_and_found_again() {
        let extent = |start, length| SliceExtent { start, length };
        let slices = [vec![], vec![extent(0, -1)], vec![extent(0, -1), extent(70, 0), extent(0, 5)]];
        for (slice, text) in slices.iter().zip(["", "-", "-:70,0:0,5"]) {
            assert_eq!(slice_text(slice), text);
            assert_eq!(slice_of_text(text).as_ref(), Some(slice));
        }
        for text in [":", "1", "1,", "a,1", "-:"] {
            assert_eq!(slice_of_text(text), None, "{text}");
        }
    }

    #[test]
    fn a_thousand_columns_of_strings_are_put_together_in_one_pass() {
        const SIDE: u64 = 1000;
        let whole = Shape::new([SIDE, SIDE]).unwrap();
        let part = |column: u64| Part {
            region: Region { start: vec![0, column], shape: Shape::new([SIDE, 1]).unwrap() },
            elements: Elements {
                lengths: vec![1; 1000],
                runs: vec![Run { offset: column * SIDE, len: SIDE, checksum: Some(checksum(0, 0)) }],
            },
        };
        let mut verified = 0;
        let joined = join(&whole, (0..SIDE).map(part).collect(), |_, _| {
            verified += 1;
            Ok(())
        });
        let joined = joined.unwrap();
        assert_eq!((joined.lengths.len(), joined.runs.len(), verified), (1_000_000, 1_000_000, 1000));
        assert_eq!(joined.runs[1001], (1, Run { offset: SIDE + 1, len: 1, checksum: None }));
    }
}
