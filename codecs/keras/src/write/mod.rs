//! Writes a model's files: as they were, if they were read, or as Keras would.

mod archive;
mod config;
mod converted;
mod fresh;
pub(crate) mod kept;
pub(crate) mod order;
mod sparse;

use crate::config::Generation;
use crate::format::{Container, INDEX_END};
use crate::read::{Files, read_files};
use ckpt_api::{
    Aspect, Checkpoint, Checksum, ChecksumAlgorithm, Contents, FileId, FinishState, Input, Limits, Literal,
    Loss, Options, OutputFile, OutputLayout, Placement, ReadAt, Result, Rules, Tensor, Written,
};
use serde::{Deserialize, Serialize};
use sparse::{Runs, Sparse};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
    let wanted = match options.text("keras") {
        Some("2") => Some(Generation::Keras2),
        Some(_) => Some(Generation::Keras3),
        None => None,
    };
    let container = Container::of_name(name);
    let kept = match config::is_of_other_generation(checkpoint, wanted) {
        false => kept::Kept::of(checkpoint, container).and_then(|kept| kept.lay_out(checkpoint, name)),
        true => None,
    };
    let mut layout = match kept {
        Some(layout) => layout,
        None => fresh::lay_out(checkpoint, name, container, wanted)?,
    };
    let contents = match layout.contents.take() {
        Some(contents) => Some(contents),
        None => layout.read_again(name, container),
    };
    let left_out = left_out(checkpoint, &layout.placements, contents.as_ref());
    let mut placed = OutputLayout::default()
        .with_files(layout.files)
        .with_literals(layout.literals)
        .with_placements(layout.placements)
        .with_losses(layout.losses)
        .with_left_out(left_out)
        .with_working_memory(contents.as_ref().map_or(0, read_again_bytes));
    if let Some(sums) = layout.sums {
        let bytes = size_of_val(&sums.pieces[..]) as u64;
        placed.finish = FinishState::new(sums).of_size(bytes);
    }
    Ok(placed)
}

/// Bytes that reading the layout again takes, for each tensor its description and what the file's own structures hold of it.
fn read_again_bytes(contents: &Contents) -> u64 {
    const EACH: usize = size_of::<Tensor>() + size_of::<Placement>() + 384;
    (contents.placements.len() * EACH) as u64
}

/// See [`ckpt_api::Codec::finish`].
pub(crate) fn finish(placed: &OutputLayout, written: &[Written]) -> Result<Vec<Literal>> {
    if placed.finish.is_empty() {
        return Ok(Vec::new());
    }
    let sums = placed.finish.get::<Sums>()?;
    let of_extent = |placement: usize, extent: usize| {
        let checksums = written.get(placement).map(|written| &written.checksums);
        checksums.and_then(|checksums| checksums.get(extent)).copied().flatten().unwrap_or(0)
    };
    let crc = sums.pieces.iter().fold(0, |crc, piece| {
        let (own, len) = match *piece {
            Piece::Bytes { crc, len } => (crc, len),
            Piece::Extent { placement, extent, len } => (of_extent(placement, extent), len),
        };
        ChecksumAlgorithm::Crc32.combine(crc, own, len)
    });
    let literal = |offset: &u64| Literal {
        file: FileId(sums.file),
        offset: *offset,
        bytes: crc.to_le_bytes().to_vec(),
    };
    Ok(sums.places.iter().map(literal).collect())
}

/// Files that are laid out.
#[derive(Default)]
struct Layout {
    files: Vec<OutputFile>,
    literals: Vec<Literal>,
    placements: Vec<Placement>,
    sums: Option<Sums>,
    losses: Vec<Loss>,
    /// What reading them gives, if that is known.
    contents: Option<Contents>,
}

/// The range of an archive whose CRC-32 it stores.
#[derive(Clone, Copy, Debug)]
struct Weights {
    /// The number of the file.
    file: usize,
    start: u64,
    len: u64,
}

/// A CRC-32 that depends on the elements.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Sums {
    file: usize,
    /// Where it is stored.
    places: Vec<u64>,
    /// What it is over, one after the other.
    pieces: Vec<Piece>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Piece {
    Bytes { crc: u32, len: u64 },
    Extent { placement: usize, extent: usize, len: u64 },
}

impl Layout {
    /// Adds a file, whose number is given.
    fn file(&mut self, name: String, runs: &Runs, number: usize) {
        self.files.push(OutputFile::new(name, runs.len));
        let literal = |(offset, bytes): &(u64, Vec<u8>)| Literal {
            file: FileId(number),
            offset: *offset,
            bytes: bytes.clone(),
        };
        self.literals.extend(runs.runs.iter().map(literal));
    }

    /// Leaves the checksum of the weights open at these places; `None` if they lie among the weights.
    fn checksum(&mut self, weights: Weights, places: &[u64]) -> Option<()> {
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
    fn cut(&mut self, file: usize, place: u64, len: u64) {
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
    fn runs(&self, number: usize, len: u64) -> Runs {
        let own = self.literals.iter().filter(|literal| literal.file.0 == number);
        let mut runs: Vec<(u64, Vec<u8>)> = own.map(|own| (own.offset, own.bytes.clone())).collect();
        runs.sort_by_key(|(offset, _)| *offset);
        Runs { len, runs }
    }

    /// Reads what is laid out; `None` if it cannot be read, which an output without its tensors is.
    fn read_again(&self, name: &str, container: Container) -> Option<Contents> {
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
fn zeros(len: u64) -> Option<Piece> {
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
fn inside(directory: &str, file: &str) -> String {
    if directory.is_empty() { file.to_owned() } else { format!("{directory}/{file}") }
}

/// What the format keeps if the configuration states it, and does not come back here.
fn left_out(
    checkpoint: &Checkpoint,
    placements: &[Placement],
    contents: Option<&Contents>,
) -> BTreeMap<Aspect, String> {
    let empty = Checkpoint::default();
    let again = contents.map_or(&empty, |contents| &contents.checkpoint);
    let by_name = again.by_name();
    let written: HashMap<&str, &str> = placements
        .iter()
        .filter_map(|placement| {
            Some((checkpoint.tensors.get(placement.tensor.0)?.name.as_str(), placement.name.as_str()))
        })
        .collect();
    let pairs: Vec<(&Tensor, Option<&Tensor>)> = placements
        .iter()
        .filter_map(|placement| {
            let own = checkpoint.tensors.get(placement.tensor.0)?;
            let again = by_name.get(placement.name.as_str()).and_then(|id| again.tensors.get(id.0));
            Some((own, again))
        })
        .collect();
    let all = |same: &dyn Fn(&Tensor, &Tensor) -> bool| {
        pairs.iter().all(|(own, again)| again.is_some_and(|again| same(own, again)))
    };
    let same_slot = |own: &Tensor, again: &Tensor| match (&own.slot, &again.slot) {
        (None, _) => true,
        (Some(own), Some(again)) => {
            own.name == again.name && written.get(own.variable.as_str()) == Some(&again.variable.as_str())
        }
        (Some(_), None) => false,
    };
    let mut left = BTreeMap::new();
    let mut note = |aspect: Aspect, comes_back: bool| {
        if !comes_back {
            left.insert(aspect, "the output has no configuration that states it".to_owned());
        }
    };
    note(Aspect::Axes, all(&|own, again| own.axes.is_none() || own.axes == again.axes));
    note(Aspect::Roles, all(&|own, again| own.role == again.role));
    note(Aspect::Slots, all(&same_slot));
    let renamed = checkpoint.graph.clone().map(|mut graph| {
        graph.each_node_mut(|node| {
            for name in node.parameters.values_mut() {
                if let Some(new) = written.get(name.as_str()) {
                    *name = (*new).to_owned();
                }
            }
        });
        graph
    });
    if renamed.is_some() && renamed != again.graph {
        let reason = match again.graph {
            Some(_) => "it becomes layers of Keras, which are read as other nodes",
            None => "the output has no configuration from which it can be read",
        };
        left.insert(Aspect::Graph, reason.to_owned());
    }
    left
}
