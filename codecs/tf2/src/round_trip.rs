//! Records, as metadata, what a byte-identical round trip needs.
//!
//! That is what TensorFlow would not write again for the same tensors in the same order: slices, data that is not dense
//! in one file, bytes that belong to no tensor, an index with other blocks.

use crate::format::{Entry, OBJECT_GRAPH, SliceExtent, joins_slices, shard_name};
use crate::index::{Index, KeyedEntry};
use crate::object_graph;
use crate::ordered_code::slice_key;
use crate::slices::slice_text;
use crate::table_writer::{Compression, TableWriter};
use base64::prelude::{BASE64_STANDARD, Engine};
use ckpt_api::{Contents, File, Input, Limit, Limits, MetadataMap, MetadataValue, Result, TensorId};
use smallvec::{SmallVec, smallvec};
use std::collections::{BTreeMap, BTreeSet};

/// Metadata key of a partitioned tensor whose own entry has another data file than its first slice.
pub(crate) const WHOLE_SHARD: &str = "whole_shard";
/// Metadata key of the dtype of a partitioned tensor whose slices TensorFlow does not join.
pub(crate) const SLICES_DTYPE: &str = "slices_dtype";
/// Limit on the bytes outside of tensors that are recorded.
pub(crate) const MAX_FILLER: u64 = 64 << 10;
/// A recorded layout may have this many bytes outside of tensors, or as many as the tensors have.
const MAX_GAPS: u64 = 64 << 20;
/// Limit on the bytes outside of tensors that are read.
const MAX_SCANNED: u64 = 64 << 20;
const CHUNK: u64 = 64 << 10;

/// A range of a data file: shard, offset, length in bytes.
type ShardRange = (u32, u64, u64);

/// Sorts the tensors, which are in the order of their entries, by where their data is, and records how the checkpoint
/// is stored. Returns the new number of each entry's tensor.
///
/// # Errors
/// [`ckpt_api::Kind::Io`], [`ckpt_api::Kind::Unsupported`].
pub(crate) fn record(contents: &mut Contents, bundle: &ReadBundle) -> Result<Vec<usize>> {
    let by_offset = entries_by_offset(contents, bundle);
    let numbers = reorder(contents, &by_offset);
    record_slices(contents, &by_offset, bundle);
    let is_graph = |entry: &TensorId| bundle.key(*entry) == OBJECT_GRAPH.as_bytes();
    let graph = by_offset.iter().position(is_graph);
    if let Some(index) = graph.filter(|index| index + 1 < by_offset.len()) {
        contents.checkpoint.metadata.insert(
            "tf2",
            "object_graph_index",
            MetadataValue::integer(index as u64),
        );
    }
    if let Some(bytes) = bundle.object_graph {
        record_unknown_keys(contents, bundle.index, bytes);
    }
    let mut ranges: Vec<ShardRange> = Vec::with_capacity(by_offset.len());
    ranges.extend(by_offset.iter().flat_map(|entry| bundle.ranges(*entry)).filter(|range| range.2 > 0));
    ranges.sort_unstable();
    if overlap(&ranges) {
        contents.notes.push(
            "tensors share bytes of the data files; a TensorFlow checkpoint written from them has separate bytes for each"
                .into(),
        );
        return Ok(numbers);
    }
    record_layout(contents, &by_offset, &ranges, bundle)?;
    record_index(contents, bundle)?;
    Ok(numbers)
}

/// Whether a recorded layout with `tensors` bytes of tensors may have data files of `files` bytes. The writer reads the
/// record from metadata, where a few bytes could request a full disk.
pub(crate) fn is_bounded(files: u64, tensors: u64) -> bool {
    files <= tensors.saturating_add(tensors.max(MAX_GAPS))
}

/// A bundle that was read.
pub(crate) struct ReadBundle<'a> {
    /// The input.
    pub(crate) input: &'a Input,
    /// Prefix of the names of the data files.
    pub(crate) prefix: &'a str,
    /// The index file.
    pub(crate) file: &'a File,
    /// Contents of the index file.
    pub(crate) index: &'a Index,
    /// Entries of tensors, in the order of the placements.
    pub(crate) entries: &'a [&'a KeyedEntry],
    /// The serialized object graph, if there is one.
    pub(crate) object_graph: Option<&'a [u8]>,
    /// Limits.
    pub(crate) limits: &'a Limits,
}

impl<'a> ReadBundle<'a> {
    /// Returns the key of a tensor by the number of its entry.
    fn key(&self, id: TensorId) -> &'a [u8] {
        self.entries.get(id.0).map(|(key, _)| &key[..]).unwrap_or_default()
    }

    fn slices(&self, id: TensorId) -> &'a [Vec<SliceExtent>] {
        self.entries.get(id.0).map(|(_, entry)| &entry.slices[..]).unwrap_or_default()
    }

    /// Returns where a tensor's bytes are: one range, or one for each slice.
    fn ranges(&self, id: TensorId) -> SmallVec<[ShardRange; 1]> {
        let Some((key, entry)) = self.entries.get(id.0) else { return smallvec![] };
        let range = |entry: &Entry| (entry.shard, entry.offset, entry.size);
        if entry.slices.is_empty() {
            return smallvec![range(entry)];
        }
        let find = |slice: &Vec<_>| self.index.find(&slice_key(key, slice));
        let found = entry.slices.iter().filter_map(|slice| self.index.entries.get(find(slice)?));
        found.map(|(_, entry)| range(entry)).collect()
    }
}

/// Returns the numbers of the entries, sorted by the offset of their data, and by key where offsets are equal.
fn entries_by_offset(contents: &Contents, bundle: &ReadBundle) -> Vec<TensorId> {
    // A tensor without bytes comes before one that starts at the same offset.
    let first = |id| bundle.ranges(id).iter().map(|(shard, offset, size)| (*shard, *offset, *size > 0)).min();
    let sort_key = |id: &TensorId| (first(*id), id.0);
    let mut entries: Vec<TensorId> = contents.placements.iter().map(|placement| placement.tensor).collect();
    // They usually are sorted, and need no memory for the sort keys then.
    if !entries.is_sorted_by_key(sort_key) {
        entries.sort_by_cached_key(sort_key);
    }
    entries
}

/// Puts the tensors in this order. Returns the new number of each entry's tensor.
fn reorder(contents: &mut Contents, order: &[TensorId]) -> Vec<usize> {
    let mut numbers = vec![0; order.len()];
    for (position, entry) in order.iter().enumerate() {
        if let Some(number) = numbers.get_mut(entry.0) {
            *number = position;
        }
    }
    if numbers.is_sorted() {
        return numbers;
    }
    // In place, because there can be many tensors, and each takes hundreds of bytes.
    let mut left = numbers.clone();
    for position in 0..left.len() {
        while let Some(to) = left.get(position).copied().filter(|to| *to != position) {
            contents.checkpoint.tensors.swap(position, to);
            contents.placements.swap(position, to);
            left.swap(position, to);
        }
    }
    for (position, placement) in contents.placements.iter_mut().enumerate() {
        placement.tensor = TensorId(position);
    }
    numbers
}

fn record_slices(contents: &mut Contents, by_offset: &[TensorId], bundle: &ReadBundle) {
    for (tensor, entry) in contents.checkpoint.tensors.iter_mut().zip(by_offset) {
        let slices = bundle.slices(*entry);
        if !slices.is_empty() {
            let slices: Vec<String> = slices.iter().map(|slice| slice_text(slice)).collect();
            tensor.metadata.insert("tf2", "slices", slices);
            if !joins_slices(tensor.dtype) {
                tensor.metadata.insert("tf2", SLICES_DTYPE, tensor.dtype.name());
            }
            let whole = bundle.entries.get(entry.0).map(|(_, whole)| whole.shard);
            let first = bundle.ranges(*entry).first().map(|(shard, ..)| *shard);
            if let Some(shard) = whole.filter(|shard| Some(*shard) != first) {
                tensor.metadata.insert("tf2", WHOLE_SHARD, MetadataValue::integer(shard.into()));
            }
        }
    }
}

/// Records the keys that the object graph names and the index lacks: the writer must not drop them as removed tensors.
fn record_unknown_keys(contents: &mut Contents, index: &Index, graph: &[u8]) {
    let mut unknown = BTreeSet::new();
    object_graph::prune(graph, |key| {
        if index.find(key).is_none() {
            unknown.insert(String::from_utf8_lossy(key).into_owned());
        }
        true
    });
    if !unknown.is_empty() {
        contents.checkpoint.metadata.insert("tf2", "unknown_keys", Vec::from_iter(unknown));
    }
}

fn overlap(sorted: &[ShardRange]) -> bool {
    sorted.windows(2).any(|pair| match pair {
        [(shard, offset, size), (next, start, _)] => shard == next && offset.saturating_add(*size) > *start,
        _ => false,
    })
}

/// Records where the data is, unless it is dense in one file.
fn record_layout(
    contents: &mut Contents,
    by_offset: &[TensorId],
    ranges: &[ShardRange],
    bundle: &ReadBundle,
) -> Result<()> {
    let shards = bundle.index.header.shards;
    // A few bytes can claim many files, and each would be looked for.
    let most = (by_offset.len() as u64).saturating_mul(4).max(64);
    if u64::from(shards) > most.min(bundle.limits.get(Limit::Files)) {
        contents.notes.push(format!(
            "the index counts {shards} data files, most of them empty; a TensorFlow checkpoint written from this one omits \
             the empty files"
        ).into());
        return Ok(());
    }
    let scattered = scattered(by_offset, bundle);
    let files = file_lengths(bundle, ranges)?;
    let bytes = ranges.iter().fold(0u64, |sum, range| sum.saturating_add(range.2));
    if scattered.is_empty() && files == [Some(bytes)] {
        return Ok(());
    }
    let in_files = files.iter().flatten().fold(0u64, |sum, len| sum.saturating_add(*len));
    if !is_bounded(in_files, bytes) {
        contents.notes.push(format!(
            "{} bytes of the data files belong to no tensor; a TensorFlow checkpoint written from this one omits them",
            in_files.saturating_sub(bytes)
        ).into());
        return Ok(());
    }
    let files_recorded: Vec<_> = files.iter().map(|len| len.map(MetadataValue::integer)).collect();
    let mut layout = MetadataMap::new();
    layout.insert("bytes", MetadataValue::integer(bytes));
    layout.insert("files", files_recorded);
    let filler = filler(contents, bundle, ranges, &files)?;
    if !filler.is_empty() {
        layout.insert("filler", filler);
    }
    for position in scattered {
        let Some(entry) = by_offset.get(position) else { continue };
        let ranges = bundle.ranges(*entry);
        let at = ranges.iter().map(|(shard, offset, _)| MetadataValue::integers([(*shard).into(), *offset]));
        let at: Vec<MetadataValue> = at.collect();
        if let (true, [at]) = (bundle.key(*entry) == OBJECT_GRAPH.as_bytes(), &at[..]) {
            layout.insert("object_graph", at.clone());
        }
        if let Some(tensor) = contents.checkpoint.tensors.get_mut(position) {
            tensor.metadata.insert("tf2", "at", at);
        }
    }
    contents.checkpoint.metadata.insert("tf2", "layout", layout);
    Ok(())
}

/// Returns the positions of the tensors that do not start where the tensor before ends.
fn scattered(by_offset: &[TensorId], bundle: &ReadBundle) -> Vec<usize> {
    let mut end = (0, 0);
    let mut scattered = Vec::new();
    for (position, entry) in by_offset.iter().enumerate() {
        let mut is_dense = true;
        for (shard, offset, size) in bundle.ranges(*entry) {
            is_dense &= end == (shard, offset);
            end = (shard, offset.saturating_add(size));
        }
        if !is_dense {
            scattered.push(position);
        }
    }
    scattered
}

/// Returns the length of each data file in bytes. A missing file is assumed to end with its last tensor, and is `None`
/// if it holds no tensor.
fn file_lengths(bundle: &ReadBundle, ranges: &[ShardRange]) -> Result<Vec<Option<u64>>> {
    let shards = bundle.index.header.shards;
    let ends: BTreeMap<u32, u64> =
        ranges.iter().map(|(shard, offset, size)| (*shard, offset.saturating_add(*size))).collect();
    let mut files = Vec::new();
    for shard in 0..shards {
        let name = shard_name(bundle.prefix, shard, shards);
        files.push(match bundle.input.has_file(&name) {
            true => Some(bundle.input.file(&name)?.len()),
            false => ends.get(&shard).copied(),
        });
    }
    Ok(files)
}

/// Reads the bytes that belong to no tensor, and returns the chunks that are not all zeros.
fn filler(
    contents: &mut Contents,
    bundle: &ReadBundle,
    ranges: &[ShardRange],
    files: &[Option<u64>],
) -> Result<Vec<MetadataValue>> {
    let (mut chunks, mut kept, mut scanned, mut lost) = (Vec::new(), 0, 0, 0);
    for (shard, start, end) in gaps(ranges, files) {
        let name = shard_name(bundle.prefix, shard, bundle.index.header.shards);
        if !bundle.input.has_file(&name) {
            continue;
        }
        let file = bundle.input.file(&name)?;
        let mut at = start;
        while at < end {
            let len = (end - at).min(CHUNK);
            if scanned + len > MAX_SCANNED {
                lost += end - at;
                break;
            }
            scanned += len;
            let bytes = file.bytes(at, len)?;
            if bytes.iter().any(|byte| *byte != 0) {
                kept += len;
                if kept > MAX_FILLER {
                    lost += len;
                } else {
                    let (shard, at) = (MetadataValue::integer(shard.into()), MetadataValue::integer(at));
                    chunks.push([shard, at, BASE64_STANDARD.encode(&bytes).into()].into());
                }
            }
            at += len;
        }
    }
    if lost > 0 {
        contents.notes.push(format!(
            "{lost} bytes of the data files belong to no tensor; a TensorFlow checkpoint written from this one has zeros instead"
        ).into());
    }
    Ok(chunks)
}

/// Returns the ranges that belong to no tensor: shard, offset, end.
fn gaps(ranges: &[ShardRange], files: &[Option<u64>]) -> Vec<(u32, u64, u64)> {
    let mut gaps = Vec::new();
    let mut ranges = ranges.iter().peekable();
    for (shard, len) in (0u32..).zip(files) {
        let mut end = 0;
        while let Some((_, offset, size)) = ranges.next_if(|range| range.0 == shard) {
            if *offset > end {
                gaps.push((shard, end, *offset));
            }
            end = offset.saturating_add(*size);
        }
        if let Some(len) = len.filter(|len| *len > end) {
            gaps.push((shard, end, len));
        }
    }
    // A data file can be shorter than the index says.
    let len = |shard: u32| files.get(shard as usize).copied().flatten().unwrap_or(0);
    gaps.retain(|(shard, _, end)| *end <= len(*shard));
    gaps
}

/// Records an index file that would be written differently.
fn record_index(contents: &mut Contents, bundle: &ReadBundle) -> Result<()> {
    let ReadBundle { file, index, limits, .. } = bundle;
    if !index.repairs.is_empty() || is_as_written(file, index)? {
        return Ok(());
    }
    if limits.check(Limit::HeaderBytes, file.len()).is_err() {
        contents.notes.push(
            "the index is too large to be kept in the metadata; a TensorFlow checkpoint written from this one has a new \
             index"
                .into(),
        );
        return Ok(());
    }
    let bytes = file.bytes(0, file.len())?;
    contents.checkpoint.metadata.insert("tf2", "index", BASE64_STANDARD.encode(&bytes));
    Ok(())
}

/// Whether writing the entries again gives the bytes of the file. The two are compared block by block.
fn is_as_written(file: &File, index: &Index) -> Result<bool> {
    let (mut at, mut stored) = (0, vec![0; CHUNK as usize]);
    let mut is_next = |bytes: &[u8]| -> Result<bool> {
        for bytes in bytes.chunks(CHUNK as usize) {
            let Some(stored) = stored.get_mut(..bytes.len()) else { return Ok(false) };
            if at + bytes.len() as u64 > file.len() {
                return Ok(false);
            }
            file.read_at(at, stored)?;
            if stored != bytes {
                return Ok(false);
            }
            at += bytes.len() as u64;
        }
        Ok(true)
    };
    let mut table = TableWriter::of_index(index.header.shards, index.header.endian, Compression::None);
    let mut value = Vec::new();
    for (key, entry) in &index.entries {
        value.clear();
        entry.encode(&mut value)?;
        table.add(key, &value);
        if !is_next(table.finished())? {
            return Ok(false);
        }
        table.discard_finished();
    }
    Ok(is_next(&table.finish())? && at == file.len())
}
