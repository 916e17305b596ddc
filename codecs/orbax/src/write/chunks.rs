//! How an array is cut into chunks.

use ckpt_api::{Encoding, Error, Region, Result, Shape, Tensor};

/// The option with the bytes of a chunk, at most.
pub(crate) const CHUNK: &str = "chunk";

/// Chunks of an array, at most: readers bound them, too.
const MOST_CHUNKS: u64 = 16_384;

/// The shape of the chunks of an array.
///
/// They are cut along one axis, and have length 1 on those before it, so that the elements of one are next to each other: what
/// a chunk at the edge has beyond the array follows its elements, and is zero.
pub(super) struct Chunks<'a> {
    shape: &'a Shape,
    pub(super) lens: Vec<u64>,
    /// Bytes of an element.
    element: u64,
}

/// A chunk that has its place.
#[derive(Clone)]
pub(super) struct Chunk {
    pub(super) place: Vec<u64>,
    pub(super) offset: u64,
    /// Bytes of the elements of the array.
    pub(super) len: u64,
    /// Bytes with what is beyond the array.
    pub(super) stored: u64,
    /// The box of the array, if it is cut.
    pub(super) region: Option<Region>,
}

impl<'a> Chunks<'a> {
    /// Cuts an array into chunks of at most `most` bytes.
    pub(super) fn of(tensor: &'a Tensor, encoding: &Encoding, most: Option<u64>) -> Result<Chunks<'a>> {
        let element = encoding.stored_len(1).unwrap_or(1);
        let mut lens: Vec<u64> = tensor.shape.iter().map(|len| (*len).max(1)).collect();
        let most = most.unwrap_or(u64::MAX).max(1);
        let inner = |lens: &[u64], axis: usize| {
            lens.iter().skip(axis + 1).fold(element, |bytes, len| bytes.saturating_mul(*len))
        };
        for axis in 0..lens.len() {
            let inner = inner(&lens, axis);
            let fitting = (most / inner.max(1)).max(1);
            let len = lens.get(axis).copied().unwrap_or(1);
            if let Some(own) = lens.get_mut(axis) {
                *own = len.min(fitting);
            }
            if inner <= most {
                break;
            }
        }
        let chunks = Chunks { shape: &tensor.shape, lens, element };
        let count = chunks.counts().iter().try_fold(1u64, |product, count| product.checked_mul(*count));
        match count.is_some_and(|count| count <= MOST_CHUNKS) {
            true => Ok(chunks),
            false => Err(Error::usage("the chunks are so small that the tensor has too many")
                .field(CHUNK)
                .expected(format!("at most {MOST_CHUNKS} chunks"))),
        }
    }

    fn counts(&self) -> Vec<u64> {
        self.shape.iter().zip(&self.lens).map(|(len, chunk)| len.div_ceil(*chunk)).collect()
    }

    /// Gives each chunk its place in a file, from `offset` on.
    pub(super) fn place(&self, mut offset: u64) -> Result<Vec<Chunk>> {
        let too_large = || Error::limit("the tensor is too large for a file");
        let counts = self.counts();
        let count: u64 = counts.iter().product();
        let stored = self.lens.iter().try_fold(self.element, |bytes, len| bytes.checked_mul(*len));
        let stored = stored.ok_or_else(too_large)?;
        let mut chunks = Vec::new();
        let mut place = vec![0u64; counts.len()];
        for _ in 0..count {
            let start: Vec<u64> =
                place.iter().zip(&self.lens).map(|(place, len)| place.saturating_mul(*len)).collect();
            let lens = start.iter().zip(&self.lens).zip(self.shape.iter());
            let shape =
                Shape::new(lens.map(|((start, len), whole)| (*len).min(whole.saturating_sub(*start))))?;
            let len = shape.elements().checked_mul(self.element).ok_or_else(too_large)?;
            let region = (count > 1).then(|| Region { start, shape });
            chunks.push(Chunk { place: place.clone(), offset, len, stored, region });
            offset = offset.checked_add(stored).filter(|end| *end < 1 << 63).ok_or_else(too_large)?;
            advance(&mut place, &counts);
        }
        Ok(chunks)
    }
}

/// Goes to the next place, the last axis first.
fn advance(place: &mut [u64], counts: &[u64]) {
    for (own, count) in place.iter_mut().zip(counts).rev() {
        *own += 1;
        if *own < *count {
            return;
        }
        *own = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::DType;

    fn lens(dims: &[u64], most: u64) -> Vec<u64> {
        let tensor = Tensor::new("t", DType::F32, Shape::new(dims).unwrap());
        Chunks::of(&tensor, &Encoding::row_major(&tensor), Some(most)).unwrap().lens
    }

    #[test]
    fn arrays_are_cut_along_the_first_axis_that_fits() {
        assert_eq!(lens(&[8, 12], 1 << 20), [8, 12]);
        assert_eq!(lens(&[8, 12], 100), [2, 12]);
        assert_eq!(lens(&[8, 12], 20), [1, 5]);
        assert_eq!(lens(&[8, 12], 1), [1, 1]);
        assert_eq!(lens(&[], 1), [] as [u64; 0]);
        assert_eq!(lens(&[0, 3], 100), [1, 3]);
    }

    #[test]
    fn a_chunk_at_the_edge_is_stored_whole() {
        let tensor = Tensor::new("t", DType::F32, Shape::new([5, 2]).unwrap());
        let chunks = Chunks::of(&tensor, &Encoding::row_major(&tensor), Some(16)).unwrap();
        let placed = chunks.place(100).unwrap();
        let found: Vec<_> = placed.iter().map(|chunk| (chunk.offset, chunk.len, chunk.stored)).collect();
        assert_eq!(found, [(100, 16, 16), (116, 16, 16), (132, 8, 16)]);
    }
}
