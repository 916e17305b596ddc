//! What the program knows: the formats and hooks that come with it.

use crate::builtin;
use std::ops::{Deref, DerefMut};

/// A [`ckpt_engine::Registry`] that can be had with the formats that this build contains.
///
/// ```
/// let registry = ckpt::Registry::builtin();
/// assert_eq!(registry.for_extension("model.gguf")?.info().id, "gguf");
/// # Ok::<(), ckpt::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Registry(ckpt_engine::Registry);

impl Registry {
    /// The codecs that this build contains, the mappings and architectures that come with the program, and, with the feature
    /// `forward`, the verifier that runs graphs.
    pub fn builtin() -> Self {
        Registry(builtin::registry())
    }

    /// A registry without codecs.
    pub fn empty() -> Self {
        Registry::default()
    }
}

impl Deref for Registry {
    type Target = ckpt_engine::Registry;

    fn deref(&self) -> &ckpt_engine::Registry {
        &self.0
    }
}

impl DerefMut for Registry {
    fn deref_mut(&mut self) -> &mut ckpt_engine::Registry {
        &mut self.0
    }
}
