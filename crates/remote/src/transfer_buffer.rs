//! Memory that goes back to the system at once.

use bytes::Bytes;
use memmap2::MmapMut;
use std::io;
use std::ops::{Deref, DerefMut};

/// Bytes of a request or an answer. Large ones have pages of their own: an allocator keeps what several threads give back, and
/// a bound on memory counts what the process has.
#[derive(Debug)]
pub(super) enum TransferBuffer {
    Small(Vec<u8>),
    Pages(MmapMut),
}

/// Shorter ones are not worth pages of their own, of which a system gives a process a bounded number.
const LARGE: usize = 256 << 10;

impl TransferBuffer {
    /// So many bytes, which are zero.
    ///
    /// # Errors
    /// Where the system has no memory for them.
    pub(super) fn zeroed(len: usize) -> io::Result<Self> {
        if len >= LARGE {
            return MmapMut::map_anon(len).map(TransferBuffer::Pages);
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        bytes.resize(len, 0);
        Ok(TransferBuffer::Small(bytes))
    }
}

impl Deref for TransferBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            TransferBuffer::Small(bytes) => bytes,
            TransferBuffer::Pages(pages) => pages,
        }
    }
}

impl DerefMut for TransferBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            TransferBuffer::Small(bytes) => bytes,
            TransferBuffer::Pages(pages) => pages,
        }
    }
}

impl From<TransferBuffer> for Bytes {
    fn from(buffer: TransferBuffer) -> Bytes {
        Bytes::from_owner(buffer)
    }
}

impl AsRef<[u8]> for TransferBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_memory_has_pages_of_its_own_and_all_of_it_is_zero() {
        for (len, is_large) in [(0, false), (7, false), (LARGE - 1, false), (LARGE, true), (LARGE + 5, true)]
        {
            let mut buffer = TransferBuffer::zeroed(len).unwrap();
            assert_eq!((buffer.len(), matches!(buffer, TransferBuffer::Pages(_))), (len, is_large));
            assert!(buffer.iter().all(|byte| *byte == 0));
            buffer.fill(1);
            assert!(buffer.as_ref().iter().all(|byte| *byte == 1));
        }
    }
}
