//! A checkpoint's place: where an output goes, and where it is read again.

use super::local::LocalStore;
use super::{StageRequest, Store};
use ckpt_api::{FileId, OutputFile, Result};
use std::path::Path;
use std::sync::Arc;

/// A store, and a checkpoint's name in it: where to write, and what to open. Every function that takes one takes a
/// path, too.
///
/// ```
/// # fn main() -> ckpt::Result<()> {
/// let memory = ckpt::store::MemoryStore::new();
/// ckpt::convert("examples/data/digits", memory.at("digits.safetensors"))?;
/// let model = ckpt::open(memory.at("digits.safetensors"))?;
/// assert_eq!(model.format(), "safetensors");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Destination {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) name: String,
}

impl Destination {
    /// A path of this machine.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if the path has no file name, or its directory does not exist.
    pub fn path(path: impl AsRef<Path>) -> Result<Self> {
        let (store, name) = LocalStore::of(path.as_ref())?;
        Ok(Self::within(Arc::new(store), name))
    }

    /// What is called `name` in a store.
    pub fn within(store: Arc<dyn Store>, name: impl Into<String>) -> Self {
        Destination { store, name: name.into() }
    }

    /// Writes a small file, in one step that a reader can observe.
    ///
    /// ```
    /// # fn main() -> ckpt::Result<()> {
    /// use ckpt::store::{Destination, MemoryStore};
    /// let place = Destination::within(std::sync::Arc::new(MemoryStore::new()), "note.txt");
    /// place.write(b"a note", false)?;
    /// assert!(place.write(b"another one", false).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Store::stage`] and [`crate::store::Stage::commit`].
    pub fn write(&self, bytes: &[u8], overwrite: bool) -> Result<()> {
        let files = [OutputFile::new(self.name.as_str(), bytes.len() as u64)];
        let request = StageRequest { overwrite, ..StageRequest::new(&self.name, &files) };
        let stage = self.store.stage(&request)?;
        stage.file(FileId(0))?.write_at(0, bytes)?;
        stage.commit(true).map(drop)
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The output's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}
