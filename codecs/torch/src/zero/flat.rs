//! Flat tensors, one behind the other: the parameters of a group, as one rank or all ranks store them.

use ckpt_api::{DType, Encoding, Error, Extent, Result};

/// The elements of several flat tensors, in order.
#[derive(Default)]
pub(crate) struct Joined {
    parts: Vec<Flat>,
    elements: u64,
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
        let elements = self.elements.checked_add(flat.elements);
        self.elements = elements.ok_or_else(|| Error::corrupt("the ranks have too many elements"))?;
        self.parts.push(flat);
        Ok(())
    }

    /// The number of elements.
    pub(crate) fn elements(&self) -> u64 {
        self.elements
    }

    /// The dtype of the elements, and how they are stored; `None` if there is no tensor.
    pub(crate) fn encoding(&self) -> Option<(DType, &Encoding)> {
        self.parts.first().map(|flat| (flat.dtype, &flat.encoding))
    }

    /// Adds the bytes of `len` elements from `start` on; `None` if there are fewer.
    pub(crate) fn slice(&self, start: u64, len: u64, extents: &mut Vec<Extent>) -> Option<()> {
        let end = start.checked_add(len).filter(|end| *end <= self.elements)?;
        let mut at = 0u64;
        for flat in &self.parts {
            let next = at.checked_add(flat.elements)?;
            let (first, last) = (start.max(at), end.min(next));
            if first < last {
                extents.push(flat.slice(first - at, last - first)?);
            }
            at = next;
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
        Some(match whole.compression.as_deref() {
            None => Extent::new(whole.file, whole.offset.checked_add(skipped)?, len),
            Some(compression) => Extent::new(whole.file, whole.offset, len)
                .with_compression(compression.clone().skipping(skipped)),
        })
    }
}
