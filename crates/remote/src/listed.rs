//! A store that is read: each of its directories is listed once, whoever asks. Every codec that looks at an input asks.

use super::directory::RemoteStore;
use super::hub::Directory;
use super::list::PAGE;
use ckpt_api::{ReadAt, ReadStore, Result};
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A store whose listings are kept until [`ReadStore::forget`].
pub(super) struct Listed {
    store: RemoteStore,
    known: Mutex<HashMap<String, Arc<Directory>>>,
}

impl fmt::Debug for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listed").field(&self.store).finish()
    }
}

impl Listed {
    pub(super) fn new(store: RemoteStore) -> Self {
        Listed { store, known: Mutex::default() }
    }

    /// Whether a name is a file, a directory, or what names of files begin with.
    pub(super) fn exists(&self, name: &str) -> Result<bool> {
        Ok(self.store.is_object(name)? || self.has_directory(name) || self.store.exists(name)?)
    }

    pub(super) fn store(&self) -> &RemoteStore {
        &self.store
    }

    /// Whether listings that are known show a file; `None` if they do not tell.
    pub(super) fn has_listed(&self, name: &str) -> Option<bool> {
        // Other characters may have another form in the key of an object.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
        if !name.bytes().all(is_plain) {
            return None;
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut directory, mut below) = ("", name);
        loop {
            let listed = known.get(directory);
            let Some((next, rest)) = below.split_once('/') else {
                return listed.map(|listed| listed.files.iter().any(|file| file == below));
            };
            if listed.is_some_and(|listed| !listed.directories.iter().any(|own| own == next)) {
                return Some(false);
            }
            directory = &name[..name.len() - rest.len() - 1];
            below = rest;
        }
    }

    /// The entries of a directory: at most a page more than `most`, and kept if those are all.
    fn entries(&self, directory: &str, most: u64) -> Result<Arc<Directory>> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listed) = known().get(directory) {
            return Ok(listed.clone());
        }
        let listed = Arc::new(self.store.entries(directory, most)?);
        if listed.files.len().max(listed.directories.len()) as u64 <= most {
            known().insert(directory.to_owned(), listed.clone());
        }
        Ok(listed)
    }
}

impl ReadStore for Listed {
    fn list(&self, directory: &str, most: u64) -> Result<Vec<String>> {
        self.entries(directory, most).map(|listed| listed.files.clone())
    }

    fn directories(&self, directory: &str, most: u64) -> Result<Vec<String>> {
        self.entries(directory, most).map(|listed| listed.directories.clone())
    }

    fn has_directory(&self, name: &str) -> bool {
        match self.store.lists_pages() {
            // What is asked for next.
            true => self.entries(name, PAGE as u64 - 1).is_ok_and(|listed| listed.exists),
            false => self.store.has_directory(name),
        }
    }

    fn forget(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.store.forget();
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        self.store.open(name)
    }

    fn has(&self, name: &str) -> bool {
        self.has_listed(name).unwrap_or_else(|| self.store.has(name))
    }

    fn display(&self, name: &str) -> String {
        self.store.display(name)
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.store.path(name)
    }

    fn location(&self) -> Option<String> {
        self.store.location()
    }

    fn will_open(&self, names: &[String]) {
        let there = names.iter().filter(|name| self.has_listed(name) != Some(false));
        self.store.will_open(&there.cloned().collect::<Vec<_>>());
    }

    fn reserve(&self, most: u64) -> u64 {
        self.store.reserve(most)
    }
}
