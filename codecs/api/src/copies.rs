//! Tensors of one name in several files of a set.

use crate::{Contents, Error, Extent, Input, Placement, Result, Tensor, TensorId, first_few};
use std::collections::HashMap;

/// Bytes that are compared at once.
const PIECE: u64 = 1 << 20;
/// Names that a note lists.
const SHOWN: usize = 8;

/// Adds the tensors of a set's files that its index does not list there: new ones are read like the others, and a copy of one
/// that is there already is left out. Notes say which.
///
/// # Errors
/// [`Kind::Corrupt`](crate::Kind::Corrupt) for a second tensor of one name with other values; those of reading.
pub fn add_unlisted(
    input: &Input,
    contents: &mut Contents,
    unlisted: Vec<(Tensor, Placement)>,
) -> Result<()> {
    if unlisted.is_empty() {
        return Ok(());
    }
    let names = |(id, tensor): (usize, &Tensor)| (tensor.name.clone(), id);
    let mut known: HashMap<_, _> = contents.checkpoint.tensors.iter().enumerate().map(names).collect();
    let (mut added, mut copies) = (Vec::new(), Vec::new());
    for (tensor, mut placement) in unlisted {
        if let Some(id) = known.get(&tensor.name) {
            check_copy(input, contents, *id, (&tensor, &placement))?;
            copies.push(format!("'{}'", tensor.name));
            continue;
        }
        let id = contents.checkpoint.tensors.len();
        known.insert(tensor.name.clone(), id);
        added.push(format!("'{}'", tensor.name));
        placement.tensor = TensorId(id);
        contents.checkpoint.tensors.push(tensor);
        contents.placements.push(placement);
    }
    if !added.is_empty() {
        let names = first_few(&added, SHOWN);
        contents
            .notes
            .push(format!("the index does not list tensors of its files, which are read, too: {names}"));
    }
    if !copies.is_empty() {
        let names = first_few(&copies, SHOWN);
        contents.notes.push(format!(
            "files hold equal copies of tensors that the index places in another file: {names}"
        ));
    }
    Ok(())
}

/// Checks that a tensor is equal to the one with this id.
fn check_copy(
    input: &Input,
    contents: &Contents,
    id: usize,
    (tensor, placement): (&Tensor, &Placement),
) -> Result<()> {
    let (first, stored) = contents.tensor_at(TensorId(id))?;
    let is_alike =
        first.dtype == tensor.dtype && first.shape == tensor.shape && stored.encoding == placement.encoding;
    let mut pairs = stored.extents.iter().zip(&placement.extents);
    let are_as_many = stored.extents.len() == placement.extents.len();
    let is_equal = |pair: (&Extent, &Extent)| equal_bytes(input, &contents.files, pair);
    if is_alike && are_as_many && pairs.try_fold(true, |all, pair| Ok(all && is_equal(pair)?))? {
        return Ok(());
    }
    let file = placement.extents.first().and_then(|extent| contents.files.get(extent.file.0));
    Err(Error::corrupt("a file holds another tensor of a name that the index places elsewhere")
        .file(file.map(|name| input.display(name)).unwrap_or_default())
        .tensor(&tensor.name)
        .expected("the same values in both files, or the tensor in one of them")
        .help("the index or the file belongs to another checkpoint: copy both again"))
}

/// Whether two extents that are stored as they are hold the same bytes.
fn equal_bytes(input: &Input, files: &[String], (a, b): (&Extent, &Extent)) -> Result<bool> {
    let is_plain = |extent: &Extent| {
        extent.region().is_none() && extent.compression().is_none() && !extent.is_computed()
    };
    let (Some(first), Some(second)) = (files.get(a.file.0), files.get(b.file.0)) else { return Ok(false) };
    if a.len != b.len || !is_plain(a) || !is_plain(b) {
        return Ok(false);
    }
    let (first, second) = (input.file(first)?, input.file(second)?);
    let mut at = 0u64;
    while at < a.len {
        let len = (a.len - at).min(PIECE);
        if first.bytes(a.offset.saturating_add(at), len)? != second.bytes(b.offset.saturating_add(at), len)? {
            return Ok(false);
        }
        at = at.saturating_add(len);
    }
    Ok(true)
}
