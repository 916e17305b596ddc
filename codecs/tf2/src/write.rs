//! Writing: places a checkpoint's tensors in files, and writes the index when the checksums are known.

mod data_entry;
mod entries;
mod layout;
mod losses;
mod partition;
mod pending_index;

use crate::format::{INDEX, STATE_FILE, prefix_of_shard, shard_name};
use crate::naming::keras::{self, Activations, Style};
use crate::naming::{Naming, per_tensor};
use crate::state_file;
use crate::write::data_entry::DataEntry;
use crate::write::entries::{Entries, EntryGroup, PartitionedEntry, TensorSegments};
use crate::write::layout::{Layout, lay_out};
use crate::write::losses::inference_losses;
use crate::write::pending_index::{PendingEntry, PendingIndex, Variants};
use base64::prelude::{BASE64_STANDARD, Engine};
use ckpt_api::{
    Checkpoint, Checksum, ChecksumAlgorithm, Endian, Error, Extent, Extents, FileId, Literal, Options,
    OutputFile, OutputLayout, Placement, Result, Setting, Written, text,
};
use prost::encoding::encode_varint;
use std::collections::HashSet;

/// See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
    let prefix = prefix(name)?;
    let endian = endian(checkpoint, options);
    let naming = naming(checkpoint, options)?;
    let inference_losses = inference_losses(checkpoint, &naming);
    let merge = options.text("slices") == Some("merge");
    let (entries, losses) = Entries::new(checkpoint, naming, endian, merge);
    let sizes = entries.sizes()?;
    let layout = lay_out(&sizes, checkpoint, options)?;
    let mut placed = OutputLayout::default().with_losses(losses);
    placed.losses.extend(inference_losses);
    let files = add_data_files(&mut placed, prefix, &layout)?;
    let mut index = PendingIndex {
        shards: u32::try_from(layout.files.len()).unwrap_or(u32::MAX),
        big_endian: endian == Endian::Big,
        snappy: options.text("compression") == Some("snappy"),
        file: FileId(placed.files.len()),
        entries: Vec::with_capacity(sizes.len()),
        original: original_index(checkpoint, options),
    };
    placed.files.push(OutputFile::of_unknown_length(format!("{prefix}{INDEX}")));
    if options.flag("state") {
        add_state_file(&mut placed, prefix);
    }
    placed.placements.reserve_exact(checkpoint.tensors.len());
    let mut slices = HashSet::new();
    let mut placer =
        Placer { placed: &mut placed, index: &mut index, layout: &layout, files: &files, next: 0 };
    entries.make(|group| {
        slices.extend(group.slice_keys());
        placer.place(group)
    })?;
    index.sort(&slices)?;
    placed.finish = index.into_state();
    Ok(placed)
}

/// See [`ckpt_api::Codec::finish`].
pub(crate) fn finish(placed: &OutputLayout, written: &[Written]) -> Result<Vec<Literal>> {
    PendingIndex::finish(placed, written)
}

fn naming(checkpoint: &Checkpoint, options: &Options) -> Result<Naming> {
    let names = options.text("names").unwrap_or_default();
    match Style::from_name(names) {
        Some(style) => {
            let as_layers = options.flag("activation_layers");
            let activations = if as_layers { Activations::Layers } else { Activations::Arguments };
            keras::naming(checkpoint, style, activations)
        }
        None if names == "plain" => Ok(per_tensor::plain(checkpoint)),
        None => Ok(per_tensor::stored(checkpoint)),
    }
}

/// Returns the prefix of all files' names, from the name of any of them.
fn prefix(name: &str) -> Result<&str> {
    let prefix = name.strip_suffix(INDEX).or_else(|| prefix_of_shard(name)).unwrap_or(name);
    if !prefix.is_empty() && prefix != STATE_FILE {
        return Ok(prefix);
    }
    Err(Error::usage("a TensorFlow checkpoint cannot have this name")
        .file(name)
        .expected("a prefix such as 'model', for the files model.index and model.data-00000-of-00001")
        .help(text![
            "'checkpoint' is the state file, which names the latest checkpoint of a directory; ",
            Setting::WRITE_OPTION.of("state=true"),
            " writes it"
        ]))
}

fn endian(checkpoint: &Checkpoint, options: &Options) -> Endian {
    match options.text("endian").or_else(|| checkpoint.metadata.text("tf2", "endian")) {
        Some("big") => Endian::Big,
        _ => Endian::Little,
    }
}

/// Returns the recorded index file, which differs from the one that would be written for the same entries.
fn original_index(checkpoint: &Checkpoint, options: &Options) -> Vec<u8> {
    let recorded = checkpoint.metadata.text("tf2", "index").filter(|_| options.text("compression").is_none());
    recorded.and_then(|text| BASE64_STANDARD.decode(text).ok()).unwrap_or_default()
}

/// Adds the data files and what they hold outside of tensors. Returns the number of each shard's file, if it exists.
fn add_data_files(placed: &mut OutputLayout, prefix: &str, layout: &Layout) -> Result<Vec<Option<FileId>>> {
    let shards = u32::try_from(layout.files.len()).map_err(|_| Error::usage("there are too many shards"))?;
    let mut files = Vec::with_capacity(layout.files.len());
    for (shard, len) in (0..shards).zip(&layout.files) {
        files.push(len.map(|_| FileId(placed.files.len())));
        if let Some(len) = len {
            placed.files.push(OutputFile::new(shard_name(prefix, shard, shards), *len));
        }
    }
    for (shard, offset, bytes) in &layout.filler {
        let file = files.get(*shard as usize).copied().flatten().ok_or_else(misplaced)?;
        placed.literals.push(Literal { file, offset: *offset, bytes: bytes.clone() });
    }
    Ok(files)
}

fn add_state_file(placed: &mut OutputLayout, prefix: &str) {
    let bytes = state_file::encode(prefix);
    let file = FileId(placed.files.len());
    placed.files.push(OutputFile::new(STATE_FILE, bytes.len() as u64));
    placed.literals.push(Literal { file, offset: 0, bytes });
}

/// Turns entries and their positions into placements, literals and index entries.
struct Placer<'a> {
    placed: &'a mut OutputLayout,
    index: &'a mut PendingIndex,
    layout: &'a Layout,
    files: &'a [Option<FileId>],
    /// Number of the next entry with data.
    next: usize,
}

impl Placer<'_> {
    /// Adds the entries of one tensor, or one that belongs to none.
    fn place(&mut self, group: EntryGroup) -> Result<()> {
        let EntryGroup { data, partitioned, tensor } = group;
        let end = self.next.saturating_add(data.len());
        let positions = self.layout.positions.get(self.next..end).ok_or_else(misplaced)?;
        self.next = end;
        let mut extents = Vec::with_capacity(data.len());
        extents.resize_with(data.len(), Vec::new);
        if let Some(tensor) = tensor {
            self.place_tensor(tensor, &data, positions, &mut extents)?;
        }
        for ((data, extents), position) in data.into_iter().zip(extents).zip(positions) {
            self.add(data, extents, *position)?;
        }
        if let Some(PartitionedEntry { key, mut entry, original }) = partitioned {
            // As TensorFlow does when it merges the parts of a checkpoint, each of which has its own data file.
            let of_slice = positions.first().map_or(0, |(shard, _)| *shard);
            entry.shard = original.filter(|shard| *shard < self.index.shards).unwrap_or(of_slice);
            self.index.entries.push(PendingEntry::new(key, &entry)?);
        }
        Ok(())
    }

    /// Adds a tensor's placement, and adds each of its extents to the list of the entry that contains it.
    fn place_tensor(
        &mut self,
        tensor: TensorSegments,
        data: &[DataEntry],
        positions: &[(u32, u64)],
        extents_of: &mut [Vec<ExtentRef>],
    ) -> Result<()> {
        let TensorSegments { id, name, encoding, segments } = tensor;
        let placement = number(self.placed.placements.len())?;
        let mut extents = Extents::default();
        for (extent, segment) in segments.into_iter().enumerate() {
            let data = data.get(segment.entry).ok_or_else(misplaced)?;
            let (shard, start) = *positions.get(segment.entry).ok_or_else(misplaced)?;
            let file = self.file(shard)?;
            let offset = start.checked_add(segment.offset).ok_or_else(misplaced)?;
            let is_first = segment.offset == data.head.len() as u64 && data.variants.is_none();
            let seed = if is_first { data.seed } else { 0 };
            let checksum = Some(Checksum { algorithm: ChecksumAlgorithm::Crc32c, seed, value: None });
            let extent_of = Extent::new(file, offset, segment.len).with_region(segment.region);
            extents.push(extent_of.with_checksum(checksum));
            let of_entry = extents_of.get_mut(segment.entry).ok_or_else(misplaced)?;
            of_entry.push(ExtentRef { offset, placement, extent: number(extent)? });
        }
        self.placed.placements.push(Placement::new(id, name, extents, encoding));
        Ok(())
    }

    /// Adds an index entry, and literals for the bytes of it that are known.
    fn add(
        &mut self,
        data: DataEntry,
        mut extents: Vec<ExtentRef>,
        (shard, offset): (u32, u64),
    ) -> Result<()> {
        let DataEntry { key, mut entry, head, variants, .. } = data;
        (entry.shard, entry.offset) = (shard, offset);
        let file = match self.file(shard) {
            Ok(file) => file,
            // An empty tensor needs no file.
            Err(_) if entry.size == 0 => FileId(0),
            Err(error) => return Err(error),
        };
        if !head.is_empty() {
            self.placed.literals.push(Literal { file, offset, bytes: head });
        }
        if let Some(lengths) = &variants {
            self.add_lengths(file, offset, lengths);
        }
        extents.sort_unstable_by_key(|extent| extent.offset);
        let mut pending = PendingEntry::new(key, &entry)?;
        pending.placement = extents.first().map_or(0, |extent| extent.placement);
        pending.extents = extents.iter().map(|extent| extent.extent).collect();
        if let Some(lengths) = variants {
            pending.more.get_or_insert_default().variants = Some(Variants { lengths, file, offset });
        }
        self.index.entries.push(pending);
        Ok(())
    }

    /// Adds a literal for the length before each element of a variant tensor.
    fn add_lengths(&mut self, file: FileId, mut offset: u64, lengths: &[u64]) {
        for length in lengths {
            let mut bytes = Vec::new();
            encode_varint(*length, &mut bytes);
            let after = length.saturating_add((bytes.len() + size_of::<u32>()) as u64);
            self.placed.literals.push(Literal { file, offset, bytes });
            offset = offset.saturating_add(after);
        }
    }

    fn file(&self, shard: u32) -> Result<FileId> {
        self.files.get(shard as usize).copied().flatten().ok_or_else(misplaced)
    }
}

/// An extent of a placement.
struct ExtentRef {
    offset: u64,
    placement: u32,
    extent: u32,
}

/// A number of a placement, or of one of its extents.
fn number(number: usize) -> Result<u32> {
    u32::try_from(number).map_err(|_| Error::limit("an index holds fewer than 2^32 tensors and extents"))
}

fn misplaced() -> Error {
    Error::defect("a tensor was placed outside of all data files")
}
