//! What a killed process left, put right by the next one that writes the same output.

use super::journal::{Entry, Past};
use super::names::{aside, is_temporary, target};
use super::stamp::Stamp;
use std::fs;
use std::path::{Path, PathBuf};

/// Of a process that was killed while files got their names: takes back those that were given, unless all were, so that
/// the names have the files that had them before. Says whether all were.
pub(super) fn unname(directory: &Path, past: &Past) -> bool {
    let (Some(header), Some(stamps)) = (&past.header, &past.named) else { return false };
    let files: Vec<Listed> = header.files.iter().filter_map(|entry| Listed::of(directory, entry)).collect();
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
        named.iter().rev().for_each(|file| drop(fs::rename(&file.target, &file.temporary)));
    }
    for file in &files {
        let _ = match fs::symlink_metadata(&file.target) {
            Ok(_) => fs::remove_file(&file.aside),
            Err(_) => fs::rename(&file.aside, &file.target),
        };
    }
    complete
}

/// Removes the temporary files that a journal lists, and the directories that were made for them if nothing else is there.
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
}

impl Listed {
    fn of(directory: &Path, entry: &Entry) -> Option<Self> {
        let target = target(directory, &entry.target).ok()?;
        let temporary = is_temporary(&entry.temporary).then(|| target.with_file_name(&entry.temporary))?;
        Some(Listed { aside: aside(&temporary), target, temporary })
    }
}
