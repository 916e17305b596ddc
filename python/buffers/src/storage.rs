//! Memory of an array: writable, zeroed, and untouched until it is filled.

use memmap2::MmapMut;
use std::io;
use std::ops::Range;

/// Bytes from which memory is mapped: pages come when they are first written, large ones where the system has them.
const MAPPED: usize = 1 << 20;

/// Bytes whose multiples the memory begins at: TensorFlow ends the process where what it is given does not.
const ALIGNMENT: usize = 64;

/// Memory for the elements of an array.
#[derive(Debug)]
pub struct Storage(Memory);

#[derive(Debug)]
enum Memory {
    /// Memory of the heap, and the part of it that is used. It is never moved.
    Heap(Box<[u8]>, Range<usize>),
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
            return Ok(Self::of_heap(len));
        }
        let map = MmapMut::map_anon(len).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        #[cfg(target_os = "linux")]
        // Advice: a system without large pages goes on with small ones.
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Storage(Memory::Mapped(map)))
    }

    fn of_heap(len: usize) -> Self {
        let bytes = vec![0; len.saturating_add(ALIGNMENT)].into_boxed_slice();
        let start = bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Storage(Memory::Heap(bytes, start..start.saturating_add(len)))
    }

    /// The bytes, to be filled before they are handed to Python.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Heap(bytes, used) => bytes.get_mut(used.clone()).unwrap_or_default(),
            Memory::Mapped(map) => map,
        }
    }
}

impl From<Vec<u8>> for Storage {
    fn from(bytes: Vec<u8>) -> Self {
        let mut storage = Self::of_heap(bytes.len());
        storage.as_mut_slice().copy_from_slice(&bytes);
        storage
    }
}
