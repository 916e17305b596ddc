//! Gives the files of an output their names.

use super::attachment::Attachment;
use super::client::Uploading;
use super::directory::RemoteStore;
use super::problem::{Failure, Problem};
use super::put::{exists, put};
use super::runtime;
use super::spool::Spool;
use crate::store::Store;
use ckpt_api::{Error, ReadStore, Result};
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStoreExt, PutMode, UpdateVersion};
use std::sync::Arc;

/// The files of an output, and the names that they will have.
pub(super) struct Naming {
    pub(super) store: RemoteStore,
    pub(super) writer: Arc<dyn Uploading>,
    /// In the order in which they are given; the last one leads to the others.
    pub(super) names: Vec<String>,
    pub(super) spools: Vec<Arc<Spool>>,
    /// What had the names when the output was begun.
    pub(super) before: Vec<Option<ObjectMeta>>,
    pub(super) attachment: Option<Attachment>,
    pub(super) attached: Option<Arc<Spool>>,
    pub(super) overwrite: bool,
}

impl std::fmt::Debug for Naming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Naming")
            .field("store", &self.store)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

/// What a failed commit leaves, for people.
type Left = Vec<String>;

impl Naming {
    /// Sends what is left, then gives the names in order, and returns them as people see them. After an error, the names that
    /// were given are taken back.
    pub(super) fn give_names(&self) -> Result<Vec<String>, (Error, Left)> {
        let clean = |error| (error, Vec::new());
        self.spools.iter().try_for_each(Spool::send_rest).map_err(clean)?;
        if !self.overwrite {
            let found = self.store.present(&self.names).map_err(clean)?;
            if let Some((name, _)) = self.names.iter().zip(found).find(|(_, found)| found.is_some()) {
                let error = exists(&self.store.display(name));
                return Err(clean(
                    error.help("another writer has created it in the meantime: choose another name"),
                ));
            }
        }
        let last = self.names.len().saturating_sub(1);
        // At no time do old and new files stand together as one checkpoint.
        let leads = self.before.get(last).is_some_and(Option::is_some) && last > 0;
        if leads && let Some(name) = self.names.last() {
            self.remove(name).map_err(clean)?;
        }
        let mut given = Vec::new();
        for number in 0..self.names.len() {
            let is_free = leads && number == last;
            if let Err(error) = self.give_name(number, is_free) {
                return Err((error, self.take_back(&given)));
            }
            given.push(number);
        }
        match self.attach() {
            Ok(attached) => {
                Ok(self.names.iter().map(|name| self.store.display(name)).chain(attached).collect())
            }
            Err(error) => Err((error, self.take_back(&given))),
        }
    }

    /// Makes an object of a file. `is_free`: whether the name's old object was removed.
    fn give_name(&self, number: usize, is_free: bool) -> Result<()> {
        let (Some(name), Some(spool)) = (self.names.get(number), self.spools.get(number)) else {
            return Err(Error::defect("the output has no such file"));
        };
        let before = self.before.get(number).and_then(Option::as_ref).filter(|_| !is_free);
        let given =
            if spool.is_small() { self.put(name, spool, before)? } else { self.complete(spool, name)? };
        given.map_err(|problem| match problem.failure {
            Failure::Exists | Failure::Changed => exists(&self.store.display(name))
                .help("another writer has written it in the meantime: choose another name, or convert again"),
            _ => self.store.failed(&problem, "cannot give the output its name", name),
        })
    }

    /// Puts a small file, on the condition that its name still has what it had.
    fn put(&self, name: &str, spool: &Spool, before: Option<&ObjectMeta>) -> Result<Result<(), Problem>> {
        let mode = match before {
            None => PutMode::Create,
            Some(ObjectMeta { e_tag: Some(etag), version, .. }) => {
                PutMode::Update(UpdateVersion { e_tag: Some(etag.clone()), version: version.clone() })
            }
            Some(_) => PutMode::Overwrite,
        };
        runtime::wait(put(self.writer.clone(), self.store.key_of(name)?, spool.bytes()?, mode))
    }

    /// Completes the upload of a large file. An error may be about a reply that was lost: then the object is there.
    fn complete(&self, spool: &Arc<Spool>, name: &str) -> Result<Result<(), Problem>> {
        let parts = spool
            .parts()
            .ok_or_else(|| Error::defect("a part of the output was not sent").file(&spool.address))?;
        let upload = spool.upload().clone();
        let completed = runtime::wait(async move { upload.complete(parts).await })?;
        match completed {
            Err(problem) if self.has_bytes_of(spool, name).unwrap_or(false) => {
                drop(problem);
                Ok(Ok(()))
            }
            completed => Ok(completed),
        }
    }

    /// Whether the object of this name has the bytes of a file, where they are still here.
    fn has_bytes_of(&self, spool: &Spool, name: &str) -> Result<bool> {
        let (size, part) = (spool.size(), spool.part_size());
        let key = self.store.key_of(name)?;
        for number in 0..size.div_ceil(part) {
            let range = number.saturating_mul(part)..number.saturating_add(1).saturating_mul(part).min(size);
            let expected = spool.read(range.clone())?;
            let (writer, key) = (self.writer.clone(), key.clone());
            let found = runtime::wait(async move {
                let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
                let found = writer.get_opts(&key, options).await?;
                let whole = found.meta.size;
                Ok::<_, object_store::Error>((whole, found.bytes().await?))
            })?;
            match found {
                Ok((whole, bytes)) if whole == size && bytes[..] == expected[..] => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Writes the attached file, and returns its name.
    fn attach(&self) -> Result<Option<String>> {
        let (Some(attachment), Some(spool)) = (&self.attachment, &self.attached) else { return Ok(None) };
        let bytes = spool.bytes()?;
        match attachment {
            Attachment::Local(store, name) => store.replace(name, &bytes)?,
            Attachment::Remote(store, name) if self.overwrite => store.replace(name, &bytes)?,
            Attachment::Remote(store, name) => {
                let put = put(store.writer()?, store.key_of(name)?, bytes, PutMode::Create);
                runtime::wait(put)?
                    .map_err(|problem| store.failed(&problem, "cannot write the receipt", name))?;
            }
        }
        Ok(Some(attachment.shown()))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let (writer, key) = (self.writer.clone(), self.store.key_of(name)?);
        let removed = runtime::wait(async move { writer.delete(&key).await.map_err(Problem::from) })?;
        match removed {
            Err(problem) if problem.failure != Failure::Missing => {
                Err(self.store.failed(&problem, "cannot remove the old output", name))
            }
            _ => Ok(()),
        }
    }

    /// Removes the objects that got their names, the last one first; returns which cannot be removed.
    fn take_back(&self, given: &[usize]) -> Left {
        let names = given.iter().rev().filter_map(|number| self.names.get(*number));
        let left = names.filter_map(|name| self.remove(name).err());
        left.map(|error| error.to_string()).collect()
    }

    /// Removes the parts that were sent of files without a name; returns which cannot be removed.
    pub(super) fn abort(&self) -> Left {
        let mut left = Vec::new();
        for spool in &self.spools {
            let upload = spool.upload().clone();
            // A part that arrives later would stay.
            upload.wait();
            let aborted = runtime::wait(async move { upload.abort().await });
            if let Ok(Err(problem)) = aborted
                && problem.failure != Failure::Missing
            {
                left.push(format!(
                    "cannot remove the unfinished upload of '{}': {}",
                    spool.address, problem.text
                ));
            }
        }
        left
    }
}
