//! Random access to what the user named, and its siblings; never outside its directory.

use super::handed::Handed;
use super::joined::{self, Joined};
use super::store::{Below, checked};
use super::{links, nearby};
use crate::{Address, Directory, Error, File, Limit, Limits, ReadAt, ReadStore, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// What the user named as IN: a file, a directory, or a prefix that several files share.
///
/// Every name passed to its methods is relative to the input's directory (the directory itself if the input
/// is one, else the one it is in), uses `/`, and can't leave it: absolute names and `..` are refused. A symbolic link is
/// followed wherever it leads if the user named it; others must stay in the directory, or lead from a snapshot of a hub's
/// cache to its blobs.
#[derive(Clone, Debug)]
pub struct Input {
    store: Arc<dyn ReadStore>,
    entry: String,
    is_directory: bool,
    /// Names of the files that were opened, where someone wants to know.
    opened: Option<Arc<Mutex<BTreeSet<String>>>>,
    limits: Limits,
    handed: Handed,
    /// Inputs whose files are found beside its own.
    others: Arc<[Input]>,
}

impl Input {
    /// The input at `path`. A path that does not exist is accepted when files beside it begin with its name and a
    /// dot: TensorFlow names its checkpoints so.
    ///
    /// # Errors
    /// [`crate::Kind::Io`] if nothing is there, [`crate::Kind::Usage`] for what is neither file nor directory.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_within(path, &Limits::default())
    }

    /// As [`Input::open`], within limits other than the usual ones.
    ///
    /// # Errors
    /// As [`Input::open`]; [`crate::Kind::Limit`] if the files beside the input are too many.
    pub fn open_within(path: impl AsRef<Path>, limits: &Limits) -> Result<Self> {
        let path = path.as_ref();
        let on_disk = |root, entry, is_directory| Self::on_disk(root, entry, is_directory).within(limits);
        let shown = path.display().to_string();
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => Ok(on_disk(path.to_owned(), String::new(), true)),
            Ok(meta) if meta.is_file() => {
                let (parent, name) = split(path)?;
                Ok(on_disk(parent, name, false))
            }
            Ok(_) => Err(Error::usage("the input is neither a file nor a directory")
                .file(shown)
                .help("pipes and devices have no random access: copy it to a file first")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(address) = Address::of(path) {
                    return Err(address.unreadable());
                }
                let missing = || {
                    if let Some(target) = links::dangling(path) {
                        return broken(error, &target).file(shown);
                    }
                    let error = Error::io("cannot open the input", error).file(shown);
                    match nearby::help(path) {
                        Some(help) => error.help(help),
                        None => error,
                    }
                };
                let Ok((parent, name)) = split(path) else { return Err(missing()) };
                let input = on_disk(parent, name, false);
                let dotted = format!("{}.", input.entry);
                let siblings = match input.list("") {
                    Err(error) if error.is_missing() => Vec::new(),
                    listed => listed?,
                };
                if siblings.iter().any(|sibling| sibling.starts_with(&dotted)) {
                    Ok(input)
                } else {
                    Err(missing())
                }
            }
            Err(error) => Err(Error::io("cannot open the input", error).file(shown)),
        }
    }

    fn on_disk(directory: PathBuf, entry: String, is_directory: bool) -> Self {
        Self::new(Arc::new(Directory::new(directory)), entry, is_directory)
    }

    fn new(store: Arc<dyn ReadStore>, entry: String, is_directory: bool) -> Self {
        Input {
            store,
            entry,
            is_directory,
            opened: None,
            limits: Limits::default(),
            handed: Handed::default(),
            others: Arc::default(),
        }
    }

    /// The same input, beside whose files those of `others` are found, under names that [`Input::name_in_other`] returns.
    #[must_use]
    pub fn joined(&self, others: Vec<Input>) -> Self {
        let others: Arc<[Input]> = others.into();
        let confined = others.iter().map(|other| Arc::new(Confined(other.clone())) as Arc<dyn ReadStore>);
        let store = Arc::new(Joined { first: self.store.clone(), others: confined.collect() });
        Input { store, others, ..self.clone() }
    }

    /// The name of another input's file: of the one with this number of those that [`Input::joined`] was given.
    pub fn name_in_other(number: usize, name: &str) -> String {
        joined::name_of(number, name)
    }

    /// The number of another input, and the name that its file has there; `None` for a name of the input's own files.
    pub fn in_other(name: &str) -> Option<(usize, &str)> {
        joined::parse(name)
    }

    /// Refuses names of its own files that files of other inputs could have.
    ///
    /// # Errors
    /// [`crate::Kind::Unsupported`], with the first such name.
    pub fn check_own_names<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<()> {
        joined::check_names(names)
    }

    /// The inputs whose files are found beside its own.
    pub fn others(&self) -> &[Input] {
        &self.others
    }

    /// What is called `entry` in a store: a file, a directory that holds files, what names of files begin with, or the
    /// whole store if it is empty.
    ///
    /// ```
    /// use ckpt_api::{Input, ReadAt};
    /// use std::{collections::BTreeMap, sync::Arc};
    /// let file: Arc<dyn ReadAt> = Arc::new(b"weights".to_vec());
    /// let store = Arc::new(BTreeMap::from([("run/m.nn".to_owned(), file)]));
    /// assert!(Input::within_store(store.clone(), "run/m.nn").is_file());
    /// assert_eq!(Input::within_store(store, "run").list("")?, ["m.nn"]);
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    pub fn within_store(store: Arc<dyn ReadStore>, entry: &str) -> Self {
        if entry.is_empty() || store.has(entry) {
            return Self::new(store, entry.to_owned(), entry.is_empty());
        }
        if store.has_directory(entry) {
            return Self::new(Arc::new(Below { store, directory: entry.to_owned() }), String::new(), true);
        }
        Self::new(store, entry.to_owned(), false)
    }

    /// Files held in memory, for tests and fuzzing. `entry` is the one that the user would name; empty for the
    /// directory that holds them all.
    pub fn memory(entry: &str, files: BTreeMap<String, Vec<u8>>) -> Self {
        let held = |(name, bytes)| (name, Arc::new(bytes) as Arc<dyn ReadAt>);
        Self::of(entry, files.into_iter().map(held).collect())
    }

    /// Files that are neither on disk nor in memory: in an archive, a store, behind a network. `entry` as for
    /// [`Input::memory`].
    pub fn of(entry: &str, files: BTreeMap<String, Arc<dyn ReadAt>>) -> Self {
        Self::new(Arc::new(files), entry.to_owned(), entry.is_empty())
    }

    /// The same input, of which listing and [`crate::Codec::probe`] keep to `limits`.
    #[must_use]
    pub fn within(self, limits: &Limits) -> Self {
        Input { limits: limits.clone(), handed: Handed::default(), ..self }
    }

    /// What [`crate::Codec::probe`] may make the process do; [`crate::Codec::read`] is given the same.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The same input, which from now on remembers the files that are opened through it and its clones.
    #[must_use]
    pub fn remembering(self) -> Self {
        Input { opened: Some(Arc::default()), ..self }
    }

    /// The files that were opened since [`Input::remembering`], sorted; none without it.
    pub fn opened(&self) -> Vec<String> {
        let opened = self.opened.as_ref().map(|opened| opened.lock().unwrap_or_else(PoisonError::into_inner));
        opened.map(|names| names.iter().cloned().collect()).unwrap_or_default()
    }

    /// Keeps what [`crate::Codec::probe`] parsed of a file, so that [`crate::Codec::read`] need not parse it again: a header
    /// can describe a million tensors. An input keeps one value. `before` is the file's identity from before it was parsed: of
    /// a file that has changed since, and of one without an identity, nothing is kept.
    ///
    /// ```no_run
    /// # let input = ckpt_api::Input::open("m.nn")?;
    /// let file = input.main()?;
    /// let before = file.identity();
    /// let header = file.bytes(0, 64)?;
    /// input.keep(&file, before, header);
    /// // When the codec reads:
    /// let header = match input.take::<Vec<u8>>(&file) {
    ///     Some(known) => known,
    ///     None => file.bytes(0, 64)?,
    /// };
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    pub fn keep<T: Send + 'static>(&self, file: &File, before: Option<String>, value: T) {
        if let Some(identity) = before.filter(|before| file.identity().as_ref() == Some(before)) {
            self.handed.keep(file.name(), identity, value);
        }
    }

    /// Takes what [`Input::keep`] was given of the same file. `None` if the file has changed since, if the input got other
    /// limits, or if nothing of this type was kept.
    pub fn take<T: 'static>(&self, file: &File) -> Option<T> {
        self.handed.take(file.name(), file.identity())
    }

    /// The last component of what the user named, relative to the input's directory; empty for a directory.
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// Whether the user named a directory.
    pub fn is_directory(&self) -> bool {
        self.is_directory
    }

    /// Whether the input itself is a file.
    pub fn is_file(&self) -> bool {
        !self.is_directory && self.has_file(&self.entry)
    }

    /// The input itself, as a file.
    ///
    /// # Errors
    /// As [`Input::file`].
    pub fn main(&self) -> Result<File> {
        self.file(&self.entry)
    }

    /// The first `N` bytes of the input; `None` if it is no file, or a shorter one.
    ///
    /// # Errors
    /// [`crate::Kind::Io`].
    pub fn head<const N: usize>(&self) -> Result<Option<[u8; N]>> {
        if !self.is_file() {
            return Ok(None);
        }
        let file = self.main()?;
        if file.len() < N as u64 {
            return Ok(None);
        }
        let mut head = [0; N];
        file.read_at(0, &mut head)?;
        Ok(Some(head))
    }

    /// Whether `name` is a file (not a directory, pipe or device).
    pub fn has_file(&self, name: &str) -> bool {
        checked(name).is_ok() && self.store.has(name)
    }

    /// Refuses a name of the input's directory from which a symbolic link leads out of it, unless the user named it, or it
    /// leads to the blobs of a hub's cache. [`Input::file`] does; a codec that opens nothing asks here.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`], saying where the link leads.
    pub fn check_links(&self, name: &str) -> Result<()> {
        match self.store.path("") {
            Some(root) if !self.is_users(name) => links::check(&root, name, &self.display(name)),
            _ => Ok(()),
        }
    }

    /// Whether the user named this file, or what its name begins with.
    fn is_users(&self, name: &str) -> bool {
        let rest = name.strip_prefix(&self.entry).filter(|_| !self.is_directory);
        rest.is_some_and(|rest| rest.is_empty() || (rest.starts_with('.') && !self.store.has(&self.entry)))
    }

    /// Opens a file of the input's directory.
    ///
    /// # Errors
    /// [`crate::Kind::Io`]; [`crate::Kind::Corrupt`] for a name that leaves the directory;
    /// [`crate::Kind::Usage`] for something that is no regular file, and for a symbolic link that leaves the directory.
    pub fn file(&self, name: &str) -> Result<File> {
        let shown = self.display(name);
        if name.is_empty() && self.is_directory() {
            return Err(Error::usage("this is a directory, and a file is needed").file(shown));
        }
        checked(name).map_err(|error| error.file(shown.clone()))?;
        self.check_links(name)?;
        let file = File::new(self.store.open(name)?, &shown)?;
        if let Some(opened) = &self.opened {
            opened.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        }
        Ok(file)
    }

    /// Announces files of the input's directory that will be opened: a store far away looks for several at once. A codec
    /// that reads a set of files names all of them before it opens the first.
    ///
    /// ```
    /// use ckpt_api::Input;
    /// let shards = ["a".to_owned(), "b".to_owned()];
    /// let input = Input::memory("", shards.clone().map(|name| (name, Vec::new())).into());
    /// input.will_open(&shards);
    /// assert!(shards.iter().all(|name| input.file(name).is_ok()));
    /// ```
    pub fn will_open<S: AsRef<str>>(&self, names: &[S]) {
        let names = names.iter().map(AsRef::as_ref).filter(|name| checked(name).is_ok());
        self.store.will_open(&names.map(str::to_owned).collect::<Vec<_>>());
    }

    /// Names of the files directly in `directory` (empty for the input's own), sorted; at most
    /// [`Limit::Files`]. Names that [`Input::file`] refuses are left out: no file of a format can be meant by them.
    ///
    /// # Errors
    /// [`crate::Kind::Io`], [`crate::Kind::Limit`].
    pub fn list(&self, directory: &str) -> Result<Vec<String>> {
        self.listed(directory, |most| self.store.list(directory, most))
    }

    /// Names of the directories directly in `directory`, as [`Input::list`] lists files; none in a store that cannot tell.
    ///
    /// ```
    /// use ckpt_api::Input;
    /// let files = ["10/w", "9/w", "log"].map(|name| (name.to_owned(), Vec::new()));
    /// assert_eq!(Input::memory("", files.into()).directories("")?, ["10", "9"]);
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Input::list`].
    pub fn directories(&self, directory: &str) -> Result<Vec<String>> {
        self.listed(directory, |most| self.store.directories(directory, most))
    }

    fn listed(&self, directory: &str, list: impl FnOnce(u64) -> Result<Vec<String>>) -> Result<Vec<String>> {
        if !directory.is_empty() {
            checked(directory)?;
        }
        let mut names = list(self.limits.get(Limit::Files))?;
        self.limits
            .check(Limit::Files, names.len() as u64)
            .map_err(|error| error.file(self.store.display(directory)))?;
        names.retain(|name| checked(name).is_ok());
        names.sort();
        Ok(names)
    }

    /// The path of `name` as people should see it in messages.
    pub fn display(&self, name: &str) -> String {
        self.store.display(name)
    }

    /// The directory on this machine, if the input is there.
    pub fn directory(&self) -> Option<PathBuf> {
        self.store.path("")
    }

    /// Where the files are.
    pub fn store(&self) -> &Arc<dyn ReadStore> {
        &self.store
    }
}

/// The files of an input, of which none is outside of its directory.
#[derive(Debug)]
struct Confined(Input);

impl ReadStore for Confined {
    fn list(&self, directory: &str, most: u64) -> Result<Vec<String>> {
        self.0.store.list(directory, most)
    }

    fn directories(&self, directory: &str, most: u64) -> Result<Vec<String>> {
        self.0.store.directories(directory, most)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        self.0.file(name).map(|file| file.handle())
    }

    fn has(&self, name: &str) -> bool {
        self.0.has_file(name)
    }

    fn has_directory(&self, name: &str) -> bool {
        self.0.store.has_directory(name)
    }

    fn display(&self, name: &str) -> String {
        self.0.display(name)
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.0.store.path(name)
    }

    fn location(&self) -> Option<String> {
        self.0.store.location()
    }

    fn will_open(&self, names: &[String]) {
        self.0.will_open(names);
    }

    fn forget(&self) {
        self.0.store.forget();
    }

    fn reserve(&self, most: u64) -> u64 {
        self.0.store.reserve(most)
    }
}

/// The error for a symbolic link whose target does not exist.
fn broken(error: io::Error, target: &Path) -> Error {
    let target = target.display().to_string();
    let help = match target.contains("annex/objects/") {
        true => "fetch the file with `git annex get`",
        false => "make the link again, or name the file itself",
    };
    let found = format!("a symbolic link to '{}', where nothing is", target.escape_debug());
    Error::new(crate::Kind::Io, "cannot open the input").found(found).help(help).caused_by(error)
}

fn split(path: &Path) -> Result<(PathBuf, String)> {
    let bad = || Error::usage("the path has no usable file name").file(path.display().to_string());
    let name = path.file_name().ok_or_else(bad)?.to_str().ok_or_else(|| bad().help("names must be UTF-8"))?;
    checked(name)
        .map_err(|_| bad().help("names in a checkpoint cannot contain a backslash: rename the file"))?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    Ok((parent, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn memory() -> Input {
        let files = [("a.index", "12345"), ("sub/b", "x")];
        let files = files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
        Input::memory("a.index", BTreeMap::from(files))
    }

    #[test]
    fn names_cannot_leave_the_directory() {
        for name in ["../a.index", "/etc/passwd", "sub/../../a", "", ".", "a\0b", "..\\a", "./a.index"] {
            assert_eq!(memory().file(name).unwrap_err().kind(), Kind::Corrupt, "{name:?}");
            assert!(!memory().has_file(name), "{name:?}");
        }
        assert!(memory().has_file("sub/b"));
    }

    #[test]
    fn reading_past_the_end_is_an_error_that_says_what_is_there() {
        let file = memory().main().unwrap();
        assert_eq!(file.bytes(1, 4).unwrap(), b"2345");
        for (offset, len) in [(1, 5), (6, 0), (u64::MAX, 1), (0, u64::MAX)] {
            assert_eq!(file.bytes(offset, len).unwrap_err().kind(), Kind::Corrupt);
        }
    }

    #[test]
    fn a_head_is_there_where_the_file_is_long_enough() {
        assert_eq!(memory().head::<5>().unwrap(), Some(*b"12345"));
        assert_eq!(memory().head::<6>().unwrap(), None);
        assert_eq!(Input::memory("", BTreeMap::new()).head::<0>().unwrap(), None);
    }

    #[test]
    fn listing_names_the_files_of_one_directory_only() {
        assert_eq!(memory().list("").unwrap(), ["a.index"]);
        assert_eq!(memory().list("sub").unwrap(), ["b"]);
    }

    #[test]
    fn a_name_that_no_format_can_say_is_not_listed() {
        let files = ["a", "x\\y.index", "\0", ".."].map(|name| (name.to_owned(), Vec::new()));
        assert_eq!(Input::memory("", files.into()).list("").unwrap(), ["a"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_whose_name_no_format_can_say_is_refused_with_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x\\y.index");
        fs::write(&path, "").unwrap();
        let error = Input::open(&path).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.to_string().contains("rename the file"), "{error}");
    }

    #[test]
    fn an_entry_of_a_store_is_a_file_a_directory_or_a_prefix() {
        let files = ["out/sub/b", "out/a", "m.index"]
            .map(|name| (name.to_owned(), Arc::new(name.as_bytes().to_vec()) as Arc<dyn ReadAt>));
        let store: Arc<dyn ReadStore> = Arc::new(BTreeMap::from(files));
        let folder = Input::within_store(store.clone(), "out");
        assert!(folder.is_directory() && folder.has_file("sub/b") && !folder.has_file("out/a"));
        assert_eq!(
            (folder.list("").unwrap(), folder.list("sub").unwrap()),
            (vec!["a".into()], vec!["b".into()])
        );
        assert_eq!(folder.file("a").unwrap().name(), "out/a");
        let file = Input::within_store(store.clone(), "out/a");
        assert_eq!(file.main().unwrap().bytes(0, 5).unwrap(), b"out/a");
        assert_eq!(file.file("a").unwrap_err().kind(), Kind::Io);
        let prefix = Input::within_store(store.clone(), "m");
        assert!(!prefix.is_directory() && !prefix.is_file() && prefix.has_file("m.index"));
        assert!(Input::within_store(store, "").is_directory());
    }

    #[test]
    fn a_file_that_is_written_again_has_another_identity() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        fs::write(&path, "1").unwrap();
        let identity = || Input::open(&path).unwrap().main().unwrap().identity();
        let before = identity();
        assert!(before.is_some() && before == identity());
        fs::write(&path, "22").unwrap();
        assert_ne!(before, identity());
        assert_eq!(memory().main().unwrap().identity(), None);
    }

    #[test]
    fn what_was_opened_is_remembered_once_someone_wants_to_know() {
        let input = memory();
        input.main().unwrap();
        assert!(input.opened().is_empty());
        let input = input.remembering();
        let clone = input.clone();
        clone.file("sub/b").unwrap();
        assert!(clone.file("missing").is_err());
        assert_eq!(input.opened(), ["sub/b"]);
    }

    #[test]
    fn the_files_of_joined_inputs_have_names_of_their_own() {
        let input = |files: &[(&str, &str)]| {
            let files = files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
            Input::memory("", files.collect())
        };
        let joined = input(&[("w", "1"), ("c", "2")]).joined(vec![input(&[("w", "3"), ("sub/v", "4")])]);
        let text = |name: &str| joined.file(name).and_then(|file| file.bytes(0, file.len()));
        assert_eq!(text("w").unwrap(), b"1");
        assert_eq!(text(&Input::name_in_other(0, "w")).unwrap(), b"3");
        assert_eq!(text(&Input::name_in_other(0, "sub/v")).unwrap(), b"4");
        assert!(text(&Input::name_in_other(1, "w")).is_err());
        assert!(text("+0/../w").is_err() && !joined.has_file("+0/../w"), "a name leaves the other input");
        assert_eq!(joined.list("").unwrap(), ["c", "w"]);
        assert_eq!(joined.display(&Input::name_in_other(0, "w")), "w");
    }

    #[test]
    fn a_path_with_nothing_behind_it_is_an_io_error() {
        let error = Input::open("no/such/thing").unwrap_err();
        assert_eq!(error.kind(), Kind::Io);
    }
}
