//! Gives the files of an output their final names, and takes the names back where one cannot be given.

use super::{Output, Pending, existing, exists};
use crate::store::local::disk::{Disk, cannot};
use crate::store::local::names::{aside, parent};
use ckpt_api::{Error, Result};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

impl Output {
    /// Keeps the files that are to be replaced, for the case that not all can be.
    pub(super) fn set_aside(&self, names: &mut Names) -> Result<()> {
        if !self.overwrite {
            return Ok(());
        }
        let listed = self.files.iter().take(self.listed);
        for Pending { temporary, target, .. } in listed.rev().filter(|pending| exists(&pending.target)) {
            let old = aside(temporary);
            let _ = fs::remove_file(&old);
            if self.listed > 1 {
                self.disk.rename(target, &old).map_err(|error| unnamed(target, error))?;
            } else if self.disk.hard_link(target, &old).is_err() {
                // A file alone is replaced at once; without links, for good.
                continue;
            }
            names.aside.push((old, target.clone()));
        }
        Ok(())
    }

    pub(super) fn give_names(&mut self, names: &mut Names, sync: bool) -> Result<()> {
        for Pending { temporary, target, file } in self.files.drain(..) {
            // Some systems give no name to a file that is open.
            drop(file);
            let replaces = exists(&target);
            let back = (self.stays && names.given.len() < self.listed).then(|| temporary.to_path_buf());
            let persisted = self.disk.persist(temporary, &target, self.overwrite);
            persisted.map_err(|error| unnamed(&target, error.error))?;
            names.given.push(Given { path: target, replaces, back });
        }
        if sync { sync_directories(&*self.disk, &names.given) } else { Ok(()) }
    }
}

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
    replaces: bool,
    /// What the file was called before, where it must stay.
    back: Option<PathBuf>,
}

impl Names {
    pub(super) fn take_back(self) {
        for Given { path, replaces, back } in self.given.iter().rev() {
            // What fails here, the next process does that takes the output.
            let _ = match back {
                Some(back) => fs::rename(path, back),
                None if *replaces => Ok(()),
                None => fs::remove_file(path),
            };
        }
        for (old, path) in self.aside.iter().rev() {
            if fs::rename(old, path).is_ok() {
                // Of two names of one file, renaming keeps both.
                let _ = fs::remove_file(old);
            }
        }
    }
}

/// Another process may have made the output since it was looked for.
fn unnamed(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::AlreadyExists => existing(path),
        _ => cannot("give the output its name", path, error),
    }
}

#[cfg(unix)]
fn sync_directories(disk: &dyn Disk, files: &[Given]) -> Result<()> {
    let directories: BTreeSet<&Path> = files.iter().map(|given| parent(&given.path)).collect();
    for directory in directories {
        fs::File::open(directory)
            .and_then(|handle| disk.sync(&handle))
            .map_err(|error| cannot("flush the output's directory", directory, error))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn sync_directories(_: &dyn Disk, _: &[Given]) -> Result<()> {
    Ok(())
}
