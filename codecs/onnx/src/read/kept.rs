//! The structure of a model without the bytes of its tensors.

use crate::format::is_packed;
use crate::format::message::{Chunk, Model, Tensor};
use crate::read::graph::pieces::elements;
use crate::read::initializers::tensors;
use ckpt_api::{File, Result};
use ckpt_containers::protobuf::put_len;
use ckpt_containers::structure::Structure;
use std::collections::HashSet;
use std::ops::Range;

/// The field of a graph's initializers, and that of a tensor's bytes.
const INITIALIZER: u64 = 5;
const RAW_DATA: u64 = 9;
/// The field of a model's graph.
const GRAPH: u64 = 7;

/// The structure of a model in a file. A tensor whose numbers are not stored as they are in memory gets its bytes
/// in `raw_data` in place of them.
pub(super) fn structure_of(file: &File, model: &Model) -> Result<Structure> {
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
        structure.append(file, at..edit.cut.start)?;
        structure.bytes.extend_from_slice(&edit.bytes);
        position = position.saturating_add(edit.bytes.len() as u64);
        if edit.data > 0 {
            let end = position.saturating_add(edit.data);
            structure.data.push(position..end);
            if let Some(small) = edit.small.filter(|small| small.len() as u64 == edit.data) {
                structure.add_small(position, small);
            }
            position = end;
        }
        at = edit.cut.end;
    }
    structure.append(file, at..file.len())?;
    Ok(structure)
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
                // Of numbers in several pieces, no piece is the whole.
                let small = if tensor.typed.len() > 1 { None } else { elements(file, tensor) };
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
