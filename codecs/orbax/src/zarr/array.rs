//! What the metadata of an array states, and fields that both versions have.

use super::chain::Chain;
use crate::format::dtype::StoredType;
use crate::format::json::Json;
use ckpt_api::{Error, Result, Shape};

/// Axes of an array, at most.
const MOST_RANK: usize = 32;

/// Bytes of a chunk, at most.
const LARGEST_CHUNK: u64 = 2 << 30;

/// What the metadata of an array states.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Array {
    pub(crate) shape: Shape,
    pub(crate) stored: StoredType,
    /// Lengths of a chunk, one for each axis, at least 1.
    pub(crate) chunk: Vec<u64>,
    pub(crate) keys: ChunkKeys,
    pub(crate) chain: Chain,
    /// Whether elements that are not stored are zero.
    pub(crate) fills_with_zeros: bool,
}

/// How chunks are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkKeys {
    /// Whether names begin with `c`.
    pub(crate) has_prefix: bool,
    pub(crate) separator: char,
}

impl ChunkKeys {
    /// The name of the chunk at this place of the grid.
    pub(crate) fn key(self, place: &[u64]) -> String {
        let mut key = String::from(if self.has_prefix { "c" } else { "" });
        for (axis, index) in place.iter().enumerate() {
            if axis > 0 || self.has_prefix {
                key.push(self.separator);
            }
            key.push_str(&index.to_string());
        }
        if key.is_empty() { "0".to_owned() } else { key }
    }
}

impl Array {
    /// Checks that the chunks fit the array.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`], [`ckpt_api::Kind::Limit`].
    pub(super) fn check(&self) -> Result<()> {
        if self.shape.rank() != self.chunk.len() || self.chunk.contains(&0) {
            return Err(Error::corrupt("the shape of chunks does not fit the array")
                .field("chunks")
                .found(format!("{:?}", self.chunk))
                .expected(format!("a length of at least 1 for each axis of {}", self.shape)));
        }
        let bytes = self.chunk.iter().try_fold(self.stored.bytes(), |bytes, len| bytes.checked_mul(*len));
        match bytes {
            Some(bytes) if bytes <= LARGEST_CHUNK => Ok(()),
            _ => Err(Error::limit("a chunk has too many bytes")
                .field("chunks")
                .found(format!("{:?}", self.chunk))
                .expected(format!("at most {LARGEST_CHUNK} bytes"))),
        }
    }
}

/// A shape, whose axes are few.
pub(super) fn shape(json: &Json, name: &'static str) -> Result<Shape> {
    Shape::new(lengths(json, name)?).map_err(|error| error.field(name))
}

pub(super) fn lengths(json: &Json, name: &'static str) -> Result<Vec<u64>> {
    let list = json.get(name).ok_or_else(|| missing(name))?;
    if list.list().is_some_and(|list| list.len() > MOST_RANK) {
        return Err(Error::limit("the array has too many axes")
            .field(name)
            .expected(format!("at most {MOST_RANK}")));
    }
    list.unsigned_list().ok_or_else(|| {
        Error::corrupt("the lengths are not a list of numbers").field(name).expected("integers from 0 on")
    })
}

pub(super) fn missing(name: &'static str) -> Error {
    Error::corrupt("a field is missing").field(name)
}

/// Checks the number of the version.
pub(super) fn check_version(json: &Json, expected: u64) -> Result<()> {
    match json.get("zarr_format").ok_or_else(|| missing("zarr_format"))? {
        Json::Unsigned(found) if *found == expected => Ok(()),
        found => Err(Error::unsupported("the version of the array's metadata is unknown")
            .field("zarr_format")
            .found(found.shown())
            .expected(expected.to_string())),
    }
}

/// Whether elements that no chunk holds are zeros; `None` counts as zero, as in Orbax.
pub(super) fn is_zero(fill: Option<&Json>) -> bool {
    match fill {
        None | Some(Json::Null | Json::Bool(false) | Json::Unsigned(0)) => true,
        Some(Json::Float(number)) => number.to_bits() == 0,
        Some(Json::List(parts)) => parts.iter().all(|part| is_zero(Some(part))),
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_called_as_their_version_says() {
        let keys = |has_prefix, separator| ChunkKeys { has_prefix, separator };
        assert_eq!(keys(false, '.').key(&[0, 12]), "0.12");
        assert_eq!(keys(false, '.').key(&[]), "0");
        assert_eq!(keys(true, '/').key(&[0, 1]), "c/0/1");
        assert_eq!(keys(true, '/').key(&[]), "c");
        assert_eq!(keys(true, '.').key(&[3]), "c.3");
    }
}
