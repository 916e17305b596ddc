//! Gives the files of an output their final names, and takes the names back where one cannot be given.

use super::given::{Given, Names};
use super::{Output, Pending, existing, exists};
use crate::store::leaving;
use crate::store::local::disk::{Disk, cannot, remove, unremoved};
use crate::store::local::names::aside;
use crate::store::local::stamp::Stamp;
use ckpt_api::{Error, Result};
use std::io;
use std::path::Path;
use tempfile::TempPath;

impl Output {
    /// Notes in the journal what gets its name, and gives the names. After an error, `names` has what to take back.
    pub(super) fn name_all(&mut self, names: &mut Names, sync: bool) -> Result<()> {
        let stamp = |pending: &Pending| {
            Stamp::of(&pending.temporary)
                .map_err(|error| cannot("look at the output", &pending.target, error))
        };
        if self.files.is_empty() {
            return Ok(());
        }
        let stamps = self.files.iter().map(stamp).collect::<Result<Vec<_>>>()?;
        let several = self.files.len() > 1;
        let noted = self.journal.name(&stamps, sync && several);
        // One file gets its name at once, whoever knows of it.
        if several {
            noted?;
        }
        self.set_aside(names)?;
        self.give_names(names, sync)
    }

    /// Keeps the files that are to be replaced, for the case that not all can be.
    fn set_aside(&self, names: &mut Names) -> Result<()> {
        if !self.overwrite {
            return Ok(());
        }
        for pending in self.files.iter().rev().filter(|pending| exists(&pending.target)) {
            let Pending { temporary, target, is_attached, .. } = pending;
            let old = aside(temporary);
            // Where this fails, the next step does.
            let _ = remove(&*self.disk, &old);
            // A file that is an output alone is replaced at once: the old one keeps its name until then.
            let alone = self.names.len() == 1 && !is_attached;
            if !alone || self.disk.hard_link(target, &old).is_err() {
                if self.files.len() == 1 {
                    // Without links, for good.
                    continue;
                }
                self.disk.rename(target, &old).map_err(|error| unnamed(target, error))?;
            }
            names.aside.push((old, target.clone()));
        }
        Ok(())
    }

    /// Names the output's files, then those that are attached: those must not be found where the others could be lost.
    fn give_names(&mut self, names: &mut Names, sync: bool) -> Result<()> {
        let (attached, own) = self.files.drain(..).partition(|pending| pending.is_attached);
        let mut groups: [Vec<Pending>; 2] = [own, attached];
        let mut result = Ok(());
        for group in &mut groups {
            group.reverse();
            let before = names.given.len();
            while result.is_ok()
                && let Some(pending) = group.pop()
            {
                result = self.give_name(pending, names);
            }
            let given = names.given.get(before..).unwrap_or_default();
            if result.is_ok() && sync {
                result = sync_directories(&*self.disk, given);
            }
        }
        // What got no name goes, or stays, with the stage.
        self.files.extend(groups.into_iter().flatten());
        result
    }

    fn give_name(&self, pending: Pending, names: &mut Names) -> Result<()> {
        let Pending { temporary, file, target, is_attached } = pending;
        // Some systems give no name to a file that is open.
        drop(file);
        let replaces = exists(&target);
        let stays = self.stays && !is_attached;
        let persisted = TempPath::try_from_path(&temporary).and_then(|mut path| {
            path.disable_cleanup(true);
            self.disk.persist(path, &target, self.overwrite).map_err(|error| error.error)
        });
        if let Err(error) = persisted {
            let left = if stays { None } else { unremoved(&*self.disk, &temporary) };
            return Err(leaving(unnamed(&target, error), left.as_slice()));
        }
        names.given.push(Given { path: target, replaces, back: stays.then_some(temporary) });
        Ok(())
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
    use crate::store::local::names::parent;
    use std::collections::BTreeSet;
    use std::fs;

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
