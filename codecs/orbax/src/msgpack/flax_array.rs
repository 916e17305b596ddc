//! Arrays of a tree: one extension, or a map of pieces for one that is large.

use super::array_bytes::MOST_RANK;
use super::tree::{Id, Tree, Value};
use crate::format::dtype::StoredType;
use ckpt_api::{Error, Result, Shape};

/// The key that says that a map is an array in pieces.
pub(crate) const CHUNKED: &str = "__msgpack_chunked_array__";

/// An array of a tree, and the ranges of its file that hold it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FlaxArray {
    pub(crate) shape: Shape,
    pub(crate) stored: StoredType,
    /// Offset and length of each piece.
    pub(crate) pieces: Vec<(u64, u64)>,
}

/// The array that a value is; `None` if it is none.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for one whose bytes do not fill its shape, or that lacks a piece.
pub(crate) fn array_of(tree: &Tree, id: Id) -> Result<Option<FlaxArray>> {
    match tree.value(id) {
        Value::Array(array) => {
            let shape = Shape::new(&array.shape).map_err(|error| error.offset(array.offset))?;
            let own = FlaxArray { shape, stored: array.stored()?, pieces: vec![(array.offset, array.len)] };
            own.checked().map(Some)
        }
        Value::Map(_) if tree.entry(id, CHUNKED).is_some() => match tree.entry(id, CHUNKED) {
            Some(Value::Native(value)) if value.as_bool() == Some(true) => joined(tree, id).map(Some),
            _ => Err(Error::corrupt("a map says neither that it is an array nor that it is none")
                .field(CHUNKED)
                .expected("true")),
        },
        _ => Ok(None),
    }
}

impl FlaxArray {
    fn checked(self) -> Result<FlaxArray> {
        let found = self.pieces.iter().try_fold(0u64, |sum, (_, len)| sum.checked_add(*len));
        let expected = self.shape.elements().checked_mul(self.stored.bytes());
        if found.is_some() && found == expected {
            return Ok(self);
        }
        let offset = self.pieces.first().map_or(0, |(offset, _)| *offset);
        Err(Error::corrupt("the bytes of an array do not fill its shape")
            .offset(offset)
            .found(ckpt_api::count(found.unwrap_or(u64::MAX), "byte"))
            .expected(format!("{} of {}", self.shape, self.stored.dtype)))
    }
}

/// An array in pieces, each a list of elements.
fn joined(tree: &Tree, id: Id) -> Result<FlaxArray> {
    let wrong = |what: &'static str| Error::corrupt(what).found(format!("a map with '{CHUNKED}'"));
    let numbered = |key: &str| match tree.entry(id, key) {
        Some(Value::Map(entries)) => in_order(entries).ok_or_else(|| wrong("a piece of an array is missing")),
        _ => Err(wrong("an array in pieces lacks its shape or its pieces")),
    };
    let mut dims = Vec::new();
    for id in numbered("shape")? {
        let Value::Native(len) = tree.value(id) else { return Err(wrong("a length is no number")) };
        dims.push(len.as_u64().ok_or_else(|| wrong("a length is no number from 0 on"))?);
    }
    if dims.len() as u64 > MOST_RANK {
        return Err(Error::limit("an array has too many axes").expected(format!("at most {MOST_RANK}")));
    }
    let (mut stored, mut pieces) = (None, Vec::new());
    for id in numbered("chunks")? {
        let Value::Array(piece) = tree.value(id) else {
            return Err(wrong("a piece of an array is none itself"));
        };
        let own = piece.stored()?;
        let len = match piece.shape[..] {
            [len] => len.checked_mul(own.bytes()),
            _ => None,
        };
        if len != Some(piece.len) || *stored.get_or_insert(own) != own {
            return Err(wrong("a piece of an array is no list of elements of its type").offset(piece.offset));
        }
        pieces.push((piece.offset, piece.len));
    }
    let stored = stored.ok_or_else(|| wrong("an array in pieces has none"))?;
    FlaxArray { shape: Shape::new(dims)?, stored, pieces }.checked()
}

/// The values of the keys "0", "1" and so on; `None` if these are not the keys.
fn in_order(entries: &[(String, Id)]) -> Option<Vec<Id>> {
    let mut numbered: Vec<Option<Id>> = vec![None; entries.len()];
    for (key, id) in entries {
        let place = numbered.get_mut(key.parse::<usize>().ok()?)?;
        *place = Some(*id);
    }
    numbered.into_iter().collect()
}
