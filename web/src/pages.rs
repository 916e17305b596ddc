//! Keeps the last pages of files: each call of the browser's file reader costs as much as reading many kilobytes.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a page.
const PAGE: u64 = 128 << 10;
/// Pages that are kept, of all files together: 8 MiB.
const KEPT: usize = 64;

/// The pages that were read last, the last one first.
#[derive(Debug, Default)]
pub(crate) struct Pages(Mutex<Vec<Page>>);

#[derive(Clone, Debug)]
struct Page {
    file: u32,
    number: u64,
    bytes: Arc<[u8]>,
}

impl Pages {
    /// Reads bytes of a file of `size` bytes into the beginning of `buffer`, and returns how many; `fetch` reads those that
    /// are not kept. Long reads are not kept.
    pub(crate) fn read(
        &self,
        file: u32,
        size: u64,
        offset: u64,
        buffer: &mut [u8],
        fetch: impl Fn(u64, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if offset >= size || buffer.is_empty() {
            return Ok(0);
        }
        if buffer.len() as u64 >= PAGE / 2 {
            return fetch(offset, buffer);
        }
        let number = offset / PAGE;
        let start = number * PAGE;
        let bytes = self.page(file, number, || {
            let len = usize::try_from(PAGE.min(size - start)).map_err(|_| io::ErrorKind::InvalidData)?;
            let mut bytes = vec![0; len];
            let mut done = 0;
            while done < len {
                let Some(rest) = bytes.get_mut(done..) else { break };
                match fetch(start + done as u64, rest)? {
                    0 => break,
                    read => done += read,
                }
            }
            bytes.truncate(done);
            Ok(bytes)
        })?;
        let from = usize::try_from(offset - start).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
        let len = from.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..len), from.get(..len)) {
            to.copy_from_slice(from);
        }
        Ok(len)
    }

    /// A page, which moves to the front.
    fn page(
        &self,
        file: u32,
        number: u64,
        fetch: impl FnOnce() -> io::Result<Vec<u8>>,
    ) -> io::Result<Arc<[u8]>> {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let page = match pages.iter().position(|page| page.file == file && page.number == number) {
            Some(at) => pages.remove(at),
            None => Page { file, number, bytes: fetch()?.into() },
        };
        let bytes = page.bytes.clone();
        pages.insert(0, page);
        pages.truncate(KEPT);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Reads like a file whose bytes count up, and counts the calls.
    fn counting(calls: &Cell<usize>) -> impl Fn(u64, &mut [u8]) -> io::Result<usize> {
        move |offset, buffer| {
            calls.set(calls.get() + 1);
            buffer.iter_mut().zip(offset..).for_each(|(byte, at)| *byte = (at % 251) as u8);
            Ok(buffer.len())
        }
    }

    fn read(pages: &Pages, calls: &Cell<usize>, file: u32, size: u64, offset: u64, len: usize) -> Vec<u8> {
        let mut buffer = vec![0; len];
        let read = pages.read(file, size, offset, &mut buffer, counting(calls)).unwrap();
        buffer.truncate(read);
        buffer
    }

    #[test]
    fn small_reads_of_one_page_cost_one_call() {
        let (pages, calls) = (Pages::default(), Cell::new(0));
        for offset in [0, 7, 1000, PAGE - 1] {
            let expected = (offset % 251) as u8;
            assert_eq!(read(&pages, &calls, 1, 1 << 30, offset, 1), [expected]);
        }
        assert_eq!(calls.get(), 1);
        assert_eq!(read(&pages, &calls, 2, 1 << 30, 0, 1), [0], "another file has its own pages");
        assert_eq!(calls.get(), 2);
    }

    #[test]
    fn a_read_ends_at_its_page_and_at_the_end_of_the_file() {
        let (pages, calls) = (Pages::default(), Cell::new(0));
        assert_eq!(read(&pages, &calls, 1, 1 << 30, PAGE - 3, 10).len(), 3);
        assert_eq!(read(&pages, &calls, 2, 5, 2, 10), [2, 3, 4]);
        assert!(read(&pages, &calls, 2, 5, 5, 10).is_empty());
    }

    #[test]
    fn what_was_not_read_for_longest_goes_first() {
        let (pages, calls) = (Pages::default(), Cell::new(0));
        for page in 0..=KEPT as u64 {
            read(&pages, &calls, 1, 1 << 30, page * PAGE, 1);
            read(&pages, &calls, 1, 1 << 30, 0, 1);
        }
        assert_eq!(calls.get(), KEPT + 1, "the first page stays, because it is read all the time");
        read(&pages, &calls, 1, 1 << 30, PAGE, 1);
        assert_eq!(calls.get(), KEPT + 2, "the second went");
    }

    #[test]
    fn a_long_read_goes_to_the_file() {
        let (pages, calls) = (Pages::default(), Cell::new(0));
        assert_eq!(read(&pages, &calls, 1, 1 << 30, 3, 1 << 20).len(), 1 << 20);
        assert_eq!(calls.get(), 1);
    }
}
