//! Files that are laid out, and the checksum that an archive stores of its weights.

use super::sparse::{Runs, Sparse};
use crate::format::{Container, INDEX_END};
use crate::read::{Files, read_files};
use ckpt_api::{
    Checksum, ChecksumAlgorithm, Contents, FileId, Input, Limits, Literal, Loss, OutputFile, Placement,
    ReadAt, Rules,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Files that are laid out.
#[derive(Default)]
pub(super) struct Layout {
    pub(super) files: Vec<OutputFile>,
    pub(super) literals: Vec<Literal>,
    pub(super) placements: Vec<Placement>,
    pub(super) sums: Option<Sums>,
    pub(super) losses: Vec<Loss>,
    /// What reading them gives, if that is known.
    pub(super) contents: Option<Contents>,
}

/// The range of an archive whose CRC-32 it stores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights {
    /// The number of the file.
    pub(super) file: usize,
    pub(super) start: u64,
    pub(super) len: u64,
}

/// A CRC-32 that depends on the elements.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Sums {
    pub(super) file: usize,
    /// Where it is stored.
    pub(super) places: Vec<u64>,
    /// What it is over, one after the other.
    pub(super) pieces: Vec<Piece>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Piece {
    Bytes { crc: u32, len: u64 },
    Extent { placement: usize, extent: usize, len: u64 },
}

impl Layout {
    /// Adds a file, whose number is given.
    pub(super) fn file(&mut self, name: String, runs: &Runs, number: usize) {
        self.files.push(OutputFile::new(name, runs.len));
        let literal = |(offset, bytes): &(u64, Vec<u8>)| Literal {
            file: FileId(number),
            offset: *offset,
            bytes: bytes.clone(),
        };
        self.literals.extend(runs.runs.iter().map(literal));
    }

    /// Leaves the checksum of the weights open at these places; `None` if they are among the weights.
    pub(super) fn checksum(&mut self, weights: Weights, places: &[u64]) -> Option<()> {
        let end = weights.start.checked_add(weights.len)?;
        for bound in [weights.start, end] {
            self.cut(weights.file, bound, 0);
        }
        for place in places {
            self.cut(weights.file, *place, 4);
            if (weights.start..end).contains(place) {
                return None;
            }
        }
        let inside =
            |file: FileId, start: u64| file.0 == weights.file && (weights.start..end).contains(&start);
        let mut pieces: Vec<(u64, Piece)> = Vec::new();
        for literal in self.literals.iter().filter(|literal| inside(literal.file, literal.offset)) {
            let (crc, len) = (ChecksumAlgorithm::Crc32.append(0, &literal.bytes), literal.bytes.len() as u64);
            pieces.push((literal.offset, Piece::Bytes { crc, len }));
        }
        let crc32 = Checksum { algorithm: ChecksumAlgorithm::Crc32, seed: 0, value: None };
        for (placement, own) in self.placements.iter_mut().enumerate() {
            for (extent, own) in own.extents.iter_mut().enumerate().filter(|(_, own)| own.len > 0) {
                own.checksum = Some(crc32.clone());
                pieces.push((own.offset, Piece::Extent { placement, extent, len: own.len }));
            }
        }
        pieces.sort_by_key(|(offset, _)| *offset);
        let mut all = Vec::with_capacity(pieces.len());
        let mut at = weights.start;
        for (offset, piece) in pieces {
            all.extend(zeros(offset.checked_sub(at)?));
            let len = match piece {
                Piece::Bytes { len, .. } | Piece::Extent { len, .. } => len,
            };
            all.push(piece);
            at = offset.checked_add(len)?;
        }
        all.extend(zeros(end.checked_sub(at)?));
        self.sums = Some(Sums { file: weights.file, places: places.to_vec(), pieces: all });
        Some(())
    }

    /// Takes bytes out of the literals: of none, a literal becomes two.
    pub(super) fn cut(&mut self, file: usize, place: u64, len: u64) {
        let mut cut = Vec::with_capacity(self.literals.len() + 1);
        for literal in std::mem::take(&mut self.literals) {
            let end = literal.offset.saturating_add(literal.bytes.len() as u64);
            let after = place.saturating_add(len);
            if literal.file.0 != file || end <= place || after <= literal.offset {
                cut.push(literal);
                continue;
            }
            let part = |from: u64, to: u64| {
                let start = from.saturating_sub(literal.offset) as usize;
                let bytes =
                    literal.bytes.get(start..to.saturating_sub(literal.offset) as usize).unwrap_or_default();
                Literal { file: literal.file, offset: from, bytes: bytes.to_vec() }
            };
            let parts = [part(literal.offset, place.max(literal.offset)), part(after.min(end), end)];
            cut.extend(parts.into_iter().filter(|part| !part.bytes.is_empty()));
        }
        self.literals = cut;
    }

    /// The bytes of a file that are no elements.
    pub(super) fn runs(&self, number: usize, len: u64) -> Runs {
        let own = self.literals.iter().filter(|literal| literal.file.0 == number);
        let mut runs: Vec<(u64, Vec<u8>)> = own.map(|own| (own.offset, own.bytes.clone())).collect();
        runs.sort_by_key(|(offset, _)| *offset);
        Runs { len, runs }
    }

    /// Reads what is laid out; `None` if it cannot be read, which an output without its tensors is.
    pub(super) fn read_again(&self, name: &str, container: Container) -> Option<Contents> {
        let mut held: BTreeMap<String, Arc<dyn ReadAt>> = BTreeMap::new();
        for (number, file) in self.files.iter().enumerate() {
            held.insert(file.name.clone(), Arc::new(Sparse::new(self.runs(number, file.len?))));
        }
        if container == Container::Directory {
            let folder = inside(name, "");
            let inner = held.into_iter();
            held = inner
                .filter_map(|(name, file)| Some((name.strip_prefix(&folder)?.to_owned(), file)))
                .collect();
        }
        let entry = if container == Container::Directory { "" } else { name };
        debug_assert!(container != Container::Sharded || entry.ends_with(INDEX_END));
        let limits = Limits::default();
        let files = Files::open(&Input::of(entry, held), &limits, false).ok()?;
        read_files(&files, None, &mut Rules { lenient: true, ..Rules::default() }, &limits).ok()
    }
}

/// Bytes that nothing is written to.
pub(super) fn zeros(len: u64) -> Option<Piece> {
    const BLOCK: [u8; 4096] = [0; 4096];
    let (mut crc, mut left) = (0, len);
    while left > 0 {
        let part = BLOCK.split_at(left.min(BLOCK.len() as u64) as usize).0;
        crc = ChecksumAlgorithm::Crc32.append(crc, part);
        left -= part.len() as u64;
    }
    (len > 0).then_some(Piece::Bytes { crc, len })
}

/// The name of a file in the directory of this name.
pub(super) fn inside(directory: &str, file: &str) -> String {
    if directory.is_empty() { file.to_owned() } else { format!("{directory}/{file}") }
}
