//! Where the bytes of extents are read: in their file, or decompressed.

use super::files::{Files, Handle};
use crate::resources::DECOMPRESSED;
use ckpt_api::{Error, Extent, File, FileId, Result};
use std::cell::RefCell;

/// Opens extents, and keeps those that are compressed open for whoever comes back to them.
pub(crate) struct Opened<'a> {
    files: &'a Files<'a>,
    /// Compressed extents, the last one used at the end.
    kept: RefCell<Vec<Kept>>,
}

struct Kept {
    place: (FileId, u64),
    file: File,
    /// Bytes of memory that it holds at most.
    memory: u64,
}

impl<'a> Opened<'a> {
    pub(crate) fn new(files: &'a Files<'a>) -> Self {
        Opened { files, kept: RefCell::default() }
    }

    pub(crate) fn files(&self) -> &'a Files<'a> {
        self.files
    }

    /// The file in which the extent's bytes are read, and where they begin.
    pub(crate) fn extent(&self, extent: &Extent) -> Result<(Handle<'a>, u64)> {
        if extent.compression.is_none() {
            return Ok((self.files.file(extent.file)?, extent.offset));
        }
        let place = (extent.file, extent.offset);
        let mut kept = self.kept.borrow_mut();
        if let Some(at) = kept.iter().rposition(|other| other.place == place) {
            let again = kept.remove(at);
            let file = again.file.clone();
            kept.push(again);
            return Ok((Handle::File(file), 0));
        }
        let memory = extent.decompression_memory();
        let mut held = memory + kept.iter().map(|kept| kept.memory).sum::<u64>();
        kept.retain(|old| {
            let stays = held <= DECOMPRESSED;
            held -= if stays { 0 } else { old.memory };
            stays
        });
        let file = match self.files.file(extent.file)? {
            Handle::File(file) => extent.open(&file)?,
            Handle::Memory { name, .. } => {
                return Err(Error::unsupported("tensors in memory are not compressed").tensor(name));
            }
        };
        kept.push(Kept { place, file: file.clone(), memory });
        Ok((Handle::File(file), 0))
    }
}
