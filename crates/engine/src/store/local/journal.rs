//! The journal of an output: what a process that is killed leaves to the next one.
//!
//! It is beside the output while that has no name, and whoever writes the output holds a lock on it: an exclusive
//! one, or a shared one where several processes write together. Records follow each other, each with its length and
//! checksum, so that one that was cut off is recognized. The first names the temporary files and the key of what
//! determines their bytes; then come the notes of the writers; where a file is attached, its path; and, when all files
//! are complete, what identifies the files that get their names now. Nothing waits for the disk: whoever reads a note
//! checks that the bytes are there.

use super::disk::{Disk, cannot, remove, unremoved, write_all_at};
use super::names::{crc32c, parent};
use super::stamp::Stamp;
use ckpt_api::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A journal that this process holds. Removed when dropped, once it is this process's own.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    own: bool,
    removed: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    disk: Arc<dyn Disk>,
    file: File,
    /// Where its records end.
    end: u64,
    /// Records that are not in the file yet, and how many bytes of the output they are about.
    pending: Vec<u8>,
    bytes: u64,
    written: Instant,
    /// Whether tensors are recorded: not where nobody could go on, nor in a journal that cannot be written.
    records: bool,
}

/// Which files are being written: the first record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    /// [`VERSION`].
    pub(super) version: u32,
    /// Hash of everything that determines the output's bytes. `None` if the source has no stable identity.
    pub(super) key: Option<[u8; 32]>,
    /// A number that all writers of one staging share, and no other staging has.
    pub(super) token: u64,
    /// In the order in which they get their names.
    pub(super) files: Vec<Entry>,
    /// Directories below the output's that were made for them, outermost first.
    pub(super) directories: Vec<String>,
}

/// A file that is being written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Relative to the output's directory.
    pub(super) target: String,
    /// What it is called until then, beside the target.
    pub(super) temporary: String,
}

/// What an earlier process left.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) header: Option<Header>,
    pub(super) notes: Vec<Vec<u8>>,
    /// The real path of the file that was attached last.
    pub(super) attached: Option<PathBuf>,
    /// Once the files began to get their names: what they are known by, with the attached one last.
    pub(super) named: Option<Vec<Stamp>>,
    /// Bytes of intact records.
    pub(super) valid: u64,
}

pub(super) const VERSION: u32 = 2;

/// The journal is written when so many bytes of the output were, or after so long. Unit tests see every record.
const BATCH: u64 = if cfg!(test) { 1 } else { 64 << 20 };
const INTERVAL: Duration = Duration::from_secs(1);
/// Records waiting to be written take no more than this.
const PENDING: usize = 4 << 20;
/// The largest record that is believed.
const LARGEST: u32 = 64 << 20;

const HEADER: u8 = b'H';
const NOTE: u8 = b'D';
const ATTACHED: u8 = b'A';
const NAMED: u8 = b'N';

impl Journal {
    /// Takes the output whose journal is at `path`: nobody else writes it while this exists.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if another process writes it, [`ckpt_api::Kind::Io`].
    pub(super) fn take(disk: &Arc<dyn Disk>, path: &Path) -> Result<Self> {
        Self::lock(disk, path, false)
    }

    /// Takes the output together with other processes.
    ///
    /// # Errors
    /// As [`Journal::take`], where that process does not share it.
    pub(super) fn take_shared(disk: &Arc<dyn Disk>, path: &Path) -> Result<Self> {
        Self::lock(disk, path, true)
    }

    fn lock(disk: &Arc<dyn Disk>, path: &Path, shared: bool) -> Result<Self> {
        // Whoever holds it removes it when done: then another must be made.
        for _ in 0..100 {
            if let Some(file) = open(&**disk, path, shared)? {
                let state = Mutex::new(State::new(disk.clone(), file));
                return Ok(Journal { path: path.to_owned(), own: false, removed: false, state });
            }
        }
        Err(busy(path))
    }

    /// What an earlier process left in it, as far as it is intact.
    pub(super) fn read(&mut self) -> Result<Past> {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        read_all(&state.file).map_err(|error| unreadable(&self.path, error))
    }

    /// Begins anew: from now on it is removed when dropped.
    pub(super) fn begin(&mut self, header: &Header) -> Result<()> {
        self.own = true;
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let text = serde_json::to_vec(header).map_err(|error| {
            Error::usage("the output's file names cannot be recorded").found(error.to_string())
        })?;
        state.records = header.key.is_some();
        let begun = state.go_to(0).and_then(|()| state.append(&framed(HEADER, &text)));
        begun.map_err(|error| unwritable(&self.path, error))
    }

    /// Goes on behind the intact records of an earlier process.
    pub(super) fn go_on(&mut self, past: &Past) -> Result<()> {
        self.own = true;
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.records = true;
        state.go_to(past.valid).map_err(|error| unwritable(&self.path, error))
    }

    /// Keeps a note about so many bytes of the output.
    pub(super) fn note(&self, note: &[u8], bytes: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.records {
            return;
        }
        state.bytes = state.bytes.saturating_add(bytes);
        state.pending.extend(framed(NOTE, note));
        let due = state.bytes >= BATCH || state.pending.len() >= PENDING;
        if due || state.written.elapsed() >= INTERVAL {
            state.flush();
        }
    }

    /// Notes that a file of this real path is attached. One whose path is not text is not recognized later.
    pub(super) fn attach(&self, path: &Path) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(path) = path.to_str() else { return Ok(()) };
        state.flush();
        let noted = state.append(&framed(ATTACHED, path.as_bytes()));
        noted.map_err(|error| unwritable(&self.path, error))
    }

    /// Notes that all files are complete and get their names now. `sync` waits until that is on the disk.
    pub(super) fn name(&self, files: &[Stamp], sync: bool) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let text = serde_json::to_vec(files).map_err(|error| {
            Error::defect("the files' identities have no JSON text").found(error.to_string())
        })?;
        state.flush();
        let noted = state.append(&framed(NAMED, &text));
        let noted = noted.and_then(|()| if sync { state.disk.sync(&state.file) } else { Ok(()) });
        noted.map_err(|error| unwritable(&self.path, error))
    }

    /// What it is about is complete: it is removed when dropped.
    pub(super) fn finished(&mut self) {
        self.own = true;
    }

    /// Keeps the file when dropped: for other processes, or as a process that is killed does.
    pub(super) fn abandon(&mut self) {
        self.own = false;
    }

    /// Removes the file, unless it is kept; returns why it cannot be removed.
    pub(super) fn remove(&mut self) -> Option<String> {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        // One that was made just now, and not used, is no one else's either.
        let is_own = self.own || state.file.metadata().is_ok_and(|meta| meta.len() == 0);
        self.own = false;
        if is_own && !self.removed {
            self.removed = true;
            return unremoved(&*state.disk, &self.path);
        }
        None
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        drop(self.remove());
        // Closing the file is not enough: a process that another thread starts right now has it, too, until it runs its
        // program, and the output would seem to be in use.
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = state.file.unlock();
    }
}

impl State {
    fn new(disk: Arc<dyn Disk>, file: File) -> Self {
        let (pending, written) = (Vec::new(), Instant::now());
        State { disk, file, end: 0, pending, bytes: 0, written, records: false }
    }

    /// What is behind `end` is forgotten.
    fn go_to(&mut self, end: u64) -> io::Result<()> {
        self.end = end;
        self.disk.set_len(&self.file, end)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_all_at(&*self.disk, &self.file, self.end, bytes)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    fn flush(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        self.records &= self.append(&pending).is_ok();
        self.bytes = 0;
        self.written = Instant::now();
    }
}

/// The journal, locked; `None` if its holder removed it meanwhile.
fn open(disk: &dyn Disk, path: &Path, shared: bool) -> Result<Option<File>> {
    let failed = |error| unwritable(path, error);
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true);
    let (file, is_new) = match disk.open(path, options.clone().create_new(true)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match open_own(path, &options) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(planted(path)),
            opened => (opened.map_err(failed)?, false),
        },
        opened => (opened.map_err(failed)?, true),
    };
    match disk.try_lock(&file, shared) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(busy(path)),
        // Some file systems have no locks: then another process goes undetected.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
        Err(TryLockError::Error(error)) => {
            let left = if is_new { remove(disk, path).err() } else { None };
            return Err(unlockable(path, error, left));
        }
    }
    let here = Stamp::of_file(&file).map_err(failed)?;
    Ok(Stamp::of(path).is_ok_and(|there| there.is_same_file(&here)).then_some(file))
}

/// Opens a regular file of this very name, through no link.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if something else has the name.
pub(super) fn open_own(path: &Path, options: &fs::OpenOptions) -> io::Result<File> {
    let other = || io::Error::from(io::ErrorKind::InvalidInput);
    let is_file = |meta: &fs::Metadata| meta.is_file();
    if !is_file(&fs::symlink_metadata(path)?) {
        return Err(other());
    }
    let file = options.open(path)?;
    // The name may have been given to a link in between.
    let there = fs::symlink_metadata(path)?;
    if is_file(&there) && Stamp::of_metadata(&there).is_same_file(&Stamp::of_file(&file)?) {
        Ok(file)
    } else {
        Err(other())
    }
}

fn read_all(file: &File) -> io::Result<Past> {
    let mut past = Past::default();
    let len = file.metadata()?.len();
    let mut reader = BufReader::new(file);
    reader.rewind()?;
    while let Some(payload) = next(&mut reader, len - past.valid)? {
        if past.take(&payload).is_none() {
            break;
        }
        past.valid += FRAME as u64 + payload.len() as u64;
    }
    Ok(past)
}

/// Length and checksum before each record.
const FRAME: usize = 8;

/// The next intact record within `left` bytes.
fn next(reader: &mut impl Read, left: u64) -> io::Result<Option<Vec<u8>>> {
    let mut frame = [0; FRAME];
    if left < FRAME as u64 {
        return Ok(None);
    }
    reader.read_exact(&mut frame)?;
    let [a, b, c, d, e, f, g, h] = frame;
    let (len, sum) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    if len == 0 || len > LARGEST || u64::from(len) > left - FRAME as u64 {
        return Ok(None);
    }
    let mut payload = vec![0; len as usize];
    reader.read_exact(&mut payload)?;
    Ok((crc32c(&[&payload]) == sum).then_some(payload))
}

impl Past {
    /// Takes a record; `None` if it is not what one looks like.
    fn take(&mut self, payload: &[u8]) -> Option<()> {
        let (tag, body) = payload.split_first()?;
        match (*tag, &self.header) {
            (HEADER, None) => {
                let header: Header = serde_json::from_slice(body).ok()?;
                self.header = Some(header).filter(|header| header.version == VERSION);
                self.header.as_ref()?;
            }
            (NOTE, Some(_)) => self.notes.push(body.to_vec()),
            (ATTACHED, Some(_)) => {
                self.attached = Some(PathBuf::from(std::str::from_utf8(body).ok()?));
                // Names that were given before were taken back, or nothing would have been attached.
                self.named = None;
            }
            (NAMED, Some(_)) => self.named = Some(serde_json::from_slice(body).ok()?),
            _ => return None,
        }
        Some(())
    }
}

/// A record: its length and checksum, then what kind it is, and its text.
fn framed(tag: u8, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len() + 1).unwrap_or(u32::MAX);
    let mut bytes = len.to_le_bytes().to_vec();
    bytes.extend(crc32c(&[&[tag], body]).to_le_bytes());
    bytes.push(tag);
    bytes.extend_from_slice(body);
    bytes
}

fn busy(path: &Path) -> Error {
    Error::usage("another conversion is writing this output")
        .file(path.display().to_string())
        .help("wait until it ends, or choose another name")
}

/// A file system that refuses a lock (without a lock service, NFS does) makes two processes indistinguishable.
fn unlockable(path: &Path, error: io::Error, left: Option<io::Error>) -> Error {
    let left = left.map(|error| format!("; its file is left, because it cannot be removed: {error}"));
    Error::io("cannot lock the conversion's journal", error).file(path.display().to_string()).help(format!(
        "the output was not made; if the file system has no locks, write to another one and copy the output{}",
        left.unwrap_or_default()
    ))
}

fn planted(path: &Path) -> Error {
    Error::usage("the name of the conversion's journal is already taken")
        .file(path.display().to_string())
        .help("it is not a file: remove it, or write to another directory")
}

fn unreadable(path: &Path, error: io::Error) -> Error {
    Error::io("cannot read the conversion's journal", error).file(path.display().to_string())
}

fn unwritable(path: &Path, error: io::Error) -> Error {
    cannot("make a file in the output's directory", parent(path), error)
        .help("the directory must exist, be writable, and have free space")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::local::disk::Os;

    #[test]
    fn an_output_is_free_when_its_holder_is_done_even_if_a_new_process_has_the_journal_open() {
        let place = tempfile::tempdir().unwrap();
        let (disk, path) = (Arc::new(Os) as Arc<dyn Disk>, place.path().join("journal"));
        let mut shared = Journal::take_shared(&disk, &path).unwrap();
        shared.note(b"note", BATCH);
        shared.abandon();
        // What a process that is being started has of it.
        let inherited = shared.state.get_mut().unwrap().file.try_clone().unwrap();
        assert!(Journal::take(&disk, &path).is_err());
        drop(shared);
        assert!(Journal::take(&disk, &path).is_ok());
        drop(inherited);
    }
}
