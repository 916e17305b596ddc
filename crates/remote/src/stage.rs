//! Outputs in a remote store: nothing has a final name before all else is in the store.
//!
//! Files are written to temporary files of this machine, and sent in parts while others are still being written. The commit
//! sends the rest, and gives the names in order: the file that leads to the others, such as an index, comes last, with the
//! condition that nobody else made it meanwhile. What was sent of an output that is given up is removed, unless several
//! processes wrote it: see `staging`.

use super::attachment::Attachment;
use super::client::Uploading;
use super::commit::Naming;
use super::directory::RemoteStore;
use super::manifest::Told;
use super::problem::Problem;
use super::put::{delete, exists};
use super::runtime;
use super::sender::{Upload, part_size};
use super::spool::{Place, Spool, Writing};
use super::staging::{Named, Staging};
use ckpt_api::{Error, FileId, Kind, OutputFile, ReadAt, ReadStore, Result, text};
use ckpt_engine::settings;
use ckpt_engine::store::{Committed, Earlier, Stage, StageMode, StageRequest, Store, WriteAt, leaving};
use object_store::path::Path as Key;
use object_store::{ObjectStoreExt, PutPayload};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::Arc;

impl RemoteStore {
    /// Refuses names that have files which may not be replaced, and returns what has them.
    fn check_names(&self, request: &StageRequest<'_>) -> Result<Vec<Option<Named>>> {
        let names: Vec<String> = request.files.iter().map(|file| file.name.clone()).collect();
        let mut seen = BTreeSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(name.as_str())) {
            return Err(Error::usage("two files of the output have the same name").file(self.display(twice)));
        }
        let found = self.present(&names)?;
        for (name, _) in names.iter().zip(&found).filter(|(_, found)| found.is_some()) {
            let shown = self.display(name);
            if request.source.is_some_and(|source| source.displayed().any(|own| own == shown)) {
                return Err(Error::usage("the output is the input, or a part of it")
                    .file(shown)
                    .help("choose another name; the source is never changed"));
            }
            if !request.overwrite {
                return Err(exists(&shown));
            }
        }
        Ok(found.into_iter().map(|found| found.map(Named::from)).collect())
    }

    fn check_attachment(&self, request: &StageRequest<'_>) -> Result<Option<Attachment>> {
        let Some(name) = request.attachment else { return Ok(None) };
        let attachment = Attachment::of(name)?;
        let shown = attachment.shown();
        if request.files.iter().any(|file| self.display(&file.name) == shown) {
            return Err(Error::usage("the receipt has the same name as a file of the output").file(shown));
        }
        let there = match &attachment {
            Attachment::Remote(store, name) => {
                store.present(std::slice::from_ref(name))?.iter().any(Option::is_some)
            }
            Attachment::Local(store, name) => {
                // The store of this machine knows what else no receipt can replace.
                let files = [OutputFile::new(name.as_str(), 0)];
                let request = StageRequest::new(name, &files).overwrite(request.overwrite);
                store.check(&request).map(|()| false)?
            }
        };
        if there && !request.overwrite {
            let help = text!["choose another name, or replace it with ", settings::OVERWRITE];
            return Err(Error::usage("the receipt exists").file(shown).help(help));
        }
        Ok(Some(attachment))
    }
}

/// What connections take beside the parts that they send.
const CONNECTIONS: u64 = 4 << 20;

impl Store for RemoteStore {
    fn check(&self, request: &StageRequest<'_>) -> Result<()> {
        self.check_names(request)?;
        self.check_attachment(request).map(drop)
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let (writer, key) = (self.writer()?, self.key_of(name)?);
        let payload = PutPayload::from(bytes.to_vec());
        let put = async move { writer.put(&key, payload).await.map_err(Problem::from) };
        runtime::wait(put)?.map(drop).map_err(|problem| self.failed(&problem, "cannot write the file", name))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let removed = delete(self.writer()?, self.key_of(name)?)?;
        self.forget_name(name);
        removed.map_err(|problem| self.failed(&problem, "cannot remove the file", name))
    }

    fn reserve_for_writing(&self, files: &[OutputFile], most: u64) -> u64 {
        let largest = files.iter().filter_map(|file| file.len).max().unwrap_or(0);
        self.0.sending.bound(most, part_size(largest)).saturating_add(CONNECTIONS)
    }

    fn stage(&self, request: &StageRequest<'_>) -> Result<Box<dyn Stage>> {
        let writer = self.writer()?;
        let sharing = match request.mode {
            StageMode::Shared | StageMode::Existing => Some(self.share(&writer, request)?),
            _ => None,
        };
        let before = match &sharing {
            Some(Sharing { before: Some(before), .. }) => before.clone(),
            _ => self.check_names(request)?,
        };
        let attachment = self.check_attachment(request)?;
        let spools = self.spools(&writer, request, sharing.as_ref())?;
        let token = RandomState::new().hash_one(request.name);
        let mut stage = RemoteStage {
            naming: Naming {
                store: self.clone(),
                writer,
                names: request.files.iter().map(|file| file.name.clone()).collect(),
                spools,
                before,
                attachment,
                attached: None,
                overwrite: request.overwrite,
            },
            token: sharing.as_ref().map_or(token, |sharing| sharing.staging.token()),
            sharing,
            is_done: false,
        };
        stage.look_for_names()?;
        Ok(Box::new(stage))
    }
}

impl RemoteStore {
    /// Where the files of an output are until they are sent.
    fn spools(
        &self,
        writer: &Arc<dyn Uploading>,
        request: &StageRequest<'_>,
        sharing: Option<&Sharing>,
    ) -> Result<Vec<Arc<Spool>>> {
        let lens: Vec<Option<u64>> = request.files.iter().map(|file| file.len).collect();
        let places = Place::for_files(&lens, &self.display(request.name))?;
        let spool = |((number, file), place): ((usize, &OutputFile), Place)| {
            let key = self.key_of(&file.name)?;
            let upload = match sharing {
                Some(sharing) => sharing.staging.upload(number, key),
                None => Upload::new(writer.clone(), key, self.0.sending.clone()),
            };
            // Parts that other processes sent are not here to be read.
            let frees = sharing.is_some() || !request.reread;
            Ok(Spool::new(self.display(&file.name), file.len, place, upload, frees))
        };
        request.files.iter().enumerate().zip(places).map(spool).collect()
    }

    /// The staging of an output that several processes write.
    fn share(&self, writer: &Arc<dyn Uploading>, request: &StageRequest<'_>) -> Result<Sharing> {
        let mut before = match request.mode {
            StageMode::Shared => Some(self.check_names(request)?),
            _ => None,
        };
        let staging = match Staging::of(self, writer, request) {
            Err(error) if error.kind() == Kind::Usage => {
                // Most often, the output was committed before.
                self.check_names(request)?;
                return Err(error);
            }
            staging => staging?,
        };
        let mut told = None;
        if request.mode == StageMode::Existing {
            before = staging.naming()?;
            told = Some(Told::read(&staging, request.files.len())?);
        }
        Ok(Sharing { staging, before, told, is_named: false })
    }
}

/// What a stage has where several processes write the output.
#[derive(Debug)]
struct Sharing {
    staging: Staging,
    /// What has the names; for a commit, what had them when an earlier one began to give them, if one did.
    before: Option<Vec<Option<Named>>>,
    /// What all processes wrote, for the one that commits it.
    told: Option<Told>,
    /// Whether a commit gave all names, and was interrupted then.
    is_named: bool,
}

/// The files of one output.
#[derive(Debug)]
struct RemoteStage {
    naming: Naming,
    token: u64,
    sharing: Option<Sharing>,
    /// Whether the output has its names, or was given up.
    is_done: bool,
}

impl RemoteStage {
    fn spool(&self, file: FileId) -> Result<&Arc<Spool>> {
        let Naming { spools, attached, .. } = &self.naming;
        let spool = spools.iter().chain(attached).nth(file.0);
        spool.ok_or_else(|| Error::defect("the output has no such file"))
    }

    /// Learns what an interrupted commit did, and what parts other processes sent.
    fn look_for_names(&mut self) -> Result<()> {
        let Some(Sharing { before, told: Some(told), is_named, .. }) = &mut self.sharing else {
            return Ok(());
        };
        told.adopt(&self.naming.spools);
        if before.is_some() {
            let given = self.naming.given()?;
            *is_named = given.iter().all(|given| *given);
            // A small file is compared with what has its name.
            let closed = self.naming.spools.iter().zip(given);
            let closed = closed.filter(|(spool, given)| *given && (*is_named || !spool.is_small()));
            closed.for_each(|(spool, _)| spool.close());
        }
        Ok(())
    }

    /// Fetches what other processes wrote of parts that are not whole, where this one commits it.
    fn fetch(&self) -> Result<()> {
        match &self.sharing {
            Some(Sharing { staging, told: Some(told), .. }) => told.fetch(staging, &self.naming.spools),
            _ => Ok(()),
        }
    }

    fn send_rest(&self) -> Result<()> {
        self.fetch()?;
        self.naming.spools.iter().try_for_each(Spool::send_rest)
    }

    /// Gives the names to an output that several processes wrote, and removes what they told each other.
    fn commit_shared(&self, sharing: &Sharing) -> Result<Committed> {
        let Sharing { staging, told, is_named, .. } = sharing;
        if told.is_none() {
            return Err(Error::defect("an output is committed while its items are being run"));
        }
        let names = match is_named {
            true => self.naming.names.iter().map(|name| self.naming.store.display(name)).collect(),
            false => {
                self.send_rest()?;
                self.naming.give_shared_names(staging)?
            }
        };
        let mut committed = Committed::new(names);
        committed.left = staging.clear();
        Ok(committed)
    }

    /// Removes what was sent, once.
    fn give_up(&mut self) -> Vec<String> {
        match std::mem::replace(&mut self.is_done, true) {
            true => Vec::new(),
            false => self.naming.abort(),
        }
    }
}

impl Stage for RemoteStage {
    fn earlier(&self) -> Earlier {
        match &self.sharing {
            Some(sharing) if sharing.staging.was_begun => Earlier::Kept,
            _ => Earlier::Nothing,
        }
    }

    fn notes(&self) -> &[Vec<u8>] {
        &[]
    }

    fn note(&self, _: &[u8], _: u64) {}

    fn token(&self) -> u64 {
        self.token
    }

    fn file(&self, file: FileId) -> Result<Arc<dyn WriteAt>> {
        // What is written now may be over what was written then.
        self.fetch()?;
        Ok(Arc::new(Writing(self.spool(file)?.clone())))
    }

    fn open(&self, file: FileId) -> Result<Arc<dyn ReadAt>> {
        Ok(self.spool(file)?.clone())
    }

    fn written(&self) -> Arc<dyn ReadStore> {
        let Naming { names, spools, .. } = &self.naming;
        let files =
            names.iter().zip(spools).map(|(name, spool)| (name.clone(), spool.clone() as Arc<dyn ReadAt>));
        Arc::new(files.collect::<BTreeMap<_, _>>())
    }

    fn is_readable(&self) -> bool {
        self.sharing.is_none()
    }

    fn attach(&mut self, name: &str) -> Result<FileId> {
        let Naming { store, writer, spools, attached, .. } = &mut self.naming;
        // It is small, and sent in one request: the upload is never begun.
        let upload = Upload::new(writer.clone(), Key::default(), store.0.sending.clone());
        let place = Place::for_files(&[None], name)?.pop();
        let place = place.ok_or_else(|| Error::defect("the receipt has no place").file(name))?;
        *attached = Some(Spool::new(name.to_owned(), None, place, upload, false));
        Ok(FileId(spools.len()))
    }

    fn bytes(&self) -> Result<u64> {
        let Naming { spools, attached, .. } = &self.naming;
        Ok(spools.iter().chain(attached).fold(0, |sum, spool| sum.saturating_add(spool.size())))
    }

    fn batch(&self) -> Option<u64> {
        /// Each batch takes two or more requests.
        const BATCH: u64 = 256 << 20;
        self.sharing.as_ref().map(|_| BATCH)
    }

    fn holds(&self, file: FileId, range: Range<u64>) -> bool {
        match &self.sharing {
            Some(Sharing { told: Some(told), is_named: false, .. }) => told.holds(file, range),
            _ => true,
        }
    }

    /// Sends everything, so that only names are left to be given; while others write, what they need to know.
    fn sync(&self) -> Result<()> {
        match &self.sharing {
            Some(Sharing { staging, told: None, .. }) => staging.settle(&self.naming.spools),
            _ => self.send_rest(),
        }
    }

    fn commit(mut self: Box<Self>, _: bool) -> Result<Committed> {
        if let Some(sharing) = &self.sharing {
            let committed = self.commit_shared(sharing)?;
            self.naming.store.forget();
            return Ok(committed);
        }
        match self.naming.give_names() {
            Ok(names) => {
                self.is_done = true;
                self.naming.store.forget();
                Ok(Committed::new(names))
            }
            Err((error, mut left)) => {
                left.extend(self.give_up());
                Err(leaving(error, &left))
            }
        }
    }

    fn discard(mut self: Box<Self>) -> Vec<String> {
        let mut left = self.give_up();
        if let Some(Sharing { staging, .. }) = &self.sharing {
            left.extend(self.naming.discard_shared(staging));
        }
        left
    }
}

impl Drop for RemoteStage {
    fn drop(&mut self) {
        drop(self.give_up());
    }
}
