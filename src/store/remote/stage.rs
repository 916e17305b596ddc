//! Outputs in a remote store: nothing has a final name before all else is in the store.
//!
//! Files are written to temporary files of this machine, and sent in parts while others are still being written. The commit
//! sends the rest, and gives the names in order: the file that leads to the others, such as an index, comes last, with the
//! condition that nobody else made it meanwhile. What was sent of an output that is given up is removed.

use super::attachment::Attachment;
use super::commit::Naming;
use super::directory::RemoteStore;
use super::problem::Problem;
use super::put::exists;
use super::runtime;
use super::sender::{Upload, part_size};
use super::spool::{Place, Spool, Writing};
use crate::store::{Committed, Earlier, Stage, StageMode, StageRequest, Store, WriteAt, leaving};
use ckpt_api::{Error, FileId, OutputFile, ReadAt, ReadStore, Result, Setting};
use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStoreExt, PutPayload};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

impl RemoteStore {
    /// Refuses names that have files which may not be replaced, and returns what has them.
    fn check_names(&self, request: &StageRequest<'_>) -> Result<Vec<Option<ObjectMeta>>> {
        let names: Vec<String> = request.files.iter().map(|file| file.name.clone()).collect();
        let mut seen = BTreeSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(name.as_str())) {
            return Err(Error::usage("two files of the output have the same name").file(self.display(twice)));
        }
        let found = self.present(&names)?;
        for (name, _) in names.iter().zip(&found).filter(|(_, found)| found.is_some()) {
            let shown = self.display(name);
            if request.source.is_some_and(|source| {
                let own = source.names.iter().chain([&source.entry]);
                own.map(|own| source.store.display(own)).any(|own| own == shown)
            }) {
                return Err(Error::usage("the output is the input, or a part of it")
                    .file(shown)
                    .help("choose another name; the source is never changed"));
            }
            if !request.overwrite {
                return Err(exists(&shown));
            }
        }
        Ok(found)
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
                let request =
                    StageRequest { overwrite: request.overwrite, ..StageRequest::new(name, &files) };
                store.check(&request).map(|()| false)?
            }
        };
        if there && !request.overwrite {
            let help = format!("choose another name, or replace it with {}", Setting::Overwrite);
            return Err(Error::usage("the receipt exists").file(shown).help(help));
        }
        Ok(Some(attachment))
    }
}

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

    fn reserve_for_writing(&self, files: &[OutputFile], most: u64) -> u64 {
        let largest = files.iter().filter_map(|file| file.len).max().unwrap_or(0);
        self.0.sending.bound(most, part_size(largest))
    }

    fn stage(&self, request: &StageRequest<'_>) -> Result<Box<dyn Stage>> {
        if matches!(request.mode, StageMode::Shared | StageMode::Existing) {
            return Err(Error::unsupported(
                "several processes cannot write one output in a remote store yet",
            )
            .file(self.display(request.name))
            .help("convert in one process, or write to a file system that all of them reach"));
        }
        let before = self.check_names(request)?;
        let attachment = self.check_attachment(request)?;
        let writer = self.writer()?;
        let lens: Vec<Option<u64>> = request.files.iter().map(|file| file.len).collect();
        let places = Place::for_files(&lens, &self.display(request.name))?;
        let spool = |(file, place): (&OutputFile, Place)| {
            let upload = Upload::new(writer.clone(), self.key_of(&file.name)?, self.0.sending.clone());
            Ok(Spool::new(self.display(&file.name), file.len, place, upload, !request.reread))
        };
        let spools = request.files.iter().zip(places).map(spool).collect::<Result<Vec<_>>>()?;
        Ok(Box::new(RemoteStage {
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
            token: RandomState::new().hash_one(request.name),
            is_done: false,
        }))
    }
}

/// The files of one output.
#[derive(Debug)]
struct RemoteStage {
    naming: Naming,
    token: u64,
    /// Whether the output has its names, or was given up.
    is_done: bool,
}

impl RemoteStage {
    fn spool(&self, file: FileId) -> Result<&Arc<Spool>> {
        let Naming { spools, attached, .. } = &self.naming;
        let spool = spools.iter().chain(attached).nth(file.0);
        spool.ok_or_else(|| Error::defect("the output has no such file"))
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
        Earlier::Nothing
    }

    fn notes(&self) -> &[Vec<u8>] {
        &[]
    }

    fn note(&self, _: &[u8], _: u64) {}

    fn token(&self) -> u64 {
        self.token
    }

    fn file(&self, file: FileId) -> Result<Arc<dyn WriteAt>> {
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

    /// Sends everything, so that only names are left to be given.
    fn sync(&self) -> Result<()> {
        self.naming.spools.iter().try_for_each(Spool::send_rest)
    }

    fn commit(mut self: Box<Self>, _: bool) -> Result<Committed> {
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
        self.give_up()
    }
}

impl Drop for RemoteStage {
    fn drop(&mut self) {
        drop(self.give_up());
    }
}
