//! The index file as a whole: its header and entries.

use crate::format::{Entry, Header};
use crate::names::shown;
use crate::{ordered_code, table};
use ckpt_api::{Error, File, Limit, Limits, Repair, Result};

/// An entry and its key.
pub(crate) type Keyed = (Box<[u8]>, Entry);

/// Everything that an index file says.
#[derive(Debug)]
pub(crate) struct Index {
    /// What the first entry says.
    pub(crate) header: Header,
    /// All other entries, sorted by key.
    pub(crate) entries: Vec<Keyed>,
    /// What was wrong with the table.
    pub(crate) repairs: Vec<Repair>,
}

impl Index {
    /// Reads and checks an index file.
    pub(crate) fn read(file: &File, limits: &Limits, lenient: bool) -> Result<Self> {
        let mut header: Option<Header> = None;
        let mut entries = Vec::new();
        let mut held = 0u64;
        let repairs = table::scan(file, limits, lenient, |key, value, at| {
            let place = |error: Error| error.file(file.name()).offset(at);
            match &header {
                None if key.is_empty() => header = Some(Header::parse(value).map_err(place)?),
                None => return Err(place(no_header()).found(format!("the key '{}'", shown(key)))),
                Some(header) => {
                    let place = |error: Error| place(error).tensor(shown(key));
                    limits.check(Limit::Tensors, entries.len() as u64 + 1).map_err(place)?;
                    limits.check(Limit::NameBytes, key.len() as u64).map_err(place)?;
                    let entry = Entry::parse(value, header.shards, at).map_err(place)?;
                    // In memory, keys that share prefixes and slices take many times what they take in the file.
                    held = held.saturating_add(key.len() as u64).saturating_add(entry.slice_bytes());
                    limits.check(Limit::HeaderBytes, held).map_err(place)?;
                    entries.push((key.into(), entry));
                }
            }
            Ok(())
        })
        .map_err(|error| error.file(file.name()))?;
        let header = header.ok_or_else(|| no_header().file(file.name()).found("no entry at all"))?;
        Ok(Index { header, entries, repairs })
    }

    /// The position of the entry under `key`.
    pub(crate) fn find(&self, key: &[u8]) -> Option<usize> {
        self.entries.binary_search_by(|(known, _)| (**known).cmp(key)).ok()
    }

    /// For every entry whether it is the slice of another.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for slices that are missing, listed twice, or listed by no tensor.
    pub(crate) fn slices(&self, limits: &Limits) -> Result<Vec<bool>> {
        let mut is_slice = vec![false; self.entries.len()];
        for (key, entry) in self.entries.iter().filter(|(_, entry)| !entry.slices.is_empty()) {
            limits
                .check(Limit::Slices, entry.slices.len() as u64)
                .map_err(|error| error.tensor(shown(key)))?;
            for (number, extents) in entry.slices.iter().enumerate() {
                let wrong = |message: &str| {
                    let error = Error::corrupt(message).offset(entry.at).tensor(shown(key));
                    error.field(format!("slices[{number}]")).help("the file was damaged: copy it again")
                };
                let slice = self.find(&ordered_code::slice_key(key, extents));
                let slice =
                    slice.ok_or_else(|| wrong("a slice that the tensor lists is not in the index"))?;
                match is_slice.get_mut(slice) {
                    Some(seen) if !*seen => *seen = true,
                    _ => return Err(wrong("a slice is listed twice")),
                }
            }
        }
        for ((key, entry), _) in self.entries.iter().zip(&is_slice).filter(|(_, is_slice)| !**is_slice) {
            let name = ordered_code::sliced_name(key).filter(|name| self.find(name).is_some());
            if let Some(name) = name {
                return Err(Error::corrupt("the index has a slice that its tensor does not list")
                    .offset(entry.at)
                    .tensor(shown(&name))
                    .help("the file was damaged: copy it again"));
            }
        }
        Ok(is_slice)
    }
}

fn no_header() -> Error {
    Error::corrupt("the index has no header").expected("a BundleHeaderProto under the empty key, first")
}
