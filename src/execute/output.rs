//! Files that appear complete under their final names, or not at all.

use super::sources::Sources;
use super::stream::KEPT_OPEN;
use ckpt_api::{Error, FileId, OutputFile, Result};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use tempfile::{NamedTempFile, TempPath};

/// Output files under temporary names beside their final ones; removed when dropped before [`Output::commit`].
#[derive(Debug)]
pub(crate) struct Output {
    files: Vec<Pending>,
    created: Vec<PathBuf>,
    overwrite: bool,
}

/// A file that has no final name yet.
#[derive(Debug)]
struct Pending {
    temporary: TempPath,
    /// `None` where too many others are open: then every access opens it.
    handle: Option<fs::File>,
    target: PathBuf,
    /// Whether another file has the final name.
    replaces: bool,
}

impl Output {
    /// Checks every final name, then makes the temporary files.
    pub(crate) fn create(
        directory: &Path,
        files: &[OutputFile],
        overwrite: bool,
        sources: &Sources,
    ) -> Result<Self> {
        let mut output = Output { files: Vec::new(), created: Vec::new(), overwrite };
        let targets = Self::check(directory, files, overwrite, sources)?;
        for (target, file) in targets.into_iter().zip(files) {
            output.add(target, file.len)?;
        }
        Ok(output)
    }

    /// Makes one more temporary file, for a final name that was checked.
    pub(crate) fn add(&mut self, target: PathBuf, len: Option<u64>) -> Result<FileId> {
        let (handle, temporary) = self.temporary(&target)?.into_parts();
        if let Some(len) = len {
            handle.set_len(len).map_err(|error| cannot("make the output file", &target, error))?;
        }
        let handle = (self.files.len() < KEPT_OPEN).then_some(handle);
        let replaces = fs::symlink_metadata(&target).is_ok();
        self.files.push(Pending { temporary, handle, target, replaces });
        Ok(FileId(self.files.len() - 1))
    }

    /// Where each of `files`, with which this was created, lies until it has its name.
    pub(crate) fn staged(&self, files: &[OutputFile]) -> BTreeMap<String, PathBuf> {
        let pairs = files.iter().zip(&self.files);
        pairs.map(|(file, pending)| (file.name.clone(), pending.temporary.to_path_buf())).collect()
    }

    /// The final paths, if files may be made there.
    pub(crate) fn check(
        directory: &Path,
        files: &[OutputFile],
        overwrite: bool,
        sources: &Sources,
    ) -> Result<Vec<PathBuf>> {
        let targets = files.iter().map(|file| target(directory, &file.name)).collect::<Result<Vec<_>>>()?;
        targets.iter().try_for_each(|path| refuse_existing(path, overwrite, sources))?;
        Ok(targets)
    }

    /// Checks one more final name.
    pub(crate) fn check_file(path: &Path, overwrite: bool, sources: &Sources) -> Result<()> {
        refuse_existing(path, overwrite, sources)
    }

    fn temporary(&mut self, path: &Path) -> Result<NamedTempFile> {
        let directory = parent(path);
        if !directory.exists() {
            let missing = directory
                .ancestors()
                .take_while(|ancestor| !ancestor.as_os_str().is_empty() && !ancestor.exists());
            let missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
            fs::create_dir_all(directory)
                .map_err(|error| cannot("make the output's directory", directory, error))?;
            self.created.extend(missing);
        }
        let mut builder = tempfile::Builder::new();
        let prefix = temporary_prefix(path);
        builder.prefix(&prefix).suffix(".ckpt-tmp");
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        builder
            .tempfile_in(directory)
            .map_err(|error| cannot("make a file in the output's directory", directory, error))
    }

    /// Writes bytes at a place in a file.
    pub(crate) fn write_at(&self, file: FileId, offset: u64, bytes: &[u8]) -> Result<()> {
        let pending = &self.files[file.0];
        pending
            .with_handle(|handle| write_all_at(handle, bytes, offset))
            .map_err(|error| cannot("write the output", &pending.target, error).offset(offset))
    }

    /// Bytes in all files.
    pub(crate) fn bytes(&self) -> Result<u64> {
        self.files.iter().try_fold(0, |sum, pending| {
            let meta = pending.with_handle(fs::File::metadata);
            Ok(sum + meta.map_err(|error| cannot("look at the output", &pending.target, error))?.len())
        })
    }

    /// Waits until all bytes are on the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.files.iter().try_for_each(|pending| {
            pending
                .with_handle(fs::File::sync_all)
                .map_err(|error| cannot("flush the output", &pending.target, error))
        })
    }

    /// Gives every file its final name, the last one last. `sync` waits until the names are on the disk.
    pub(crate) fn commit(mut self, sync: bool) -> Result<Vec<PathBuf>> {
        let mut done: Vec<(PathBuf, bool)> = Vec::new();
        for Pending { temporary, target, replaces, .. } in self.files.drain(..) {
            let persisted = match self.overwrite {
                true => temporary.persist(&target),
                false => temporary.persist_noclobber(&target),
            };
            if let Err(error) = persisted {
                // A replaced file cannot be brought back; new ones are taken away again.
                let new = done.iter().filter(|(_, replaced)| !replaced);
                new.for_each(|(path, _)| drop(fs::remove_file(path)));
                return Err(unnamed(&target, error.error));
            }
            done.push((target, replaces));
        }
        self.created.clear();
        let done: Vec<PathBuf> = done.into_iter().map(|(path, _)| path).collect();
        if sync {
            sync_directories(&done)?;
        }
        Ok(done)
    }
}

impl Pending {
    fn with_handle<T>(&self, act: impl Fn(&fs::File) -> io::Result<T>) -> io::Result<T> {
        match &self.handle {
            Some(handle) => act(handle),
            None => act(&fs::OpenOptions::new().write(true).open(&self.temporary)?),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.files.clear();
        // Deepest first; a directory in which someone else put something stays.
        self.created.iter().for_each(|directory| drop(fs::remove_dir(directory)));
    }
}

/// The beginning of the temporary name: no longer than systems allow, however long the final name is.
fn temporary_prefix(path: &Path) -> String {
    const LONGEST: usize = 120;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let end = name.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= LONGEST).last();
    format!(".{}.", &name[..end.unwrap_or(0)])
}

fn target(directory: &Path, name: &str) -> Result<PathBuf> {
    let inside = !name.is_empty()
        && !name.contains('\0')
        && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if inside {
        Ok(directory.join(name))
    } else {
        Err(Error::usage("the output's name leaves its directory").found(format!("{name:?}")))
    }
}

fn refuse_existing(path: &Path, overwrite: bool, sources: &Sources) -> Result<()> {
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(()) };
    let shown = path.display().to_string();
    if sources.contain(path) {
        return Err(Error::usage("the output is the input, or a part of it")
            .file(shown)
            .help("write to another name; the source is never changed"));
    }
    if meta.is_dir() {
        return Err(Error::usage("the output is a directory")
            .file(shown)
            .help("name the file to write in it"));
    }
    if overwrite { Ok(()) } else { Err(exists(path)) }
}

/// The directory that a file lies in; `.` where its path names none.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Another process may have made the output since it was looked for.
fn unnamed(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => cannot("give the output its name", path, error),
    }
}

fn exists(path: &Path) -> Error {
    Error::usage("the output exists")
        .file(path.display().to_string())
        .help("choose another name, or replace it with --force")
}

fn cannot(what: &str, path: &Path, error: io::Error) -> Error {
    let full = error.kind() == io::ErrorKind::StorageFull;
    let result = Error::io(format!("cannot {what}"), error).file(path.display().to_string());
    if full {
        result.help("the disk is full: nothing was left behind; make room or write elsewhere")
    } else {
        result
    }
}

#[cfg(unix)]
fn sync_directories(files: &[PathBuf]) -> Result<()> {
    let directories: std::collections::BTreeSet<&Path> = files.iter().map(|path| parent(path)).collect();
    for directory in directories {
        fs::File::open(directory)
            .and_then(|handle| handle.sync_all())
            .map_err(|error| cannot("flush the output's directory", directory, error))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn sync_directories(_: &[PathBuf]) -> Result<()> {
    Ok(())
}

#[cfg(unix)]
fn write_all_at(file: &fs::File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(windows)]
fn write_all_at(file: &fs::File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !bytes.is_empty() {
        let written = file.seek_write(bytes, offset)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}
