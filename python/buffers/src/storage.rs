//! Memory of an array: writable, zeroed, and untouched until it is filled.

use memmap2::MmapMut;
use std::io;

/// Bytes from which memory is mapped: pages come when they are first written, large ones where the system has them.
const MAPPED: usize = 1 << 20;

/// Memory for the elements of an array.
#[derive(Debug)]
pub enum Storage {
    /// Memory of the heap.
    Heap(Vec<u8>),
    /// Pages of its own.
    Mapped(MmapMut),
}

impl Storage {
    /// Memory of `len` bytes, all of them 0.
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`] where the system has no room.
    pub fn zeroed(len: usize) -> io::Result<Self> {
        if len < MAPPED {
            return Ok(Storage::Heap(vec![0; len]));
        }
        let map = MmapMut::map_anon(len).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        #[cfg(target_os = "linux")]
        // Advice: a system without large pages goes on with small ones.
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Storage::Mapped(map))
    }

    /// The bytes, to be filled before they are handed to Python.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            Storage::Heap(bytes) => bytes,
            Storage::Mapped(map) => map,
        }
    }
}

impl From<Vec<u8>> for Storage {
    fn from(bytes: Vec<u8>) -> Self {
        Storage::Heap(bytes)
    }
}
