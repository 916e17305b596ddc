//! What a directory holds, and which of its files holds what.

use crate::format::metadata::Step;
use crate::write::fresh::Stored;
use ckpt_api::Region;

/// What the directory holds.
pub(super) struct Parts<'a> {
    pub(super) tensors: Vec<Stored<'a>>,
    /// Values that are no tensors.
    pub(super) objects: Vec<Object>,
}

/// A value that is no tensor.
pub(super) struct Object {
    pub(super) name: String,
    pub(super) pickle: Vec<u8>,
    /// The keys and indexes that lead to it.
    pub(super) steps: Vec<Step>,
}

/// A file of the directory.
pub(super) struct Shard {
    pub(super) path: String,
    /// In the order of the file.
    pub(super) parts: Vec<Part>,
}

/// What an archive holds.
pub(super) enum Part {
    /// The object with this number.
    Object(usize),
    /// This box of the tensor with this number, or a box without elements, of which the tensor does without.
    Chunk(usize, Region),
}
