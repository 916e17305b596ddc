//! Which tensor is stored under which key, and what is stored beside the checkpoint's own tensors.

use ckpt_api::{DType, Loss, Shape};

/// How a checkpoint's tensors are to be stored.
#[derive(Debug, Default)]
pub(crate) struct Naming {
    /// What becomes of each tensor, in the checkpoint's order; `None` for one that `losses` names.
    pub(crate) tensors: Vec<Option<Named>>,
    /// What is stored although the checkpoint has no tensor for it: the object graph, a save counter.
    pub(crate) made: Vec<Made>,
    /// What this naming cannot say.
    pub(crate) losses: Vec<Loss>,
}

/// How one tensor is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// Its key in the index.
    pub(crate) key: Vec<u8>,
    /// Its stored axis order: stored axis `k` is logical axis `order[k]`.
    pub(crate) order: Vec<usize>,
}

/// An entry with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    /// Its key in the index.
    pub(crate) key: Vec<u8>,
    /// Its element type; of a string there is one element.
    pub(crate) dtype: DType,
    /// Its shape.
    pub(crate) shape: Shape,
    /// Little-endian, row-major; the bytes of the only element of a string.
    pub(crate) value: Vec<u8>,
}
