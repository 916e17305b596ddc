//! Memory that goes back to the system at once.

use bytes::Bytes;
use memmap2::MmapMut;
use std::io;
use std::ops::{Deref, DerefMut};

/// Bytes of a request or an answer. Large ones have pages of their own: an allocator keeps what several threads give back, and
/// a bound on memory counts what the process has.
#[derive(Debug)]
pub(super) enum Held {
    Small(Vec<u8>),
    Pages(MmapMut),
}

/// Shorter ones are not worth pages of their own, of which a system gives a process a bounded number.
const LARGE: usize = 256 << 10;

impl Held {
    /// So many bytes, which are zero.
    ///
    /// # Errors
    /// Where the system has no memory for them.
    pub(super) fn zeroed(len: usize) -> io::Result<Self> {
        if len >= LARGE {
            return MmapMut::map_anon(len).map(Held::Pages);
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        bytes.resize(len, 0);
        Ok(Held::Small(bytes))
    }
}

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Held::Small(bytes) => bytes,
            Held::Pages(pages) => pages,
        }
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Held::Small(bytes) => bytes,
            Held::Pages(pages) => pages,
        }
    }
}

impl From<Held> for Bytes {
    fn from(held: Held) -> Bytes {
        Bytes::from_owner(held)
    }
}

impl AsRef<[u8]> for Held {
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
            let mut held = Held::zeroed(len).unwrap();
            assert_eq!((held.len(), matches!(held, Held::Pages(_))), (len, is_large));
            assert!(held.iter().all(|byte| *byte == 0));
            held.fill(1);
            assert!(held.as_ref().iter().all(|byte| *byte == 1));
        }
    }
}
