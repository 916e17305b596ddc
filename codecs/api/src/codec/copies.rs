//! Tensors of one name in several files of a set.

use crate::{Contents, Error, Extent, Input, Name, Placement, Result, Tensor, TensorId, Text, first_few};
use std::collections::HashMap;

/// Bytes that are compared at once.
const PIECE: u64 = 1 << 20;
/// Names that a note lists.
const SHOWN: usize = 8;

/// Adds the tensors of a set's files that its index does not list there: new ones are read like the others, and a copy of one
/// that is there already is left out. Notes say which, and which of them the index places in another file (`is_listed`).
///
/// # Errors
/// [`Kind::Corrupt`](crate::Kind::Corrupt) for a second tensor of one name with other values; those of reading.
pub fn add_unlisted(
    input: &Input,
    contents: &mut Contents,
    unlisted: Vec<(Tensor, Placement)>,
    is_listed: impl Fn(&str) -> bool,
) -> Result<()> {
    let differ = |_: &str| {
        Error::corrupt("a file holds another tensor of a name that the index places elsewhere")
            .help("the index or the file belongs to another checkpoint: copy both again")
    };
    let Found { added, copies } = add(input, contents, unlisted, differ)?;
    let (misplaced, added): (Vec<Name>, Vec<Name>) = added.into_iter().partition(|name| is_listed(name));
    let notes = [
        ("the index does not list tensors of its files, which are read, too", added),
        (
            "the index places tensors in other files than those that hold them, from which they are read",
            misplaced,
        ),
        ("files hold equal copies of tensors that the index places in another file", copies),
    ];
    contents.notes.extend(notes.into_iter().filter_map(|(text, names)| note(text, &names)));
    Ok(())
}

/// Adds the tensors of a set's files that has no index. A copy of one that is there already is left out, and a note says so.
///
/// # Errors
/// [`Kind::Unsupported`](crate::Kind::Unsupported) for a second tensor of one name with other values; those of reading.
pub fn add_parts(input: &Input, contents: &mut Contents, tensors: Vec<(Tensor, Placement)>) -> Result<()> {
    let differ = |first: &str| {
        Error::unsupported("two files of a set hold different tensors of one name")
            .found(format!("another tensor in '{}'", first.escape_debug()))
            .help("without an index, nothing says which one is meant: take out the file that is of another checkpoint, or add the index")
    };
    let found = add(input, contents, tensors, differ)?;
    contents.notes.extend(note("files hold equal copies of tensors, which are read once", &found.copies));
    Ok(())
}

fn note(text: &str, names: &[Name]) -> Option<Text> {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    (!names.is_empty()).then(|| format!("{text}: {}", first_few(&quoted, SHOWN)).into())
}

/// Names of tensors in several files.
struct Found {
    added: Vec<Name>,
    /// Of tensors that were there already.
    copies: Vec<Name>,
}

/// Adds tensors, but for equal copies of others. `differ` makes the error for one that is not equal of the first one's file.
fn add(
    input: &Input,
    contents: &mut Contents,
    tensors: Vec<(Tensor, Placement)>,
    differ: impl Fn(&str) -> Error,
) -> Result<Found> {
    let mut found = Found { added: Vec::new(), copies: Vec::new() };
    if tensors.is_empty() {
        return Ok(found);
    }
    let names = |(id, tensor): (usize, &Tensor)| (tensor.name.clone(), id);
    let mut known: HashMap<_, _> = contents.checkpoint.tensors.iter().enumerate().map(names).collect();
    for (tensor, mut placement) in tensors {
        if let Some(id) = known.get(&tensor.name) {
            check_copy(input, contents, *id, (&tensor, &placement), &differ)?;
            found.copies.push(tensor.name);
            continue;
        }
        let id = contents.checkpoint.tensors.len();
        known.insert(tensor.name.clone(), id);
        found.added.push(tensor.name.clone());
        placement.tensor = TensorId(id);
        contents.checkpoint.tensors.push(tensor);
        contents.placements.push(placement);
    }
    Ok(found)
}

/// Checks that a tensor is equal to the one with this id.
fn check_copy(
    input: &Input,
    contents: &Contents,
    id: usize,
    (tensor, placement): (&Tensor, &Placement),
    differ: impl Fn(&str) -> Error,
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
    let file = |placement: &Placement| {
        let name = placement.extents.first().and_then(|extent| contents.files.get(extent.file.0));
        name.map(|name| input.display(name)).unwrap_or_default()
    };
    Err(differ(&file(stored))
        .file(file(placement))
        .tensor(&tensor.name)
        .expected("the same values in both files, or the tensor in one of them"))
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
