//! File identity: detects whether a file changed since we looked.

use serde::{Deserialize, Serialize};
use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// What a file has as long as nobody writes to it, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    /// Its number on its file system; 0 if it has none.
    pub(crate) inode: u64,
    /// Bytes.
    pub(crate) len: u64,
    /// When it was last written, in nanoseconds.
    pub(crate) modified: u64,
}

impl Stamp {
    /// Of what has this name, links not followed.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        Ok(Self::of_metadata(&fs::symlink_metadata(path)?))
    }

    pub(crate) fn of_file(file: &File) -> io::Result<Self> {
        Ok(Self::of_metadata(&file.metadata()?))
    }

    pub(crate) fn of_metadata(meta: &Metadata) -> Self {
        let modified = meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified = modified.and_then(|since| u64::try_from(since.as_nanos()).ok()).unwrap_or(0);
        Stamp { inode: inode(meta), len: meta.len(), modified }
    }

    /// Whether both are of one file, which may have been written in between.
    pub(crate) fn is_same_file(&self, other: &Stamp) -> bool {
        self.inode == other.inode
    }
}

#[cfg(unix)]
fn inode(meta: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(meta)
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> u64 {
    0
}
