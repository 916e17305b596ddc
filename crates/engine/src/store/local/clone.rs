//! Blocks that several files share, if the system has that.

pub(super) use system::{clone_block, clone_range};

#[cfg(target_os = "linux")]
mod system {
    use rustix::fs::{copy_file_range, fstatvfs, ioctl_ficlone};
    use std::fs::File;
    use std::io::{self, Write};
    use std::num::NonZeroU64;
    use std::ops::Range;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    /// Bytes of a block that files in `directory` can share with `source`; `None` if they cannot. Two files without names
    /// try it: whether a file system of a kind that shares blocks was made with that is not told otherwise.
    pub(crate) fn clone_block(source: &File, directory: &Path) -> Option<NonZeroU64> {
        const LARGEST: u64 = 1 << 20;
        let device = std::fs::metadata(directory).ok()?.dev();
        if source.metadata().ok()?.dev() != device {
            return None;
        }
        let block = NonZeroU64::new(fstatvfs(source).ok()?.f_bsize)?;
        if !block.is_power_of_two() || block.get() > LARGEST {
            return None;
        }
        let mut one = tempfile::tempfile_in(directory).ok()?;
        one.write_all(&vec![1; usize::try_from(block.get()).ok()?]).ok()?;
        let other = tempfile::tempfile_in(directory).ok()?;
        ioctl_ficlone(&other, &one).ok().map(|()| block)
    }

    /// Shares whole blocks of `source` from `start` on, in place of the bytes in `range` of `file`.
    pub(crate) fn clone_range(
        source: &File,
        mut start: u64,
        file: &File,
        range: Range<u64>,
    ) -> io::Result<()> {
        if source.metadata()?.dev() != file.metadata()?.dev() {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        let mut at = range.start;
        while at < range.end {
            let left = usize::try_from(range.end - at).unwrap_or(usize::MAX >> 1);
            match copy_file_range(source, Some(&mut start), file, Some(&mut at), left) {
                // It moves both offsets.
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Other systems: nothing is shared.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::fs::File;
    use std::io;
    use std::num::NonZeroU64;
    use std::ops::Range;
    use std::path::Path;

    pub(crate) fn clone_block(_: &File, _: &Path) -> Option<NonZeroU64> {
        None
    }

    pub(crate) fn clone_range(_: &File, _: u64, _: &File, _: Range<u64>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
