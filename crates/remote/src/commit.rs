//! Gives the files of an output their names.

use super::attachment::Attachment;
use super::client::Uploading;
use super::directory::RemoteStore;
use super::problem::{Failure, Problem};
use super::put::{delete, put, taken};
use super::runtime;
use super::spool::Spool;
use super::staging::{Named, Staging};
use ckpt_api::{Error, ReadStore, Result, text};
use ckpt_engine::store::Store;
use object_store::{GetOptions, GetRange, PutMode, UpdateVersion};
use std::sync::Arc;

/// The files of an output, and the names that they will have.
pub(super) struct Naming {
    pub(super) store: RemoteStore,
    pub(super) writer: Arc<dyn Uploading>,
    /// In the order in which they are given; the last one leads to the others.
    pub(super) names: Vec<String>,
    pub(super) spools: Vec<Arc<Spool>>,
    /// What had the names when the output was begun.
    pub(super) before: Vec<Option<Named>>,
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
        self.refuse_others().map_err(clean)?;
        let leads = self.is_led();
        if leads && let Some(name) = self.names.last() {
            self.remove(name).map_err(clean)?;
        }
        let mut given = Vec::new();
        for number in 0..self.names.len() {
            if let Err(error) = self.give_name(number, self.is_freed(number)) {
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

    /// Refuses names that another writer gave to something meanwhile, unless they may be replaced.
    fn refuse_others(&self) -> Result<()> {
        if self.overwrite {
            return Ok(());
        }
        let found = self.store.present(&self.names)?;
        match self.names.iter().zip(found).find(|(_, found)| found.is_some()) {
            None => Ok(()),
            Some((name, _)) => Err(taken(&self.store.display(name))),
        }
    }

    /// Whether the last name had something that led to the other names: it goes first. At no time do old and new files stand
    /// together as one checkpoint.
    fn is_led(&self) -> bool {
        self.names.len() > 1 && self.before.last().is_some_and(Option::is_some)
    }

    /// Whether what had the name is removed before the name is given.
    fn is_freed(&self, number: usize) -> bool {
        self.is_led() && number.saturating_add(1) == self.names.len()
    }

    /// As [`Naming::give_names`], for an output that several processes wrote. What was sent is nowhere else: after an error,
    /// names that were given stay, and the next commit goes on from there.
    pub(super) fn give_shared_names(&self, staging: &Staging) -> Result<Vec<String>> {
        let is_new = staging.naming()?.is_none();
        if is_new {
            self.refuse_others()?;
            staging.begin_naming(&self.before)?;
        }
        let given = self.given()?;
        if self.is_led()
            && let (Some(name), Some(false)) = (self.names.last(), given.last())
        {
            self.remove(name)?;
        }
        for (number, (spool, is_given)) in self.spools.iter().zip(given).enumerate() {
            // A small file is compared with what has its name.
            if is_given && !is_new && !spool.is_small() {
                continue;
            }
            const KEPT: &str = "what the items wrote is kept: commit again, or discard it";
            self.give_name(number, self.is_freed(number))
                .map_err(|error| error.with_help(|help| text![help, "; ", KEPT]).help(KEPT))?;
        }
        Ok(self.names.iter().map(|name| self.store.display(name)).collect())
    }

    /// Which names were given by a commit that was interrupted.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if another writer gave one that may not be replaced.
    pub(super) fn given(&self) -> Result<Vec<bool>> {
        let found = self.store.present(&self.names)?.into_iter().map(|found| found.map(Named::from));
        let given = found.enumerate().map(|(number, found)| {
            let is_own = self.is_own(number, found.as_ref());
            let is_other = found.is_some() && self.before.get(number) != Some(&found) && !is_own;
            match self.names.get(number).filter(|_| is_other && !self.overwrite) {
                Some(name) => Err(taken(&self.store.display(name))),
                None => Ok(is_own),
            }
        });
        given.collect()
    }

    /// Whether what has a name got it from an interrupted commit: it is not what had it before, and has the file's size. No
    /// store tells more, once an upload is complete.
    fn is_own(&self, number: usize, found: Option<&Named>) -> bool {
        let before = self.before.get(number).and_then(Option::as_ref);
        let len = self.spools.get(number).and_then(|spool| spool.len());
        found.is_some_and(|found| Some(found) != before && len.is_none_or(|len| len == found.size))
    }

    /// Removes what the items of a plan wrote; returns what cannot be removed. Names that an interrupted commit gave are taken
    /// back, unless it gave all of them: then the output is complete, and stays.
    pub(super) fn discard_shared(&self, staging: &Staging) -> Left {
        let given = match staging.naming() {
            Ok(None) => Ok(vec![false; self.names.len()]),
            Ok(Some(_)) => self.given(),
            Err(error) => Err(error),
        };
        let given = match given {
            Ok(given) => given,
            Err(error) => return vec![error.to_string()],
        };
        let is_complete = given.iter().all(|given| *given);
        let numbers: Vec<usize> =
            (0..given.len()).filter(|number| given.get(*number) == Some(&true)).collect();
        match if is_complete { Vec::new() } else { self.take_back(&numbers) } {
            left if left.is_empty() => staging.give_up(|number| numbers.contains(&number)),
            left => left,
        }
    }

    /// Makes an object of a file. `is_free`: whether the name's old object was removed.
    fn give_name(&self, number: usize, is_free: bool) -> Result<()> {
        let (Some(name), Some(spool)) = (self.names.get(number), self.spools.get(number)) else {
            return Err(Error::defect("the output has no such file"));
        };
        let before = self.before.get(number).and_then(Option::as_ref).filter(|_| !is_free);
        let given = if spool.is_small() {
            self.put(name, spool, before)?
        } else {
            self.complete(number, spool, name, before)?
        };
        given.map_err(|problem| match problem.failure {
            Failure::Exists | Failure::Changed => taken(&self.store.display(name)),
            // Azure drops the parts of all others when one writer completes a name.
            _ if self.has_another(name, before) => taken(&self.store.display(name)),
            _ => self.store.failed(&problem, "cannot give the output its name", name),
        })
    }

    /// Whether a name has an object that it did not have before.
    fn has_another(&self, name: &str, before: Option<&Named>) -> bool {
        let found = self.store.present(&[name.to_owned()]).unwrap_or_default();
        let found = found.into_iter().next().flatten().map(Named::from);
        found.is_some() && found.as_ref() != before
    }

    /// Puts a small file, on the condition that its name still has what it had.
    fn put(&self, name: &str, spool: &Spool, before: Option<&Named>) -> Result<Result<(), Problem>> {
        let mode = match before {
            None => PutMode::Create,
            Some(Named { e_tag: Some(etag), version, .. }) => {
                PutMode::Update(UpdateVersion { e_tag: Some(etag.clone()), version: version.clone() })
            }
            Some(_) => PutMode::Overwrite,
        };
        runtime::wait(put(self.writer.clone(), self.store.key_of(name)?, spool.bytes()?, mode))
    }

    /// Completes the upload of a large file, on the condition that its name is free if it was, if the store knows that. An error may be about a reply that was lost: then the object is there.
    fn complete(
        &self,
        number: usize,
        spool: &Arc<Spool>,
        name: &str,
        before: Option<&Named>,
    ) -> Result<Result<(), Problem>> {
        let parts = spool
            .parts()
            .ok_or_else(|| Error::defect("a part of the output was not sent").file(&spool.address))?;
        let upload = spool.upload().clone();
        let signer = self.store.0.client.signer.clone().filter(|_| before.is_none());
        let completed = runtime::wait(async move {
            match signer {
                Some(signer) if upload.complete_new(&*signer, &parts).await?.is_some() => Ok(()),
                _ => upload.complete(parts).await,
            }
        })?;
        match completed {
            Err(_) if self.has_bytes_of(spool, name).unwrap_or(false) => Ok(Ok(())),
            // The bytes are not here, and an upload ends once: something new of this size was made of it.
            Err(_) if spool.upload().is_shared() && self.has_own(number, name).unwrap_or(false) => Ok(Ok(())),
            completed => Ok(completed),
        }
    }

    fn has_own(&self, number: usize, name: &str) -> Result<bool> {
        let found = self.store.present(&[name.to_owned()])?.pop().flatten().map(Named::from);
        Ok(self.is_own(number, found.as_ref()))
    }

    /// Whether the object of this name has the bytes of a file, if they are still here.
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
        delete(self.writer.clone(), self.store.key_of(name)?)?
            .map_err(|problem| self.store.failed(&problem, "cannot remove the old output", name))
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
