//! The index file: the header and the entries of all tensors.

use crate::errors::COPY_AGAIN;
use crate::format::{Entry, Header};
use crate::key::Key;
use crate::key_text::abbreviate;
use crate::{ordered_code, table};
use ckpt_api::{Error, File, Limit, Limits, Repair, Result};

/// A key with its entry.
pub(crate) type KeyedEntry = (Key, Entry);

/// The contents of an index file.
#[derive(Debug)]
pub(crate) struct Index {
    /// The header, which is the first entry.
    pub(crate) header: Header,
    /// All other entries, sorted by key.
    pub(crate) entries: Vec<KeyedEntry>,
    /// Defects of the table that were repaired.
    pub(crate) repairs: Vec<Repair>,
}

impl Index {
    /// Reads and checks an index file.
    pub(crate) fn read(file: &File, limits: &Limits, lenient: bool) -> Result<Self> {
        let mut header: Option<Header> = None;
        let mut entries = Vec::new();
        let mut held = 0u64;
        let repairs = table::scan(file, limits, lenient, |key, value, at| {
            let locate = |error: Error| error.file(file.name()).offset(at);
            match &header {
                None if key.is_empty() => header = Some(Header::parse(value).map_err(locate)?),
                None => return Err(locate(missing_header()).found(format!("the key '{}'", abbreviate(key)))),
                Some(header) => {
                    let locate = |error: Error| locate(error).tensor(abbreviate(key));
                    limits.check(Limit::Tensors, entries.len() as u64 + 1).map_err(locate)?;
                    limits.check(Limit::NameBytes, key.len() as u64).map_err(locate)?;
                    let entry = Entry::parse(value, header.shards, at).map_err(locate)?;
                    // Keys that share prefixes, and slices, take many times more memory than space in the file.
                    held = held.saturating_add(key.len() as u64).saturating_add(entry.slice_bytes());
                    limits.check(Limit::HeaderBytes, held).map_err(locate)?;
                    entries.push((key.into(), entry));
                }
            }
            Ok(())
        })
        .map_err(|error| error.file(file.name()))?;
        let header = header.ok_or_else(|| missing_header().file(file.name()).found("no entries"))?;
        Ok(Index { header, entries, repairs })
    }

    /// Returns the position of the entry with this key.
    pub(crate) fn find(&self, key: &[u8]) -> Option<usize> {
        self.entries.binary_search_by(|(known, _)| (**known).cmp(key)).ok()
    }

    /// Returns for each entry whether it is a slice of another entry's tensor.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for a slice that is missing, listed twice, or not listed by its tensor.
    pub(crate) fn slices(&self, limits: &Limits) -> Result<Vec<bool>> {
        let mut is_slice = vec![false; self.entries.len()];
        for (key, entry) in self.entries.iter().filter(|(_, entry)| !entry.slices.is_empty()) {
            limits
                .check(Limit::Slices, entry.slices.len() as u64)
                .map_err(|error| error.tensor(abbreviate(key)))?;
            for (number, extents) in entry.slices.iter().enumerate() {
                let wrong = |message: &str| {
                    let error = Error::corrupt(message).offset(entry.at).tensor(abbreviate(key));
                    error.field(format!("slices[{number}]")).help(COPY_AGAIN)
                };
                let slice = self.find(&ordered_code::slice_key(key, extents));
                let slice = slice.ok_or_else(|| wrong("the index lacks a slice that the tensor lists"))?;
                match is_slice.get_mut(slice) {
                    Some(seen) if !*seen => *seen = true,
                    _ => return Err(wrong("the tensor lists a slice twice")),
                }
            }
        }
        for ((key, entry), _) in self.entries.iter().zip(&is_slice).filter(|(_, is_slice)| !**is_slice) {
            let name = ordered_code::sliced_name(key).filter(|name| self.find(name).is_some());
            if let Some(name) = name {
                return Err(Error::corrupt("the index has a slice that its tensor does not list")
                    .offset(entry.at)
                    .tensor(abbreviate(&name))
                    .help(COPY_AGAIN));
            }
        }
        Ok(is_slice)
    }
}

fn missing_header() -> Error {
    Error::corrupt("the index has no header")
        .expected("a BundleHeaderProto under the empty key as the first entry")
}
