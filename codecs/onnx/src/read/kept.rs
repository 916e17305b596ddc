//! The structure of a model without the bytes of its tensors, which metadata keeps so that an unmodified model comes
//! back.

use crate::format::message::{Chunk, Model, Tensor};
use crate::format::{NAMESPACE, is_packed};
use crate::read::graph::pieces::elements;
use crate::read::initializers::tensors;
use ckpt_api::{File, Metadata, MetadataValue, ReadAt, Result};
use ckpt_containers::protobuf::put_len;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::ops::Range;

/// Key of the structure: the model's bytes without those of its tensors.
const KEY_MODEL: &str = "model";
/// Key of the places of tensors' bytes: offset in the model and length, one after the other.
const KEY_DATA: &str = "data";
/// Key of the elements of small tensors by the offset of their bytes: the graph is read with them.
const KEY_SMALL: &str = "small";
/// Bytes that are copied at a time.
const PART: u64 = 1 << 20;
/// The field of a graph's initializers, and that of a tensor's bytes.
const INITIALIZER: u64 = 5;
const RAW_DATA: u64 = 9;
/// The field of a model's graph.
const GRAPH: u64 = 7;

/// A model's bytes, of which those of tensors are zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct Structure {
    /// The bytes between those of tensors.
    pub(crate) bytes: Vec<u8>,
    /// Where in the model the bytes of tensors are, in ascending order.
    pub(crate) data: Vec<Range<u64>>,
    /// Elements of small tensors by the offset of their bytes.
    small: BTreeMap<u64, Vec<u8>>,
}

/// Keeps the structure of a model in its metadata.
pub(crate) fn keep(metadata: &mut Metadata, file: &File, model: &Model) -> Result<()> {
    let structure = Structure::of(file, model)?;
    let numbers =
        structure.data.iter().flat_map(|range| [range.start, range.end.saturating_sub(range.start)]);
    metadata.insert(NAMESPACE, KEY_DATA, MetadataValue::integers(numbers));
    metadata.insert(NAMESPACE, KEY_MODEL, MetadataValue::Bytes(structure.bytes));
    if !structure.small.is_empty() {
        let small = structure
            .small
            .into_iter()
            .map(|(offset, bytes)| (offset.to_string(), MetadataValue::Bytes(bytes)));
        metadata.insert(NAMESPACE, KEY_SMALL, MetadataValue::Map(small.collect()));
    }
    Ok(())
}

impl Structure {
    /// A structure without elements of small tensors.
    pub(crate) fn new(bytes: Vec<u8>, data: Vec<Range<u64>>) -> Self {
        Structure { bytes, data, small: BTreeMap::new() }
    }

    /// The structure that metadata keeps, if it does.
    pub(crate) fn kept(metadata: &Metadata) -> Option<Self> {
        let MetadataValue::Bytes(bytes) = metadata.value(NAMESPACE, KEY_MODEL)? else { return None };
        let MetadataValue::List(numbers) = metadata.value(NAMESPACE, KEY_DATA)? else { return None };
        let mut structure = Structure::new(bytes.clone(), Vec::with_capacity(numbers.len() / 2));
        let small = metadata.value(NAMESPACE, KEY_SMALL).and_then(MetadataValue::as_map);
        for (offset, value) in small.into_iter().flat_map(|small| small.iter()) {
            let MetadataValue::Bytes(bytes) = value else { return None };
            structure.small.insert(offset.parse().ok()?, bytes.clone());
        }
        let mut end = 0;
        for pair in numbers.chunks(2) {
            let [offset, len] = pair else { return None };
            let (offset, len) = (offset.as_u64()?, len.as_u64()?);
            (offset >= end).then_some(())?;
            end = offset.checked_add(len)?;
            structure.data.push(offset..end);
        }
        structure.len().filter(|len| *len >= end).map(|_| structure)
    }

    /// The structure of a model in a file. A tensor whose numbers are not stored as they are in memory gets its bytes
    /// in `raw_data` in place of them.
    fn of(file: &File, model: &Model) -> Result<Self> {
        let edits = edits(file, model);
        let mut structure = Structure::default();
        // The only large buffer, which never has to grow.
        let data = edits.iter().map(|edit| edit.cut.end.saturating_sub(edit.cut.start));
        let replaced = edits.iter().map(|edit| edit.bytes.len() as u64);
        let len = file.len().saturating_sub(data.sum()).saturating_add(replaced.sum());
        structure.bytes.reserve_exact(usize::try_from(len).unwrap_or(0));
        let (mut at, mut position) = (0, 0u64);
        for edit in edits {
            position = position.saturating_add(edit.cut.start.saturating_sub(at));
            append(file, at..edit.cut.start, &mut structure.bytes)?;
            structure.bytes.extend_from_slice(&edit.bytes);
            position = position.saturating_add(edit.bytes.len() as u64);
            if edit.data > 0 {
                let end = position.saturating_add(edit.data);
                structure.data.push(position..end);
                if let Some(small) = edit.small.filter(|small| small.len() as u64 == edit.data) {
                    structure.small.insert(position, small);
                }
                position = end;
            }
            at = edit.cut.end;
        }
        append(file, at..file.len(), &mut structure.bytes)?;
        Ok(structure)
    }

    /// The same with ranges of the model replaced, which are sorted and hold no bytes of tensors; `None` if one does.
    pub(crate) fn edited(&self, edits: &[(Range<u64>, Vec<u8>)]) -> Option<Self> {
        let mut edited = Structure::default();
        let mut left = edits;
        for (start, bytes) in self.literals() {
            let (end, mut at) = (start.checked_add(bytes.len() as u64)?, start);
            let part = |from: u64, to: u64| {
                let range = usize::try_from(from.checked_sub(start)?).ok()?
                    ..usize::try_from(to.checked_sub(start)?).ok()?;
                bytes.get(range)
            };
            while let Some(((cut, new), rest)) = left.split_first().filter(|((cut, _), _)| cut.start < end) {
                edited.bytes.extend_from_slice(part(at, cut.start)?);
                edited.bytes.extend_from_slice(new);
                (at, left) = (cut.end, rest);
            }
            edited.bytes.extend_from_slice(part(at, end)?);
        }
        let (mut added, mut removed, mut before) = (0u64, 0u64, edits.iter().peekable());
        for range in &self.data {
            while let Some((cut, new)) = before.next_if(|(cut, _)| cut.end <= range.start) {
                added = added.checked_add(new.len() as u64)?;
                removed = removed.checked_add(cut.end.checked_sub(cut.start)?)?;
            }
            let moved = |at: u64| at.checked_add(added)?.checked_sub(removed);
            edited.data.push(moved(range.start)?..moved(range.end)?);
            if let Some(small) = self.small.get(&range.start) {
                edited.small.insert(moved(range.start)?, small.clone());
            }
        }
        left.is_empty().then_some(edited)
    }

    /// Bytes of the model.
    pub(crate) fn len(&self) -> Option<u64> {
        let data = self
            .data
            .iter()
            .try_fold(0u64, |sum, range| sum.checked_add(range.end.checked_sub(range.start)?));
        data?.checked_add(self.bytes.len() as u64)
    }

    /// The bytes between those of tensors, with their offsets in the model.
    pub(crate) fn literals(&self) -> Vec<(u64, &[u8])> {
        let mut literals = Vec::with_capacity(self.data.len() + 1);
        let (mut at, mut rest) = (0, &self.bytes[..]);
        for range in &self.data {
            let len = usize::try_from(range.start.saturating_sub(at)).unwrap_or(usize::MAX).min(rest.len());
            let (before, after) = rest.split_at(len);
            if !before.is_empty() {
                literals.push((at, before));
            }
            (at, rest) = (range.end, after);
        }
        if !rest.is_empty() {
            literals.push((at, rest));
        }
        literals
    }
}

/// The model as a file.
impl ReadAt for Structure {
    fn size(&self) -> io::Result<u64> {
        self.len().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.size()?.saturating_sub(offset).min(buffer.len() as u64);
        let wanted = buffer.split_at_mut(usize::try_from(len).unwrap_or(0)).0;
        wanted.fill(0);
        let stop = offset.saturating_add(len);
        let first = self.data.partition_point(|range| range.end <= offset);
        // Bytes of tensors before the offset.
        let before = self.data.get(..first).unwrap_or_default();
        let mut hidden: u64 = before.iter().map(|range| range.end.saturating_sub(range.start)).sum();
        let mut at = offset;
        for range in self
            .data
            .get(first..)
            .unwrap_or_default()
            .iter()
            .cloned()
            .chain(std::iter::once(u64::MAX..u64::MAX))
        {
            let end = range.start.min(stop);
            if at < end {
                let source = usize::try_from(at.saturating_sub(hidden)).unwrap_or(usize::MAX);
                let target = usize::try_from(at.saturating_sub(offset)).unwrap_or(usize::MAX);
                let count = usize::try_from(end.saturating_sub(at)).unwrap_or(0);
                let from = self.bytes.get(source..).and_then(|rest| rest.get(..count));
                let to = wanted.get_mut(target..).and_then(|rest| rest.get_mut(..count));
                if let (Some(to), Some(from)) = (to, from) {
                    to.copy_from_slice(from);
                }
            }
            if range.start >= stop {
                break;
            }
            if let Some(small) = self.small.get(&range.start) {
                fill(wanted, offset, range.start, small);
            }
            hidden = hidden.saturating_add(range.end.saturating_sub(range.start));
            at = at.max(range.end);
        }
        Ok(wanted.len())
    }
}

/// Appends a range of a file, a part at a time.
fn append(file: &File, range: Range<u64>, to: &mut Vec<u8>) -> Result<()> {
    let mut at = range.start;
    while at < range.end {
        let len = range.end.saturating_sub(at).min(PART);
        to.extend_from_slice(&file.bytes(at, len)?);
        at = at.saturating_add(len);
    }
    Ok(())
}

/// Copies bytes that begin at `at` to a buffer that begins at `offset`, as far as they reach into it.
fn fill(buffer: &mut [u8], offset: u64, at: u64, bytes: &[u8]) {
    for (place, byte) in (at..).zip(bytes) {
        let to = place.checked_sub(offset).and_then(|to| buffer.get_mut(usize::try_from(to).ok()?));
        if let Some(to) = to {
            *to = *byte;
        }
    }
}

/// Bytes of a file that others replace: some bytes, and then those of a tensor.
struct Edit {
    cut: Range<u64>,
    bytes: Vec<u8>,
    data: u64,
    /// The elements, if the tensor is small.
    small: Option<Vec<u8>>,
}

impl Edit {
    fn new(cut: Range<u64>, bytes: Vec<u8>) -> Self {
        Edit { cut, bytes, data: 0, small: None }
    }

    fn with_data(self, len: u64, small: Option<Vec<u8>>) -> Self {
        Edit { data: len, small, ..self }
    }
}

fn edits(file: &File, model: &Model) -> Vec<Edit> {
    let Some(graph) = &model.graph else { return Vec::new() };
    let (mut edits, mut added, mut removed) = (Vec::new(), 0u64, 0u64);
    let mut seen = HashSet::new();
    for (tensor, _) in tensors(graph).into_iter().filter(|(tensor, _)| seen.insert(tensor.span.start)) {
        match rewritten(file, tensor) {
            Some((own, new)) => {
                added = added.saturating_add(new);
                removed = removed.saturating_add(tensor.span.end.saturating_sub(tensor.span.start));
                edits.extend(own);
            }
            None => {
                let ranges = tensor.raw.iter().chain(tensor.typed.iter().map(|chunk| &chunk.range));
                let small = elements(file, tensor);
                edits.extend(ranges.map(|range| {
                    let len = range.end.saturating_sub(range.start);
                    Edit::new(range.clone(), Vec::new()).with_data(len, small.clone())
                }));
            }
        }
    }
    if added > 0 {
        let body = graph.body.end.saturating_sub(graph.body.start);
        let body = body.saturating_add(added).saturating_sub(removed);
        let mut bytes = Vec::new();
        put_len(&mut bytes, GRAPH, body);
        edits.push(Edit::new(graph.span.start..graph.body.start, bytes));
    }
    edits.sort_by_key(|edit| edit.cut.start);
    edits
}

/// The changes to an initializer whose numbers are not stored as they are in memory, and the bytes that it has then.
fn rewritten(file: &File, tensor: &Tensor) -> Option<(Vec<Edit>, u64)> {
    if tensor.typed.iter().all(Chunk::is_plain) {
        return None;
    }
    let dtype = super::tensor::dtype_of(tensor).ok()?;
    let bits = if is_packed(dtype) { dtype.bits()?.into() } else { dtype.bytes()?.checked_mul(8)? };
    let data = super::tensor::shape_of(tensor).ok()?.elements().checked_mul(bits)?.div_ceil(8);
    let mut last = Vec::new();
    put_len(&mut last, RAW_DATA, data);
    let cut: u64 = tensor.typed.iter().map(|chunk| chunk.span.end.saturating_sub(chunk.span.start)).sum();
    let body = tensor.body.end.saturating_sub(tensor.body.start).checked_sub(cut)?;
    let body = body.checked_add(last.len() as u64)?.checked_add(data)?;
    let mut first = Vec::new();
    put_len(&mut first, INITIALIZER, body);
    let total = body.checked_add(first.len() as u64)?;
    let mut edits = vec![Edit::new(tensor.span.start..tensor.body.start, first)];
    edits.extend(tensor.typed.iter().map(|chunk| Edit::new(chunk.span.clone(), Vec::new())));
    edits.push(Edit::new(tensor.body.end..tensor.body.end, last).with_data(data, elements(file, tensor)));
    Some((edits, total))
}
