//! Object storage, the web and the Hugging Face Hub: stores that are opened by address.
//!
//! A store is a directory of a bucket, so that the files beside a checkpoint are found as on a disk. Reading: the first bytes
//! of a file show its size and its version, all later requests name that version, and what a plan announces is on its way
//! before it is needed. Writing: see `stage`.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod abandoned;
mod announced;
mod attachment;
mod blocks;
mod client;
mod commit;
mod complete;
mod directory;
mod file;
mod hub;
mod leftover;
mod list;
mod listed;
mod location;
mod manifest;
mod object;
mod options;
mod problem;
mod profile;
mod put;
mod redacted;
mod runtime;
mod sender;
mod spool;
mod stage;
mod staging;
#[cfg(test)]
mod tests;
mod transfer_buffer;
mod uploads;
mod web;

pub use directory::RemoteStore;
pub use leftover::{Leftover, LeftoverKind, Leftovers, leftovers};
pub use options::RemoteOptions;

use ckpt_api::{Input, Limits, Result};
use ckpt_engine::store::{AddressOpener, Addresses, Destination, Store};
use listed::Listed;
use location::Location;
use std::sync::Arc;

/// Opens addresses of object storage, the web and the Hugging Face Hub; and `file://`, which names a path of this machine.
#[derive(Clone, Copy, Debug)]
pub struct RemoteAddresses;

impl AddressOpener for RemoteAddresses {
    fn input(&self, address: &str, limits: &Limits) -> Result<Option<Input>> {
        if let Some(path) = local_path(address) {
            return Input::open_within(path, limits).map(Some);
        }
        let Some(location) = Location::parse(address)? else { return Ok(None) };
        let (directory, name) = location.split();
        let store = Listed::new(RemoteStore::open(directory)?);
        let exists = name.is_empty() || store.exists(&name)?;
        if !exists {
            return Err(store.store().nothing("cannot open the input", &name));
        }
        Ok(Some(Input::within_store(Arc::new(store), &name).within(limits)))
    }

    fn destination(&self, address: &str) -> Result<Option<Destination>> {
        if let Some(path) = local_path(address) {
            return Destination::path(path).map(Some);
        }
        let Some((directory, name)) = Location::to_write(address)? else { return Ok(None) };
        Ok(Some(Destination::within(Arc::new(RemoteStore::open(directory)?), name)))
    }

    fn directory(&self, address: &str, writes: bool) -> Result<Option<Arc<dyn Store>>> {
        if let Some(path) = local_path(address) {
            return Addresses::local().directory(&path, writes).map(Some);
        }
        let Some(store) = RemoteStore::directory(address)? else { return Ok(None) };
        if writes {
            store.writer()?;
        }
        Ok(Some(Arc::new(store)))
    }
}

/// The path that a `file://` address names; `None` for others.
fn local_path(address: &str) -> Option<std::path::PathBuf> {
    let (scheme, rest) = address.split_once("://")?;
    let rest = rest.strip_prefix("localhost").filter(|rest| rest.starts_with('/')).unwrap_or(rest);
    let is_file = scheme.eq_ignore_ascii_case("file");
    is_file.then(|| decoded(rest).unwrap_or_else(|| rest.to_owned()).into())
}

/// A text with the bytes that `%XX` stands for; `None` if they are no text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|code| first == b'%' && code.iter().all(u8::is_ascii_hexdigit));
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}
