//! Opens stores by their addresses: directories of this machine, and of remote stores.

use super::Store;
use super::destination::{Destination, IntoDestination, IntoInput};
use super::local::LocalStore;
use ckpt_api::{Error, Input, Limits, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens the store at an address, as plans name it: a directory of this machine, or of a remote store. Paths in a local one
/// are shown, and kept in receipts, relative to the working directory if they lie below it.
///
/// # Errors
/// [`ckpt_api::Kind::Io`] where there is none; [`ckpt_api::Kind::Usage`] for something else than a directory;
/// [`ckpt_api::Kind::Unsupported`] for the address of a remote store, in a build without the feature `remote`.
pub fn open(location: &str) -> Result<Arc<dyn Store>> {
    let path = Path::new(location);
    #[cfg(feature = "remote")]
    if let Some(address) = as_address(path)
        && let Some(store) = super::RemoteStore::directory(address)?
    {
        return Ok(Arc::new(store));
    }
    if let Some(address) = ckpt_api::Address::of(path).filter(|_| !path.exists()) {
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
/// Those of [`Input::open_within`].
pub fn input(path: &Path, limits: &Limits) -> Result<Input> {
    #[cfg(feature = "remote")]
    if let Some(address) = as_address(path) {
        if let Some(local) = super::remote::local_path(address) {
            return Input::open_within(local, limits);
        }
        if let Some(input) = super::remote::input(address, limits)? {
            return Ok(input);
        }
    }
    Input::open_within(path, limits)
}

/// The directory at a path of this machine, which `make` makes, or at an address, where none needs making.
///
/// ```
/// # fn main() -> ckpt::Result<()> {
/// let data = ckpt::store::directory("examples/data".as_ref(), false)?;
/// assert!(data.has("README.md"));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`ckpt_api::Kind::Io`] where it cannot be made; [`ckpt_api::Kind::Unsupported`] for an address that cannot be read, or with
/// `make` written.
pub fn directory(path: &Path, make: bool) -> Result<Arc<dyn Store>> {
    #[cfg(feature = "remote")]
    if let Some(address) = as_address(path) {
        if let Some(local) = super::remote::local_path(address) {
            return directory(&local, make);
        }
        if let Some(store) = super::remote::directory(address, make)? {
            return Ok(Arc::new(store));
        }
    }
    if let Some(address) = ckpt_api::Address::of(path).filter(|_| !path.exists()) {
        return Err(if make { address.unwritable() } else { address.unreadable() });
    }
    if make {
        std::fs::create_dir_all(path).map_err(|error| {
            Error::io("cannot make the directory", error).file(path.display().to_string())
        })?;
    }
    Ok(Arc::new(LocalStore::new(path)))
}

/// The place at an address, to write to; `None` for any other path.
///
/// # Errors
/// Those of [`Destination::path`].
pub fn place_at_address(path: &Path) -> Result<Option<Destination>> {
    #[cfg(feature = "remote")]
    if as_address(path).is_some() {
        return Destination::path(path).map(Some);
    }
    let _ = path;
    Ok(None)
}

/// The path as an address. A file or directory of this machine that has this very name comes first, as without the feature.
#[cfg(feature = "remote")]
fn as_address(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| text.contains("://") && !path.exists())
}

/// The path from the working directory, if it lies below it, and that is not the whole file system.
fn from_here(path: &Path) -> &Path {
    let here = std::env::current_dir().ok().filter(|here| here.parent().is_some());
    here.and_then(|here| path.strip_prefix(here).ok()).unwrap_or(path)
}

impl Destination {
    /// A path of this machine, or an address with the feature `remote`.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] where the path has no file name, or its directory does not exist.
    pub fn path(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        #[cfg(feature = "remote")]
        if let Some(address) =
            as_address(path).filter(|_| path.parent().is_none_or(|parent| !parent.is_dir()))
        {
            if let Some(local) = super::remote::local_path(address) {
                return Self::path(local);
            }
            if let Some(destination) = super::remote::destination(address)? {
                return Ok(destination);
            }
        }
        let (store, name) = LocalStore::of(path)?;
        Ok(Self::within(Arc::new(store), name))
    }
}

macro_rules! paths {
    ($($path:ty),*) => {
        $(impl IntoDestination for $path {
            fn into_destination(self) -> Result<Destination> {
                Destination::path(self)
            }
        }

        impl IntoInput for $path {
            fn into_input(self, limits: &Limits) -> Result<Input> {
                input(self.as_ref(), limits)
            }
        })*
    };
}

paths!(&str, &String, String, &Path, &PathBuf, PathBuf);
