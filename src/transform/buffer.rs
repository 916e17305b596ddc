//! Memory that files are read into.

use std::ops::{Deref, DerefMut};

/// Bytes that lie well for what the system copies into them.
///
/// Processors copy with one instruction (`rep movsb`), and some of them take six times as long where the target lies a
/// few bytes further within its page than the source within its own. What is stored begins at a page as a rule, and what
/// an allocator gives begins a few bytes after one.
#[derive(Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// The first byte that counts.
    start: usize,
}

/// Bytes of a page, or of what is one to processors with larger ones.
const PAGE: usize = 4096;
/// Bytes of a cache line.
const LINE: usize = 64;
/// What is shorter is not worth a page.
const SHORT: usize = 4 * PAGE;

impl Buffer {
    /// Makes it as long as this, whatever it then holds, for bytes that come from `offset` of a file: unless it is short, it
    /// begins at a page, or as far into its first cache line as they into theirs.
    pub(crate) fn resize(&mut self, len: usize, offset: u64) {
        let within = (offset % LINE as u64) as usize;
        let place = |buffer: &Buffer| if len < SHORT { 0 } else { buffer.before_page() + within };
        let mut start = place(self);
        if self.bytes.capacity() < start + len {
            // Before there is another: both would not fit.
            self.bytes = Vec::new();
            self.bytes = vec![0; if len < SHORT { len } else { PAGE + LINE + len }];
            start = place(self);
        }
        self.bytes.resize(start + len, 0);
        self.start = start;
    }

    /// The same memory as a vector, of which the first byte counts.
    pub(crate) fn vec(&mut self) -> &mut Vec<u8> {
        self.start = 0;
        &mut self.bytes
    }

    /// Bytes of memory.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Bytes before the first page that begins in it.
    fn before_page(&self) -> usize {
        // Where that cannot be told, it does not matter.
        self.bytes.as_ptr().align_offset(PAGE) % PAGE
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_begins_at_a_page_or_as_far_into_a_line_as_the_bytes_of_the_file() {
        let mut buffer = Buffer::default();
        for (len, offset) in
            [(0, 0), (5, 0), (100_000, 4096), (7, 2672), (300_000, 16), (99_999, 63), (SHORT, 64)]
        {
            buffer.resize(len, offset);
            assert_eq!(buffer.len(), len);
            if !cfg!(miri) && len >= SHORT {
                assert_eq!(
                    buffer.as_ptr().addr() % PAGE,
                    offset as usize % LINE,
                    "{len} bytes from {offset}"
                );
            }
        }
    }

    #[test]
    fn memory_is_asked_for_only_where_there_is_too_little() {
        let mut buffer = Buffer::default();
        buffer.resize(50_000, 0);
        let (place, capacity) = (buffer.as_ptr(), buffer.capacity());
        assert!(capacity < 50_000 + 2 * PAGE);
        buffer.resize(10, 8);
        buffer.resize(50_000, 0);
        assert_eq!((buffer.as_ptr(), buffer.capacity()), (place, capacity));
    }

    #[test]
    fn what_is_written_as_a_vector_is_what_it_holds() {
        let mut buffer = Buffer::default();
        buffer.resize(100, 5);
        let vec = buffer.vec();
        vec.clear();
        vec.extend([1, 2, 3]);
        assert_eq!(buffer[..], [1, 2, 3]);
    }
}
