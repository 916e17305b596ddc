//! Names that files were given, to take them back.

use crate::store::local::disk::{Disk, persistently, unremoved};
use std::fs;
use std::path::{Path, PathBuf};

/// Names that files were given, and lost.
#[derive(Default)]
pub(super) struct Names {
    pub(super) given: Vec<Given>,
    /// Where a file is now, and where it was.
    pub(super) aside: Vec<(PathBuf, PathBuf)>,
}

/// A name that a file was given.
pub(super) struct Given {
    pub(super) path: PathBuf,
    /// Whether another file had it.
    pub(super) replaces: bool,
    /// What the file was called before, where it must stay.
    pub(super) back: Option<PathBuf>,
}

impl Names {
    /// Gives the names back to the files that had them; returns those for which that fails.
    pub(super) fn take_back(self, disk: &dyn Disk) -> Vec<String> {
        let mut failed = Vec::new();
        let renamed = |from: &Path, to: &Path| {
            let failed = |error| format!("cannot rename '{}' to '{}': {error}", from.display(), to.display());
            persistently(|| fs::rename(from, to)).map_err(failed)
        };
        for Given { path, replaces, back } in self.given.iter().rev() {
            failed.extend(match back {
                Some(back) => renamed(path, back).err(),
                None if *replaces => None,
                None => unremoved(disk, path),
            });
        }
        for (old, path) in self.aside.iter().rev() {
            // Of two names of one file, renaming keeps both.
            failed.extend(renamed(old, path).err().or_else(|| unremoved(disk, old)));
        }
        failed
    }
}
