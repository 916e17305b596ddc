//! Numbers of tensors and files.

use serde::{Deserialize, Serialize};

/// Index of a tensor in [`crate::Checkpoint::tensors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TensorId(pub usize);

/// Index of a file in [`crate::Contents::files`] or [`crate::OutputLayout::files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileId(pub usize);

impl FileId {
    /// The number of this file behind `first` others.
    pub(crate) fn behind(self, first: usize) -> Self {
        FileId(self.0.saturating_add(first))
    }
}
