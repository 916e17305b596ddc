//! Errors that name the entry of the mapping that made a tensor.

use crate::mapping::Mapping;
use ckpt_api::{Error, Kind};

/// Sources of what a mapping made, by the names of the targets.
pub(super) type MadeOf = std::collections::BTreeMap<String, Vec<String>>;

/// Adds the entry of the mapping that made the tensor of an error: what a target refuses is often its name or its
/// shape.
pub(super) fn blame_entry(error: Error, mapping: Option<&Mapping>, made_of: &MadeOf) -> Error {
    let sources = error.context().tensor.and_then(|name| made_of.get(name));
    match (mapping, sources) {
        (Some(mapping), Some(sources)) => mapping.blame(error, sources),
        _ => error,
    }
}

/// As [`blame_entry`], for errors that are the mapping's own: other errors of tensors are about their values.
pub(super) fn blame_mapping(error: Error, mapping: Option<&Mapping>, made_of: &MadeOf) -> Error {
    match error.kind() {
        Kind::Mapping => blame_entry(error, mapping, made_of),
        _ => error,
    }
}
