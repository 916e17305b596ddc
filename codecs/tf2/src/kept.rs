//! What must be remembered of a bundle so that it can be written again byte for byte: the order of the tensors, slices,
//! and all that a bundle of the same tensors would not have by itself.

use crate::bundle::{Index, Keyed};
use crate::format::{Entry, OBJECT_GRAPH, SliceExtent, shard_name};
use crate::object_graph;
use crate::ordered_code::slice_key;
use crate::slices::slice_text;
use crate::table_writer::Compression;
use crate::write::{self, MOST_FILLER, is_bounded};
use base64::prelude::{BASE64_STANDARD, Engine};
use ckpt_api::{Contents, File, Input, Limit, Limits, Result, TensorId};
use serde_json::{Value, json};
use smallvec::{SmallVec, smallvec};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes beside tensors that are looked at.
const MOST_SCANNED: u64 = 64 << 20;
const CHUNK: u64 = 64 << 10;

/// A run of bytes in a data file: shard, first byte, bytes.
type Run = (u32, u64, u64);

/// Puts the tensors, which come in the order of their entries, in the order in which their data lies, and notes what
/// would be written otherwise. Gives the tensors' new numbers in the order of their entries.
///
/// # Errors
/// [`ckpt_api::Kind::Io`], [`ckpt_api::Kind::Unsupported`].
pub(crate) fn keep(contents: &mut Contents, bundle: &Bundle) -> Result<Vec<usize>> {
    let stored = stored(contents, bundle);
    let numbers = reorder(contents, &stored);
    keep_slices(contents, &stored, bundle);
    let is_graph = |stored: &TensorId| bundle.key(*stored) == OBJECT_GRAPH.as_bytes();
    let graph = stored.iter().position(is_graph);
    if let Some(index) = graph.filter(|index| index + 1 < stored.len()) {
        contents.checkpoint.metadata.insert("tf2", "object_graph_index", index);
    }
    if let Some(bytes) = bundle.object_graph {
        keep_unknown_keys(contents, bundle.index, bytes);
    }
    let mut all: Vec<Run> = Vec::with_capacity(stored.len());
    all.extend(stored.iter().flat_map(|stored| bundle.runs(*stored)).filter(|run| run.2 > 0));
    all.sort_unstable();
    if overlap(&all) {
        contents.notes.push(
            "tensors share bytes of the data files; written as a TensorFlow checkpoint, each has its own"
                .to_owned(),
        );
        return Ok(numbers);
    }
    keep_layout(contents, &stored, &all, bundle)?;
    keep_index(contents, bundle)?;
    Ok(numbers)
}

/// What was read.
pub(crate) struct Bundle<'a> {
    /// The input.
    pub(crate) input: &'a Input,
    /// What the names of its data files begin with.
    pub(crate) prefix: &'a str,
    /// The index file.
    pub(crate) file: &'a File,
    /// What it says.
    pub(crate) index: &'a Index,
    /// The entries of tensors, in the order of the placements.
    pub(crate) entries: &'a [&'a Keyed],
    /// The object graph, where it has one.
    pub(crate) object_graph: Option<&'a [u8]>,
    /// Bounds.
    pub(crate) limits: &'a Limits,
}

impl<'a> Bundle<'a> {
    /// The key of a tensor, by its number in the order of the entries.
    fn key(&self, id: TensorId) -> &'a [u8] {
        self.entries.get(id.0).map(|(key, _)| &key[..]).unwrap_or_default()
    }

    fn slices(&self, id: TensorId) -> &'a [Vec<SliceExtent>] {
        self.entries.get(id.0).map(|(_, entry)| &entry.slices[..]).unwrap_or_default()
    }

    /// Where a tensor's bytes lie: one run, unless it is stored in slices.
    fn runs(&self, id: TensorId) -> SmallVec<[Run; 1]> {
        let Some((key, entry)) = self.entries.get(id.0) else { return smallvec![] };
        let run = |entry: &Entry| (entry.shard, entry.offset, entry.size);
        if entry.slices.is_empty() {
            return smallvec![run(entry)];
        }
        let find = |slice: &Vec<_>| self.index.find(&slice_key(key, slice));
        let found = entry.slices.iter().filter_map(|slice| self.index.entries.get(find(slice)?));
        found.map(|(_, entry)| run(entry)).collect()
    }
}

/// The tensors' numbers in the order of the entries, in the order in which their data lies; those that begin at one place
/// in the order of their keys.
fn stored(contents: &Contents, bundle: &Bundle) -> Vec<TensorId> {
    // What has no bytes lies before what begins at the same offset.
    let first = |id| bundle.runs(id).iter().map(|(shard, offset, size)| (*shard, *offset, *size > 0)).min();
    let place = |id: &TensorId| (first(*id), id.0);
    let mut stored: Vec<TensorId> = contents.placements.iter().map(|placement| placement.tensor).collect();
    // Usually they are in order: nothing is held for it then.
    if !stored.is_sorted_by_key(place) {
        stored.sort_by_cached_key(place);
    }
    stored
}

/// Gives each tensor's new number.
fn reorder(contents: &mut Contents, stored: &[TensorId]) -> Vec<usize> {
    let mut numbers = vec![0; stored.len()];
    for (position, stored) in stored.iter().enumerate() {
        if let Some(number) = numbers.get_mut(stored.0) {
            *number = position;
        }
    }
    if numbers.is_sorted() {
        return numbers;
    }
    // In place: there can be many, and each takes hundreds of bytes.
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

fn keep_slices(contents: &mut Contents, stored: &[TensorId], bundle: &Bundle) {
    for (tensor, stored) in contents.checkpoint.tensors.iter_mut().zip(stored) {
        let slices = bundle.slices(*stored);
        if !slices.is_empty() {
            let slices: Vec<String> = slices.iter().map(|slice| slice_text(slice)).collect();
            tensor.metadata.insert("tf2", "slices", slices);
        }
    }
}

/// What the graph names although the index has it not: it is not because of a change that it is missing.
fn keep_unknown_keys(contents: &mut Contents, index: &Index, graph: &[u8]) {
    let mut unknown = BTreeSet::new();
    object_graph::prune(graph, |key| {
        if index.find(key).is_none() {
            unknown.insert(String::from_utf8_lossy(key).into_owned());
        }
        true
    });
    if !unknown.is_empty() {
        contents.checkpoint.metadata.insert("tf2", "unknown_keys", Value::from_iter(unknown));
    }
}

fn overlap(sorted: &[Run]) -> bool {
    sorted.windows(2).any(|pair| match pair {
        [(shard, offset, size), (next, start, _)] => shard == next && offset.saturating_add(*size) > *start,
        _ => false,
    })
}

/// Notes where data lies, unless it lies densely in one file.
fn keep_layout(contents: &mut Contents, stored: &[TensorId], all: &[Run], bundle: &Bundle) -> Result<()> {
    let shards = bundle.index.header.shards;
    // Else a few bytes that claim many files would have each of them looked for.
    let most = (stored.len() as u64).saturating_mul(4).max(64);
    if u64::from(shards) > most.min(bundle.limits.get(Limit::Files)) {
        contents.notes.push(format!(
            "the index counts {shards} data files, most of which hold nothing; written as a TensorFlow checkpoint, \
             they are left out"
        ));
        return Ok(());
    }
    let mut end = (0, 0);
    let mut apart = Vec::new();
    for (position, stored) in stored.iter().enumerate() {
        let mut dense = true;
        for (shard, offset, size) in bundle.runs(*stored) {
            dense &= end == (shard, offset);
            end = (shard, offset.saturating_add(size));
        }
        if !dense {
            apart.push(position);
        }
    }
    let files = file_lengths(bundle, all)?;
    let bytes = all.iter().fold(0u64, |sum, run| sum.saturating_add(run.2));
    if apart.is_empty() && files == [Some(bytes)] {
        return Ok(());
    }
    let in_files = files.iter().flatten().fold(0u64, |sum, len| sum.saturating_add(*len));
    if !is_bounded(in_files, bytes) {
        contents.notes.push(format!(
            "{} bytes of the data files belong to no tensor; written as a TensorFlow checkpoint, they are left out",
            in_files.saturating_sub(bytes)
        ));
        return Ok(());
    }
    let mut layout = json!({ "files": files, "bytes": bytes });
    let filler = filler(contents, bundle, all, &files)?;
    if !filler.is_empty() {
        layout["filler"] = filler.into();
    }
    for position in apart {
        let Some(stored) = stored.get(position) else { continue };
        let runs = bundle.runs(*stored);
        let at: Vec<Value> = runs.iter().map(|(shard, offset, _)| json!([shard, offset])).collect();
        if let (true, [at]) = (bundle.key(*stored) == OBJECT_GRAPH.as_bytes(), &at[..]) {
            layout["object_graph"] = at.clone();
        }
        if let Some(tensor) = contents.checkpoint.tensors.get_mut(position) {
            tensor.metadata.insert("tf2", "at", at);
        }
    }
    contents.checkpoint.metadata.insert("tf2", "layout", layout);
    Ok(())
}

/// Bytes of every data file; `None` for one that is missing and holds nothing. One that is missing and holds something
/// ends with that.
fn file_lengths(bundle: &Bundle, all: &[Run]) -> Result<Vec<Option<u64>>> {
    let shards = bundle.index.header.shards;
    let ends: BTreeMap<u32, u64> =
        all.iter().map(|(shard, offset, size)| (*shard, offset.saturating_add(*size))).collect();
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

/// What lies beside tensors, where that is not zero.
fn filler(
    contents: &mut Contents,
    bundle: &Bundle,
    all: &[Run],
    files: &[Option<u64>],
) -> Result<Vec<Value>> {
    let (mut found, mut kept, mut scanned, mut lost) = (Vec::new(), 0, 0, 0);
    for (shard, start, end) in gaps(all, files) {
        let name = shard_name(bundle.prefix, shard, bundle.index.header.shards);
        if !bundle.input.has_file(&name) {
            continue;
        }
        let file = bundle.input.file(&name)?;
        let mut at = start;
        while at < end {
            let len = (end - at).min(CHUNK);
            if scanned + len > MOST_SCANNED {
                lost += end - at;
                break;
            }
            scanned += len;
            let bytes = file.bytes(at, len)?;
            if bytes.iter().any(|byte| *byte != 0) {
                kept += len;
                if kept > MOST_FILLER {
                    lost += len;
                } else {
                    found.push(json!([shard, at, BASE64_STANDARD.encode(&bytes)]));
                }
            }
            at += len;
        }
    }
    if lost > 0 {
        contents.notes.push(format!(
            "{lost} bytes of the data files belong to no tensor; written as a TensorFlow checkpoint, they are zeros"
        ));
    }
    Ok(found)
}

/// The runs of bytes that no tensor has: shard, first byte, end.
fn gaps(all: &[Run], files: &[Option<u64>]) -> Vec<Run> {
    let mut gaps = Vec::new();
    let mut runs = all.iter().peekable();
    for (shard, len) in (0u32..).zip(files) {
        let mut end = 0;
        while let Some((_, offset, size)) = runs.next_if(|run| run.0 == shard) {
            if *offset > end {
                gaps.push((shard, end, *offset));
            }
            end = offset.saturating_add(*size);
        }
        if let Some(len) = len.filter(|len| *len > end) {
            gaps.push((shard, end, len));
        }
    }
    // A data file can be shorter than its index says.
    let len = |shard: u32| files.get(shard as usize).copied().flatten().unwrap_or(0);
    gaps.retain(|(shard, _, end)| *end <= len(*shard));
    gaps
}

/// Keeps an index that would not be written so.
fn keep_index(contents: &mut Contents, bundle: &Bundle) -> Result<()> {
    let Bundle { file, index, limits, .. } = bundle;
    if !index.repairs.is_empty() || is_as_written(file, index)? {
        return Ok(());
    }
    if limits.check(Limit::HeaderBytes, file.len()).is_err() {
        contents.notes.push("the index is too long to be kept; it is written anew".to_owned());
        return Ok(());
    }
    let bytes = file.bytes(0, file.len())?;
    contents.checkpoint.metadata.insert("tf2", "index", BASE64_STANDARD.encode(&bytes));
    Ok(())
}

/// Whether the file has the bytes that would be written for what it says; compared block by block.
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
    let mut table = write::index(index.header.shards, index.header.endian, Compression::None);
    let mut value = Vec::new();
    for (key, entry) in &index.entries {
        value.clear();
        entry.encode(&mut value)?;
        table.add(key, &value);
        if !is_next(table.made())? {
            return Ok(false);
        }
        table.clear_made();
    }
    Ok(is_next(&table.finish())? && at == file.len())
}
