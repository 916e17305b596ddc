//! File-system operations used by outputs; a trait, so that tests can inject failures.

use super::clone::{clone_block, clone_range};
use ckpt_api::Error;
use std::fmt;
use std::fs::{self, TryLockError};
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::Path;
use tempfile::{PathPersistError, TempPath};

/// The calls that make an output, and that remove what is not needed any more.
pub(crate) trait Disk: fmt::Debug + Send + Sync {
    fn open(&self, path: &Path, options: &fs::OpenOptions) -> io::Result<fs::File> {
        options.open(path)
    }

    fn make_directories(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn set_len(&self, file: &fs::File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    /// Writes some of the bytes, and returns how many.
    fn write_at(&self, file: &fs::File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        write_at(file, offset, bytes)
    }

    /// Bytes of a block that files in `directory` can share with this one; `None` if they cannot.
    fn clone_block(&self, source: &fs::File, directory: &Path) -> Option<NonZeroU64> {
        clone_block(source, directory)
    }

    /// Shares whole blocks of `source` from `start` on, in place of the bytes in `range` of `file`.
    fn clone_range(
        &self,
        source: &fs::File,
        start: u64,
        file: &fs::File,
        range: Range<u64>,
    ) -> io::Result<()> {
        clone_range(source, start, file, range)
    }

    /// Waits until what was written, or named in a directory, is on the disk.
    fn sync(&self, file: &fs::File) -> io::Result<()> {
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn try_lock(&self, file: &fs::File, shared: bool) -> Result<(), TryLockError> {
        if shared { file.try_lock_shared() } else { file.try_lock() }
    }

    /// Gives a file its final name.
    fn persist(&self, file: TempPath, to: &Path, overwrite: bool) -> Result<(), PathPersistError> {
        if overwrite { file.persist(to) } else { file.persist_noclobber(to) }
    }
}

/// The operating system itself.
#[derive(Debug)]
pub(crate) struct Os;

impl Disk for Os {}

/// What is as long as this is written in parts. What is written to a file is kept in blocks of memory as large as the
/// write: larger ones are hard to find where memory is fragmented, and under a virtual machine they are those that its
/// host has taken back.
const LARGE: usize = 1 << 20;
/// Bytes of a part. What is shorter than [`LARGE`] is not worth that: several threads would wait for each other more
/// often.
const PART: u64 = 128 << 10;

/// Writes all of the bytes, however few are taken at once; many of them up to places that are multiples of a part.
pub(super) fn write_all_at(
    disk: &dyn Disk,
    file: &fs::File,
    mut offset: u64,
    mut bytes: &[u8],
) -> io::Result<()> {
    let large = bytes.len() >= LARGE;
    while !bytes.is_empty() {
        let part = usize::try_from(PART - offset % PART).ok().filter(|_| large);
        let now = part.and_then(|len| bytes.get(..len)).unwrap_or(bytes);
        match disk.write_at(file, offset, now) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = bytes.get(written..).ok_or(io::ErrorKind::InvalidData)?;
                offset = offset.saturating_add(written as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Removes a file. One that does not exist needs no removing.
pub(super) fn remove(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match persistently(|| disk.remove_file(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Why a file could not be removed, for people; `None` once it is gone.
pub(super) fn unremoved(disk: &dyn Disk, path: &Path) -> Option<String> {
    remove(disk, path).err().map(|error| format!("cannot remove '{}': {error}", path.display()))
}

/// Tries again what failed: nothing comes after it that could put it right.
pub(super) fn persistently(act: impl Fn() -> io::Result<()>) -> io::Result<()> {
    const ATTEMPTS: usize = 3;
    (1..ATTEMPTS).find_map(|_| act().ok()).map_or_else(act, Ok)
}

/// What keeps an output from being made.
pub(super) fn cannot(what: &str, path: &Path, error: io::Error) -> Error {
    let full = error.kind() == io::ErrorKind::StorageFull;
    let result = Error::io(format!("cannot {what}"), error).file(path.display().to_string());
    if full {
        result.help("the disk is full: the output was not made; free some space, or write elsewhere")
    } else {
        result
    }
}

#[cfg(unix)]
fn write_at(file: &fs::File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, bytes, offset)
}

#[cfg(windows)]
fn write_at(file: &fs::File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_write(file, bytes, offset)
}

/// Systems without files: their outputs are in memory.
#[cfg(not(any(unix, windows)))]
fn write_at(_: &fs::File, _: u64, _: &[u8]) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Notes every write.
    #[derive(Debug, Default)]
    struct Noting(Mutex<Vec<(u64, usize)>>);

    impl Disk for Noting {
        fn write_at(&self, file: &fs::File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().push((offset, bytes.len()));
            write_at(file, offset, bytes)
        }
    }

    #[test]
    fn what_is_large_is_written_in_parts_and_what_is_not_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let (part, parts) = (PART as usize, LARGE as u64 / PART);
        for len in [LARGE - 1, LARGE] {
            let bytes: Vec<u8> = (0..len).map(|number| (number % 251) as u8).collect();
            let disk = Noting::default();
            write_all_at(&disk, &fs::File::create(&path).unwrap(), 5, &bytes).unwrap();
            assert_eq!(std::fs::read(&path).unwrap()[5..], bytes);
            let mut expected = vec![(5, part - 5)];
            expected.extend((1..parts).map(|number| (number * PART, part)));
            expected.push((LARGE as u64, 5));
            let writes = disk.0.into_inner().unwrap();
            assert_eq!(writes, if len < LARGE { vec![(5, len)] } else { expected });
        }
    }
}
