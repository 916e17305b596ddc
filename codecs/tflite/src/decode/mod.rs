//! Dense elements of sparse tensors.

use ckpt_api::{Compression, Decoder, Parameters};
use std::io;

/// Which elements of a tensor are stored, in their stored order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) levels: Vec<Level>,
    /// How many they are.
    pub(crate) elements: u64,
}

/// A level of the tree of stored elements. The next index of a level is `stride` elements further on in the tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Every branch of the level before has one for each index.
    Dense { size: u64, stride: u64 },
    /// Branch `k` of the level before has those of `indices[segments[k]..segments[k + 1]]`.
    Sparse { stride: u64, segments: Vec<u32>, indices: Vec<u32> },
}

/// Fills a tensor with zeros, and the elements that are stored.
pub(crate) const SPARSE: &Decoder = &Decoder::whole("tflite.sparse", |_, _| u64::MAX, decode);

/// The parameters: bytes of an element, and the levels.
const ELEMENT: &str = "element";
const LEVELS: &str = "levels";

impl Tree {
    /// How the elements of `element` bytes each are stored, of `stored` bytes.
    pub(crate) fn compression(&self, element: u64, stored: u64) -> Compression {
        let parameters = Parameters::default().with_number(ELEMENT, element);
        Compression::new(SPARSE, stored).with_parameters(parameters.with_bytes(LEVELS, self.to_bytes()))
    }

    /// The levels as bytes: each the number of its segments, or 0 for a dense one; its stride, its size or the number of
    /// its indices; segments and indices.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for level in &self.levels {
            let (segments, stride, len, lists) = match level {
                Level::Dense { size, stride } => (0, *stride, *size, [&[][..], &[][..]]),
                Level::Sparse { stride, segments, indices } => {
                    (segments.len() as u64, *stride, indices.len() as u64, [&segments[..], &indices[..]])
                }
            };
            bytes.extend([segments, stride, len].map(u64::to_le_bytes).as_flattened());
            bytes.extend(lists.into_iter().flatten().flat_map(|number| number.to_le_bytes()));
        }
        bytes
    }

    /// The levels of bytes; `None` for others than [`Tree::to_bytes`] makes.
    fn from_bytes(bytes: &[u8]) -> Option<Vec<Level>> {
        let (mut levels, mut rest) = (Vec::new(), bytes);
        while !rest.is_empty() {
            let mut number = || {
                let (own, after) = rest.split_first_chunk()?;
                rest = after;
                Some(u64::from_le_bytes(*own))
            };
            let (count, stride, len) = (number()?, number()?, number()?);
            if count == 0 {
                levels.push(Level::Dense { size: len, stride });
                continue;
            }
            let mut list = |count: u64| {
                let (own, after) = rest.split_at_checked(usize::try_from(count.checked_mul(4)?).ok()?)?;
                rest = after;
                Some(own.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect::<Vec<u32>>())
            };
            let (segments, indices) = (list(count)?, list(len)?);
            levels.push(Level::Sparse { stride, segments, indices });
        }
        Some(levels)
    }
}

fn decode(stored: &[u8], parameters: &Parameters, out: &mut [u8]) -> io::Result<usize> {
    let wrong = |what: &str| io::Error::other(what.to_owned());
    let element = parameters.number(ELEMENT).and_then(|bytes| usize::try_from(bytes).ok());
    let element = element.filter(|bytes| *bytes > 0).ok_or_else(|| wrong("an element has no bytes"))?;
    let levels = parameters.bytes(LEVELS).and_then(Tree::from_bytes);
    let levels = levels.ok_or_else(|| wrong("the levels are not whole"))?;
    let places = places(&levels, (stored.len() / element) as u64)
        .ok_or_else(|| wrong("the elements are not as many as the levels state"))?;
    out.fill(0);
    for (place, bytes) in places.into_iter().zip(stored.chunks_exact(element)) {
        let start = usize::try_from(place).ok().and_then(|place| place.checked_mul(element));
        let to = start.and_then(|start| out.get_mut(start..)?.get_mut(..element));
        to.ok_or_else(|| wrong("an element lies outside the tensor"))?.copy_from_slice(bytes);
    }
    Ok(out.len())
}

/// The places of the stored elements in the tensor; `None` if there are other than `count`, at any level more.
fn places(levels: &[Level], count: u64) -> Option<Vec<u64>> {
    let mut places = vec![0u64];
    for (index, level) in levels.iter().enumerate() {
        let mut next = Vec::new();
        match level {
            Level::Dense { size, stride } => {
                let len = (places.len() as u64).checked_mul(*size)?;
                // A level that is followed by a sparse one has a bound for each of its branches.
                let bounds = levels.get(index.saturating_add(1)..)?.iter().find_map(|level| match level {
                    Level::Sparse { segments, .. } => Some(segments.len() as u64),
                    Level::Dense { .. } => None,
                });
                (len <= bounds.unwrap_or(count)).then_some(())?;
                next.reserve(usize::try_from(len).ok()?);
                for place in places {
                    next.extend((0..*size).map(|index| place.wrapping_add(index.wrapping_mul(*stride))));
                }
            }
            Level::Sparse { stride, segments, indices } => {
                for (place, bounds) in places.iter().zip(segments.windows(2)) {
                    let [start, end] = bounds else { return None };
                    let own = indices.get(usize::try_from(*start).ok()?..usize::try_from(*end).ok()?)?;
                    let at = |index: &u32| place.wrapping_add(u64::from(*index).wrapping_mul(*stride));
                    next.extend(own.iter().map(at));
                }
            }
        }
        places = next;
    }
    (places.len() as u64 == count).then_some(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows 0 and 2 of a matrix of 3 by 4 have elements, in columns 1 and 3, and 0.
    fn rows() -> Tree {
        let levels = vec![
            Level::Dense { size: 3, stride: 4 },
            Level::Sparse { stride: 1, segments: vec![0, 2, 2, 3], indices: vec![1, 3, 0] },
        ];
        Tree { levels, elements: 3 }
    }

    fn decoded(tree: &Tree, stored: &[u8], len: usize) -> io::Result<Vec<u8>> {
        let parameters = Parameters::default().with_number(ELEMENT, 1).with_bytes(LEVELS, tree.to_bytes());
        let mut out = vec![9; len];
        decode(stored, &parameters, &mut out).map(|_| out)
    }

    #[test]
    fn elements_are_where_their_indices_say_and_others_are_zero() {
        assert_eq!(decoded(&rows(), &[5, 6, 7], 12).unwrap(), [0, 5, 0, 6, 0, 0, 0, 0, 7, 0, 0, 0]);
    }

    #[test]
    fn other_numbers_of_elements_and_places_outside_are_refused() {
        assert!(decoded(&rows(), &[5, 6], 12).is_err());
        assert!(decoded(&rows(), &[5, 6, 7, 8], 12).is_err());
        assert!(decoded(&rows(), &[5, 6, 7], 8).is_err());
        let huge = Tree { levels: vec![Level::Dense { size: u64::MAX, stride: 1 }; 2], elements: 3 };
        assert!(decoded(&huge, &[5, 6, 7], 12).is_err());
    }

    #[test]
    fn levels_survive_as_bytes_and_cut_ones_are_refused() {
        let bytes = rows().to_bytes();
        assert_eq!(Tree::from_bytes(&bytes), Some(rows().levels));
        for len in 1..bytes.len() {
            assert!(len == 24 || Tree::from_bytes(&bytes[..len]).is_none(), "{len}");
        }
    }
}
