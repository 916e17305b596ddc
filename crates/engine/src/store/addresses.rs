//! Opens places by their addresses: files and directories of this machine, and what is registered for URLs.

use super::Store;
use super::destination::Destination;
use super::local::LocalStore;
use ckpt_api::{Address, Error, Input, Limits, Result};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Opens what addresses with a scheme name, such as `s3://bucket/model`.
///
/// # For implementers
/// Each method returns `None` for an address whose scheme is another's; an error is one of an address of its own.
pub trait AddressOpener: fmt::Debug + Send + Sync {
    /// The input at an address.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`] if nothing is there, or the store refuses.
    fn input(&self, address: &str, limits: &Limits) -> Result<Option<Input>>;

    /// The place at an address, to write to.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a store that is only read.
    fn destination(&self, address: &str) -> Result<Option<Destination>>;

    /// The directory at an address. `writes`: whether something will be written there.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a store that is only read, if it is to be written.
    fn directory(&self, address: &str, writes: bool) -> Result<Option<Arc<dyn Store>>>;
}

/// Opens places by their addresses: paths of this machine, and addresses of the openers that it has.
///
/// A file or directory of this machine that has the very name of an address comes first.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    openers: Vec<Arc<dyn AddressOpener>>,
}

impl Addresses {
    /// Paths of this machine alone.
    pub fn local() -> Self {
        Addresses::default()
    }

    /// Adds an opener; those added before come first.
    pub fn add(&mut self, opener: impl AddressOpener + 'static) {
        self.openers.push(Arc::new(opener));
    }

    /// Opens the store at an address, as plans name it: a directory. Paths in one of this machine are shown, and kept in
    /// receipts, relative to the working directory if they are below it.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`] if there is none; [`ckpt_api::Kind::Usage`] for something else than a directory;
    /// [`ckpt_api::Kind::Unsupported`] for an address that no opener knows.
    pub fn open(&self, location: &str) -> Result<Arc<dyn Store>> {
        let path = Path::new(location);
        if let Some(store) = self.remote(path, |opener, address| opener.directory(address, false))? {
            return Ok(store);
        }
        if let Some(address) = unknown(path) {
            return Err(address.unreadable());
        }
        match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => Ok(Arc::new(LocalStore::new(from_here(path)))),
            Ok(_) => Err(Error::usage("the store's address is not a directory").file(location)),
            Err(error) => Err(Error::io("cannot open the store", error).file(location)),
        }
    }

    /// The input at a path of this machine, or at an address.
    ///
    /// # Errors
    /// Those of [`Input::open_within`], and of [`AddressOpener::input`].
    pub fn input(&self, path: &Path, limits: &Limits) -> Result<Input> {
        match self.remote(path, |opener, address| opener.input(address, limits))? {
            Some(input) => Ok(input),
            None => Input::open_within(path, limits),
        }
    }

    /// The directory at a path of this machine, which `make` makes, or at an address, where none needs making.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`] if it cannot be made; [`ckpt_api::Kind::Unsupported`] for an address that cannot be read, or
    /// with `make` written.
    pub fn directory(&self, path: &Path, make: bool) -> Result<Arc<dyn Store>> {
        if let Some(store) = self.remote(path, |opener, address| opener.directory(address, make))? {
            return Ok(store);
        }
        if let Some(address) = unknown(path) {
            return Err(if make { address.unwritable() } else { address.unreadable() });
        }
        if make {
            std::fs::create_dir_all(path).map_err(|error| {
                Error::io("cannot make the directory", error).file(path.display().to_string())
            })?;
        }
        Ok(Arc::new(LocalStore::new(path)))
    }

    /// The place at an address, to write to; `None` for a path of this machine.
    ///
    /// # Errors
    /// Those of [`AddressOpener::destination`]; [`ckpt_api::Kind::Unsupported`] for an address that no opener knows.
    pub fn remote_destination(&self, path: &Path) -> Result<Option<Destination>> {
        // A directory whose name has the form of an address is one of this machine.
        if path.parent().is_some_and(Path::is_dir) {
            return Ok(None);
        }
        match self.remote(path, |opener, address| opener.destination(address))? {
            Some(destination) => Ok(Some(destination)),
            None => unknown(path).map_or(Ok(None), |address| Err(address.unwritable())),
        }
    }

    /// The place at a path of this machine or at an address, to write to.
    ///
    /// # Errors
    /// Those of [`Destination::path`], and of [`AddressOpener::destination`].
    pub fn destination(&self, path: &Path) -> Result<Destination> {
        match self.remote_destination(path)? {
            Some(destination) => Ok(destination),
            None => Destination::path(path),
        }
    }

    /// What the first opener that knows the address of `path` makes of it; `None` for a path of this machine.
    fn remote<T>(
        &self,
        path: &Path,
        open: impl Fn(&dyn AddressOpener, &str) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let address = path.to_str().filter(|text| text.contains("://") && !path.exists());
        let Some(address) = address else { return Ok(None) };
        self.openers.iter().find_map(|opener| open(&**opener, address).transpose()).transpose()
    }
}

/// The address that a path is, if nothing of this machine has its name.
fn unknown(path: &Path) -> Option<Address<'_>> {
    Address::of(path).filter(|_| !path.exists())
}

/// The path from the working directory, if it is below it, and that is not the whole file system.
fn from_here(path: &Path) -> &Path {
    let here = std::env::current_dir().ok().filter(|here| here.parent().is_some());
    here.and_then(|here| path.strip_prefix(here).ok()).unwrap_or(path)
}
