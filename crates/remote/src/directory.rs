//! A directory of a remote store, and what is known of its files.

use super::blocks::Blocks;
use super::client::{Client, Listing, Patience, Purpose, Uploading};
use super::file::{RemoteFile, WholeFile};
use super::location::Location;
use super::object::{Looked, Object, Whole, look};
use super::options::RemoteOptions;
use super::problem::{Failure, Problem};
use super::runtime;
use super::sender::Budget;
use ckpt_api::{Error, ReadAt, ReadStore, Result};
use ckpt_engine::store::Destination;
use object_store::path::Path as Key;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// A directory of a store that is opened by address: `s3://`, `gs://`, `az://`, `http://`, `https://`, `hf://`, and
/// `memory://`, which lasts as long as the process. Clones share what is known of its files.
///
/// ```
/// # fn main() -> ckpt::Result<()> {
/// use ckpt::store::RemoteStore;
/// let place = RemoteStore::at("memory://examples/digits.safetensors")?;
/// assert_eq!(place.name(), "digits.safetensors");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RemoteStore(pub(super) Arc<Shared>);

pub(super) struct Shared {
    pub(super) location: Location,
    pub(super) options: RemoteOptions,
    pub(super) patience: Patience,
    pub(super) client: Client,
    blocks: Arc<Blocks>,
    /// What is known of names.
    looked: Mutex<BTreeMap<String, Arc<Slot>>>,
    /// Bounds how many names are looked up at once.
    looking: Arc<Semaphore>,
    /// Bounds the parts that are being sent.
    pub(super) sending: Arc<Budget>,
    /// The client that sends, once one was needed.
    pub(super) writer: Mutex<Option<Arc<dyn Uploading>>>,
}

impl fmt::Debug for RemoteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteStore").field(&self.0.location).finish()
    }
}

#[cfg(test)]
impl Shared {
    pub(super) fn blocks(&self) -> &Arc<Blocks> {
        &self.blocks
    }
}

/// Files that are looked up at once.
const LOOKING: usize = 32;

/// What is known of a name, once it is.
#[derive(Default)]
struct Slot {
    found: Mutex<Option<Result<Found, Problem>>>,
    changed: Condvar,
}

#[derive(Clone)]
enum Found {
    Nothing,
    Object(Arc<Object>),
    Whole(Arc<Whole>),
}

impl Slot {
    fn fill(&self, found: Result<Found, Problem>) {
        let mut slot = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        slot.get_or_insert(found);
        drop(slot);
        self.changed.notify_all();
    }

    fn wait(&self) -> Result<Found, Problem> {
        let mut slot = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(found) = &*slot {
                return found.clone();
            }
            slot = self.changed.wait(slot).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Fills a slot, whatever becomes of the request.
struct Filling(Arc<Slot>);

impl Drop for Filling {
    fn drop(&mut self) {
        self.0.fill(Err(Problem::new(Failure::Other, "the request ended without an answer")));
    }
}

impl RemoteStore {
    /// The place that an address names: what to open, or where to write.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for an address that is malformed or of no remote store; [`ckpt_api::Kind::Io`] if no
    /// client can be made, or the Hub does not have the repository.
    pub fn at(address: &str) -> Result<Destination> {
        let Some(location) = Location::parse(address)? else {
            return Err(Error::usage("this is no address of a remote store")
                .file(address)
                .expected("an address such as s3://bucket/path"));
        };
        let (directory, name) = location.split();
        Ok(Destination::within(Arc::new(Self::open(directory)?), name))
    }

    /// The directory at an address.
    ///
    /// # Errors
    /// Those of [`RemoteStore::at`].
    pub(crate) fn directory(address: &str) -> Result<Option<Self>> {
        let location = Location::parse(&format!("{}/", address.trim_end_matches('/')))?;
        location.map(|location| Self::open(location.split().0)).transpose()
    }

    pub(super) fn open(location: Location) -> Result<Self> {
        Self::with(location, RemoteOptions::everywhere(), Patience::default())
    }

    pub(super) fn with(location: Location, options: RemoteOptions, patience: Patience) -> Result<Self> {
        let client = Client::new(&location, &options, &patience, Purpose::Read).map_err(|problem| {
            problem.error("cannot open the store", &location.address(), location.scheme)
        })?;
        Ok(RemoteStore(Arc::new(Shared {
            location,
            options,
            patience,
            client,
            blocks: Blocks::new(),
            looked: Mutex::default(),
            looking: Arc::new(Semaphore::new(LOOKING)),
            sending: Arc::default(),
            writer: Mutex::default(),
        })))
    }

    fn address_of(&self, name: &str) -> String {
        self.0.location.address_of(name)
    }

    pub(super) fn failed(&self, problem: &Problem, doing: &str, name: &str) -> Error {
        problem.error(doing, &self.address_of(name), self.0.location.scheme)
    }

    /// The error for a name that has no file.
    pub(super) fn nothing(&self, doing: &str, name: &str) -> Error {
        self.failed(&Problem::new(Failure::Missing, ""), doing, name)
    }

    pub(super) fn key(&self, name: &str) -> Result<Key, Problem> {
        let key = self.0.location.key_of(name);
        let key = match self.0.location.scheme.is_web() {
            // The address has its own encoding, which the client makes again.
            true => Key::from_url_path(key),
            false => Key::parse(key),
        };
        key.map_err(|error| Problem::new(Failure::Other, error.to_string()))
    }

    /// Looks a name up, once for all who ask until [`ReadStore::forget`].
    fn look(&self, name: &str) -> Result<Found, Problem> {
        let found = self.begin_to_look(name).wait();
        if found.is_err() {
            // Who asks later may have more luck.
            self.forget_name(name);
        }
        found
    }

    /// As [`ReadStore::forget`], for one name.
    pub(super) fn forget_name(&self, name: &str) {
        self.0.looked.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    fn begin_to_look(&self, name: &str) -> Arc<Slot> {
        let mut looked = self.0.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = looked.get(name) {
            return slot.clone();
        }
        let slot = Arc::<Slot>::default();
        looked.insert(name.to_owned(), slot.clone());
        drop(looked);
        let key = match self.key(name) {
            Ok(key) => key,
            Err(problem) => {
                slot.fill(Err(problem));
                return slot;
            }
        };
        let (client, blocks, permits) =
            (self.0.client.clone(), self.0.blocks.clone(), self.0.looking.clone());
        let (address, scheme) = (self.address_of(name), self.0.location.scheme);
        let filling = Filling(slot.clone());
        let lookup = async move {
            let _permit = permits.acquire_owned().await;
            let found = look(client, key, address, scheme).await.map(|looked| match looked {
                Looked::Nothing => Found::Nothing,
                Looked::Whole(whole) => Found::Whole(Arc::new(whole)),
                Looked::Object(object, head) => {
                    blocks.put_head(&object, head);
                    Found::Object(Arc::new(object))
                }
            });
            filling.0.fill(found);
        };
        if let Err(error) = runtime::spawn(lookup) {
            slot.fill(Err(Problem::new(Failure::Other, error.to_string())));
        }
        slot
    }
}

impl ReadStore for RemoteStore {
    fn list(&self, directory: &str, most: u64) -> Result<Vec<String>> {
        self.list_files(directory, most)
            .map_err(|problem| self.failed(&problem, "cannot list the directory", directory))
    }

    fn directories(&self, directory: &str, most: u64) -> Result<Vec<String>> {
        self.list_directories(directory, most)
            .map_err(|problem| self.failed(&problem, "cannot list the directory", directory))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        let found = self.look(name).map_err(|problem| self.failed(&problem, "cannot open the file", name))?;
        match found {
            Found::Object(object) => Ok(Arc::new(RemoteFile { object, blocks: self.0.blocks.clone() })),
            Found::Whole(whole) => Ok(Arc::new(WholeFile(whole))),
            Found::Nothing => Err(self.nothing("cannot open the file", name)),
        }
    }

    /// A name that cannot be looked up counts as there, so that opening it says why. Stores that may not be listed deny what
    /// they do not have.
    fn has(&self, name: &str) -> bool {
        match self.look(name) {
            Ok(found) => !matches!(found, Found::Nothing),
            Err(problem) => problem.failure != Failure::Denied,
        }
    }

    fn has_directory(&self, name: &str) -> bool {
        self.is_directory(name).unwrap_or(false)
    }

    fn display(&self, name: &str) -> String {
        self.address_of(name)
    }

    fn location(&self) -> Option<String> {
        // Without its signature, the address opens nothing.
        self.0.location.query.is_none().then(|| self.0.location.address())
    }

    fn will_open(&self, names: &[String]) {
        names.iter().for_each(|name| drop(self.begin_to_look(name)));
    }

    fn forget(&self) {
        self.0.looked.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn reserve(&self, most: u64) -> u64 {
        self.0.blocks.bound(most.saturating_sub(CONNECTIONS)).saturating_add(CONNECTIONS)
    }
}

/// What threads and connections take beside the bytes that are kept.
const CONNECTIONS: u64 = 11 << 20;

impl RemoteStore {
    /// Whether a name is a file.
    pub(super) fn is_object(&self, name: &str) -> Result<bool> {
        let found =
            self.look(name).map_err(|problem| self.failed(&problem, "cannot open the input", name))?;
        Ok(!matches!(found, Found::Nothing))
    }

    /// Whether a name is a file, a directory, or what names of files begin with.
    pub(super) fn exists(&self, name: &str) -> Result<bool> {
        let cannot = |problem: Problem| self.failed(&problem, "cannot open the input", name);
        if self.is_object(name)? || self.is_directory(name).map_err(cannot)? {
            return Ok(true);
        }
        if matches!(self.0.client.listing, Listing::Nothing) {
            return Ok(self.has(&format!("{name}.index")));
        }
        self.has_prefix(&format!("{name}.")).map_err(cannot)
    }
}
