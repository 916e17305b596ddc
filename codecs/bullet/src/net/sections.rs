//! Which bytes of raw.bin, quantised.bin or an engine file are what.

use super::architecture::Architecture;
use super::copies;
use super::entry::{Entry, Item};
use super::section::{Constant, Section, too_large};
use crate::format::Content;
use ckpt_api::{DType, Result};

/// What a file consists of, in file order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sections<'a> {
    pub(crate) weights: Vec<Section<'a>>,
    /// The engine's header, and what the architecture states as bytes.
    pub(crate) constants: Vec<Constant<'a>>,
    /// The size of the file without the padding of quantised.bin.
    pub(crate) end: u64,
}

/// Returns what a file of this content consists of.
pub(crate) fn sections(architecture: &Architecture, content: Content) -> Result<Sections<'_>> {
    let engine = architecture.net.engine.as_ref().filter(|_| content == Content::Engine);
    let align = engine.map(|engine| engine.align).unwrap_or_default();
    let mut found = Sections::default();
    if let Some(engine) = engine.filter(|engine| !engine.header.0.is_empty()) {
        found.add_constant("engine.header".to_owned(), &engine.header.0, 0)?;
    }
    let list = if content == Content::Engine { "engine.members" } else { "saved" };
    for (index, item) in architecture.items(content).iter().enumerate() {
        let start = align.up(found.end).ok_or_else(|| too_large("a member"))?;
        match item {
            Item::Weight(entry) if content == Content::Raw && !entry.is_raw => {}
            Item::Weight(entry) => found.add_weight(architecture, content, entry, start)?,
            Item::Bytes(_) if content == Content::Raw => {}
            Item::Bytes(bytes) => found.add_constant(format!("{list}[{index}]"), &bytes.0, start)?,
        }
    }
    found.end = align.up(found.end).ok_or_else(|| too_large("the last member"))?;
    copies::mark_copies(&mut found.weights);
    Ok(found)
}

impl<'a> Sections<'a> {
    fn add_weight(
        &mut self,
        architecture: &'a Architecture,
        content: Content,
        entry: &'a Entry,
        offset: u64,
    ) -> Result<()> {
        let stored = architecture.stored_as(entry, content)?;
        let dtype = if content == Content::Raw { DType::F32 } else { entry.kind.dtype() };
        let len =
            dtype.bytes().zip(stored.elements()).and_then(|(size, elements)| elements.checked_mul(size));
        let range = len.and_then(|len| Some((len, offset.checked_add(len)?)));
        let (len, end) = range.ok_or_else(|| too_large(&entry.id))?;
        let number = self.weights.iter().filter(|section| section.entry.id == entry.id).count() as u64 + 1;
        let is_raw = content == Content::Raw;
        let merged = entry.merge.as_deref().filter(|_| !is_raw);
        let section = Section { entry, stored, dtype, offset, len, number, is_raw, merged, is_copy: false };
        self.weights.push(section);
        self.end = end;
        Ok(())
    }

    fn add_constant(&mut self, field: String, bytes: &'a [u8], offset: u64) -> Result<()> {
        self.end = offset.checked_add(bytes.len() as u64).ok_or_else(|| too_large(&field))?;
        self.constants.push(Constant { field, bytes, offset });
        Ok(())
    }

    /// Returns the first weight that only copies store or include, and the first of these copies: reading would lose
    /// it.
    pub(crate) fn lost(&self) -> Option<(&'a str, &Section<'a>)> {
        copies::lost(&self.weights)
    }

    /// Where weights and constants are in the file, as first byte and end.
    pub(crate) fn ranges(&self) -> Vec<(u64, u64)> {
        let weights = self.weights.iter().map(|section| (section.offset, section.offset + section.len));
        let constants = self.constants.iter();
        let constants = constants.map(|constant| (constant.offset, constant.end()));
        let mut ranges: Vec<(u64, u64)> = weights.chain(constants).collect();
        ranges.sort_unstable();
        ranges
    }
}
