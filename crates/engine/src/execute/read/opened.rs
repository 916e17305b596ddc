//! Where the bytes of extents are read: in their file, decompressed, or computed.

use super::checks::verify_extent;
use super::computing::Computing;
use super::files::{Files, Handle};
use super::narrowing::Narrowed;
use crate::resources::DECOMPRESSED;
use crate::transform::Buffer;
use ckpt_api::{Compression, Computed, DType, Error, Extent, File, FileId, Result};
use std::cell::RefCell;
use std::sync::Arc;

/// Opens extents, and keeps those that are compressed open for whoever comes back to them.
pub(crate) struct Opened<'a> {
    files: &'a Files<'a>,
    /// Compressed extents, the last one used at the end.
    kept: RefCell<Vec<Kept>>,
    /// What computed numbers become when they are read.
    narrow: Option<DType>,
    /// The computed extent that was used last.
    computing: RefCell<Option<Arc<Computing<'a>>>>,
}

struct Kept {
    /// Its first byte in its file, its bytes, and how these are compressed.
    place: (FileId, u64, u64),
    compression: Compression,
    file: File,
    /// Bytes of memory that it holds at most.
    memory: u64,
}

impl<'a> Opened<'a> {
    pub(crate) fn new(files: &'a Files<'a>) -> Self {
        Opened { files, kept: RefCell::default(), narrow: None, computing: RefCell::default() }
    }

    /// Rounds computed numbers to this dtype, of two bytes, when they are read.
    pub(super) fn narrowing(self, narrow: Option<DType>) -> Self {
        Opened { narrow, ..self }
    }

    /// The largest absolute rounding error of numbers that were rounded when they were read.
    pub(super) fn rounding(&self) -> f64 {
        self.computing.borrow().as_ref().map_or(0.0, |computing| computing.rounding())
    }

    pub(crate) fn files(&self) -> &'a Files<'a> {
        self.files
    }

    /// The file in which the extent's bytes are read, and where they begin.
    pub(crate) fn extent(&self, extent: &Extent) -> Result<(Handle<'a>, u64)> {
        if let Some(computed) = extent.computed() {
            let computing = self.computing(computed)?;
            return Ok(match self.narrow {
                Some(dtype) => (Handle::Computed(Arc::new(Narrowed(computing, dtype))), 0),
                None => (Handle::Computed(computing), 0),
            });
        }
        let Some(compression) = extent.compression() else {
            return Ok((self.files.file(extent.file)?, extent.offset));
        };
        let memory = extent.decompression_memory();
        if memory == 0 {
            return Ok((Handle::File(self.decompressed(extent)?), 0));
        }
        let place = (extent.file, extent.offset, extent.len);
        let mut kept = self.kept.borrow_mut();
        // Extents may have the same bytes of a file, and be other parts of what these decompress to.
        let is_same = |other: &Kept| other.place == place && other.compression == *compression;
        if let Some(at) = kept.iter().rposition(is_same) {
            let again = kept.remove(at);
            let file = again.file.clone();
            kept.push(again);
            return Ok((Handle::File(file), 0));
        }
        let mut held = memory + kept.iter().map(|kept| kept.memory).sum::<u64>();
        kept.retain(|old| {
            let stays = held <= DECOMPRESSED;
            held -= if stays { 0 } else { old.memory };
            stays
        });
        let file = self.decompressed(extent)?;
        kept.push(Kept { place, compression: compression.clone(), file: file.clone(), memory });
        Ok((Handle::File(file), 0))
    }

    fn decompressed(&self, extent: &Extent) -> Result<File> {
        match self.files.file(extent.file)? {
            Handle::File(file) => extent.open(&file),
            other => Err(Error::unsupported("only the extents of files are compressed").tensor(other.name())),
        }
    }

    fn computing(&self, computed: &Computed) -> Result<Arc<Computing<'a>>> {
        if let Some(last) = self.computing.borrow().as_ref().filter(|last| last.is_of(computed)) {
            return Ok(last.clone());
        }
        let opened = Arc::new(Computing::open(&|extent| self.verified(extent), computed)?);
        self.computing.replace(Some(opened.clone()));
        Ok(opened)
    }

    /// Reads an extent from end to end and compares its checksum, if it has one.
    pub(super) fn verify(&self, extent: &Extent, chunk: usize, buffer: &mut Buffer) -> Result<()> {
        let Some(expected) = &extent.checksum else { return Ok(()) };
        let (file, start) = self.extent(extent)?;
        verify_extent((&file, start), (extent, expected), chunk, buffer)
    }

    /// As [`Opened::extent`], of an extent of which any part may be read in any order: its checksum is compared before,
    /// once for all who read it.
    pub(super) fn verified(&self, extent: &Extent) -> Result<(Handle<'a>, u64)> {
        let place = (extent.file, extent.offset, extent.len);
        if extent.checksum.is_some() && !self.files.is_verified(place) {
            self.verify(extent, VERIFIED_AT_ONCE, &mut Buffer::default())?;
            self.files.set_verified(place);
        }
        self.extent(extent)
    }
}

/// Bytes that are read at once to compare a checksum.
const VERIFIED_AT_ONCE: usize = 256 << 10;
