//! The byte ranges of entries in raw.bin, quantised.bin or an engine file.

use super::architecture::Architecture;
use super::entry::Entry;
use super::parameter::StoredWeight;
use crate::format::Content;
use ckpt_api::{DType, Error, Result};

/// One entry of a file, and its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Section<'a> {
    pub(crate) entry: &'a Entry,
    /// The parameters that the entry stores, one after the other.
    pub(crate) stored: StoredWeight<'a>,
    /// The type of the stored elements.
    pub(crate) dtype: DType,
    /// First byte in the file.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) len: u64,
}

/// Returns the sections of a file in file order, and the size of the file without the padding of quantised.bin.
pub(crate) fn sections(architecture: &Architecture, content: Content) -> Result<(Vec<Section<'_>>, u64)> {
    let engine = architecture.net.engine.as_ref().filter(|_| content == Content::Engine);
    let align = engine.map(|engine| engine.align).unwrap_or_default();
    let mut sections = Vec::new();
    let mut end = engine.map_or(0, |engine| engine.header.0.len() as u64);
    for entry in architecture.entries(content) {
        let stored = architecture.stored_as(entry, content)?;
        let dtype = if content == Content::Raw { DType::F32 } else { entry.kind.dtype() };
        let len =
            dtype.bytes().zip(stored.elements()).and_then(|(size, elements)| elements.checked_mul(size));
        let range =
            align.up(end).zip(len).and_then(|(offset, len)| Some((offset, len, offset.checked_add(len)?)));
        let (offset, len, after) = range.ok_or_else(|| too_large(&entry.id))?;
        sections.push(Section { entry, stored, dtype, offset, len });
        end = after;
    }
    Ok((sections, align.up(end).ok_or_else(|| too_large("the last member"))?))
}

/// The error for a file whose size exceeds 64 bits.
pub(crate) fn too_large(id: &str) -> Error {
    Error::usage("the architecture describes a file that is too large").tensor(id)
}
