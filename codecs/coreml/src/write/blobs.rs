//! Lays out a file of blobs.

use crate::format::{BLOB_HEAD, BLOB_VERSION, Element, SENTINEL};
use ckpt_api::{Error, Result};

/// Multiples at which metadata and data begin.
const ALIGNMENT: u64 = 64;

/// A file of blobs: headers and metadata by offset, and where the data goes.
#[derive(Debug)]
pub(super) struct Blobs {
    pub(super) literals: Vec<(u64, Vec<u8>)>,
    count: u32,
    pub(super) len: u64,
}

/// Where a blob is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blob {
    /// Offset of the metadata, which programs state.
    pub(super) metadata: u64,
    pub(super) data: u64,
    pub(super) len: u64,
}

impl Blobs {
    pub(super) fn new() -> Self {
        Blobs { literals: Vec::new(), count: 0, len: BLOB_HEAD }
    }

    /// Adds a blob of so many elements.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for too many.
    pub(super) fn add(&mut self, element: Element, elements: u64) -> Result<Blob> {
        let too_many = || Error::unsupported("the tensors have too many bytes");
        let len = element.stored_len(elements).ok_or_else(too_many)?;
        let metadata = self.len.checked_next_multiple_of(ALIGNMENT).ok_or_else(too_many)?;
        let data = metadata.checked_add(BLOB_HEAD).ok_or_else(too_many)?;
        let bits = elements.saturating_mul(element.bits.into());
        let padding = if element.is_packed() { len.saturating_mul(8).saturating_sub(bits) } else { 0 };
        let mut bytes = Vec::with_capacity(64);
        bytes.extend([SENTINEL, element.blob.unwrap_or_default()].map(u32::to_le_bytes).as_flattened());
        bytes.extend([len, data, padding].map(u64::to_le_bytes).as_flattened());
        self.literals.push((metadata, bytes));
        self.count = self.count.checked_add(1).ok_or_else(too_many)?;
        self.len = data.checked_add(len).ok_or_else(too_many)?;
        Ok(Blob { metadata, data, len })
    }

    /// Adds the header.
    pub(super) fn finish(mut self) -> Self {
        let head = [self.count, BLOB_VERSION].map(u32::to_le_bytes).as_flattened().to_vec();
        self.literals.insert(0, (0, head));
        self.len = self.len.max(BLOB_HEAD);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::blob_element;
    use ckpt_api::DType;

    #[test]
    fn metadata_and_data_begin_at_multiples_of_64() {
        let mut blobs = Blobs::new();
        let element = |dtype| blob_element(dtype).unwrap().1;
        assert_eq!(blobs.add(element(DType::F32), 3).unwrap(), Blob { metadata: 64, data: 128, len: 12 });
        assert_eq!(blobs.add(element(DType::I4), 3).unwrap(), Blob { metadata: 192, data: 256, len: 2 });
        let blobs = blobs.finish();
        assert_eq!(blobs.literals[0], (0, vec![2, 0, 0, 0, 2, 0, 0, 0]));
        assert_eq!(blobs.literals[2].1[24..], 4u64.to_le_bytes(), "four bits of padding");
        assert_eq!(blobs.len, 258);
    }
}
