//! The open files of a source.

use ckpt_api::{Contents, File, FileId, Input, Result};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Files of one side that stay open: systems allow a process a thousand or less, and a checkpoint may have more shards.
pub(crate) const KEPT_OPEN: usize = 64;

/// Opens the files of a source when they are first needed, for all threads; keeps some of them open.
#[derive(Debug)]
pub(crate) struct Files {
    input: Input,
    names: Vec<String>,
    open: Vec<OnceLock<File>>,
    /// Extents of which several tensors are parts, and whose checksums were right.
    verified: Mutex<HashSet<Place>>,
}

/// File, offset and length of an extent.
pub(super) type Place = (FileId, u64, u64);

impl Files {
    pub(crate) fn new(input: &Input, contents: &Contents) -> Arc<Self> {
        Arc::new(Self::named(input, contents.files.clone()))
    }

    pub(crate) fn named(input: &Input, names: Vec<String>) -> Self {
        let open = names.iter().take(KEPT_OPEN).map(|_| OnceLock::new()).collect();
        Files { input: input.clone(), names, open, verified: Mutex::default() }
    }

    pub(super) fn is_verified(&self, place: Place) -> bool {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner).contains(&place)
    }

    pub(super) fn set_verified(&self, place: Place) {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner).insert(place);
    }

    pub(crate) fn file(&self, id: FileId) -> Result<File> {
        let slot = self.open.get(id.0);
        if let Some(file) = slot.and_then(OnceLock::get) {
            return Ok(file.clone());
        }
        let file = self.input.file(&self.names[id.0])?;
        Ok(slot.map_or(&file, |slot| slot.get_or_init(|| file.clone())).clone())
    }
}
