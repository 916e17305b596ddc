//! What a killed process left, put right by the next one that writes the same output.

use super::disk::{Disk, remove};
use super::journal::{Entry, Past};
use super::names::{Naming, aside, is_temporary, real, target};
use super::stamp::Stamp;
use std::fs;
use std::path::{Path, PathBuf};

/// Of a process that was killed while files got their names: takes back those that were given, unless all were, so that
/// the names have the files that had them before. Returns whether all were. `attachment` is the one of the present
/// request.
pub(super) fn unname(naming: &Naming, past: &Past, attachment: Option<&Path>) -> bool {
    let (Some(header), Some(stamps)) = (&past.header, &past.named) else { return false };
    let entries = header.files.iter().filter_map(|entry| Listed::of(naming.directory(), entry));
    let attached = past.attached.as_deref().and_then(|path| Listed::attached(naming, path, attachment));
    let files: Vec<Listed> = entries.chain(attached).collect();
    if files.len() != stamps.len() {
        return false;
    }
    let pairs = files.iter().zip(stamps);
    let named: Vec<&Listed> = pairs
        .filter(|(file, stamp)| Stamp::of(&file.target).is_ok_and(|found| found == **stamp))
        .map(|(file, _)| file)
        .collect();
    let complete = named.len() == files.len();
    if !complete {
        // The last one leads to the others.
        let own = named.iter().rev().filter(|file| file.is_own);
        own.for_each(|file| drop(fs::rename(&file.target, &file.temporary)));
    }
    for file in &files {
        let _ = match fs::symlink_metadata(&file.target) {
            Ok(_) => fs::remove_file(&file.aside),
            Err(_) => fs::rename(&file.aside, &file.target),
        };
    }
    complete
}

/// Removes the temporary file of what an earlier process attached: it is attached again, or not wanted.
pub(super) fn clean_attached(disk: &dyn Disk, naming: &Naming, past: &Past) {
    let attached = past.attached.as_deref().and_then(|path| Listed::attached(naming, path, None));
    // What fails here fails if the name is needed.
    attached.into_iter().for_each(|file| drop(remove(disk, &file.temporary)));
}

/// Removes the temporary files that a journal lists, and the directories that were made for them if nothing else is
/// there.
pub(super) fn clean(directory: &Path, past: &Past) {
    let Some(header) = &past.header else { return };
    let files = header.files.iter().filter_map(|entry| Listed::of(directory, entry));
    files.for_each(|file| drop(fs::remove_file(file.temporary)));
    let directories = header.directories.iter().rev();
    directories.filter_map(|name| target(directory, name).ok()).for_each(|path| drop(fs::remove_dir(path)));
}

/// A file that a journal lists, which anyone may have written.
struct Listed {
    target: PathBuf,
    temporary: PathBuf,
    aside: PathBuf,
    /// Whether the name may be taken from the file that has it.
    is_own: bool,
}

impl Listed {
    fn of(directory: &Path, entry: &Entry) -> Option<Self> {
        let target = target(directory, &entry.target).ok()?;
        let temporary = is_temporary(&entry.temporary).then(|| target.with_file_name(&entry.temporary))?;
        Some(Listed { aside: aside(&temporary), target, temporary, is_own: true })
    }

    /// An attachment is anywhere. Of the journal's word for it, only files with names that this output alone gives
    /// are touched; the attachment itself only if the present request names it, too.
    fn attached(naming: &Naming, path: &Path, requested: Option<&Path>) -> Option<Self> {
        path.file_name().filter(|_| path.is_absolute())?;
        let temporary = path.with_file_name(naming.temporary_elsewhere(path));
        let is_own = requested.is_some_and(|requested| real(requested) == path);
        Some(Listed { aside: aside(&temporary), target: path.to_owned(), temporary, is_own })
    }
}
