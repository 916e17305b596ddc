//! Bytes that can be read at any place.

use std::fmt;
use std::fs;
use std::io;
use std::ops::Range;
use std::time::UNIX_EPOCH;

/// Something that can be read at any place, by several threads at once: what the files of an [`crate::Input`] are,
/// wherever they are.
pub trait ReadAt: fmt::Debug + Send + Sync {
    /// Bytes in it.
    ///
    /// # Errors
    /// Whatever keeps them from being counted.
    fn size(&self) -> io::Result<u64>;

    /// Reads bytes from `offset` on into the beginning of `buffer`, and returns how many: fewer than fit are no sign of
    /// the end, none are.
    ///
    /// # Errors
    /// Whatever keeps them from being read; after [`io::ErrorKind::Interrupted`] it is asked again.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Identifies the present content: equal as long as nobody changes the file. `None` if it cannot be identified.
    fn identity(&self) -> Option<String> {
        None
    }

    /// Announces which bytes one reader will read, in that order, to stores that can fetch them ahead. What several readers
    /// read at the same time is announced in several calls, in the order in which they begin.
    ///
    /// # For implementers
    /// It is advice: it returns at once, fails silently, and promises nothing. Ranges may reach beyond the end,
    /// overlap, or never be read, and other bytes may be read. Several threads announce and read at the same time, and
    /// a later call adds to the earlier ones.
    fn will_read(&self, ranges: &[Range<u64>]) {
        let _ = ranges;
    }

    /// The file of this machine that holds these bytes at these offsets, whose blocks another file may share. `None`, the
    /// default, if the bytes are elsewhere.
    fn as_file(&self) -> Option<&fs::File> {
        None
    }
}

impl ReadAt for fs::File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn as_file(&self) -> Option<&fs::File> {
        Some(self)
    }

    #[cfg(unix)]
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, buffer, offset)
    }

    #[cfg(windows)]
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(self, buffer, offset)
    }

    /// Systems without files: their inputs are in memory.
    #[cfg(not(any(unix, windows)))]
    fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn identity(&self) -> Option<String> {
        identity_of(&self.metadata().ok()?)
    }
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|start| self.get(start..)).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..len), rest.get(..len)) {
            to.copy_from_slice(from);
        }
        Ok(len)
    }
}

/// What a file has as long as nobody writes to it: its length, when it was last written, and when anything about it
/// last changed, so that setting the time of the last writing back does not hide it.
fn identity_of(meta: &fs::Metadata) -> Option<String> {
    let modified = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
    Some(format!("{:x}-{modified:x}-{}", meta.len(), changed(meta)))
}

#[cfg(unix)]
fn changed(meta: &fs::Metadata) -> String {
    use std::os::unix::fs::MetadataExt;
    format!("{:x}-{:x}.{:x}", meta.ino(), meta.ctime(), meta.ctime_nsec())
}

#[cfg(not(unix))]
fn changed(_: &fs::Metadata) -> String {
    String::new()
}

/// Fills `buffer` from `offset`, however little comes at once.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] at the end; those of [`ReadAt::read_at`].
pub fn read_exact_at(file: &dyn ReadAt, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        match file.read_at(offset, buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                let rest = buffer.get_mut(read..).ok_or(io::ErrorKind::InvalidData)?;
                (buffer, offset) = (rest, offset.saturating_add(read as u64));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Answers so, call by call, and then as its bytes do.
    #[derive(Debug)]
    struct Answers(Mutex<Vec<io::Result<usize>>>, Vec<u8>);

    impl ReadAt for Answers {
        fn size(&self) -> io::Result<u64> {
            self.1.size()
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            let read = self.1.read_at(offset, buffer)?;
            self.0.lock().unwrap().pop().unwrap_or(Ok(read))
        }
    }

    fn read(answers: Vec<io::Result<usize>>) -> (io::Result<()>, [u8; 4]) {
        let answers = Answers(Mutex::new(answers.into_iter().rev().collect()), b"012345".to_vec());
        let mut buffer = [b'-'; 4];
        (read_exact_at(&answers, 1, &mut buffer), buffer)
    }

    #[test]
    fn what_comes_in_parts_or_after_an_interruption_is_whole() {
        let interrupted = || Err(io::ErrorKind::Interrupted.into());
        for answers in [vec![], vec![Ok(1)], vec![interrupted(), Ok(2), interrupted(), interrupted()]] {
            let (result, buffer) = read(answers);
            result.unwrap();
            assert_eq!(&buffer, b"1234");
        }
    }

    #[test]
    fn an_end_an_error_and_more_than_fits_are_errors() {
        let kind = |answers| read(answers).0.unwrap_err().kind();
        assert_eq!(kind(vec![Ok(1), Ok(0)]), io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(vec![Ok(1), Err(io::ErrorKind::TimedOut.into())]), io::ErrorKind::TimedOut);
        assert_eq!(kind(vec![Ok(5)]), io::ErrorKind::InvalidData);
    }

    #[test]
    fn of_bytes_there_are_as_many_as_lie_behind_the_offset() {
        let bytes = b"012".to_vec();
        let mut buffer = [0; 2];
        for (offset, len) in [(0, 2), (1, 2), (2, 1), (3, 0), (4, 0), (u64::MAX, 0)] {
            assert_eq!(bytes.read_at(offset, &mut buffer).unwrap(), len, "{offset}");
        }
    }
}
