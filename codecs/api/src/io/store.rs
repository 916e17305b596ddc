//! Places that hold named files: the reading half of a store.

use super::read_at::ReadAt;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// A place that holds named files: a directory, memory, a bucket.
///
/// Names use `/`, are relative to the place, and never leave it: [`crate::Input`] refuses absolute names and `..`
/// before it asks.
pub trait ReadStore: fmt::Debug + Send + Sync {
    /// Names of the files directly in `directory` (empty for the place itself), in any order. May stop after `most + 1`
    /// names.
    ///
    /// # Errors
    /// [`crate::Kind::Io`].
    fn list(&self, directory: &str, most: u64) -> Result<Vec<String>>;

    /// Names of the directories directly in `directory`, as [`ReadStore::list`] lists files. None, the default, for a store
    /// that cannot tell.
    ///
    /// # Errors
    /// [`crate::Kind::Io`].
    fn directories(&self, directory: &str, most: u64) -> Result<Vec<String>> {
        let _ = (directory, most);
        Ok(Vec::new())
    }

    /// Opens a file.
    ///
    /// # Errors
    /// [`crate::Kind::Io`] if there is none; [`crate::Kind::Usage`] for something that is no regular file.
    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>>;

    /// Whether `name` is a file (not a directory, pipe or device).
    fn has(&self, name: &str) -> bool;

    /// Whether `name` is a directory, or what names of files below one begin with.
    fn has_directory(&self, name: &str) -> bool;

    /// The name as people should see it in messages.
    fn display(&self, name: &str) -> String {
        name.to_owned()
    }

    /// Where the file is on this machine; `None` if it does not.
    fn path(&self, name: &str) -> Option<PathBuf> {
        let _ = name;
        None
    }

    /// The place's address: equal for two that are the same place. `None` if it has none.
    fn location(&self) -> Option<String> {
        None
    }

    /// Announces files that will be opened, to stores that can look for several at once.
    ///
    /// # For implementers
    /// It is advice, as [`ReadAt::will_read`] is: it returns at once, and fails silently. The files may not exist, or
    /// never be opened.
    fn will_open(&self, names: &[String]) {
        let _ = names;
    }

    /// Forgets what the store knows of files that it looked up before: they are looked up again when they are opened
    /// next. Files that are open stay what they are. Stores that always look have nothing to forget.
    fn forget(&self) {}

    /// Lets the store use `most` bytes of memory to read ahead, and returns how many it uses: fewer, or more if it needs
    /// more. 0 for a store that keeps nothing.
    fn reserve(&self, most: u64) -> u64 {
        let _ = most;
        0
    }
}

/// The files below a directory of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory(PathBuf);

impl Directory {
    /// The directory at `path`; `.` if it is empty.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Directory(if path.as_os_str().is_empty() { PathBuf::from(".") } else { path })
    }

    /// Its path.
    pub fn root(&self) -> &Path {
        &self.0
    }

    /// Names of the entries of one kind in a directory, at most `most + 1`.
    fn entries(&self, directory: &str, most: u64, is_listed: fn(&Path) -> bool) -> Result<Vec<String>> {
        let path = self.0.join(directory);
        let cannot = |error| Error::io("cannot list the directory", error).file(path.display().to_string());
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            if let (Ok(name), true) = (entry.file_name().into_string(), is_listed(&entry.path())) {
                names.push(name);
                if names.len() as u64 > most {
                    break;
                }
            }
        }
        Ok(names)
    }
}

impl ReadStore for Directory {
    fn list(&self, directory: &str, most: u64) -> Result<Vec<String>> {
        self.entries(directory, most, Path::is_file)
    }

    fn directories(&self, directory: &str, most: u64) -> Result<Vec<String>> {
        self.entries(directory, most, Path::is_dir)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        open_regular(&self.0.join(name), &self.display(name))
    }

    fn has(&self, name: &str) -> bool {
        fs::metadata(self.0.join(name)).is_ok_and(|meta| meta.is_file())
    }

    fn has_directory(&self, name: &str) -> bool {
        self.0.join(name).is_dir()
    }

    fn display(&self, name: &str) -> String {
        if name.is_empty() {
            self.0.display().to_string()
        } else if self.0.as_os_str() == "." {
            name.to_owned()
        } else {
            self.0.join(name).display().to_string()
        }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        Some(if name.is_empty() { self.0.clone() } else { self.0.join(name) })
    }

    fn location(&self) -> Option<String> {
        Some(std::path::absolute(&self.0).ok()?.to_str()?.to_owned())
    }
}

/// Opens a file of this machine that errors call `shown`.
///
/// # Errors
/// [`crate::Kind::Io`]; [`crate::Kind::Usage`] for something that is no regular file.
pub fn open_regular(path: &Path, shown: &str) -> Result<Arc<dyn ReadAt>> {
    let cannot = |error| Error::io("cannot open the file", error).file(shown);
    // Opening a pipe would wait for a writer: look before.
    if !fs::metadata(path).map_err(cannot)?.is_file() {
        return Err(Error::usage("not a regular file").file(shown));
    }
    Ok(Arc::new(fs::File::open(path).map_err(cannot)?))
}

/// Files by name, wherever their bytes are.
impl ReadStore for BTreeMap<String, Arc<dyn ReadAt>> {
    fn list(&self, directory: &str, most: u64) -> Result<Vec<String>> {
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let below = self.keys().filter_map(|name| name.strip_prefix(&prefix));
        let direct = below.filter(|name| !name.contains('/')).map(str::to_owned);
        Ok(direct.take(usize::try_from(most).unwrap_or(usize::MAX).saturating_add(1)).collect())
    }

    fn directories(&self, directory: &str, most: u64) -> Result<Vec<String>> {
        Ok(directories_of(self.keys(), directory, most))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        let missing = || Error::io("cannot open the file", io::ErrorKind::NotFound.into()).file(name);
        self.get(name).cloned().ok_or_else(missing)
    }

    fn has(&self, name: &str) -> bool {
        self.contains_key(name)
    }

    fn has_directory(&self, name: &str) -> bool {
        let below = format!("{name}/");
        self.range(below.clone()..).next().is_some_and(|(first, _)| first.starts_with(&below))
    }
}

/// Names of the directories directly in `directory`, at most `most + 1`, of a place whose files have these names.
pub fn directories_of<'a>(
    files: impl IntoIterator<Item = &'a String>,
    directory: &str,
    most: u64,
) -> Vec<String> {
    let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
    let below = files.into_iter().filter_map(|name| name.strip_prefix(&prefix)?.split_once('/'));
    let mut names: Vec<String> = Vec::new();
    for (name, _) in below {
        // The names are sorted, and so are their beginnings up to a slash, or nearly: equal ones are neighbors.
        if names.last().is_none_or(|last| last != name) {
            names.push(name.to_owned());
        }
        if names.len() as u64 > most {
            break;
        }
    }
    names
}

/// What of a store is below one of its directories.
#[derive(Debug)]
pub(crate) struct Below {
    pub(crate) store: Arc<dyn ReadStore>,
    pub(crate) directory: String,
}

impl Below {
    fn within(&self, name: &str) -> String {
        match name {
            "" => self.directory.clone(),
            name => format!("{}/{name}", self.directory),
        }
    }
}

impl ReadStore for Below {
    fn list(&self, directory: &str, most: u64) -> Result<Vec<String>> {
        self.store.list(&self.within(directory), most)
    }

    fn directories(&self, directory: &str, most: u64) -> Result<Vec<String>> {
        self.store.directories(&self.within(directory), most)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        self.store.open(&self.within(name))
    }

    fn has(&self, name: &str) -> bool {
        self.store.has(&self.within(name))
    }

    fn has_directory(&self, name: &str) -> bool {
        self.store.has_directory(&self.within(name))
    }

    fn display(&self, name: &str) -> String {
        self.store.display(&self.within(name))
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.store.path(&self.within(name))
    }

    fn location(&self) -> Option<String> {
        Some(format!("{}/{}", self.store.location()?, self.directory))
    }

    fn will_open(&self, names: &[String]) {
        let names: Vec<String> = names.iter().map(|name| self.within(name)).collect();
        self.store.will_open(&names);
    }

    fn forget(&self) {
        self.store.forget();
    }

    fn reserve(&self, most: u64) -> u64 {
        self.store.reserve(most)
    }
}

/// Checks that a name from a file stays below its directory.
///
/// # Errors
/// [`crate::Kind::Corrupt`].
pub(crate) fn checked(name: &str) -> Result<()> {
    let inside = !name.is_empty()
        && !name.contains(['\0', '\\'])
        && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if inside {
        Ok(())
    } else {
        Err(Error::corrupt("the name leads outside the input's directory")
            .found(format!("'{}'", name.escape_debug()))
            .expected("a file beside the input"))
    }
}
