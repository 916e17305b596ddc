//! Namings: the keys under which tensors are stored, as the option `names` chooses them.

pub(crate) mod keras;
pub(crate) mod per_tensor;

use crate::key::Key;
use ckpt_api::{AxisOrder, DType, Loss, Shape};

/// The keys of a checkpoint's tensors.
#[derive(Debug, Default)]
pub(crate) struct Naming {
    /// The key of each tensor, in the checkpoint's order; `None` for a tensor that `losses` names.
    pub(crate) tensors: Vec<Option<Assignment>>,
    /// Entries to store in addition to the tensors: the object graph, a save counter.
    pub(crate) extra: Vec<ExtraEntry>,
    /// Tensors and information without a place in this naming.
    pub(crate) losses: Vec<Loss>,
}

/// How one tensor is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    /// Key in the index.
    pub(crate) key: Key,
    /// Stored axis order: stored axis `k` is logical axis `order[k]`.
    pub(crate) order: AxisOrder,
}

/// An entry that no tensor of the checkpoint corresponds to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExtraEntry {
    /// Key in the index.
    pub(crate) key: Key,
    /// Element type. A string entry has one element.
    pub(crate) dtype: DType,
    /// Shape.
    pub(crate) shape: Shape,
    /// The value: little-endian and row-major, or the bytes of the only string.
    pub(crate) value: Vec<u8>,
}
