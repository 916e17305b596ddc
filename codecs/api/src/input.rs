//! Random access to what the user named, and its siblings; never outside its directory.

use crate::read_at::{ReadAt, read_exact_at};
use crate::{Contents, Error, Limit, Limits, Result, nearby};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// What the user named as IN: a file, a directory, or a prefix that several files share.
///
/// Every name passed to its methods is relative to the input's directory (the directory itself where the input
/// is one, else the one it lies in), uses `/`, and can't leave it: absolute names and `..` are refused. Symbolic
/// links inside are followed as the operating system does.
#[derive(Clone, Debug)]
pub struct Input {
    backend: Arc<Backend>,
    entry: String,
    is_directory: bool,
    /// Names of the files that were opened, where someone wants to know.
    opened: Option<Arc<Mutex<BTreeSet<String>>>>,
    limits: Limits,
}

#[derive(Debug)]
enum Backend {
    Directory(PathBuf),
    /// Where each file lies that is to have a name in the directory.
    Staged(PathBuf, BTreeMap<String, PathBuf>),
    Elsewhere(BTreeMap<String, Arc<dyn ReadAt>>),
}

impl Input {
    /// The input at `path`. A path that does not exist is accepted when files beside it begin with its name and a
    /// dot: TensorFlow names its checkpoints so.
    ///
    /// # Errors
    /// [`crate::Kind::Io`] where nothing is there, [`crate::Kind::Usage`] for what is neither file nor directory.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_within(path, &Limits::default())
    }

    /// As [`Input::open`], within limits other than the usual ones.
    ///
    /// # Errors
    /// As [`Input::open`]; [`crate::Kind::Limit`] where the files beside the input are too many.
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
                .help("pipes and devices cannot be read at random: copy it into a file first")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let missing = || {
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
                    Err(error) if error.kind() == crate::Kind::Limit => return Err(error),
                    listed => listed.unwrap_or_default(),
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
        Self::new(Backend::Directory(directory), entry, is_directory)
    }

    fn new(backend: Backend, entry: String, is_directory: bool) -> Self {
        Input { backend: Arc::new(backend), entry, is_directory, opened: None, limits: Limits::default() }
    }

    /// Files that do not have their names yet: each is read from where it lies, under the name that it will have in
    /// `directory`, and no other file of it is seen. `entry` is what a user would name: one of them, the directory
    /// that holds some of them, or what their names begin with.
    pub fn staged(directory: &Path, entry: &str, files: BTreeMap<String, PathBuf>) -> Self {
        let below = format!("{entry}/");
        let is_directory = files.keys().any(|name| name.starts_with(&below));
        if files.contains_key(entry) || !is_directory {
            return Self::new(Backend::Staged(directory.to_owned(), files), entry.to_owned(), false);
        }
        let inside =
            files.into_iter().filter_map(|(name, path)| Some((name.strip_prefix(&below)?.to_owned(), path)));
        Self::new(Backend::Staged(directory.join(entry), inside.collect()), String::new(), true)
    }

    /// Files held in memory, for tests and fuzzing. `entry` is the one that the user would name; empty for the
    /// directory that holds them all.
    pub fn memory(entry: &str, files: BTreeMap<String, Vec<u8>>) -> Self {
        let held = |(name, bytes)| (name, Arc::new(bytes) as Arc<dyn ReadAt>);
        Self::of(entry, files.into_iter().map(held).collect())
    }

    /// Files that lie neither on disk nor in memory: in an archive, a store, behind a network. `entry` as for
    /// [`Input::memory`].
    pub fn of(entry: &str, files: BTreeMap<String, Arc<dyn ReadAt>>) -> Self {
        Self::new(Backend::Elsewhere(files), entry.to_owned(), entry.is_empty())
    }

    /// The same input, of which listing and [`crate::Codec::probe`] keep to `limits`.
    #[must_use]
    pub fn within(self, limits: &Limits) -> Self {
        Input { limits: limits.clone(), ..self }
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

    /// The first `N` bytes of the input; `None` where it is no file, or a shorter one.
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

    /// Reads a format that is one file, which `read` is given and errors name. `format` says what is one file, as in
    /// `"a CNN2 file"`.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for a directory; those of [`Input::file`] and of `read`.
    pub fn read_alone(&self, format: &str, read: impl FnOnce(&File) -> Result<Contents>) -> Result<Contents> {
        if self.is_directory {
            return Err(Error::usage(format!("{format} is one file, and the input is a directory"))
                .file(self.display(&self.entry))
                .help("name the file itself"));
        }
        let file = self.main()?;
        let mut contents = read(&file).map_err(|error| error.file(file.name()))?;
        contents.files = vec![self.entry.clone()];
        Ok(contents)
    }

    /// Whether `name` is a file (not a directory, pipe or device).
    pub fn has_file(&self, name: &str) -> bool {
        match (&*self.backend, checked(name)) {
            (_, Err(_)) => false,
            (Backend::Directory(root), Ok(())) => {
                fs::metadata(root.join(name)).is_ok_and(|meta| meta.is_file())
            }
            (Backend::Staged(_, files), Ok(())) => files.contains_key(name),
            (Backend::Elsewhere(files), Ok(())) => files.contains_key(name),
        }
    }

    /// Opens a file of the input's directory.
    ///
    /// # Errors
    /// [`crate::Kind::Io`]; [`crate::Kind::Corrupt`] for a name that leaves the directory;
    /// [`crate::Kind::Usage`] for something that is no regular file.
    pub fn file(&self, name: &str) -> Result<File> {
        let shown = self.display(name);
        checked(name).map_err(|error| error.file(shown.clone()))?;
        let missing = || Error::io("cannot open the file", io::ErrorKind::NotFound.into()).file(&shown);
        let file = match &*self.backend {
            Backend::Directory(root) => open_regular(&root.join(name), shown)?,
            Backend::Staged(_, files) => open_regular(files.get(name).ok_or_else(missing)?, shown)?,
            Backend::Elsewhere(files) => File::of(files.get(name).cloned().ok_or_else(missing)?, shown)?,
        };
        if let Some(opened) = &self.opened {
            opened.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        }
        Ok(file)
    }

    /// Names of the files directly in `directory` (empty for the input's own), sorted; at most
    /// [`Limits::files`]. Names that [`Input::file`] refuses are left out: no file of a format can be meant by them.
    ///
    /// # Errors
    /// [`crate::Kind::Io`], [`crate::Kind::Limit`].
    pub fn list(&self, directory: &str) -> Result<Vec<String>> {
        let mut names = match &*self.backend {
            Backend::Directory(root) => {
                if !directory.is_empty() {
                    checked(directory)?;
                }
                list_directory(&root.join(directory), &self.limits)?
            }
            Backend::Staged(_, files) => inside(files.keys(), directory),
            Backend::Elsewhere(files) => inside(files.keys(), directory),
        };
        names.retain(|name| checked(name).is_ok());
        names.sort();
        Ok(names)
    }

    /// The path of `name` as people should see it in messages.
    pub fn display(&self, name: &str) -> String {
        match &*self.backend {
            Backend::Directory(root) | Backend::Staged(root, _) if name.is_empty() => {
                root.display().to_string()
            }
            Backend::Directory(root) | Backend::Staged(root, _) if root.as_os_str() == "." => name.to_owned(),
            Backend::Directory(root) | Backend::Staged(root, _) => root.join(name).display().to_string(),
            Backend::Elsewhere(_) => name.to_owned(),
        }
    }

    /// The directory on disk, where the input is on disk.
    pub fn directory(&self) -> Option<&Path> {
        match &*self.backend {
            Backend::Directory(root) | Backend::Staged(root, _) => Some(root),
            Backend::Elsewhere(_) => None,
        }
    }
}

/// The files directly in a directory, of all names below the input's.
fn inside<'a>(names: impl Iterator<Item = &'a String>, directory: &str) -> Vec<String> {
    let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
    let below = names.filter_map(|name| name.strip_prefix(&prefix));
    below.filter(|name| !name.contains('/')).map(str::to_owned).collect()
}

fn split(path: &Path) -> Result<(PathBuf, String)> {
    let bad = || Error::usage("the path has no usable file name").file(path.display().to_string());
    let name = path.file_name().ok_or_else(bad)?.to_str().ok_or_else(|| bad().help("names must be UTF-8"))?;
    checked(name).map_err(|_| bad().help("names in a checkpoint have no backslash: rename the file"))?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    Ok((parent, name.to_owned()))
}

/// A name from a file must stay below its directory.
pub(crate) fn checked(name: &str) -> Result<()> {
    let inside = !name.is_empty()
        && !name.contains(['\0', '\\'])
        && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if inside {
        Ok(())
    } else {
        Err(Error::corrupt("the name leaves the input's directory")
            .found(format!("'{}'", name.escape_debug()))
            .expected("a file beside the input"))
    }
}

fn open_regular(path: &Path, shown: String) -> Result<File> {
    let cannot = |error| Error::io("cannot open the file", error).file(&shown);
    // Opening a pipe would wait for a writer: look before.
    if !fs::metadata(path).map_err(cannot)?.is_file() {
        return Err(Error::usage("not a regular file").file(shown));
    }
    let handle = fs::File::open(path).map_err(cannot)?;
    File::of(Arc::new(handle), shown)
}

fn list_directory(path: &Path, limits: &Limits) -> Result<Vec<String>> {
    let cannot = |error| Error::io("cannot list the directory", error).file(path.display().to_string());
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        if let (Ok(name), true) = (entry.file_name().into_string(), entry.path().is_file()) {
            let count = names.len() as u64 + 1;
            limits.check(Limit::Files, count).map_err(|error| error.file(path.display().to_string()))?;
            names.push(name);
        }
    }
    Ok(names)
}

/// One open file; reading is positioned, so that several threads can share it.
#[derive(Clone, Debug)]
pub struct File {
    name: Arc<str>,
    len: u64,
    handle: Arc<dyn ReadAt>,
}

impl File {
    fn of(handle: Arc<dyn ReadAt>, name: String) -> Result<Self> {
        let size = handle.size();
        let len = size.map_err(|error| Error::io("cannot open the file", error).file(&name))?;
        Ok(File { name: name.into(), len, handle })
    }

    /// Path as people should see it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes when it was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] where the file ends before, [`crate::Kind::Io`].
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > self.len) {
            return Err(self.cut_short(offset, buffer.len() as u64));
        }
        read_exact_at(&*self.handle, offset, buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.cut_short(offset, buffer.len() as u64),
            _ => Error::io("cannot read the file", error).file(self.name()).offset(offset),
        })
    }

    /// `len` bytes from `offset`; nothing is allocated for bytes that the file has not.
    ///
    /// # Errors
    /// As [`File::read_at`].
    pub fn bytes(&self, offset: u64, len: u64) -> Result<Vec<u8>> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        let size = usize::try_from(len).ok().filter(|_| inside);
        let mut buffer = vec![0; size.ok_or_else(|| self.cut_short(offset, len))?];
        self.read_at(offset, &mut buffer)?;
        Ok(buffer)
    }

    fn cut_short(&self, offset: u64, wanted: u64) -> Error {
        Error::corrupt("the file is cut short")
            .file(self.name())
            .offset(offset)
            .found(format!("{} bytes", self.len.saturating_sub(offset)))
            .expected(format!("{wanted} bytes"))
    }
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
    fn a_format_of_one_file_has_that_file_alone_and_names_it_in_errors() {
        let contents = memory().read_alone("a toy", |_| Ok(Contents::default())).unwrap();
        assert_eq!(contents.files, ["a.index"]);
        let error = memory().read_alone("a toy", |file| file.bytes(9, 9).map(|_| Contents::default()));
        assert!(error.unwrap_err().to_string().contains("file a.index"));
        let error = Input::memory("", BTreeMap::new()).read_alone("a toy", |_| Ok(Contents::default()));
        assert_eq!(error.unwrap_err().kind(), Kind::Usage);
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
    fn staged_files_are_read_under_the_names_that_they_will_have() {
        let here = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let names = [("out/sub/b", "src/input.rs"), ("out/a", "Cargo.toml")];
        let files: BTreeMap<String, PathBuf> =
            names.map(|(name, path)| (name.to_owned(), here(path))).into_iter().collect();
        let folder = Input::staged(Path::new("there"), "out", files.clone());
        assert!(folder.is_directory() && folder.has_file("sub/b") && !folder.has_file("out/a"));
        assert_eq!(
            (folder.list("").unwrap(), folder.list("sub").unwrap()),
            (vec!["a".into()], vec!["b".into()])
        );
        let file = Input::staged(Path::new("there"), "out/a", files);
        let opened = file.main().unwrap();
        assert_eq!(Path::new(opened.name()), Path::new("there/out/a"));
        assert_eq!(opened.bytes(0, opened.len()).unwrap(), fs::read(here("Cargo.toml")).unwrap());
        assert_eq!(file.file("a").unwrap_err().kind(), Kind::Io);
        let prefix = Input::staged(Path::new(""), "ou", BTreeMap::new());
        assert!(!prefix.is_directory() && !prefix.is_file());
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
    fn a_path_with_nothing_behind_it_is_an_io_error() {
        let error = Input::open("no/such/thing").unwrap_err();
        assert_eq!(error.kind(), Kind::Io);
    }
}
