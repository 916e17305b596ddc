//! Which files of this machine belong to the input: no output may replace them, by whatever name.

use crate::store::Protected;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

/// The files of an input on disk.
#[derive(Debug, Default)]
pub(super) struct Sources {
    files: HashSet<Identity>,
    /// Directory and stem of the files that the codec found beside the one that the user named: what shares both (the
    /// index of a checkpoint whose data shards these are) belongs to them.
    families: HashSet<(PathBuf, OsString)>,
    /// The directory, where the user named one.
    directory: Option<PathBuf>,
    /// Extensions of the target's format that the source's has not: an earlier result, not a part of the input.
    results: Vec<&'static str>,
}

/// What two names of one file have in common.
#[cfg(unix)]
type Identity = (u64, u64);
#[cfg(not(unix))]
type Identity = PathBuf;

impl Sources {
    pub(super) fn new(protected: Option<&Protected>) -> Self {
        let Some(Protected { store, names, entry, results }) = protected else { return Sources::default() };
        let mut sources = Sources { results: results.clone(), ..Sources::default() };
        let named = Some(entry.as_str()).filter(|entry| !entry.is_empty());
        for name in names.iter().map(String::as_str).chain(named) {
            let Some(path) = store.path(name) else { continue };
            sources.files.extend(identity(&path));
            if Some(name) != named || !path.is_file() {
                sources.families.extend(family(&path, Some(name) == named));
            }
        }
        if named.is_none() {
            sources.directory = store.path("").and_then(|root| root.canonicalize().ok());
        }
        sources
    }

    /// Whether the existing file at `path` is part of the input.
    pub(super) fn contain(&self, path: &Path) -> bool {
        let Ok(real) = path.canonicalize() else { return false };
        if identity(&real).is_some_and(|identity| self.files.contains(&identity)) {
            return true;
        }
        let extension = real.extension().and_then(OsStr::to_str).unwrap_or_default();
        if self.results.iter().any(|result| result.eq_ignore_ascii_case(extension)) {
            return false;
        }
        self.directory.as_ref().is_some_and(|root| real.starts_with(root))
            || family(&real, false).is_some_and(|family| self.families.contains(&family))
    }
}

/// Directory and stem of a file; of a prefix that names no file itself, the whole name is the stem.
fn family(path: &Path, prefix: bool) -> Option<(PathBuf, OsString)> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let stem = if prefix { path.file_name() } else { path.file_stem() };
    Some((directory.canonicalize().ok()?, stem?.to_owned()))
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    let meta = fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> Option<Identity> {
    fs::canonicalize(path).ok()
}
