//! The store that a conversion writes to: files that the worker has opened for it, in the order of the plan's.

use crate::host;
use ckpt::api::{Error, FileId, ReadAt, ReadStore, Result};
use ckpt::store::{Committed, Earlier, Stage, StageRequest, Store, WriteAt};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Has one output at a time, which the page saves after the commit. Nothing is in it before.
#[derive(Debug)]
pub(crate) struct BrowserStore;

impl ReadStore for BrowserStore {
    fn list(&self, _: &str, _: u64) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        Err(Error::io("cannot open the file", io::ErrorKind::NotFound.into()).file(name))
    }

    fn has(&self, _: &str) -> bool {
        false
    }

    fn has_directory(&self, _: &str) -> bool {
        false
    }
}

impl Store for BrowserStore {
    fn check(&self, _: &StageRequest<'_>) -> Result<()> {
        Ok(())
    }

    fn stage(&self, request: &StageRequest<'_>) -> Result<Box<dyn Stage>> {
        static STAGES: AtomicU64 = AtomicU64::new(0);
        let files = request
            .files
            .iter()
            .zip(0..)
            .map(|(file, number)| Arc::new(OutputFile { number, name: file.name.clone() }));
        Ok(Box::new(BrowserStage { files: files.collect(), token: STAGES.fetch_add(1, Ordering::Relaxed) }))
    }

    fn replace(&self, name: &str, _: &[u8]) -> Result<()> {
        Err(nothing_beside().file(name))
    }

    fn remove(&self, _: &str) -> Result<()> {
        Ok(())
    }
}

fn nothing_beside() -> Error {
    Error::unsupported("the browser's store holds the output of a conversion, and nothing beside it")
}

/// The files of the output. The worker makes them before and removes them if the conversion fails.
#[derive(Debug)]
struct BrowserStage {
    files: Vec<Arc<OutputFile>>,
    token: u64,
}

impl BrowserStage {
    fn at(&self, id: FileId) -> Result<Arc<OutputFile>> {
        self.files.get(id.0).cloned().ok_or_else(|| Error::defect("the output has no such file"))
    }
}

impl Stage for BrowserStage {
    fn earlier(&self) -> Earlier {
        Earlier::Nothing
    }

    fn notes(&self) -> &[Vec<u8>] {
        &[]
    }

    /// Nothing outlives the page, so nothing is resumed.
    fn note(&self, _: &[u8], _: u64) {}

    fn token(&self) -> u64 {
        self.token
    }

    fn file(&self, file: FileId) -> Result<Arc<dyn WriteAt>> {
        Ok(self.at(file)?)
    }

    fn open(&self, file: FileId) -> Result<Arc<dyn ReadAt>> {
        Ok(self.at(file)?)
    }

    fn written(&self) -> Arc<dyn ReadStore> {
        let files = self.files.iter().map(|file| (file.name.clone(), file.clone() as Arc<dyn ReadAt>));
        Arc::new(files.collect::<BTreeMap<_, _>>())
    }

    fn attach(&mut self, name: &str) -> Result<FileId> {
        Err(nothing_beside().file(name))
    }

    fn bytes(&self) -> Result<u64> {
        let size = |file: &Arc<OutputFile>| {
            file.size().map_err(|error| Error::io("cannot read the file", error).file(file.name.as_str()))
        };
        self.files.iter().map(size).sum()
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn commit(self: Box<Self>, _: bool) -> Result<Committed> {
        Ok(Committed::new(self.files.iter().map(|file| file.name.clone()).collect()))
    }

    fn discard(self: Box<Self>) -> Vec<String> {
        Vec::new()
    }
}

/// One file of the output.
#[derive(Debug)]
struct OutputFile {
    number: u32,
    name: String,
}

impl WriteAt for OutputFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        host::write_output(self.number, offset, bytes).map_err(|error| {
            Error::io("cannot write the file", error).file(self.name.as_str()).offset(offset).help(
                "the browser limits how much a page may store: make room on the disk, or use the program",
            )
        })
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

impl ReadAt for OutputFile {
    fn size(&self) -> io::Result<u64> {
        host::output_size(self.number)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        host::read_output(self.number, offset, buffer)
    }
}
