//! Tensors that share their stored bytes.

use crate::TensorId;
use std::collections::BTreeMap;

/// Which tensors are ties: they have the same stored bytes, read in the same way (tied weights).
///
/// ```
/// use ckpt_api::{Contents, Ties};
/// assert!(Ties::of(&Contents::default()).is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ties {
    /// From each tensor to the first one that it shares bytes with; the first one itself is left out.
    first: BTreeMap<TensorId, TensorId>,
}

impl Ties {
    /// Whether no tensors share bytes.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// The first tensor with the same bytes: the tensor itself if it shares them with none before it.
    pub fn first_of(&self, tensor: TensorId) -> TensorId {
        self.first.get(&tensor).copied().unwrap_or(tensor)
    }

    /// Every tensor that shares bytes with an earlier one, and the first of these.
    pub fn iter(&self) -> impl Iterator<Item = (TensorId, TensorId)> {
        self.first.iter().map(|(tensor, first)| (*tensor, *first))
    }

    /// Adds a tensor that shares its bytes with `first`, an earlier one.
    pub(crate) fn add(&mut self, tensor: TensorId, first: TensorId) {
        self.first.insert(tensor, first);
    }
}
