//! Writing: where everything goes, and the index once its checksums are known.

mod draft;
mod layout;
mod pieces;
mod sliced;
#[cfg(test)]
mod tests;
mod unsaid;

pub(crate) use draft::index;
pub(crate) use layout::{MOST_FILLER, is_bounded};

use crate::format::{INDEX, STATE_FILE, prefix_of_shard, shard_name};
use crate::keras::{self, Activations, Style};
use crate::naming::Naming;
use crate::write::draft::{Draft, DraftEntry, Variants};
use crate::write::layout::{Layout, lay_out};
use crate::write::pieces::{Piece, Pieces, Source};
use crate::{state, stored};
use base64::prelude::{BASE64_STANDARD, Engine};
use ckpt_api::{
    Block, Checkpoint, Checksum, ChecksumAlgorithm, Endian, Error, Extent, FileId, Options, OutputFile,
    Placed, Placement, Result, Written,
};
use prost::encoding::encode_varint;

/// See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<Placed> {
    let prefix = prefix(name)?;
    let endian = endian(checkpoint, options);
    let naming = naming(checkpoint, options)?;
    let unsaid = unsaid::unsaid(checkpoint, &naming);
    let merge = options.text("slices") == Some("merge");
    let mut pieces = Pieces::new(checkpoint, naming, endian, merge)?;
    let layout = lay_out(&pieces.pieces, checkpoint, options)?;
    let mut placed = Placed { losses: std::mem::take(&mut pieces.losses), ..Placed::default() };
    placed.losses.extend(unsaid);
    let files = data_files(&mut placed, prefix, &layout)?;
    let mut draft = Draft {
        shards: u32::try_from(layout.files.len()).unwrap_or(u32::MAX),
        big_endian: endian == Endian::Big,
        snappy: options.text("compression") == Some("snappy"),
        file: placed.files.len() as u64,
        entries: Vec::with_capacity(pieces.pieces.len() + pieces.wholes.len()),
        read: index_read(checkpoint, options),
    };
    placed.files.push(OutputFile { name: format!("{prefix}{INDEX}"), len: None });
    if options.flag("state") {
        add_state(&mut placed, prefix);
    }
    let slices = pieces.slice_keys();
    Emitter { placed: &mut placed, draft: &mut draft, layout: &layout, files: &files }.emit(pieces)?;
    draft.sort(&slices)?;
    placed.draft = draft.encode();
    Ok(placed)
}

/// See [`ckpt_api::Codec::seal`].
pub(crate) fn seal(placed: &Placed, written: &[Written]) -> Result<Vec<Block>> {
    Draft::seal(placed, written)
}

fn naming(checkpoint: &Checkpoint, options: &Options) -> Result<Naming> {
    let names = options.text("names").unwrap_or_default();
    match Style::from_name(names) {
        Some(style) => {
            let own = options.flag("activation_layers");
            let activations = if own { Activations::Layers } else { Activations::Arguments };
            keras::naming(checkpoint, style, activations)
        }
        None if names == "plain" => Ok(stored::plain(checkpoint)),
        None => Ok(stored::stored(checkpoint)),
    }
}

/// What the names of all files begin with, from whichever of them the user named.
fn prefix(name: &str) -> Result<&str> {
    let prefix = name.strip_suffix(INDEX).or_else(|| prefix_of_shard(name)).unwrap_or(name);
    if !prefix.is_empty() && prefix != STATE_FILE {
        return Ok(prefix);
    }
    Err(Error::usage("a checkpoint cannot have this name")
        .file(name)
        .expected("a prefix such as model: its files are model.index and model.data-00000-of-00001")
        .help("the file 'checkpoint' names the latest of a directory; --set state=true writes it"))
}

fn endian(checkpoint: &Checkpoint, options: &Options) -> Endian {
    match options.text("endian").or_else(|| checkpoint.metadata.text("tf2", "endian")) {
        Some("big") => Endian::Big,
        _ => Endian::Little,
    }
}

/// The index that was read, where it is another than would be written for the same entries.
fn index_read(checkpoint: &Checkpoint, options: &Options) -> Vec<u8> {
    let kept = checkpoint.metadata.text("tf2", "index").filter(|_| options.text("compression").is_none());
    kept.and_then(|text| BASE64_STANDARD.decode(text).ok()).unwrap_or_default()
}

/// Adds the data files; returns the number of each that exists.
fn data_files(placed: &mut Placed, prefix: &str, layout: &Layout) -> Result<Vec<Option<FileId>>> {
    let shards = u32::try_from(layout.files.len()).map_err(|_| Error::usage("there are too many shards"))?;
    let mut files = Vec::with_capacity(layout.files.len());
    for (shard, len) in (0..shards).zip(&layout.files) {
        files.push(len.map(|_| FileId(placed.files.len())));
        if let Some(len) = len {
            placed.files.push(OutputFile { name: shard_name(prefix, shard, shards), len: Some(*len) });
        }
    }
    for (shard, offset, bytes) in &layout.filler {
        let file = files.get(*shard as usize).copied().flatten().ok_or_else(misplaced)?;
        placed.blocks.push(Block { file, offset: *offset, bytes: bytes.clone() });
    }
    Ok(files)
}

fn add_state(placed: &mut Placed, prefix: &str) {
    let bytes = state::naming(prefix);
    let file = FileId(placed.files.len());
    placed.files.push(OutputFile { name: STATE_FILE.to_owned(), len: Some(bytes.len() as u64) });
    placed.blocks.push(Block { file, offset: 0, bytes });
}

/// Turns pieces and their positions into placements, blocks and entries.
struct Emitter<'a> {
    placed: &'a mut Placed,
    draft: &'a mut Draft,
    layout: &'a Layout,
    files: &'a [Option<FileId>],
}

impl Emitter<'_> {
    fn emit(&mut self, pieces: Pieces) -> Result<()> {
        let Pieces { pieces, wholes, tensors, .. } = pieces;
        let mut written = Vec::with_capacity(pieces.len());
        written.resize_with(pieces.len(), Vec::new);
        for source in tensors {
            self.place(source, &pieces, &mut written)?;
        }
        for ((piece, parts), position) in pieces.into_iter().zip(written).zip(&self.layout.positions) {
            self.add(piece, parts, *position)?;
        }
        for (key, entry) in wholes {
            self.draft.entries.push(DraftEntry::new(key, &entry)?);
        }
        Ok(())
    }

    /// Adds a tensor's placement, and to each piece which of its extents are in it.
    fn place(&mut self, source: Source, pieces: &[Piece], written: &mut [Vec<Part>]) -> Result<()> {
        let Source { id, name, encoding, parts } = source;
        let placement = self.placed.placements.len();
        let mut extents = Vec::with_capacity(parts.len());
        for (extent, part) in parts.into_iter().enumerate() {
            let piece = pieces.get(part.piece).ok_or_else(misplaced)?;
            let (shard, start) = *self.layout.positions.get(part.piece).ok_or_else(misplaced)?;
            let file = self.file(shard)?;
            let offset = start.checked_add(part.offset).ok_or_else(misplaced)?;
            let is_first = part.offset == piece.head.len() as u64 && piece.variants.is_none();
            let seed = if is_first { piece.seed } else { 0 };
            let checksum = Some(Checksum { algorithm: ChecksumAlgorithm::Crc32c, seed, value: None });
            extents.push(Extent { file, offset, len: part.len, region: part.region.map(Box::new), checksum });
            let of_piece = written.get_mut(part.piece).ok_or_else(misplaced)?;
            of_piece.push(Part { offset, placement, extent });
        }
        self.placed.placements.push(Placement::new(id, name, extents, encoding));
        Ok(())
    }

    /// Adds a piece's entry, and what of its bytes is known.
    fn add(&mut self, piece: Piece, mut parts: Vec<Part>, (shard, offset): (u32, u64)) -> Result<()> {
        let Piece { key, mut entry, head, variants, .. } = piece;
        (entry.shard, entry.offset) = (shard, offset);
        let file = match self.file(shard) {
            Ok(file) => file,
            // Nothing is written there.
            Err(_) if entry.size == 0 => FileId(0),
            Err(error) => return Err(error),
        };
        if !head.is_empty() {
            self.placed.blocks.push(Block { file, offset, bytes: head });
        }
        if let Some(lengths) = &variants {
            self.add_lengths(file, offset, lengths);
        }
        parts.sort_unstable_by_key(|part| part.offset);
        let mut draft = DraftEntry::new(key, &entry)?;
        draft.placement = parts.first().map_or(0, |part| part.placement as u64);
        draft.extents = parts.iter().map(|part| part.extent as u64).collect();
        draft.variants = variants.map(|lengths| Variants { lengths, file: file.0 as u64, offset });
        self.draft.entries.push(draft);
        Ok(())
    }

    /// The length before each element of a variant tensor.
    fn add_lengths(&mut self, file: FileId, mut offset: u64, lengths: &[u64]) {
        for length in lengths {
            let mut bytes = Vec::new();
            encode_varint(*length, &mut bytes);
            let after = length.saturating_add((bytes.len() + size_of::<u32>()) as u64);
            self.placed.blocks.push(Block { file, offset, bytes });
            offset = offset.saturating_add(after);
        }
    }

    fn file(&self, shard: u32) -> Result<FileId> {
        self.files.get(shard as usize).copied().flatten().ok_or_else(misplaced)
    }
}

/// A part of a piece that a tensor's extent writes.
struct Part {
    offset: u64,
    placement: usize,
    extent: usize,
}

fn misplaced() -> Error {
    Error::defect("a tensor would lie in no data file")
}
