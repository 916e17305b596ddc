//! The texts of attributes, in collections of the global heap.

use crate::tree::Attribute;
use ckpt_api::{Error, Result, Writer};
use std::collections::HashMap;

/// Bytes of the smallest collection.
const SMALLEST: u64 = 4096;
/// Bytes of a collection's header, and of an object's.
const HEAD: u64 = 16;

/// Where a text is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reference {
    pub(super) address: u64,
    pub(super) number: u32,
}

/// All texts.
#[derive(Debug, Default)]
pub(super) struct Texts {
    collections: Vec<Collection>,
    /// For each object of the file, the texts of its attributes, in their order: the collection and the number in it.
    references: HashMap<usize, Vec<Reference>>,
}

#[derive(Debug, Default)]
struct Collection {
    at: u64,
    /// Objects, and the header.
    bytes: Writer,
    count: u16,
}

impl Collection {
    fn len(&self) -> u64 {
        self.bytes.len().saturating_add(HEAD).max(SMALLEST)
    }

    fn has_room(&self, len: u64) -> bool {
        self.count > 0 && self.bytes.len() + HEAD + len <= SMALLEST
    }
}

impl Texts {
    /// Adds the texts of an object's attributes.
    pub(super) fn add(&mut self, id: usize, attributes: &[Attribute]) -> Result<()> {
        let mut references = Vec::new();
        for text in attributes.iter().flat_map(|attribute| attribute.value.texts()) {
            u32::try_from(text.len())
                .map_err(|_| Error::unsupported("a text is too long for an HDF5 file"))?;
            references.push(self.text(text));
        }
        if !references.is_empty() {
            self.references.insert(id, references);
        }
        Ok(())
    }

    /// Adds one text; an empty one needs no place.
    fn text(&mut self, text: &[u8]) -> Reference {
        if text.is_empty() {
            return Reference::default();
        }
        let len = HEAD + (text.len() as u64).next_multiple_of(8);
        if !self.collections.last().is_some_and(|last| last.has_room(len)) {
            self.collections.push(Collection::default());
        }
        // Until they are placed, an address is the number of the collection, counted from 1.
        let address = self.collections.len() as u64;
        let Some(collection) = self.collections.last_mut() else { return Reference::default() };
        collection.count += 1;
        let number = collection.count;
        collection.bytes.numbers(&[number, 0]).number(0u32).number(text.len() as u64).bytes(text);
        collection.bytes.bytes(&vec![0; text.len().next_multiple_of(8) - text.len()]);
        Reference { address, number: number.into() }
    }

    /// Places the collections from this offset on; returns the offset after them.
    pub(super) fn place(&mut self, at: u64) -> u64 {
        let mut at = at;
        for collection in &mut self.collections {
            collection.at = at;
            at = at.saturating_add(collection.len());
        }
        let collections = &self.collections;
        for reference in self.references.values_mut().flatten() {
            let number = reference.address.checked_sub(1).and_then(|number| usize::try_from(number).ok());
            if let Some(collection) = number.and_then(|number| collections.get(number)) {
                reference.address = collection.at;
            }
        }
        at
    }

    /// Returns where the texts of an object's attributes are.
    pub(super) fn of(&self, id: usize) -> impl Iterator<Item = &Reference> {
        self.references.get(&id).into_iter().flatten()
    }

    /// Returns the bytes of all collections.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Writer::new();
        for collection in &self.collections {
            let start = bytes.len();
            bytes.bytes(b"GCOL").bytes(&[1, 0, 0, 0]).number(collection.len());
            bytes.bytes(&collection.bytes.clone().into_bytes());
            let free = collection.len().saturating_sub(bytes.len() - start);
            if free >= HEAD {
                // The rest is object 0.
                bytes.number(0u64).number(free).bytes(&vec![0; (free - HEAD) as usize]);
            } else {
                bytes.bytes(&vec![0; free as usize]);
            }
        }
        bytes.into_bytes()
    }
}
