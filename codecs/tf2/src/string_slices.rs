//! String tensors that are stored in slices.

use crate::slices::flat_indices;
use crate::strings::{ByteRange, Elements};
use ckpt_api::{Error, Region, Result, Shape};

/// One slice of a string tensor.
pub(crate) struct StringSlice {
    /// The part of the tensor that the slice holds.
    pub(crate) region: Region,
    /// The strings of that part.
    pub(crate) elements: Elements,
}

/// The elements of a string tensor that is stored in slices.
pub(crate) struct JoinedStrings {
    /// Length of each element in bytes, in row-major order.
    pub(crate) lengths: Vec<u64>,
    /// Byte ranges that hold the elements in row-major order, each with the number of its slice.
    pub(crate) ranges: Vec<(usize, ByteRange)>,
}

/// Puts the elements of string slices in the tensor's row-major order.
///
/// A checksum covers all strings of a slice. A slice that stays in one range keeps it; for any other, `verify` is
/// called with the slice's number and ranges, because nobody reads the slice as a whole later.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] if the slices do not cover the tensor exactly, and the errors of `verify`.
pub(crate) fn join(
    whole: &Shape,
    mut slices: Vec<StringSlice>,
    mut verify: impl FnMut(usize, &mut [ByteRange]) -> Result<()>,
) -> Result<JoinedStrings> {
    let mut elements = Vec::new();
    for (number, slice) in slices.iter().enumerate() {
        let mut offset = slice.elements.ranges.first().map_or(0, |range| range.offset);
        for (index, len) in flat_indices(whole, &slice.region).zip(&slice.elements.lengths) {
            elements.push((index, number, offset, *len));
            offset += len;
        }
    }
    elements.sort_unstable();
    let in_order = elements.iter().zip(0u64..).all(|((index, ..), expected)| *index == expected);
    if !in_order || elements.len() as u64 != whole.elements() {
        return Err(Error::corrupt("the slices overlap and do not cover the tensor"));
    }
    let mut ranges: Vec<(usize, ByteRange)> = Vec::new();
    for (_, number, offset, len) in elements.iter().filter(|(.., len)| *len > 0) {
        match ranges.last_mut() {
            Some((last, range)) if last == number && range.offset + range.len == *offset => range.len += len,
            _ => ranges.push((*number, ByteRange { offset: *offset, len: *len, checksum: None })),
        }
    }
    let mut first_ranges = vec![None; slices.len()];
    for (at, (number, _)) in ranges.iter().enumerate() {
        if let Some(first) = first_ranges.get_mut(*number) {
            first.get_or_insert(at);
        }
    }
    for (number, (slice, first)) in slices.iter_mut().zip(first_ranges).enumerate() {
        let stored = &mut slice.elements.ranges;
        let first = first.and_then(|at| ranges.get_mut(at)).map(|(_, range)| range);
        match (first, stored.first_mut()) {
            (Some(range), Some(stored)) if (range.offset, range.len) == (stored.offset, stored.len) => {
                range.checksum = stored.checksum.take();
            }
            _ => verify(number, stored)?,
        }
    }
    let lengths = elements.into_iter().map(|(.., len)| len).collect();
    Ok(JoinedStrings { lengths, ranges })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::checksum;

    #[test]
    fn a_thousand_columns_of_strings_are_joined_in_one_pass() {
        const SIDE: u64 = 1000;
        let whole = Shape::new([SIDE, SIDE]).unwrap();
        let slice = |column: u64| StringSlice {
            region: Region { start: vec![0, column], shape: Shape::new([SIDE, 1]).unwrap() },
            elements: Elements {
                lengths: vec![1; 1000],
                ranges: vec![ByteRange { offset: column * SIDE, len: SIDE, checksum: Some(checksum(0, 0)) }],
            },
        };
        let mut verified = 0;
        let joined = join(&whole, (0..SIDE).map(slice).collect(), |_, _| {
            verified += 1;
            Ok(())
        });
        let joined = joined.unwrap();
        assert_eq!((joined.lengths.len(), joined.ranges.len(), verified), (1_000_000, 1_000_000, 1000));
        assert_eq!(joined.ranges[1001], (1, ByteRange { offset: SIDE + 1, len: 1, checksum: None }));
    }
}
