//! The directory: files appear complete under their final names, or not at all.

mod clone;
mod disk;
mod journal;
mod names;
mod protected;
mod recover;
mod stage;
mod stamp;

#[cfg(test)]
pub(crate) use disk::{Disk, Os};
#[cfg(not(test))]
use disk::{Disk, Os};

use super::{Stage, StageMode, StageRequest, Store};
use ckpt_api::{Address, Directory, Error, ReadAt, ReadStore, Result};
use disk::cannot;
pub use names::refuse_own;
use names::{is_same_name, parent, target};
use protected::Sources;
use stage::{Named, Output, refuse_existing, targets};
use std::fs;
use std::io::ErrorKind::{DirectoryNotEmpty, NotADirectory, NotFound};
use std::io::Write;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files below a directory of this machine.
///
/// Outputs are written under temporary names beside their final ones, and named when they are complete and on the disk.
/// A journal (`.NAME.ckpt-journal`) holds a lock while they are written, and lets a later process go on.
#[derive(Clone, Debug)]
pub struct LocalStore {
    directory: Directory,
    disk: Arc<dyn Disk>,
}

impl LocalStore {
    /// The store in `directory`; the working directory if it is empty.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        LocalStore { directory: Directory::new(directory), disk: Arc::new(Os) }
    }

    /// The store that a path is in, and its name there.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if the path has no file name, or its directory does not exist.
    pub fn of(path: &Path) -> Result<(Self, String)> {
        let shown = || path.display().to_string();
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
            Error::usage("the output's path has no usable file name")
                .file(shown())
                .help("names must be UTF-8")
        })?;
        let directory = path.parent().unwrap_or(Path::new(""));
        if !directory.as_os_str().is_empty() && !directory.is_dir() {
            if let Some(address) = Address::of(path) {
                return Err(address.unwritable());
            }
            return Err(Error::usage("the output's directory does not exist")
                .file(shown())
                .help("create it first"));
        }
        Ok((LocalStore::new(directory), name.to_owned()))
    }

    #[cfg(test)]
    pub(crate) fn on(disk: Arc<dyn Disk>, directory: impl Into<PathBuf>) -> Self {
        LocalStore { directory: Directory::new(directory), disk }
    }

    /// The directory as the user named it: an output's path begins with it.
    fn root(&self) -> &Path {
        let root = self.directory.root();
        if root == Path::new(".") { Path::new("") } else { root }
    }
}

/// Writes all of the bytes at a place of a file.
///
/// # Errors
/// Those of the system.
pub fn write_all(file: &std::fs::File, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
    disk::write_all_at(&Os, file, offset, bytes)
}

impl ReadStore for LocalStore {
    fn list(&self, directory: &str, most: u64) -> Result<Vec<String>> {
        self.directory.list(directory, most)
    }

    fn directories(&self, directory: &str, most: u64) -> Result<Vec<String>> {
        self.directory.directories(directory, most)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        self.directory.open(name)
    }

    fn has(&self, name: &str) -> bool {
        self.directory.has(name)
    }

    fn has_directory(&self, name: &str) -> bool {
        self.directory.has_directory(name)
    }

    fn display(&self, name: &str) -> String {
        self.directory.display(name)
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.directory.path(name)
    }

    fn location(&self) -> Option<String> {
        self.directory.location()
    }
}

impl Store for LocalStore {
    fn check(&self, request: &StageRequest<'_>) -> Result<()> {
        let sources = Sources::new(request.source);
        let targets = targets(self.root(), request.files)?;
        targets
            .iter()
            .try_for_each(|path| refuse_existing(Named::Output, path, request.overwrite, &sources))?;
        let Some(attachment) = request.attachment.map(Path::new) else { return Ok(()) };
        if targets.iter().any(|target| is_same_name(target, attachment)) {
            return Err(Error::usage("the receipt has the same name as a file of the output")
                .file(attachment.display().to_string()));
        }
        refuse_own(attachment)?;
        refuse_existing(Named::Receipt, attachment, request.overwrite, &sources)?;
        // Directories of the output's files are made with them.
        let directory = parent(attachment);
        let made = |target: &PathBuf| target.ancestors().skip(1).any(|above| is_same_name(above, directory));
        if directory.is_dir() || targets.iter().any(made) {
            return Ok(());
        }
        Err(Error::usage("the receipt's directory does not exist")
            .file(attachment.display().to_string())
            .help("make it first"))
    }

    fn clone_block(&self, source: &std::fs::File) -> Option<NonZeroU64> {
        // Directories of an output are made later.
        let root = if self.root() == Path::new("") { Path::new(".") } else { self.root() };
        let existing = root.ancestors().find(|directory| directory.is_dir())?;
        let existing = if existing == Path::new("") { Path::new(".") } else { existing };
        self.disk.clone_block(source, existing)
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = target(self.root(), name)?;
        refuse_own(&path)?;
        let failed = |error| cannot("write the file", &path, error);
        let mut file = tempfile::NamedTempFile::new_in(parent(&path)).map_err(failed)?;
        file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = target(self.root(), name)?;
        let removed = match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_dir() => fs::remove_dir(&path),
            Ok(_) => disk::remove(&*self.disk, &path),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if !matches!(error.kind(), NotFound | NotADirectory | DirectoryNotEmpty) => {
                Err(cannot("remove the file", &path, error))
            }
            _ => Ok(()),
        }
    }

    fn stage(&self, request: &StageRequest<'_>) -> Result<Box<dyn Stage>> {
        let allowed = || self.check(request);
        Ok(Box::new(match request.mode {
            StageMode::Shared => Output::join(&self.disk, self.root(), request, &allowed)?,
            _ => Output::create(&self.disk, self.root(), request, &allowed)?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::{Kind, OutputFile};

    #[test]
    fn an_attachment_lies_in_a_directory_that_exists_or_that_the_output_makes() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("there")).unwrap();
        fs::write(place.path().join("file"), "").unwrap();
        let (store, files) = (LocalStore::new(place.path()), [OutputFile::new("made/below/x", 3)]);
        for (name, is_refused) in [
            ("r", false),
            ("there/r", false),
            ("made/r", false),
            ("made/below/r", false),
            ("made/other/r", true),
            ("file/r", true),
            ("none/r", true),
        ] {
            let path = place.path().join(name).display().to_string();
            let request = StageRequest { attachment: Some(&path), ..StageRequest::new("o", &files) };
            let kind = store.check(&request).err().map(|error| error.kind());
            assert_eq!(kind, is_refused.then_some(Kind::Usage), "{name}");
        }
    }

    #[test]
    fn a_small_file_is_replaced_at_once_and_within_the_store() {
        let place = tempfile::tempdir().unwrap();
        let store = LocalStore::new(place.path());
        ["old", "new"].into_iter().for_each(|text| store.replace("r", text.as_bytes()).unwrap());
        assert_eq!(fs::read(place.path().join("r")).unwrap(), b"new");
        assert_eq!(store.list("", 9).unwrap(), ["r"]);
        assert_eq!(store.replace("../r", b"").unwrap_err().kind(), Kind::Usage);
        assert_eq!(store.replace("none/r", b"").unwrap_err().kind(), Kind::Io);
    }
}
