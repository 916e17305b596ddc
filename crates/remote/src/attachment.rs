//! The file that is written with an output, and may be elsewhere: its receipt.

use super::directory::RemoteStore;
use super::location::Location;
use ckpt_api::{ReadStore, Result};
use ckpt_engine::store::LocalStore;
use std::path::Path;

/// The file beside the output that is the last to get its name.
#[derive(Debug)]
pub(super) enum Attachment {
    /// An object.
    Remote(RemoteStore, String),
    /// A file of this machine.
    Local(LocalStore, String),
}

impl Attachment {
    pub(super) fn of(name: &str) -> Result<Self> {
        match Location::to_write(name)? {
            None => LocalStore::of(Path::new(name)).map(|(store, name)| Attachment::Local(store, name)),
            Some((directory, name)) => Ok(Attachment::Remote(RemoteStore::open(directory)?, name)),
        }
    }

    pub(super) fn shown(&self) -> String {
        match self {
            Attachment::Remote(store, name) => store.display(name),
            Attachment::Local(store, name) => store.display(name),
        }
    }
}
