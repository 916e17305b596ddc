//! The files of one output under temporary names, until all of them get their final ones.

mod commit;
mod given;

use super::disk::{Disk, cannot, remove, unremoved, write_all_at};
use super::journal::{Entry, Header, Journal, Past, VERSION, open_own};
use super::names::{Naming, check_distinct, parent, real, refuse_own, target};
use super::protected::Sources;
use super::recover::{clean, clean_attached, unname};
use crate::settings;
use crate::store::{Committed, Earlier, NothingStaged, Stage, StageMode, StageRequest, WriteAt, leaving};
use ckpt_api::{
    Error, FileId, OutputFile, ReadAt, ReadStore, Result, Text, directories_of, open_regular, text,
};
use given::Names;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Files that stay open: systems allow a process a thousand or less.
const KEPT_OPEN: usize = 64;

/// Output files under temporary names beside their final ones. Dropped before [`Stage::commit`], it removes them,
/// unless several processes write them.
#[derive(Debug)]
pub(super) struct Output {
    disk: Arc<dyn Disk>,
    files: Vec<Pending>,
    /// The names that the files will have, relative to the output's directory; an attached file is not among them.
    names: Vec<String>,
    naming: Naming,
    past: Past,
    earlier: Earlier,
    /// The final paths, where an earlier process had given all names; the last one may be that of an attached file.
    complete: Vec<PathBuf>,
    journal: Journal,
    token: u64,
    created: Vec<PathBuf>,
    overwrite: bool,
    /// Whether the files stay when this is dropped: other processes wrote to them.
    stays: bool,
}

/// A file that has no final name yet.
#[derive(Debug)]
struct Pending {
    temporary: PathBuf,
    file: Arc<Staged>,
    target: PathBuf,
    /// Whether it was attached: the output's other files come before it.
    is_attached: bool,
}

/// A staged file, to be written and read.
#[derive(Debug)]
struct Staged {
    disk: Arc<dyn Disk>,
    /// `None` if too many others are open: then every access opens it.
    handle: Option<fs::File>,
    path: PathBuf,
    /// The name that it will have, for errors.
    target: PathBuf,
    /// Bytes of a block that it can share; `None` if it cannot.
    block: OnceLock<Option<NonZeroU64>>,
}

/// The entry in the journal of an output that several processes write, once all of its files are made.
const MADE: &[u8] = b"made";

impl Output {
    /// Takes the output, puts right what a killed process left, and makes the temporary files. `allowed` says whether
    /// the final names may be given to them.
    pub(super) fn create(
        disk: &Arc<dyn Disk>,
        directory: &Path,
        request: &StageRequest<'_>,
        allowed: &dyn Fn() -> Result<()>,
    ) -> Result<Self> {
        let naming = Naming::new(directory, request.name);
        let targets = targets(directory, request.files)?;
        if let Err(error) = allowed() {
            // A process that was killed while it gave names is no reason to refuse.
            fs::symlink_metadata(&naming.journal).map_err(|_| error)?;
        }
        let journal = Journal::take(disk, &naming.journal)?;
        let mut output = Self::new(disk, request, naming, journal)?;
        let header = output.header(request);
        output.earlier = earlier(request, &header, &output.past);
        let attachment = request.attachment.map(Path::new);
        if unname(&output.naming, &output.past, attachment) {
            output.journal.finished();
            let is_all = attachment.is_none_or(|path| output.past.attached == Some(real(path)));
            if output.earlier == Earlier::Kept && request.accept_complete && is_all {
                output.earlier = Earlier::Complete;
                output.complete = targets;
                output.complete.extend(attachment.map(Path::to_owned));
                return Ok(output);
            }
        }
        clean_attached(&**disk, &output.naming, &output.past);
        allowed()?;
        let shared = matches!(request.mode, StageMode::Shared | StageMode::Existing);
        match (shared, output.earlier) {
            // What several processes wrote is nowhere else: a file that is missing is not made again.
            (true, Earlier::Kept) => {
                output.stays = true;
                output.begin(directory, header, request.files)?;
                output.open_staged(targets)?;
            }
            _ if request.mode == StageMode::Existing => return Err(NothingStaged::error(request.name)),
            _ => output.make(directory, header, request.files, targets)?,
        }
        if shared && output.earlier != Earlier::Kept {
            output.journal.note(MADE, u64::MAX);
            output.stays = true;
        }
        Ok(output)
    }

    /// Takes the output together with other processes: the first one makes the temporary files, all of them write.
    pub(super) fn join(
        disk: &Arc<dyn Disk>,
        directory: &Path,
        request: &StageRequest<'_>,
        allowed: &dyn Fn() -> Result<()>,
    ) -> Result<Self> {
        /// How long the first process may take to make the files.
        const ATTEMPTS: usize = 250;
        const PAUSE: Duration = Duration::from_millis(20);
        allowed()?;
        let naming = Naming::new(directory, request.name);
        let mut refused = None;
        for _ in 0..ATTEMPTS {
            match Self::create(disk, directory, request, allowed) {
                // The lock is taken again, together with others.
                Ok(output) => drop(output),
                Err(error) if error.kind() == ckpt_api::Kind::Usage => refused = Some(error),
                Err(error) => return Err(error),
            }
            match Journal::take_shared(disk, &naming.journal) {
                Err(error) => refused = Some(error),
                Ok(journal) => {
                    let mut output = Self::new(disk, request, naming.clone(), journal)?;
                    let header = output.header(request);
                    output.earlier = earlier(request, &header, &output.past);
                    if output.earlier == Earlier::Kept {
                        output.stays = true;
                        output.open_staged(targets(directory, request.files)?)?;
                        return Ok(output);
                    }
                    // An empty one goes; one of another plan stays with whoever writes it.
                    let other = output.past.header.as_ref().is_some_and(|before| before.key != header.key);
                    drop(output);
                    if other && let Some(error) = refused {
                        return Err(error);
                    }
                }
            }
            std::thread::sleep(PAUSE);
        }
        Err(refused.unwrap_or_else(|| NothingStaged::error(request.name)))
    }

    fn new(
        disk: &Arc<dyn Disk>,
        request: &StageRequest<'_>,
        naming: Naming,
        mut journal: Journal,
    ) -> Result<Self> {
        let past = journal.read()?;
        Ok(Output {
            disk: disk.clone(),
            files: Vec::new(),
            names: request.files.iter().map(|file| file.name.clone()).collect(),
            naming,
            token: past.header.as_ref().map_or(0, |header| header.token),
            past,
            earlier: Earlier::Nothing,
            complete: Vec::new(),
            journal,
            created: Vec::new(),
            overwrite: request.overwrite,
            stays: false,
        })
    }

    /// What the journal of this request begins with.
    fn header(&self, request: &StageRequest<'_>) -> Header {
        let entry = |file: &OutputFile| Entry {
            target: file.name.clone(),
            temporary: self.naming.temporary(&file.name),
        };
        Header {
            version: VERSION,
            key: request.key,
            token: RandomState::new().build_hasher().finish(),
            files: request.files.iter().map(entry).collect(),
            directories: Vec::new(),
        }
    }

    /// Makes the journal, the directories and the temporary files.
    fn make(
        &mut self,
        directory: &Path,
        header: Header,
        files: &[OutputFile],
        targets: Vec<PathBuf>,
    ) -> Result<()> {
        self.begin(directory, header, files)?;
        // All directories before the first file: one that vanishes while files are made is not made again.
        for directory in targets.iter().map(|target| parent(target)) {
            let made = self.disk.make_directories(directory);
            made.map_err(|error| cannot("make the output's directory", directory, error))?;
        }
        for (target, file) in targets.into_iter().zip(files) {
            self.stage(target, self.naming.temporary(&file.name), file.len, false)?;
        }
        Ok(())
    }

    /// Opens the temporary files that another process made.
    fn open_staged(&mut self, targets: Vec<PathBuf>) -> Result<()> {
        for (target, name) in targets.into_iter().zip(self.names.clone()) {
            let path = target.with_file_name(self.naming.temporary(&name));
            let handle = open_own(&path, fs::OpenOptions::new().read(true).write(true))
                .map_err(|error| cannot("open a staged file", &path, error))
                .map_err(|error| {
                    error.help("discard the unfinished files, and run all items of the plan again")
                })?;
            self.push(target, path, handle, false);
        }
        Ok(())
    }

    /// Begins the journal, or goes on with the one of the killed process.
    fn begin(&mut self, directory: &Path, mut header: Header, files: &[OutputFile]) -> Result<()> {
        match &self.past.header {
            Some(before) if self.earlier == Earlier::Kept => {
                header.directories.clone_from(&before.directories);
                self.journal.go_on(&self.past)?;
            }
            _ => {
                clean(directory, &self.past);
                self.past = Past::default();
                header.directories = missing(directory, files);
                self.token = header.token;
                self.journal.begin(&header)?;
            }
        }
        self.created = header.directories.iter().map(|name| directory.join(name)).collect();
        Ok(())
    }

    fn stage(
        &mut self,
        target: PathBuf,
        temporary: String,
        len: Option<u64>,
        is_attached: bool,
    ) -> Result<FileId> {
        let path = target.with_file_name(temporary);
        let handle = open_temporary(&*self.disk, &path, self.earlier == Earlier::Kept)
            .map_err(|error| cannot("make a file in the output's directory", parent(&target), error))?;
        // From here on it is removed where something fails.
        let id = self.push(target, path, handle, is_attached);
        let Some(Pending { file, target, .. }) = self.files.get(id.0) else { return Ok(id) };
        // What has no length yet is written in one go.
        let sized = file.with_handle(|handle| self.disk.set_len(handle, len.unwrap_or(0)));
        sized.map_err(|error| cannot("make the output file", target, error))?;
        Ok(id)
    }

    fn push(&mut self, target: PathBuf, path: PathBuf, handle: fs::File, is_attached: bool) -> FileId {
        let handle = (self.files.len() < KEPT_OPEN).then_some(handle);
        let temporary = path.clone();
        let file = Arc::new(Staged {
            disk: self.disk.clone(),
            handle,
            path,
            target: target.clone(),
            block: OnceLock::new(),
        });
        self.files.push(Pending { temporary, file, target, is_attached });
        FileId(self.files.len() - 1)
    }

    /// Removes what no other process needs, and returns what cannot be removed. Then the journal stays, so that the
    /// next process that writes the output removes it.
    fn clear(&mut self) -> Vec<String> {
        let stays = self.stays;
        let unneeded = self.files.drain(..).filter(|pending| pending.is_attached || !stays);
        // Some systems remove no file that is open.
        let paths: Vec<PathBuf> = unneeded.map(|pending| pending.temporary).collect();
        let mut left: Vec<String> = paths.iter().filter_map(|path| unremoved(&*self.disk, path)).collect();
        if stays {
            self.journal.abandon();
            return left;
        }
        // Deepest first; a directory in which someone else put something stays.
        self.created.drain(..).rev().for_each(|directory| drop(fs::remove_dir(directory)));
        if left.is_empty() {
            left.extend(self.journal.remove());
        } else {
            self.journal.abandon();
        }
        left
    }
}

impl Stage for Output {
    fn earlier(&self) -> Earlier {
        self.earlier
    }

    fn notes(&self) -> &[Vec<u8>] {
        match self.earlier {
            Earlier::Kept | Earlier::Complete => &self.past.notes,
            _ => &[],
        }
    }

    fn note(&self, note: &[u8], bytes: u64) {
        self.journal.note(note, bytes);
    }

    fn token(&self) -> u64 {
        self.token
    }

    fn file(&self, file: FileId) -> Result<Arc<dyn WriteAt>> {
        let pending = self.files.get(file.0);
        Ok(pending.ok_or_else(|| Error::defect("the output has no such file"))?.file.clone())
    }

    fn open(&self, file: FileId) -> Result<Arc<dyn ReadAt>> {
        let path = self.files.get(file.0).map(|pending| &pending.file.path);
        let path = path.or_else(|| self.complete.get(file.0));
        let path = path.ok_or_else(|| Error::defect("the output has no such file"))?;
        open_regular(path, &path.display().to_string())
    }

    fn written(&self) -> Arc<dyn ReadStore> {
        let directory = self.naming.directory().to_owned();
        let pairs = self.names.iter().zip(&self.files);
        let files = pairs.map(|(name, pending)| (name.clone(), pending.file.path.clone())).collect();
        Arc::new(Written { directory, files })
    }

    fn attach(&mut self, name: &str) -> Result<FileId> {
        let target = PathBuf::from(name);
        self.journal.attach(&real(&target))?;
        let temporary = self.naming.temporary_elsewhere(&target);
        self.stage(target, temporary, None, true)
    }

    fn bytes(&self) -> Result<u64> {
        let staged = self.files.iter().map(|pending| (&pending.temporary, &pending.target));
        let complete = self.complete.iter().take(self.names.len()).map(|path| (path, path));
        staged.chain(complete).try_fold(0, |sum, (path, target)| {
            let meta = fs::symlink_metadata(path);
            Ok(sum + meta.map_err(|error| cannot("look at the output", target, error))?.len())
        })
    }

    fn sync(&self) -> Result<()> {
        self.files.iter().try_for_each(|pending| pending.file.sync())
    }

    /// Gives every file its final name, the last one last.
    ///
    /// Where several files replace others, the old ones lose their names first, the last one before the others: at no
    /// time do old and new files stand together as one checkpoint. An attached file is the last one.
    fn commit(mut self: Box<Self>, sync: bool) -> Result<Committed> {
        let mut names = Names::default();
        if let Err(error) = self.name_all(&mut names, sync) {
            let mut left = names.take_back(&*self.disk);
            if !left.is_empty() {
                // The next process takes the rest back.
                self.journal.abandon();
            }
            left.extend(self.clear());
            return Err(leaving(error, &left));
        }
        self.stays = false;
        self.created.clear();
        let mut left: Vec<String> =
            names.aside.iter().filter_map(|(old, _)| unremoved(&*self.disk, old)).collect();
        if !left.is_empty() {
            self.journal.abandon();
        }
        left.extend(self.clear());
        let given = names.given.into_iter().map(|given| given.path);
        let paths = std::mem::take(&mut self.complete).into_iter().chain(given);
        Ok(Committed { names: paths.map(|path| path.display().to_string()).collect(), left })
    }

    fn discard(mut self: Box<Self>) -> Vec<String> {
        self.stays = false;
        self.clear()
    }
}

impl Staged {
    fn with_handle<T>(&self, act: impl Fn(&fs::File) -> io::Result<T>) -> io::Result<T> {
        match &self.handle {
            Some(handle) => act(handle),
            None => act(&open_own(&self.path, fs::OpenOptions::new().read(true).write(true))?),
        }
    }
}

impl WriteAt for Staged {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.with_handle(|handle| write_all_at(&*self.disk, handle, offset, bytes))
            .map_err(|error| cannot("write the output", &self.target, error).offset(offset))
    }

    fn clone_range(&self, source: &fs::File, start: u64, range: Range<u64>) -> Result<()> {
        // The plan may come from another machine, and what cannot be shared would be copied without a word.
        let block = self.block.get_or_init(|| self.disk.clone_block(source, parent(&self.path)));
        let whole = |block: &NonZeroU64| {
            [start, range.start, range.end].iter().all(|edge| edge.is_multiple_of(block.get()))
        };
        if !block.as_ref().is_some_and(whole) {
            let unsupported = io::ErrorKind::Unsupported.into();
            return Err(cannot("share blocks with the source", &self.target, unsupported).offset(range.start));
        }
        self.with_handle(|handle| self.disk.clone_range(source, start, handle, range.clone()))
            .map_err(|error| cannot("share blocks with the source", &self.target, error).offset(range.start))
    }

    fn sync(&self) -> Result<()> {
        self.with_handle(|handle| self.disk.sync(handle))
            .map_err(|error| cannot("flush the output", &self.target, error))
    }
}

/// The staged files under the names that they will have.
#[derive(Debug)]
struct Written {
    directory: PathBuf,
    files: BTreeMap<String, PathBuf>,
}

impl ReadStore for Written {
    fn list(&self, directory: &str, _: u64) -> Result<Vec<String>> {
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let below = self.files.keys().filter_map(|name| name.strip_prefix(&prefix));
        Ok(below.filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    fn directories(&self, directory: &str, most: u64) -> Result<Vec<String>> {
        Ok(directories_of(self.files.keys(), directory, most))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        let shown = self.display(name);
        let missing = || Error::io("cannot open the file", io::ErrorKind::NotFound.into()).file(&shown);
        open_regular(self.files.get(name).ok_or_else(missing)?, &shown)
    }

    fn has(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    fn has_directory(&self, name: &str) -> bool {
        let below = format!("{name}/");
        self.files.keys().any(|file| file.starts_with(&below))
    }

    fn display(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        Some(self.directory.join(name))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        drop(self.clear());
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
            remove(disk, path)?;
            disk.open(path, &options)
        }
        opened => opened,
    }
}

fn earlier(request: &StageRequest<'_>, header: &Header, past: &Past) -> Earlier {
    let Some(before) = &past.header else { return Earlier::Nothing };
    let same = header.key.is_some() && before.key == header.key && before.files == header.files;
    // A process that was killed while it made shared files had written to none.
    let made = request.mode == StageMode::Resume || !past.notes.is_empty();
    if same && made && request.mode != StageMode::Fresh { Earlier::Kept } else { Earlier::Other }
}

/// The paths of an output's files, which differ even where a file system ignores case.
pub(super) fn targets(directory: &Path, files: &[OutputFile]) -> Result<Vec<PathBuf>> {
    let targets = files.iter().map(|file| target(directory, &file.name)).collect::<Result<Vec<_>>>()?;
    targets.iter().try_for_each(|path| refuse_own(path))?;
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

/// What gets a name.
#[derive(Clone, Copy)]
pub(super) enum Named {
    /// A file of the output.
    Output,
    /// The receipt.
    Receipt,
}

/// Refuses a path that has what cannot be replaced.
pub(super) fn refuse_existing(named: Named, path: &Path, overwrite: bool, sources: &Sources) -> Result<()> {
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(()) };
    let refused = |output: &str, receipt: &str| {
        let message = if matches!(named, Named::Output) { output } else { receipt };
        Error::usage(message).file(path.display().to_string())
    };
    if sources.contain(path) {
        return Err(refused(
            "the output is the input, or a part of it",
            "the receipt is the input, or a part of it",
        )
        .help("choose another name; the source is never changed"));
    }
    if meta.is_symlink() {
        let error = refused("the output is a symbolic link", "the receipt is a symbolic link");
        return Err(with_target(error, path));
    }
    if meta.is_dir() {
        return Err(refused("the output is a directory", "the receipt is a directory")
            .help("add a file name to the path"));
    }
    if !meta.is_file() {
        return Err(refused("the output is not a regular file", "the receipt is not a regular file")
            .help("pipes and devices have no random access: write to a file"));
    }
    if overwrite { Ok(()) } else { Err(refused("the output exists", "the receipt exists").help(replace())) }
}

/// Whether the link or what it leads to is meant, only the user knows.
fn with_target(error: Error, path: &Path) -> Error {
    let target = fs::read_link(path);
    let is_device = |path: &Path| path.starts_with("/dev") || path.starts_with("/proc/self/fd");
    let help = if is_device(path) || target.as_ref().is_ok_and(|target| is_device(target)) {
        "it cannot be standard output or another device, which have no random access: write to a file"
    } else {
        "a link is never replaced: name the file that it leads to, or remove the link"
    };
    let error = error.help(help);
    match target {
        Ok(target) => error.found(format!("a link to '{}'", target.display())),
        Err(_) => error,
    }
}

fn replace() -> Text {
    text!["choose another name, or replace it with ", settings::OVERWRITE]
}

fn existing(path: &Path) -> Error {
    Error::usage("the output exists").file(path.display().to_string()).help(replace())
}

#[cfg(test)]
mod tests;
