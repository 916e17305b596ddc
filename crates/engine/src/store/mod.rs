//! Stores: places that hold checkpoints, and that commit what is written all or nothing.
//!
//! A [`Store`] opens files for reading ([`ReadStore`], which codecs know as the inside of an [`ckpt_api::Input`]) and
//! takes new ones through a [`Stage`]: the files of one output, which have no names yet. [`Stage::commit`] gives all of
//! them their names in one step that a reader can observe. A stage that is dropped before leaves nothing behind, unless
//! several processes write the output: what they wrote stays until it is committed or discarded.
//!
//! The engine, receipts, resume and verification know these traits and no other. There are two stores here: the
//! directory ([`LocalStore`]) and memory ([`MemoryStore`]). Others are registered for the addresses that name them
//! ([`AddressOpener`]).

mod addresses;
mod destination;
mod into;
mod local;
mod memory;
mod nothing;
mod removal;

pub use addresses::{AddressOpener, Addresses};
pub use destination::Destination;
pub use into::{IntoDestination, IntoInput};
pub use local::refuse_own;
#[cfg(test)]
pub(crate) use local::{Disk, Os};
pub use local::{LocalStore, write_all};
pub use memory::MemoryStore;
pub use nothing::NothingStaged;
pub use removal::remove_files;

use ckpt_api::{Error, FileId, FormatInfo, Input, OutputFile, ReadAt, ReadStore, Result, text};
use std::fmt;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;

/// A place that holds named files and takes new ones, all or nothing.
///
/// # For implementers
/// - All methods are called from several threads at once.
/// - Whoever opens a name sees either the old file or the complete new one. A file that was opened keeps its content
///   when another takes its name.
/// - One output has one writer: [`Store::stage`] refuses an output that another process writes, except where both ask
///   for [`StageMode::Shared`] with the same key. The writer's claim ends with its process, however that ends.
/// - [`Store::check`] changes nothing. It refuses all that would make [`Stage::attach`] or [`Stage::commit`] fail and
///   that can be known before: hours of work may be in between.
pub trait Store: ReadStore {
    /// Prepares the files of one output. They have no names until [`Stage::commit`].
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if the output may not be written: it exists, it is part of the input, another
    /// process writes it. [`ckpt_api::Kind::Io`].
    fn stage(&self, request: &StageRequest<'_>) -> Result<Box<dyn Stage>>;

    /// Looks whether [`Store::stage`] would refuse the output, without preparing anything.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`].
    fn check(&self, request: &StageRequest<'_>) -> Result<()>;

    /// Puts in a small file, in the place of one that has its name, and waits until a power failure does not reach it.
    /// Where several do so at once, one of their files stays.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a name that leaves the store, [`ckpt_api::Kind::Io`].
    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()>;

    /// Removes a file, or a directory that has nothing in it. A name that nothing has, and a directory that has something in
    /// it, are no error.
    ///
    /// ```
    /// # fn main() -> ckpt::Result<()> {
    /// use ckpt::store::{MemoryStore, Store};
    /// let store = MemoryStore::new();
    /// store.put("note.txt", b"a note".to_vec());
    /// store.remove("note.txt")?;
    /// store.remove("note.txt")?;
    /// assert!(store.names().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a name that leaves the store, [`ckpt_api::Kind::Io`].
    fn remove(&self, name: &str) -> Result<()>;

    /// Bytes of a block that outputs can share with this file; `None`, the default, where they cannot.
    fn clone_block(&self, source: &std::fs::File) -> Option<NonZeroU64> {
        let _ = source;
        None
    }

    /// Lets stages of these files use `most` bytes of memory for what is on its way to the store, and returns how many they
    /// use: fewer, or more if they need more. 0 for a store that keeps nothing.
    fn reserve_for_writing(&self, files: &[OutputFile], most: u64) -> u64 {
        let _ = (files, most);
        0
    }
}

/// What is to be written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StageRequest<'a> {
    /// What the user calls the output.
    pub name: &'a str,
    /// Its files, in the order in which they get their names.
    pub files: &'a [OutputFile],
    /// Another file that will be attached ([`Stage::attach`]).
    pub attachment: Option<&'a str>,
    /// Whether existing files are replaced.
    pub overwrite: bool,
    /// Hash of everything that determines the output's bytes. `None` if the source has no stable identity, which
    /// disables resume.
    pub key: Option<[u8; 32]>,
    /// What becomes of what an earlier process staged.
    pub mode: StageMode,
    /// Whether an output that an earlier process committed is all that is wanted, if its key is the same.
    pub accept_complete: bool,
    /// Whether the files may be read back before they get their names. A store that sends what is written keeps it then.
    pub reread: bool,
    /// The input, no file of which may be replaced.
    pub source: Option<&'a Protected>,
}

/// What becomes of what an earlier process staged for the same output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StageMode {
    /// It goes.
    Fresh,
    /// It is kept where its key is the same, and goes otherwise. No other process writes meanwhile.
    Resume,
    /// As [`StageMode::Resume`], and other processes with the same key write at the same time.
    Shared,
    /// It must be there, with the same key, and no other process may be writing. Where it is not, the error is that of
    /// [`NothingStaged`].
    Existing,
}

impl<'a> StageRequest<'a> {
    /// A fresh output of these files, which replaces nothing.
    pub fn new(name: &'a str, files: &'a [OutputFile]) -> Self {
        StageRequest {
            name,
            files,
            attachment: None,
            overwrite: false,
            key: None,
            mode: StageMode::Fresh,
            accept_complete: false,
            reread: true,
            source: None,
        }
    }

    /// Announces another file that will be attached. Default: none.
    #[must_use]
    pub fn attachment(mut self, name: &'a str) -> Self {
        self.attachment = Some(name);
        self
    }

    /// Sets the hash of everything that determines the output's bytes. Default: none.
    #[must_use]
    pub fn key(mut self, key: [u8; 32]) -> Self {
        self.key = Some(key);
        self
    }

    /// Chooses what becomes of what an earlier process staged. Default: [`StageMode::Fresh`].
    #[must_use]
    pub fn mode(mut self, mode: StageMode) -> Self {
        self.mode = mode;
        self
    }

    /// Whether the files may be read back before they get their names. Default: yes.
    #[must_use]
    pub fn reread(mut self, reread: bool) -> Self {
        self.reread = reread;
        self
    }

    /// Whether existing files are replaced. Default: no.
    #[must_use]
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }
}

/// The files that belong to an input: no output may replace them, by whatever name.
#[derive(Clone, Debug)]
pub struct Protected {
    /// Where they are.
    pub(crate) store: Arc<dyn ReadStore>,
    /// Those that hold the tensors.
    pub(crate) names: Vec<String>,
    /// What the user named; empty for the whole store.
    pub(crate) entry: String,
    /// Extensions of the target's format that the source's has not: an earlier result, not a part of the input.
    pub(crate) results: Vec<&'static str>,
}

impl Protected {
    /// The files of an input; `names` are those that hold its tensors.
    pub fn new(input: &Input, names: &[String], source: &FormatInfo, target: &FormatInfo) -> Self {
        let results = target.extensions.iter().filter(|result| !source.extensions.contains(result)).copied();
        Protected {
            store: input.store().clone(),
            names: names.to_vec(),
            entry: input.entry().to_owned(),
            results: results.collect(),
        }
    }

    /// The files as their store shows them: those with tensors, and the one that the user named.
    pub fn displayed(&self) -> impl Iterator<Item = String> {
        self.names.iter().chain([&self.entry]).map(|name| self.store.display(name))
    }
}

/// What an earlier process left of the same output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Earlier {
    /// Nothing.
    Nothing,
    /// Files of another key, which are gone.
    Other,
    /// Files of the same key, which are kept with their notes.
    Kept,
    /// The whole output, committed: there is nothing to be done.
    Complete,
}

/// The files of one output before they have names.
///
/// Dropped before [`Stage::commit`], it removes them, unless its mode is [`StageMode::Shared`] or
/// [`StageMode::Existing`]: then other processes wrote to them, and they stay until a commit succeeds, or
/// [`Stage::discard`].
///
/// # For implementers
/// - Concurrency: methods that take `&self` are called from several threads at once. Under [`StageMode::Shared`],
///   several stages of several processes write the same files at the same time; they write the same bytes wherever they
///   meet.
/// - Lifetime: staged files outlive a process that is killed. The next one that asks for the same output with the same
///   key finds them ([`StageMode::Resume`], [`StageMode::Shared`], [`StageMode::Existing`]); any other request removes
///   them. An error, also of [`Stage::commit`], leaves shared files as they were, for the next commit. What
///   [`Stage::attach`] added goes with its stage.
/// - Notes survive the process. They need not survive a power failure, and the last ones may be missing. A note may be
///   there although the bytes that it is about are not: whoever reads it checks them. A note is whole or missing, never
///   changed, and in the order of [`Stage::note`].
/// - The token is drawn when the files are made, stays with them across processes, and differs for files that are made
///   again. Receipts of items name it: with another token, they are worth nothing.
pub trait Stage: fmt::Debug + Send + Sync {
    /// What an earlier process left.
    fn earlier(&self) -> Earlier;

    /// What earlier processes noted, where their files are kept; in the order in which they noted it.
    fn notes(&self) -> &[Vec<u8>];

    /// Keeps a note for a process that goes on when this one is killed. `bytes`: how much of the output it is about, so
    /// that notes are written in batches that are worth it. A note that cannot be kept is no error: its work is done
    /// again.
    fn note(&self, note: &[u8], bytes: u64);

    /// A number that all processes of one staging share, and no other staging has.
    fn token(&self) -> u64;

    /// A file to be written.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Defect`] for one that the output does not have.
    fn file(&self, file: FileId) -> Result<Arc<dyn WriteAt>>;

    /// A file to be read back.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`].
    fn open(&self, file: FileId) -> Result<Arc<dyn ReadAt>>;

    /// What was written, under the names that it will have.
    fn written(&self) -> Arc<dyn ReadStore>;

    /// Whether [`Stage::open`] and [`Stage::written`] show all that was written, also by other processes; which is the default.
    ///
    /// # For implementers
    /// Under [`StageMode::Existing`], a store may say no. Then the engine reads the output back from the store, after the
    /// commit, and writes the file that the request announced itself.
    fn is_readable(&self) -> bool {
        true
    }

    /// Adds the file that the request announced, which is the last to get its name.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`].
    fn attach(&mut self, name: &str) -> Result<FileId>;

    /// Bytes in all files.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`].
    fn bytes(&self) -> Result<u64>;

    /// Waits until all bytes are where a power failure does not reach them.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`].
    fn sync(&self) -> Result<()>;

    /// How many bytes are written, under [`StageMode::Shared`], before other processes can rely on them: `None` if on each
    /// byte once its file was synced, which is the default.
    ///
    /// # For implementers
    /// A store that keeps bytes in this process until many of them are worth a request returns a number. Then the engine
    /// calls [`Stage::sync`] each time that items have written so many bytes, and when it ends, also after an error. It hands
    /// out the receipts of items only after a call that began when their bytes were written. Other threads write meanwhile.
    fn batch(&self) -> Option<u64> {
        None
    }

    /// Whether the bytes of a range, which other processes wrote, are there; asked under [`StageMode::Existing`], for ranges of
    /// items that have receipts.
    ///
    /// # For implementers
    /// The default says yes. A store in which they can vanish one by one says no where that happened.
    fn holds(&self, file: FileId, range: Range<u64>) -> bool {
        let _ = (file, range);
        true
    }

    /// Gives every file its name. `sync` waits until the names are where a
    /// power failure does not reach them. An error leaves the names what they were, and files that stay staged. (A remote
    /// store cannot take a name back without the bytes that several processes sent: there, such files keep their names, and
    /// the next commit gives the others.)
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if another process made the output meanwhile, [`ckpt_api::Kind::Io`].
    fn commit(self: Box<Self>, sync: bool) -> Result<Committed>;

    /// Removes the files, also if they would stay. Returns what could not be removed, and why, for people.
    fn discard(self: Box<Self>) -> Vec<String>;
}

/// What became of the files of an output that was committed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Committed {
    /// The names as people should see them, in the order in which the files got them.
    pub names: Vec<String>,
    /// Files of the stage's own that could not be removed, and why, for people. The output is complete all the same.
    pub left: Vec<String>,
}

impl Committed {
    /// Files that got these names, and left nothing else.
    pub fn new(names: Vec<String>) -> Self {
        Committed { names, left: Vec::new() }
    }
}

/// The error, which also names what it leaves behind.
pub fn leaving(error: Error, left: &[String]) -> Error {
    if left.is_empty() {
        return error;
    }
    let left = format!("{}; the next conversion to this output puts the rest right", left.join("; "));
    match error.context().help.is_some() {
        true => error.with_help(|help| text![help, "; ", left.clone()]),
        false => error.help(left),
    }
}

/// Something that can be written at any place, by several threads at once.
///
/// # For implementers
/// - Threads write parts that do not overlap, in no order. What was not written reads as zeros, up to the length that
///   the [`OutputFile`] gives; a file without a length grows.
/// - What was written is there for [`Stage::open`] as soon as the call returns, [`WriteAt::sync`] or not.
/// - It may be called after other stages of the same files are gone, and not after its own.
pub trait WriteAt: fmt::Debug + Send + Sync {
    /// Writes all of the bytes at `offset`.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`], naming the file and the offset.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Shares the blocks of `source` from `start` on with this file, in place of its bytes in `range`: whole blocks of
    /// [`Store::clone_block`] bytes. Afterwards the file is as if they had been copied.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`] if they cannot be shared; the bytes in `range` are then unspecified. The default fails.
    fn clone_range(&self, source: &std::fs::File, start: u64, range: Range<u64>) -> Result<()> {
        let _ = (source, start);
        Err(Error::io("cannot share blocks", std::io::ErrorKind::Unsupported.into()).offset(range.start))
    }

    /// Waits until what was written is where a power failure does not reach it.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`].
    fn sync(&self) -> Result<()>;
}
