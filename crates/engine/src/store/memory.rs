//! Files in memory: a store for tests, examples and programs that never touch a disk.

use super::{Committed, Destination, Earlier, NothingStaged, Stage, StageMode, StageRequest, Store, WriteAt};
use crate::settings;
use ckpt_api::{Error, FileId, OutputFile, ReadAt, ReadStore, Result, text};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// A store whose files are in memory. Clones share them.
///
/// ```
/// use ckpt::store::MemoryStore;
/// let store = MemoryStore::new();
/// store.put("m.npy", b"...".to_vec());
/// assert_eq!(store.get("m.npy").as_deref(), Some(&b"..."[..]));
/// assert_eq!(store.names(), ["m.npy"]);
/// ```
#[derive(Clone, Debug)]
pub struct MemoryStore(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    number: u64,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    files: BTreeMap<String, Arc<MemoryFile>>,
    /// What is staged, by the output's name, while someone shares it.
    staged: BTreeMap<String, Arc<Staged>>,
}

/// The files of one output before they have names.
#[derive(Debug)]
struct Staged {
    key: Option<[u8; 32]>,
    token: u64,
    files: Vec<OutputFile>,
    contents: Vec<Arc<MemoryFile>>,
    notes: Mutex<Vec<Vec<u8>>>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore(Arc::new(Shared { number: next_number(), held: Mutex::default() }))
    }
}

/// Another number at each call.
fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl MemoryStore {
    /// A store without files.
    pub fn new() -> Self {
        Self::default()
    }

    /// A place in the store: what conversions write to, and what can be opened.
    pub fn at(&self, name: impl Into<String>) -> Destination {
        Destination::within(Arc::new(self.clone()), name)
    }

    /// Puts a file in, in the place of one that has its name.
    pub fn put(&self, name: impl Into<String>, bytes: Vec<u8>) {
        self.held().files.insert(name.into(), Arc::new(MemoryFile::new(bytes)));
    }

    /// The bytes of a file.
    pub fn get(&self, name: &str) -> Option<Vec<u8>> {
        let file = self.held().files.get(name).cloned()?;
        Some(file.bytes.read().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// The names of all files, sorted.
    pub fn names(&self) -> Vec<String> {
        self.held().files.keys().cloned().collect()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadStore for MemoryStore {
    fn list(&self, directory: &str, most: u64) -> Result<Vec<String>> {
        self.readable().list(directory, most)
    }

    fn directories(&self, directory: &str, most: u64) -> Result<Vec<String>> {
        self.readable().directories(directory, most)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        self.readable().open(name)
    }

    fn has(&self, name: &str) -> bool {
        self.held().files.contains_key(name)
    }

    fn has_directory(&self, name: &str) -> bool {
        self.readable().has_directory(name)
    }

    fn location(&self) -> Option<String> {
        Some(format!("memory:{}", self.0.number))
    }
}

impl MemoryStore {
    fn readable(&self) -> BTreeMap<String, Arc<dyn ReadAt>> {
        let held = self.held();
        held.files.iter().map(|(name, file)| (name.clone(), file.clone() as Arc<dyn ReadAt>)).collect()
    }
}

impl Store for MemoryStore {
    fn check(&self, request: &StageRequest<'_>) -> Result<()> {
        let held = self.held();
        let names = request.files.iter().map(|file| file.name.as_str()).chain(request.attachment);
        let mut seen = BTreeSet::new();
        for name in names {
            if !seen.insert(name) {
                return Err(Error::usage("two files of the output have the same name").file(name));
            }
            let is_source = |source: &&super::Protected| {
                source.store.location() == self.location()
                    && (source.names.iter().any(|own| own == name) || source.entry == name)
            };
            if held.files.contains_key(name) && request.source.as_ref().is_some_and(is_source) {
                return Err(Error::usage("the output is the input, or a part of it")
                    .file(name)
                    .help("choose another name; the source is never changed"));
            }
            if held.files.contains_key(name) && !request.overwrite {
                let help = text!["choose another name, or replace it with ", settings::OVERWRITE];
                return Err(Error::usage("the output exists").file(name).help(help));
            }
        }
        Ok(())
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.put(name, bytes.to_vec());
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.held().files.remove(name);
        Ok(())
    }

    fn stage(&self, request: &StageRequest<'_>) -> Result<Box<dyn Stage>> {
        self.check(request)?;
        let mut held = self.held();
        let same = |staged: &&Arc<Staged>| {
            request.mode != StageMode::Fresh
                && staged.key.is_some()
                && staged.key == request.key
                && staged.files == request.files
        };
        let before = held.staged.get(request.name);
        let earlier = match before {
            None => Earlier::Nothing,
            Some(staged) if same(&staged) => Earlier::Kept,
            Some(_) => Earlier::Other,
        };
        let kept = before.filter(same).cloned();
        if kept.is_none() && request.mode == StageMode::Existing {
            return Err(NothingStaged::error(request.name));
        }
        let staged = match kept {
            Some(staged) => staged,
            None => Arc::new(Staged::new(request)?),
        };
        held.staged.insert(request.name.to_owned(), staged.clone());
        let notes = match earlier {
            Earlier::Kept => staged.notes.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            _ => Vec::new(),
        };
        Ok(Box::new(MemoryStage {
            store: self.clone(),
            name: request.name.to_owned(),
            staged,
            attached: Vec::new(),
            earlier,
            notes,
            overwrite: request.overwrite,
            stays: matches!(request.mode, StageMode::Shared | StageMode::Existing),
        }))
    }
}

impl Staged {
    fn new(request: &StageRequest<'_>) -> Result<Self> {
        let empty = |file: &OutputFile| {
            let large = || Error::limit("the file is too large for memory").file(file.name.as_str());
            let len = usize::try_from(file.len.unwrap_or(0)).map_err(|_| large())?;
            let mut bytes = Vec::new();
            grow(&mut bytes, len).ok_or_else(large)?;
            Ok(Arc::new(MemoryFile::new(bytes)))
        };
        Ok(Staged {
            key: request.key,
            token: next_number(),
            files: request.files.to_vec(),
            contents: request.files.iter().map(empty).collect::<Result<_>>()?,
            notes: Mutex::default(),
        })
    }
}

/// Appends zeros up to a length, if there is memory for them.
fn grow(bytes: &mut Vec<u8>, len: usize) -> Option<()> {
    bytes.try_reserve(len.saturating_sub(bytes.len())).ok()?;
    bytes.resize(len.max(bytes.len()), 0);
    Some(())
}

/// One user of what is staged.
#[derive(Debug)]
struct MemoryStage {
    store: MemoryStore,
    name: String,
    staged: Arc<Staged>,
    /// Files that only this user has, with their names.
    attached: Vec<(String, Arc<MemoryFile>)>,
    earlier: Earlier,
    notes: Vec<Vec<u8>>,
    overwrite: bool,
    /// Whether the files stay staged when this is dropped.
    stays: bool,
}

impl MemoryStage {
    /// Every file, with the name that it will have.
    fn files(&self) -> impl Iterator<Item = (&String, &Arc<MemoryFile>)> {
        let staged = self.staged.files.iter().map(|file| &file.name).zip(&self.staged.contents);
        staged.chain(self.attached.iter().map(|(name, file)| (name, file)))
    }

    fn at(&self, id: FileId) -> Result<Arc<MemoryFile>> {
        let file = self.files().nth(id.0).map(|(_, file)| file.clone());
        file.ok_or_else(|| Error::defect("the output has no such file"))
    }
}

impl Stage for MemoryStage {
    fn earlier(&self) -> Earlier {
        self.earlier
    }

    fn notes(&self) -> &[Vec<u8>] {
        &self.notes
    }

    fn note(&self, note: &[u8], _: u64) {
        self.staged.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note.to_vec());
    }

    fn token(&self) -> u64 {
        self.staged.token
    }

    fn file(&self, file: FileId) -> Result<Arc<dyn WriteAt>> {
        Ok(self.at(file)?)
    }

    fn open(&self, file: FileId) -> Result<Arc<dyn ReadAt>> {
        Ok(self.at(file)?)
    }

    fn written(&self) -> Arc<dyn ReadStore> {
        let files = self.files().map(|(name, file)| (name.clone(), file.clone() as Arc<dyn ReadAt>));
        Arc::new(files.collect::<BTreeMap<_, _>>())
    }

    fn attach(&mut self, name: &str) -> Result<FileId> {
        let id = FileId(self.files().count());
        self.attached.push((name.to_owned(), Arc::new(MemoryFile::new(Vec::new()))));
        Ok(id)
    }

    fn bytes(&self) -> Result<u64> {
        Ok(self.files().filter_map(|(_, file)| file.size().ok()).sum())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn commit(mut self: Box<Self>, _: bool) -> Result<Committed> {
        let store = self.store.clone();
        let mut held = store.held();
        if !self.overwrite
            && let Some((name, _)) = self.files().find(|(name, _)| held.files.contains_key(*name))
        {
            let error = Error::usage("the output exists").file(name);
            return Err(error.help("another writer has created it in the meantime: choose another name"));
        }
        held.files.extend(self.files().map(|(name, file)| (name.clone(), file.clone())));
        let names = self.files().map(|(name, _)| name.clone()).collect();
        // The lock is taken again when this is dropped.
        drop(held);
        self.stays = false;
        Ok(Committed::new(names))
    }

    fn discard(mut self: Box<Self>) -> Vec<String> {
        self.stays = false;
        Vec::new()
    }
}

impl Drop for MemoryStage {
    fn drop(&mut self) {
        let mut held = self.store.held();
        let own = held.staged.get(&self.name).is_some_and(|staged| Arc::ptr_eq(staged, &self.staged));
        if own && !self.stays {
            held.staged.remove(&self.name);
        }
    }
}

/// A file in memory.
#[derive(Debug)]
struct MemoryFile {
    bytes: RwLock<Vec<u8>>,
    /// Another one after each change.
    version: AtomicU64,
}

impl MemoryFile {
    fn new(bytes: Vec<u8>) -> Self {
        MemoryFile { bytes: RwLock::new(bytes), version: AtomicU64::new(next_number()) }
    }
}

impl ReadAt for MemoryFile {
    fn size(&self) -> io::Result<u64> {
        self.bytes.read().unwrap_or_else(PoisonError::into_inner).size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.bytes.read().unwrap_or_else(PoisonError::into_inner).read_at(offset, buffer)
    }

    fn identity(&self) -> Option<String> {
        Some(self.version.load(Ordering::SeqCst).to_string())
    }
}

impl WriteAt for MemoryFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let large = || Error::limit("the file is too large for memory").offset(offset);
        let start = usize::try_from(offset).map_err(|_| large())?;
        let end = start.checked_add(bytes.len()).ok_or_else(large)?;
        let mut file = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        grow(&mut file, end).ok_or_else(large)?;
        if let Some(place) = file.get_mut(start..end) {
            place.copy_from_slice(bytes);
        }
        self.version.store(next_number(), Ordering::SeqCst);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::{Input, Kind};

    fn files(names: &[&str]) -> Vec<OutputFile> {
        names.iter().map(|name| OutputFile::new(*name, 3)).collect()
    }

    fn written(stage: &dyn Stage, count: usize) {
        for id in 0..count {
            stage.file(FileId(id)).unwrap().write_at(0, b"new").unwrap();
        }
    }

    #[test]
    fn files_appear_together_when_they_are_committed_or_not_at_all() {
        let (store, files) = (MemoryStore::new(), files(&["a", "d/b"]));
        let request = StageRequest::new("o", &files);
        let stage = store.stage(&request).unwrap();
        written(&*stage, 2);
        assert_eq!(store.names(), [""; 0]);
        drop(stage);
        let stage = store.stage(&request).unwrap();
        assert_eq!(stage.earlier(), Earlier::Nothing);
        written(&*stage, 2);
        let inside = Input::within_store(stage.written(), "d");
        assert_eq!(inside.file("b").unwrap().bytes(0, 3).unwrap(), b"new");
        assert_eq!(stage.commit(true).unwrap().names, ["a", "d/b"]);
        assert_eq!(store.names(), ["a", "d/b"]);
        assert_eq!(store.get("d/b").unwrap(), b"new");
    }

    #[test]
    fn an_output_that_exists_is_replaced_only_where_that_is_asked_for() {
        let (store, files) = (MemoryStore::new(), files(&["a"]));
        store.put("a", b"old".to_vec());
        let request = StageRequest::new("o", &files);
        assert_eq!(store.stage(&request).unwrap_err().kind(), Kind::Usage);
        let stage = store.stage(&StageRequest { overwrite: true, ..request }).unwrap();
        written(&*stage, 1);
        assert_eq!(store.get("a").unwrap(), b"old");
        stage.commit(true).unwrap();
        assert_eq!(store.get("a").unwrap(), b"new");
    }

    #[test]
    fn who_comes_second_to_a_name_is_refused_at_the_commit() {
        let (store, files) = (MemoryStore::new(), files(&["a"]));
        let stages = ["o", "p"].map(|name| store.stage(&StageRequest::new(name, &files)).unwrap());
        let [first, second] = stages;
        first.commit(true).unwrap();
        assert_eq!(second.commit(true).unwrap_err().kind(), Kind::Usage);
    }

    #[test]
    fn what_is_left_is_found_again_with_its_notes_where_the_key_is_the_same() {
        let (store, files) = (MemoryStore::new(), files(&["a"]));
        let mut request = StageRequest { key: Some([1; 32]), ..StageRequest::new("o", &files) };
        request.mode = StageMode::Shared;
        let first = store.stage(&request).unwrap();
        written(&*first, 1);
        first.note(b"half", 1);
        let token = first.token();
        drop(first);
        let second = store.stage(&request).unwrap();
        assert_eq!(
            (second.earlier(), second.token(), second.notes()),
            (Earlier::Kept, token, &[b"half".to_vec()][..])
        );
        drop(second);
        let other = StageRequest { key: Some([2; 32]), ..request.clone() };
        assert_eq!(store.stage(&other).unwrap().earlier(), Earlier::Other);
        let existing = StageRequest { mode: StageMode::Existing, ..request };
        assert_eq!(store.stage(&existing).unwrap_err().kind(), Kind::Usage, "the other key's removed it");
    }

    #[test]
    fn what_several_wrote_stays_without_its_attachments_until_it_is_committed_or_discarded() {
        let (store, files) = (MemoryStore::new(), files(&["a"]));
        let mode = |mode| StageRequest { key: Some([1; 32]), mode, ..StageRequest::new("o", &files) };
        let (shared, existing) = (mode(StageMode::Shared), mode(StageMode::Existing));
        written(&*store.stage(&shared).unwrap(), 1);
        let mut stage = store.stage(&existing).unwrap();
        let attached = stage.attach("lost").unwrap();
        stage.file(attached).unwrap().write_at(0, b"lost").unwrap();
        drop(stage);
        let mut stage = store.stage(&existing).unwrap();
        let attached = stage.attach("kept").unwrap();
        stage.file(attached).unwrap().write_at(0, b"kept").unwrap();
        assert_eq!(stage.bytes().unwrap(), 7);
        assert_eq!(stage.commit(true).unwrap().names, ["a", "kept"]);
        assert_eq!((store.get("a").unwrap(), store.get("kept").unwrap()), (b"new".into(), b"kept".into()));
        let again = StageRequest { overwrite: true, ..shared.clone() };
        drop(store.stage(&again).unwrap());
        store.stage(&StageRequest { overwrite: true, ..existing.clone() }).unwrap().discard();
        let gone = store.stage(&StageRequest { overwrite: true, ..existing.clone() }).unwrap_err();
        assert_eq!(gone.message(), "no item of this plan has written anything yet");
    }

    #[test]
    fn a_file_that_memory_has_no_room_for_is_refused() {
        let (store, files) = (MemoryStore::new(), [OutputFile::new("a", u64::MAX / 4)]);
        assert_eq!(store.stage(&StageRequest::new("o", &files)).unwrap_err().kind(), Kind::Limit);
        let files = [OutputFile::new("a", 3)];
        let stage = store.stage(&StageRequest::new("o", &files)).unwrap();
        let file = stage.file(FileId(0)).unwrap();
        for offset in [u64::MAX / 4, u64::MAX] {
            assert_eq!(file.write_at(offset, b"new").unwrap_err().kind(), Kind::Limit);
        }
    }

    #[test]
    fn a_file_that_is_put_again_has_another_identity() {
        let store = MemoryStore::new();
        let identity = || store.open("a").unwrap().identity();
        store.put("a", vec![1]);
        let before = identity();
        assert!(before.is_some() && before == identity());
        store.put("a", vec![1]);
        assert_ne!(before, identity());
    }
}
