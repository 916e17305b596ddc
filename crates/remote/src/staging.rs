//! Outputs that several processes write: what the store keeps beside the output until it is committed.
//!
//! ```text
//! .ckpt-<hash of the output's name>/
//!     staging.json       which output of which plan, and the upload of each large file; made once, and removed last
//!     wrote-<id>.json    what one process had written at one time: parts that it sent, and where other bytes lie
//!     bytes-<id>-<n>     bytes of parts that no process wrote alone
//!     naming.json        what had the output's names when a commit began to give them
//! ```
//!
//! Whoever comes first begins the uploads, and puts `staging.json` on the condition that nobody else did. All processes send
//! parts to the same uploads.

use super::client::Uploading;
use super::directory::RemoteStore;
use super::problem::{Failure, Problem};
use super::put::put;
use super::runtime;
use super::sender::{Upload, part_size};
use ckpt_api::{Error, Kind, OutputFile, ReadStore, Result, text};
use ckpt_engine::store::{NothingStaged, StageMode, StageRequest};
use ckpt_engine::words::hex;
use futures_util::StreamExt;
use object_store::path::Path as Key;
use object_store::{ObjectStoreExt, PutMode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex};

/// The version of the objects.
pub(super) const VERSION: u32 = 1;
/// What the names of its directories begin with. Bytes of the hash follow, in hex.
const DIRECTORY: &str = ".ckpt-";
const HASHED: usize = 8;
const HEADER: &str = "staging.json";
const NAMING: &str = "naming.json";
/// Bytes of the largest object that is read whole.
const LARGEST: u64 = 64 << 20;
/// Requests at once.
const REQUESTS: usize = 16;

/// An upload that was begun: its object's key, and its own name.
type Begun = Option<(Key, String)>;

/// What is staged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    version: u32,
    /// Of all that determines the output's bytes, in hex.
    key: String,
    /// No other staging has this number.
    token: u64,
    files: Vec<StagedFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StagedFile {
    name: String,
    len: Option<u64>,
    /// The upload of a file of more than one part.
    upload: Option<String>,
}

impl Header {
    fn is_of(&self, request: &StageRequest<'_>) -> bool {
        let files = self.files.iter().map(|file| (&file.name, file.len));
        request.key.is_some_and(|key| hex(&key) == self.key)
            && files.eq(request.files.iter().map(|file| (&file.name, file.len)))
    }
}

/// What had a name, or has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    pub(super) e_tag: Option<String>,
    pub(super) version: Option<String>,
    /// Milliseconds since 1970.
    modified: i64,
    pub(super) size: u64,
}

impl From<object_store::ObjectMeta> for Named {
    fn from(meta: object_store::ObjectMeta) -> Self {
        let modified = meta.last_modified.timestamp_millis();
        Named { e_tag: meta.e_tag, version: meta.version, modified, size: meta.size }
    }
}

/// The staging of one output.
pub(super) struct Staging {
    pub(super) store: RemoteStore,
    pub(super) writer: Arc<dyn Uploading>,
    /// Its directory, as a name in the store.
    directory: String,
    header: Header,
    /// Whether another process had begun it.
    pub(super) was_begun: bool,
    /// TransferBuffer by whoever tells others what was written: what one call has noted must be there when the next returns.
    pub(super) settling: Mutex<()>,
}

impl std::fmt::Debug for Staging {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Staging").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Staging {
    /// The staging that a request asks for: for [`StageMode::Shared`], it is begun if there is none.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if another plan's is there, or none; [`ckpt_api::Kind::Corrupt`] for one that is
    /// malformed; [`ckpt_api::Kind::Io`].
    pub(super) fn of(
        store: &RemoteStore,
        writer: &Arc<dyn Uploading>,
        request: &StageRequest<'_>,
    ) -> Result<Self> {
        let name = Sha256::digest(request.name.as_bytes());
        let directory = format!("{DIRECTORY}{}", hex(name.get(..HASHED).unwrap_or_default()));
        let mut staging = Self::within_directory(store, writer, directory);
        let found = match staging.read_header()? {
            Some(found) => found,
            None if request.mode == StageMode::Shared => return staging.begin(request),
            None => return Err(NothingStaged::error(store.display(request.name))),
        };
        match found.is_of(request) {
            true => staging.header = found,
            false if request.mode == StageMode::Shared => return Err(staging.other(request)),
            false => {
                let place = store.display(&staging.directory);
                return Err(NothingStaged::error(store.display(request.name)).with_help(|help| {
                    text![help, format!("; the items of another plan have written to {place}")]
                }));
            }
        }
        Ok(staging)
    }

    fn within_directory(store: &RemoteStore, writer: &Arc<dyn Uploading>, directory: String) -> Self {
        Staging {
            store: store.clone(),
            writer: writer.clone(),
            directory,
            header: Header { version: VERSION, key: String::new(), token: 0, files: Vec::new() },
            was_begun: true,
            settling: Mutex::default(),
        }
    }

    /// The staging in a directory, of whatever plan. Without a header that can be read, it has no files and no uploads.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`].
    pub(super) fn found(store: &RemoteStore, directory: &str) -> Result<Self> {
        let mut staging = Self::within_directory(store, &store.writer()?, directory.to_owned());
        match staging.read_header() {
            Ok(found) => staging.header = found.unwrap_or(staging.header),
            Err(error) if error.kind() == Kind::Corrupt => {}
            Err(error) => return Err(error),
        }
        Ok(staging)
    }

    /// Begins the uploads, and makes the header, unless another process does so first: then it is that one's staging.
    fn begin(mut self, request: &StageRequest<'_>) -> Result<Self> {
        let begun = self.begin_uploads(request.files)?;
        let uploads = begun.iter().map(|begun| begun.as_ref().map(|(_, id)| id.clone()));
        let files = request.files.iter().zip(uploads);
        self.header.files = files
            .map(|(file, upload)| StagedFile { name: file.name.clone(), len: file.len, upload })
            .collect();
        self.header.key = request.key.map(|key| hex(&key)).unwrap_or_default();
        self.header.token = RandomState::new().build_hasher().finish();
        self.was_begun = false;
        let made = self.put(HEADER, &self.header, PutMode::Create);
        let problem = match made {
            Ok(Ok(())) => return Ok(self),
            Ok(Err(problem)) => Ok(problem),
            Err(error) => Err(error),
        };
        let found = self.read_header();
        // The answer may have been lost, and not the header: then these are the uploads that others send parts to.
        if found.as_ref().is_ok_and(|found| found.as_ref() == Some(&self.header)) {
            return Ok(self);
        }
        let begun = begun.into_iter().flatten().collect();
        let left = match found {
            // Nobody knows whose they are: `leftovers` finds them.
            Err(_) => Vec::new(),
            Ok(_) => runtime::wait(abort(self.writer.clone(), begun))?,
        };
        let problem = problem?;
        match (problem.failure, found) {
            (Failure::Exists | Failure::Changed, Ok(Some(found))) if found.is_of(request) => {
                Ok(Staging { header: found, was_begun: true, ..self })
            }
            (Failure::Exists | Failure::Changed, Ok(Some(_))) => Err(self.other(request)),
            _ => Err(ckpt_engine::store::leaving(
                self.store.failed(&problem, "cannot begin the output", &self.within(HEADER)),
                &left,
            )),
        }
    }

    /// Begins an upload for each file of more than one part.
    fn begin_uploads(&self, files: &[OutputFile]) -> Result<Vec<Begun>> {
        let is_large = |file: &&OutputFile| file.len.is_some_and(|len| len > part_size(len));
        let key = |file: &OutputFile| {
            Some(file).filter(is_large).map(|file| self.store.key_of(&file.name)).transpose()
        };
        let keys = files.iter().map(key).collect::<Result<Vec<_>>>()?;
        let begin = |key: Option<Key>| {
            let writer = self.writer.clone();
            async move {
                let Some(key) = key else { return Ok(None) };
                let id = writer.create_multipart(&key).await.map_err(Problem::from)?;
                Ok(Some((key, id)))
            }
        };
        let begun: Vec<_> = keys.into_iter().map(begin).collect();
        let begun =
            async move { futures_util::stream::iter(begun).buffered(REQUESTS).collect::<Vec<_>>().await };
        let begun: Vec<Result<Begun, Problem>> = runtime::wait(begun)?;
        let failed = files.iter().zip(&begun).find_map(|(file, begun)| Some((file, begun.as_ref().err()?)));
        if let Some((file, problem)) = failed {
            let error = self.store.failed(problem, "cannot begin the output", &file.name);
            let made = begun.into_iter().filter_map(|begun| begun.ok()?).collect();
            let left = runtime::wait(abort(self.writer.clone(), made))?;
            return Err(ckpt_engine::store::leaving(error, &left));
        }
        Ok(begun.into_iter().map(|begun| begun.ok().flatten()).collect())
    }

    fn other(&self, request: &StageRequest<'_>) -> Error {
        Error::usage("the items of another plan have written this output")
            .file(self.store.display(request.name))
            .found(format!("what they wrote, in {}", self.store.display(&self.directory)))
            .help("commit or discard that plan first, or choose another name")
    }

    pub(super) fn token(&self) -> u64 {
        self.header.token
    }

    /// The upload of a file, which other processes share; a new one for a file without one.
    pub(super) fn upload(&self, file: usize, key: Key) -> Arc<Upload> {
        let (writer, budget) = (self.writer.clone(), self.store.0.sending.clone());
        match self.header.files.get(file).and_then(|file| file.upload.clone()) {
            Some(id) => Upload::shared(writer, key, budget, id),
            None => Upload::new(writer, key, budget),
        }
    }

    /// The name in the store of an object of the staging.
    pub(super) fn within(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    /// The names of all its objects.
    pub(super) fn list(&self) -> Result<Vec<String>> {
        self.store.list(&self.directory, u64::MAX)
    }

    /// Refuses to go on where the output was committed or discarded meanwhile.
    pub(super) fn check(&self) -> Result<()> {
        match self.read_header()? {
            Some(found) if found == self.header => Ok(()),
            _ => Err(Error::usage("the output was committed or discarded while its items were being run")
                .file(self.store.display(&self.within(HEADER)))),
        }
    }

    fn read_header(&self) -> Result<Option<Header>> {
        let found: Option<Header> = self.read(HEADER)?;
        found.map_or(Ok(None), |header| match header.version {
            VERSION => Ok(Some(header)),
            version => Err(self.malformed(HEADER, &format!("version {version}"))),
        })
    }

    /// What had the names when a commit began to give them; `None` before.
    pub(super) fn naming(&self) -> Result<Option<Vec<Option<Named>>>> {
        let found: Option<Vec<Option<Named>>> = self.read(NAMING)?;
        match found {
            Some(before) if before.len() != self.header.files.len() => {
                Err(self.malformed(NAMING, &format!("{} names", before.len())))
            }
            found => Ok(found),
        }
    }

    /// Notes what has the names, before the first one is given.
    pub(super) fn begin_naming(&self, before: &[Option<Named>]) -> Result<()> {
        self.put(NAMING, &before, PutMode::Overwrite)?
            .map_err(|problem| self.store.failed(&problem, "cannot write the file", &self.within(NAMING)))
    }

    /// Puts an object as JSON.
    pub(super) fn put<T: Serialize>(
        &self,
        name: &str,
        value: &T,
        mode: PutMode,
    ) -> Result<Result<(), Problem>> {
        let text = serde_json::to_vec(value)
            .map_err(|error| Error::defect("what was written has no JSON text").found(error.to_string()))?;
        runtime::wait(put(self.writer.clone(), self.store.key_of(&self.within(name))?, text, mode))
    }

    /// Reads an object of JSON as it is now; `None` if there is none.
    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let (writer, key) = (self.writer.clone(), self.store.key_of(&self.within(name))?);
        let bytes = runtime::wait(small(writer, key))?;
        let bytes = bytes
            .map_err(|problem| self.store.failed(&problem, "cannot read the file", &self.within(name)))?;
        bytes.map(|bytes| self.parse(name, &bytes)).transpose()
    }

    pub(super) fn parse<T: DeserializeOwned>(&self, name: &str, bytes: &[u8]) -> Result<T> {
        serde_json::from_slice(bytes).map_err(|error| self.malformed(name, &error.to_string()))
    }

    pub(super) fn malformed(&self, name: &str, found: &str) -> Error {
        Error::corrupt("what the plan's items noted of the output is malformed")
            .file(self.store.display(&self.within(name)))
            .found(found)
            .help("remove all objects of this directory, and run all items of the plan again")
    }

    /// Removes objects of the staging; returns which cannot be removed.
    pub(super) fn remove(&self, names: Vec<String>) -> Vec<String> {
        let removed = || {
            let key = |name: &String| self.store.key_of(&self.within(name));
            let keys = names.iter().map(key).collect::<Result<Vec<_>>>()?;
            runtime::wait(remove(self.writer.clone(), keys))
        };
        removed().unwrap_or_else(|error| vec![error.to_string()])
    }

    /// Removes all of it; returns what cannot be removed. The header goes when all else is gone, so that what is left is
    /// found again; what a process put meanwhile goes after it.
    pub(super) fn clear(&self) -> Vec<String> {
        let others = || {
            let names = self.list()?;
            Ok::<_, Error>(names.into_iter().filter(|name| name != HEADER).collect::<Vec<_>>())
        };
        let remove = || others().map_or_else(|error| vec![error.to_string()], |names| self.remove(names));
        let mut left = remove();
        if left.is_empty() {
            left.extend(self.remove(vec![HEADER.to_owned()]));
            left.extend(remove());
        }
        left
    }

    /// The uploads of its files: their objects' keys, and their own names.
    pub(super) fn uploads(&self) -> Vec<(Key, String)> {
        self.uploads_of(|_| true)
    }

    fn uploads_of(&self, is_wanted: impl Fn(usize) -> bool) -> Vec<(Key, String)> {
        let files = self.header.files.iter().enumerate().filter(|(number, _)| is_wanted(*number));
        files
            .filter_map(|(_, file)| Some((self.store.key_of(&file.name).ok()?, file.upload.clone()?)))
            .collect()
    }

    /// The names of its files.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.header.files.iter().map(|file| file.name.as_str())
    }

    /// Aborts the uploads, and removes all else; returns what cannot be removed. The upload of a file that was given its name is
    /// none any more.
    pub(super) fn give_up(&self, is_given: impl Fn(usize) -> bool) -> Vec<String> {
        let uploads = self.uploads_of(|number| !is_given(number));
        let left = runtime::wait(abort(self.writer.clone(), uploads));
        match left.unwrap_or_else(|error| vec![error.to_string()]) {
            left if left.is_empty() => self.clear(),
            left => left,
        }
    }

    /// Bytes and upload of a file.
    pub(super) fn file(&self, number: usize) -> Option<(Option<u64>, bool)> {
        self.header.files.get(number).map(|file| (file.len, file.upload.is_some()))
    }
}

/// Whether a directory of this name is a staging's.
pub(super) fn is_staging(name: &str) -> bool {
    let hash = name.strip_prefix(DIRECTORY).unwrap_or_default();
    hash.len() == 2 * HASHED && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A number that no other call has had, in hex.
pub(super) fn unique() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// All bytes of a small object; `None` if there is none.
async fn small(writer: Arc<dyn Uploading>, key: Key) -> Result<Option<Vec<u8>>, Problem> {
    const ATTEMPTS: u32 = 5;
    let mut attempt = 1;
    loop {
        let problem = match writer.get(&key).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
            Ok(found) if found.meta.size > LARGEST => {
                return Err(Problem::new(Failure::Other, format!("it has {} bytes", found.meta.size)));
            }
            Ok(found) => {
                let size = found.meta.size;
                match found.bytes().await {
                    Ok(bytes) if bytes.len() as u64 == size => return Ok(Some(bytes.to_vec())),
                    Ok(bytes) => {
                        Problem::new(Failure::Short, format!("{} of {size} bytes came", bytes.len()))
                    }
                    Err(error) => error.into(),
                }
            }
        };
        if attempt == ATTEMPTS {
            return Err(problem);
        }
        attempt += 1;
        super::object::pause(attempt).await;
    }
}

/// Aborts uploads, and returns which cannot be aborted. What is not there needs no aborting.
async fn abort(writer: Arc<dyn Uploading>, uploads: Vec<(Key, String)>) -> Vec<String> {
    let abort = |(key, id): (Key, String)| {
        let writer = writer.clone();
        async move {
            let problem = Problem::from(writer.abort_multipart(&key, &id).await.err()?);
            (problem.failure != Failure::Missing)
                .then(|| format!("cannot remove the unfinished upload of '{key}': {}", problem.text))
        }
    };
    let aborted = futures_util::stream::iter(uploads).map(abort).buffered(REQUESTS);
    aborted.filter_map(|left| async { left }).collect().await
}

/// Removes objects, and returns which cannot be removed.
pub(super) async fn remove(writer: Arc<dyn Uploading>, keys: Vec<Key>) -> Vec<String> {
    let remove = |key: Key| {
        let writer = writer.clone();
        async move {
            let problem = Problem::from(writer.delete(&key).await.err()?);
            (problem.failure != Failure::Missing).then(|| format!("cannot remove '{key}': {}", problem.text))
        }
    };
    let removed = futures_util::stream::iter(keys).map(remove).buffered(REQUESTS);
    removed.filter_map(|left| async { left }).collect().await
}
