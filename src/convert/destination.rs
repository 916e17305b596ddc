//! Where an output goes.

use crate::store::{LocalStore, Store};
use ckpt_api::Result;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A store, and the output's name in it.
///
/// Every place that takes one takes a path, too.
///
/// ```
/// use ckpt::{Destination, store::MemoryStore};
/// use std::sync::Arc;
/// let memory = Destination::within(Arc::new(MemoryStore::new()), "model.safetensors");
/// assert_eq!(memory.name(), "model.safetensors");
/// ```
#[derive(Clone, Debug)]
pub struct Destination {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) name: String,
}

impl Destination {
    /// What is called `name` in a store.
    pub fn within(store: Arc<dyn Store>, name: impl Into<String>) -> Self {
        Destination { store, name: name.into() }
    }

    /// A path of this machine.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] where the path has no file name, or its directory does not exist.
    pub fn path(path: impl AsRef<Path>) -> Result<Self> {
        let (store, name) = LocalStore::of(path.as_ref())?;
        Ok(Self::within(Arc::new(store), name))
    }

    /// The output's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// What can be taken for a [`Destination`]: itself, or a path.
pub trait IntoDestination {
    /// The destination.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a path that cannot be one.
    fn into_destination(self) -> Result<Destination>;
}

impl IntoDestination for Destination {
    fn into_destination(self) -> Result<Destination> {
        Ok(self)
    }
}

macro_rules! paths {
    ($($path:ty),*) => {
        $(impl IntoDestination for $path {
            fn into_destination(self) -> Result<Destination> {
                Destination::path(self)
            }
        })*
    };
}

paths!(&str, &String, String, &Path, &PathBuf, PathBuf);
