//! Which bytes of raw.bin, quantised.bin or an engine file are what.

use super::architecture::Architecture;
use super::entry::{Entry, Item};
use super::parameter::{Parameter, StoredWeight};
use crate::format::Content;
use ckpt_api::{DType, Error, Result};
use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;

/// What a file consists of, in file order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sections<'a> {
    pub(crate) weights: Vec<Section<'a>>,
    /// The engine's header, and what the architecture states as bytes.
    pub(crate) constants: Vec<Constant<'a>>,
    /// The size of the file without the padding of quantised.bin.
    pub(crate) end: u64,
}

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
    /// Which of the entries with this id it is, from 1.
    pub(crate) number: u64,
    /// Whether the weight is read from another section: this one stores it a second time.
    pub(crate) is_copy: bool,
}

/// Bytes that the architecture states.
#[derive(Clone, Debug)]
pub(crate) struct Constant<'a> {
    /// Where the architecture states them.
    pub(crate) field: String,
    pub(crate) bytes: &'a [u8],
    /// First byte in the file.
    pub(crate) offset: u64,
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
            Item::Weight(entry) => found.add_weight(architecture, content, entry, start)?,
            Item::Bytes(_) if content == Content::Raw => {}
            Item::Bytes(bytes) => found.add_constant(format!("{list}[{index}]"), &bytes.0, start)?,
        }
    }
    found.end = align.up(found.end).ok_or_else(|| too_large("the last member"))?;
    mark_copies(&mut found.weights, content);
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
        self.weights.push(Section { entry, stored, dtype, offset, len, number, is_copy: false });
        self.end = end;
        Ok(())
    }

    fn add_constant(&mut self, field: String, bytes: &'a [u8], offset: u64) -> Result<()> {
        self.end = offset.checked_add(bytes.len() as u64).ok_or_else(|| too_large(&field))?;
        self.constants.push(Constant { field, bytes, offset });
        Ok(())
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

impl Constant<'_> {
    /// The byte after the last. Adding it to the file checked that it is within 64 bits.
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes.len() as u64)
    }
}

impl<'a> Section<'a> {
    /// The ids of the parameters that it stores.
    fn ids(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.stored.parts.clone().into_iter().map(|part| part.id.as_str())
    }

    /// The name of a parameter's tensor: its id, and for a copy the entry's number.
    pub(crate) fn tensor_name(&self, parameter: &Parameter) -> String {
        match self.is_copy {
            false => parameter.id.clone(),
            true => format!("{}#{}", parameter.id, self.number),
        }
    }
}

/// Decides which of several entries of a weight is read as the weight.
fn mark_copies(sections: &mut [Section<'_>], content: Content) {
    let mut chosen: HashMap<&str, (Merit, usize)> = HashMap::new();
    let stored: HashSet<&str> = sections.iter().flat_map(Section::ids).collect();
    for (index, section) in sections.iter().enumerate() {
        let entry = section.entry;
        let merit = match content {
            Content::Raw => Merit::default(),
            _ => Merit {
                has_all: entry.merge.as_deref().is_some_and(|merged| !stored.contains(merged)),
                is_alone: entry.merge.is_none(),
                is_unclipped: entry.clip.is_none(),
                is_float: entry.scale.is_none(),
                scale: entry.scale,
            },
        };
        let best = chosen.entry(&entry.id).or_insert((merit, index));
        // Of equal ones, the first stays.
        if merit > best.0 {
            *best = (merit, index);
        }
    }
    let chosen: HashSet<usize> = chosen.into_values().map(|(_, index)| index).collect();
    // A weight that is merged into one that is read does not count once more.
    let merged: HashSet<String> = match content {
        Content::Raw => HashSet::new(),
        _ => chosen.iter().filter_map(|index| sections.get(*index)?.entry.merge.clone()).collect(),
    };
    for (index, section) in sections.iter_mut().enumerate() {
        section.is_copy = !chosen.contains(&index) || merged.contains(&section.entry.id);
    }
}

/// How much an entry says about its weight. The fields are in the order of their importance.
#[derive(Clone, Copy, Default, PartialEq, PartialOrd)]
struct Merit {
    /// Whether it includes a weight that the file does not store otherwise.
    has_all: bool,
    /// Whether it is the weight without another.
    is_alone: bool,
    is_unclipped: bool,
    is_float: bool,
    scale: Option<NonZeroU32>,
}

/// The error for a file whose size exceeds 64 bits.
pub(crate) fn too_large(id: &str) -> Error {
    Error::usage("the architecture describes a file that is too large").tensor(id)
}
