//! Where the values of a checkpoint come from, if that was a file of entries: raw.bin, quantised.bin or an engine file.

use super::target::source_parts;
use crate::format::Content;
use crate::net::architecture::Architecture;
use crate::net::entry::Entry;
use crate::net::sections::sections;
use crate::resolve;
use ckpt_api::Checkpoint;

/// The file of entries that a checkpoint was read from.
#[derive(Default)]
pub(super) struct Origin {
    /// What the values come from; `None` for the optimizer's files, and for other formats.
    content: Option<Content>,
    entries: Vec<OriginEntry>,
}

/// An entry of that file.
struct OriginEntry {
    entry: Entry,
    /// Which of the entries with this id it is, from 1.
    number: u64,
    is_copy: bool,
}

impl Origin {
    pub(super) fn new(checkpoint: &Checkpoint) -> Self {
        let parts = source_parts(checkpoint).unwrap_or_default();
        // What reading prefers, if there are several.
        let order = [Content::State, Content::Raw, Content::Quantised, Content::Engine];
        let content = order.into_iter().find(|content| parts.contains(content));
        let Some(content) = content.filter(|content| *content != Content::State) else {
            return Origin::default();
        };
        let architecture: Option<Architecture> = resolve::from_metadata(checkpoint);
        let sections = architecture.as_ref().and_then(|architecture| sections(architecture, content).ok());
        let entries = sections.into_iter().flat_map(|sections| sections.weights).map(|section| OriginEntry {
            entry: section.entry.clone(),
            number: section.number,
            is_copy: section.is_copy,
        });
        Origin { content: Some(content), entries: entries.collect() }
    }

    /// The entry that a weight was read from.
    pub(super) fn entry(&self, id: &str) -> Option<&Entry> {
        let own = self.entries.iter().find(|origin| origin.entry.id == id && !origin.is_copy);
        own.map(|origin| &origin.entry).filter(|_| self.content != Some(Content::Raw))
    }

    /// Whether the copy with this number was read from this very entry of a file of this content.
    pub(super) fn has_copy(&self, content: Content, entry: &Entry, number: u64) -> bool {
        let is_same =
            |origin: &OriginEntry| origin.is_copy && origin.number == number && origin.entry == *entry;
        self.content == Some(content) && self.entries.iter().any(is_same)
    }
}
