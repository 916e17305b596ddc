//! What a format keeps of a checkpoint.

use serde::{Deserialize, Serialize};

/// A part of a checkpoint beside the names, dtypes, shapes and values of its tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Aspect {
    /// [`crate::Checkpoint::graph`].
    Graph,
    /// [`crate::Tensor::axes`].
    Axes,
    /// [`crate::Tensor::role`].
    Roles,
    /// [`crate::Tensor::slot`].
    Slots,
    /// [`crate::Tensor::quantization`].
    Scales,
    /// [`crate::Tensor::metadata`] in the namespaces of other formats.
    TensorMetadata,
    /// [`crate::Checkpoint::metadata`] in the namespaces of other formats.
    Metadata,
}

impl Aspect {
    /// Every aspect.
    pub const ALL: &'static [Aspect] = &[
        Aspect::Graph,
        Aspect::Axes,
        Aspect::Roles,
        Aspect::Slots,
        Aspect::Scales,
        Aspect::TensorMetadata,
        Aspect::Metadata,
    ];
}
