//! Flat tensors, one behind the other: the parameters of a group, as one rank or all ranks store them.

use ckpt_api::{DType, Encoding, Error, Extent, Result};

/// The elements of several flat tensors, in order.
#[derive(Default)]
pub(crate) struct Joined {
    parts: Vec<Flat>,
    /// The number of elements up to the end of each part.
    ends: Vec<u64>,
}

/// A dense tensor of one axis.
pub(crate) struct Flat {
    pub(crate) dtype: DType,
    pub(crate) encoding: Encoding,
    pub(crate) extent: Extent,
    pub(crate) elements: u64,
}

impl Joined {
    /// Appends a tensor.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] if its elements are stored in another way than those before.
    pub(crate) fn push(&mut self, flat: Flat) -> Result<()> {
        if let Some(first) = self.parts.first().filter(|first| first.encoding != flat.encoding) {
            return Err(Error::unsupported("the ranks store the parameters with different dtypes")
                .found(flat.dtype.to_string())
                .expected(first.dtype.to_string()));
        }
        let end = self.elements().checked_add(flat.elements);
        self.ends.push(end.ok_or_else(|| Error::corrupt("the ranks have too many elements"))?);
        self.parts.push(flat);
        Ok(())
    }

    /// The number of elements.
    pub(crate) fn elements(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The dtype of the elements, and how they are stored; `None` if there is no tensor.
    pub(crate) fn encoding(&self) -> Option<(DType, &Encoding)> {
        self.parts.first().map(|flat| (flat.dtype, &flat.encoding))
    }

    /// Adds the bytes of `len` elements from `start` on; `None` if there are fewer.
    pub(crate) fn slice(&self, start: u64, len: u64, extents: &mut Vec<Extent>) -> Option<()> {
        let end = start.checked_add(len).filter(|end| *end <= self.elements())?;
        let before = self.ends.partition_point(|next| *next <= start);
        for (flat, next) in self.parts.iter().zip(&self.ends).skip(before) {
            let at = next - flat.elements;
            if at >= end {
                break;
            }
            let (first, last) = (start.max(at), end.min(*next));
            if first < last {
                extents.push(flat.slice(first - at, last - first)?);
            }
        }
        Some(())
    }
}

impl Flat {
    fn slice(&self, first: u64, len: u64) -> Option<Extent> {
        if len == self.elements {
            return Some(self.extent.clone());
        }
        let skipped = self.encoding.stored_len(first)?;
        let len = self.encoding.stored_len(len)?;
        let whole = &self.extent;
        Some(match whole.compression() {
            None => Extent::new(whole.file, whole.offset.checked_add(skipped)?, len),
            Some(compression) => Extent::new(whole.file, whole.offset, len)
                .with_compression(compression.clone().skipping(skipped)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::{FileId, Shape, Tensor};

    #[test]
    fn a_slice_has_the_bytes_of_every_part_that_it_meets() {
        let mut joined = Joined::default();
        for (file, elements) in [0, 2, 0, 3, 0].into_iter().enumerate() {
            let tensor = Tensor::new("", DType::F32, Shape::new([elements]).unwrap());
            let extent = Extent::new(FileId(file), 100, elements * 4);
            let encoding = Encoding::row_major(&tensor);
            joined.push(Flat { dtype: DType::F32, encoding, extent, elements }).unwrap();
        }
        let slice = |start, len| {
            let mut extents = Vec::new();
            joined.slice(start, len, &mut extents)?;
            Some(extents.iter().map(|one| (one.file.0, one.offset, one.len)).collect::<Vec<_>>())
        };
        assert_eq!(slice(0, 5).unwrap(), [(1, 100, 8), (3, 100, 12)]);
        assert_eq!(slice(1, 2).unwrap(), [(1, 104, 4), (3, 100, 4)]);
        assert_eq!(slice(2, 1).unwrap(), [(3, 100, 4)]);
        assert_eq!(slice(5, 0).unwrap(), []);
        assert_eq!(slice(4, 2), None);
    }
}
