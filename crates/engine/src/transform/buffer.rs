//! Memory that files are read into.

use memmap2::MmapMut;
use std::ops::{Deref, DerefMut};

/// Bytes that are well for what the system copies into them.
///
/// Processors copy with one instruction (`rep movsb`), and some of them take six times as long where the target is a
/// few bytes further within its page than the source within its own. What is stored begins at a page as a rule, and
/// what an allocator gives begins a few bytes after one.
///
/// Large ones have pages of their own, and huge ones where the system has those: what is permuted goes to another page
/// with every few elements, and to find each costs more than to write them.
#[derive(Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// Instead of `bytes`.
    pages: Option<Pages>,
    /// The first byte that counts.
    start: usize,
}

struct Pages {
    map: MmapMut,
    /// Where what counts ends.
    end: usize,
}

/// Bytes of a page, or of what is one to processors with larger ones.
const PAGE: usize = 4096;
/// Bytes of a cache line.
const LINE: usize = 64;
/// What is shorter is not worth a page.
const SHORT: usize = 4 * PAGE;
/// What is as long as this is worth huge ones, which are of 2 MiB as a rule.
const LARGE: usize = 8 << 20;

impl Buffer {
    /// Makes it as long as this, whatever it then holds, for bytes that come from `offset` of a file: unless it is
    /// short, it begins at a page, or as far into its first cache line as they into theirs.
    pub(crate) fn resize(&mut self, len: usize, offset: u64) {
        let within = (offset % LINE as u64) as usize;
        let place = |buffer: &Buffer| if len < SHORT { 0 } else { buffer.before_page() + within };
        self.start = place(self);
        if self.capacity() < self.start + len {
            // Before there is another: both would not fit.
            *self = Buffer::default();
            self.pages = (len >= LARGE).then(|| Pages::new(within + len)).flatten();
            if self.pages.is_none() {
                self.bytes = vec![0; if len < SHORT { len } else { PAGE + LINE + len }];
            }
            self.start = place(self);
        }
        match &mut self.pages {
            Some(pages) => pages.end = self.start + len,
            None => self.bytes.resize(self.start + len, 0),
        }
    }

    /// As a vector, of which the first byte counts: the same memory, unless that was large.
    pub(crate) fn vec(&mut self) -> &mut Vec<u8> {
        self.start = 0;
        self.pages = None;
        &mut self.bytes
    }

    /// Bytes of memory.
    pub(crate) fn capacity(&self) -> usize {
        self.pages.as_ref().map_or(self.bytes.capacity(), |pages| pages.map.len())
    }

    /// Bytes before the first page that begins in it.
    fn before_page(&self) -> usize {
        match self.pages {
            Some(_) => 0,
            // Where that is unknown, it does not matter.
            None => self.bytes.as_ptr().align_offset(PAGE) % PAGE,
        }
    }
}

impl Pages {
    /// `None` if the system has none left.
    fn new(len: usize) -> Option<Self> {
        let map = MmapMut::map_anon(len).ok()?;
        // A kernel without huge pages refuses, and nothing is lost.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        Some(Pages { map, end: len })
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.pages {
            Some(pages) => pages.map.get(self.start..pages.end),
            None => self.bytes.get(self.start..),
        }
        .unwrap_or_default()
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.pages {
            Some(pages) => pages.map.get_mut(self.start..pages.end),
            None => self.bytes.get_mut(self.start..),
        }
        .unwrap_or_default()
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
    #[cfg_attr(miri, ignore = "asks the system for pages")]
    fn large_memory_is_pages_of_its_own_and_is_kept_until_a_vector_is_wanted() {
        let mut buffer = Buffer::default();
        buffer.resize(LARGE + 1, 5);
        assert!(buffer.iter().all(|byte| *byte == 0));
        assert_eq!((buffer.len(), buffer.capacity()), (LARGE + 1, LARGE + 1 + 5));
        let place = buffer.as_ptr();
        assert_eq!(place.addr() % PAGE, 5);
        for len in [3, LARGE, LARGE + 1] {
            buffer.resize(len, 5);
            buffer.fill(7);
            assert_eq!((buffer.len(), buffer.pages.is_some()), (len, true));
        }
        assert_eq!(buffer.as_ptr(), place);
        buffer.vec().push(1);
        assert_eq!(buffer[..], [1]);
        buffer.resize(2 * LARGE, 0);
        buffer.fill(8);
        assert!(buffer.pages.is_some() && buffer.iter().all(|byte| *byte == 8) && buffer.len() == 2 * LARGE);
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
