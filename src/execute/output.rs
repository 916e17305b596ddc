//! Files that appear complete under their final names, or not at all.

use super::disk::{Disk, cannot, write_all_at};
use super::journal::{Entry, Fingerprint, Header, Journal, Past, Record, VERSION, open_own};
use super::names::{Naming, aside, check_distinct, parent, target};
use super::recover::{clean, unname};
use super::sources::Sources;
use super::stamp::Stamp;
use super::stream::KEPT_OPEN;
use ckpt_api::{Error, FileId, Input, OutputFile, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempPath;

/// Output files under temporary names beside their final ones; removed when dropped before [`Output::commit`].
#[derive(Debug)]
pub(crate) struct Output {
    disk: Arc<dyn Disk>,
    files: Vec<Pending>,
    /// How many of them the journal lists.
    listed: usize,
    naming: Naming,
    past: Past,
    earlier: Earlier,
    /// The final names, where a killed process had given all of them.
    complete: Vec<PathBuf>,
    journal: Journal,
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
}

/// What is to be written, and where.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) disk: &'a Arc<dyn Disk>,
    pub(crate) directory: &'a Path,
    /// What the user calls the output.
    pub(crate) name: &'a str,
    pub(crate) files: &'a [OutputFile],
    pub(crate) overwrite: bool,
    /// Of all that decides the bytes; `None` where nobody can tell later whether the source is the same.
    pub(crate) fingerprint: Option<Fingerprint>,
    /// Keep what a killed process left.
    pub(crate) resume: bool,
    /// Whether an output that a killed process completed is all that is wanted.
    pub(crate) complete: bool,
}

/// What a killed process left of the same output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Earlier {
    Nothing,
    /// Of another source, or by other options.
    Other,
    Kept,
    /// It lacked nothing: there is nothing to be done.
    Complete,
}

impl Output {
    /// Takes the output, puts right what a killed process left, and makes the temporary files. `allowed` says whether the
    /// final names may be given to them.
    pub(crate) fn create(wanted: &Wanted, allowed: &dyn Fn() -> Result<()>) -> Result<Self> {
        let Wanted { directory, files, overwrite, .. } = *wanted;
        let naming = Naming::new(directory, wanted.name);
        let targets = targets(directory, files)?;
        if let Err(error) = allowed() {
            // A process that was killed while it gave names is no reason to refuse.
            fs::symlink_metadata(&naming.journal).map_err(|_| error)?;
        }
        let mut journal = Journal::take(wanted.disk, &naming.journal)?;
        let past = journal.read()?;
        let entry =
            |file: &OutputFile| Entry { target: file.name.clone(), temporary: naming.temporary(&file.name) };
        let header = Header {
            version: VERSION,
            fingerprint: wanted.fingerprint,
            files: files.iter().map(entry).collect(),
            directories: Vec::new(),
        };
        let mut output = Output {
            disk: wanted.disk.clone(),
            files: Vec::new(),
            listed: 0,
            earlier: earlier(wanted, &header, past.header.as_ref()),
            naming,
            past,
            complete: Vec::new(),
            journal,
            created: Vec::new(),
            overwrite,
        };
        if unname(directory, &output.past) {
            output.journal.finished();
            if output.earlier == Earlier::Kept && wanted.complete {
                output.earlier = Earlier::Complete;
                output.complete = targets;
                return Ok(output);
            }
        }
        allowed()?;
        output.begin(wanted, header)?;
        // All directories before the first file: one that vanishes while files are made is not made again.
        for directory in targets.iter().map(|target| parent(target)) {
            let made = output.disk.make_directories(directory);
            made.map_err(|error| cannot("make the output's directory", directory, error))?;
        }
        for (target, file) in targets.into_iter().zip(files) {
            output.stage(target, output.naming.temporary(&file.name), file.len)?;
        }
        output.listed = output.files.len();
        Ok(output)
    }

    /// Begins the journal, or goes on with the one of the killed process.
    fn begin(&mut self, wanted: &Wanted, mut header: Header) -> Result<()> {
        match &self.past.header {
            Some(before) if self.earlier == Earlier::Kept => {
                header.directories.clone_from(&before.directories);
                self.journal.go_on(&self.past)?;
            }
            _ => {
                clean(wanted.directory, &self.past);
                self.past = Past::default();
                header.directories = missing(wanted.directory, wanted.files);
                self.journal.begin(&header)?;
            }
        }
        self.created = header.directories.iter().map(|name| wanted.directory.join(name)).collect();
        Ok(())
    }

    /// Makes one more temporary file, for a final name that was checked.
    pub(crate) fn add(&mut self, target: PathBuf) -> Result<FileId> {
        let temporary = self.naming.temporary_elsewhere(&target);
        self.stage(target, temporary, None)
    }

    fn stage(&mut self, target: PathBuf, temporary: String, len: Option<u64>) -> Result<FileId> {
        let path = target.with_file_name(temporary);
        let handle = open_temporary(&*self.disk, &path, self.earlier == Earlier::Kept)
            .map_err(|error| cannot("make a file in the output's directory", parent(&target), error))?;
        let temporary = TempPath::try_from_path(path)
            .map_err(|error| cannot("make a file in the output's directory", parent(&target), error))?;
        // What has no length yet is written in one go.
        let sized = self.disk.set_len(&handle, len.unwrap_or(0));
        sized.map_err(|error| cannot("make the output file", &target, error))?;
        let handle = (self.files.len() < KEPT_OPEN).then_some(handle);
        self.files.push(Pending { temporary, handle, target });
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
        let targets = targets(directory, files)?;
        targets.iter().try_for_each(|path| refuse_existing(path, overwrite, sources))?;
        Ok(targets)
    }

    /// Checks one more final name.
    pub(crate) fn check_file(path: &Path, overwrite: bool, sources: &Sources) -> Result<()> {
        refuse_existing(path, overwrite, sources)
    }

    /// What another process noted of the tensor with this number.
    pub(super) fn record(&self, number: u64) -> Option<&Record> {
        let kept = matches!(self.earlier, Earlier::Kept | Earlier::Complete);
        self.past.done.get(&number).filter(|_| kept)
    }

    /// Where all files are, of an output that is complete: [`Earlier::Complete`].
    pub(crate) fn complete(&self) -> &[PathBuf] {
        &self.complete
    }

    /// What a killed process left.
    pub(crate) fn earlier(&self) -> Earlier {
        self.earlier
    }

    /// A file of the output, to be read.
    pub(super) fn file(&self, id: FileId) -> Result<ckpt_api::File> {
        let path = self.files.get(id.0).map(|pending| pending.temporary.to_path_buf());
        let path = path.or_else(|| self.complete.get(id.0).cloned());
        let path = path.ok_or_else(|| Error::mismatch("the output has no such file"))?;
        Input::staged(parent(&path), "file", BTreeMap::from([("file".to_owned(), path.clone())])).main()
    }

    pub(super) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Writes bytes at a place in a file.
    pub(crate) fn write_at(&self, file: FileId, offset: u64, bytes: &[u8]) -> Result<()> {
        let pending = &self.files[file.0];
        pending
            .with_handle(|handle| write_all_at(&*self.disk, handle, offset, bytes))
            .map_err(|error| cannot("write the output", &pending.target, error).offset(offset))
    }

    /// Bytes in all files.
    pub(crate) fn bytes(&self) -> Result<u64> {
        let staged = self.files.iter().map(|pending| (&*pending.temporary, &pending.target));
        let complete = self.complete.iter().map(|path| (path.as_path(), path));
        staged.chain(complete).try_fold(0, |sum, (path, target)| {
            let meta = fs::symlink_metadata(path);
            Ok(sum + meta.map_err(|error| cannot("look at the output", target, error))?.len())
        })
    }

    /// Waits until all bytes are on the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.files.iter().try_for_each(|pending| {
            pending
                .with_handle(|handle| self.disk.sync(handle))
                .map_err(|error| cannot("flush the output", &pending.target, error))
        })
    }

    /// Gives every file its final name, the last one last. `sync` waits until the names are on the disk.
    ///
    /// Where several files replace others, the old ones lose their names first, the last one before the others: at no
    /// time do old and new files stand together as one checkpoint.
    pub(crate) fn commit(mut self, sync: bool) -> Result<Vec<PathBuf>> {
        let stamp = |pending: &Pending| {
            Stamp::of(&pending.temporary)
                .map_err(|error| cannot("look at the output", &pending.target, error))
        };
        let listed = self.files.iter().take(self.listed);
        let stamps = listed.map(stamp).collect::<Result<Vec<_>>>()?;
        let several = self.files.len() > 1;
        let noted = self.journal.name(&stamps, sync && several);
        // One file gets its name at once, whoever knows of it.
        if several {
            noted?
        }
        let mut names = Names::default();
        let result = self.set_aside(&mut names).and_then(|()| self.give_names(&mut names, sync));
        if let Err(error) = result {
            names.take_back();
            return Err(error);
        }
        self.created.clear();
        names.aside.iter().for_each(|(old, _)| drop(fs::remove_file(old)));
        Ok(names.given.into_iter().map(|(path, _)| path).collect())
    }

    /// Keeps the files that are to be replaced, for the case that not all can be.
    fn set_aside(&self, names: &mut Names) -> Result<()> {
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

    fn give_names(&mut self, names: &mut Names, sync: bool) -> Result<()> {
        for Pending { temporary, target, .. } in self.files.drain(..) {
            let replaces = exists(&target);
            let persisted = self.disk.persist(temporary, &target, self.overwrite);
            persisted.map_err(|error| unnamed(&target, error.error))?;
            names.given.push((target, replaces));
        }
        if sync { sync_directories(&*self.disk, &names.given) } else { Ok(()) }
    }
}

/// Names that files were given, and lost.
#[derive(Default)]
struct Names {
    /// Whether another file had it.
    given: Vec<(PathBuf, bool)>,
    /// Where a file is now, and where it was.
    aside: Vec<(PathBuf, PathBuf)>,
}

impl Names {
    fn take_back(self) {
        let new = self.given.iter().rev().filter(|(_, replaces)| !replaces);
        new.for_each(|(path, _)| drop(fs::remove_file(path)));
        for (old, path) in self.aside.iter().rev() {
            if fs::rename(old, path).is_ok() {
                // Of two names of one file, renaming keeps both.
                let _ = fs::remove_file(old);
            }
        }
    }
}

#[cfg(test)]
impl Output {
    /// Leaves what a process that is killed leaves.
    fn abandon(mut self) {
        self.files.drain(..).for_each(|pending| drop(pending.temporary.keep()));
        self.created.clear();
        self.journal.abandon();
    }
}

impl Pending {
    fn with_handle<T>(&self, act: impl Fn(&fs::File) -> io::Result<T>) -> io::Result<T> {
        match &self.handle {
            Some(handle) => act(handle),
            None => act(&open_own(&self.temporary, fs::OpenOptions::new().read(true).write(true))?),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.files.clear();
        // Deepest first; a directory in which someone else put something stays.
        self.created.iter().rev().for_each(|directory| drop(fs::remove_dir(directory)));
    }
}

/// Makes a temporary file, or opens it where it is to be kept. Its name is reserved for it: what else has it goes.
fn open_temporary(disk: &dyn Disk, path: &Path, keep: bool) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true);
    if keep && let Ok(file) = open_own(path, &options) {
        return Ok(file);
    }
    options.create_new(true);
    match disk.open(path, &options) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            disk.open(path, &options)
        }
        opened => opened,
    }
}

fn earlier(wanted: &Wanted, header: &Header, before: Option<&Header>) -> Earlier {
    match before {
        None => Earlier::Nothing,
        Some(before) => {
            let same = header.fingerprint.is_some() && before.fingerprint == header.fingerprint;
            if same && wanted.resume && before.files == header.files { Earlier::Kept } else { Earlier::Other }
        }
    }
}

fn targets(directory: &Path, files: &[OutputFile]) -> Result<Vec<PathBuf>> {
    let targets = files.iter().map(|file| target(directory, &file.name)).collect::<Result<Vec<_>>>()?;
    check_distinct(&targets)?;
    Ok(targets)
}

/// The directories below the output's that files need and that do not exist, outermost first.
fn missing(directory: &Path, files: &[OutputFile]) -> Vec<String> {
    let above = files.iter().flat_map(|file| Path::new(&file.name).ancestors().skip(1));
    let needed: BTreeSet<&Path> = above.filter(|path| !path.as_os_str().is_empty()).collect();
    let missing = needed.into_iter().filter(|path| !directory.join(path).exists());
    missing.map(|path| path.to_string_lossy().into_owned()).collect()
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn refuse_existing(path: &Path, overwrite: bool, sources: &Sources) -> Result<()> {
    if !exists(path) {
        return Ok(());
    }
    let shown = path.display().to_string();
    if sources.contain(path) {
        return Err(Error::usage("the output is the input, or a part of it")
            .file(shown)
            .help("write to another name; the source is never changed"));
    }
    // A link gives its name to the output; what it leads to is not touched, but says what is meant.
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => {
            Err(Error::usage("the output is a directory").file(shown).help("name the file to write in it"))
        }
        Ok(meta) if !meta.is_file() => Err(Error::usage("the output is no regular file")
            .file(shown)
            .help("pipes and devices cannot be written at random: write to a file")),
        _ if overwrite => Ok(()),
        _ => Err(existing(path)),
    }
}

/// Another process may have made the output since it was looked for.
fn unnamed(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::AlreadyExists => existing(path),
        _ => cannot("give the output its name", path, error),
    }
}

fn existing(path: &Path) -> Error {
    Error::usage("the output exists")
        .file(path.display().to_string())
        .help("choose another name, or replace it with --force")
}

#[cfg(unix)]
fn sync_directories(disk: &dyn Disk, files: &[(PathBuf, bool)]) -> Result<()> {
    let directories: BTreeSet<&Path> = files.iter().map(|(path, _)| parent(path)).collect();
    for directory in directories {
        fs::File::open(directory)
            .and_then(|handle| disk.sync(&handle))
            .map_err(|error| cannot("flush the output's directory", directory, error))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn sync_directories(_: &dyn Disk, _: &[(PathBuf, bool)]) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests;
