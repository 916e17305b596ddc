//! Small files of plans and items, at paths and URLs.

use crate::errors::Failure;
use ckpt::api::{Error, Limit, Limits};
use ckpt::store::{self, IntoInput, LocalStore, Store};
use std::path::Path;
use std::sync::Arc;

/// The directory with the receipts of items. On this machine, `make` makes it; at a URL, none needs making.
pub(crate) fn directory(path: &Path, make: bool) -> Result<Arc<dyn Store>, Failure> {
    if let Some(url) = url(path) {
        return Ok(store::open(url)?);
    }
    if make {
        std::fs::create_dir_all(path).map_err(|error| {
            Error::io("cannot make the directory for receipts", error).file(path.display().to_string())
        })?;
    }
    Ok(Arc::new(LocalStore::new(path)))
}

/// The bytes of a plan's file.
pub(crate) fn read(path: &Path, limits: &Limits) -> Result<Vec<u8>, Failure> {
    let file = path.into_input(limits)?.main()?;
    limits.check(Limit::HeaderBytes, file.len()).map_err(|error| error.file(file.name()))?;
    Ok(file.bytes(0, file.len())?)
}

/// Writes a small file in one step that a reader can observe.
pub(crate) fn write(path: &Path, bytes: &[u8], overwrite: bool) -> Result<(), Failure> {
    let (store, name): (Arc<dyn Store>, String) = match url(path).and_then(|url| url.rsplit_once('/')) {
        Some((directory, name)) => (store::open(directory)?, name.to_owned()),
        None => {
            let (store, name) = LocalStore::of(path)?;
            (Arc::new(store), name)
        }
    };
    if !overwrite && store.has(&name) {
        let error = Error::usage("the file of the plan already exists").file(store.display(&name));
        return Err(error.help("name another file, or replace it with overwrite=True").into());
    }
    Ok(store.replace(&name, bytes)?)
}

/// The path as a URL, unless a file or directory of this machine has this very name.
fn url(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| text.contains("://") && !path.exists())
}
