//! What a program knows: its formats, and what else is registered.

use crate::convert::Verifier;
use crate::formats::Formats;
use crate::matrix::Matrix;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// The [`Formats`] that a program knows, and what runs graphs to verify conversions.
///
/// `ckpt::Registry::builtin` has those that come with the program.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    formats: Formats,
    verifier: Option<Arc<dyn Verifier>>,
}

impl Registry {
    /// A registry without codecs.
    pub fn empty() -> Self {
        Registry::default()
    }

    /// A registry of formats, without a verifier.
    pub fn of(formats: Formats) -> Self {
        Registry { formats, verifier: None }
    }

    /// Sets what runs the graphs of a source and of its output when a conversion is verified. Without one, only their
    /// tensors are compared.
    #[must_use]
    pub fn with_verifier(mut self, verifier: impl Verifier + 'static) -> Self {
        self.verifier = Some(Arc::new(verifier));
        self
    }

    pub(crate) fn verifier(&self) -> Option<&dyn Verifier> {
        self.verifier.as_deref()
    }

    /// Which format converts to which.
    pub fn matrix(&self) -> Matrix {
        Matrix::of(self)
    }
}

#[cfg(test)]
impl Registry {
    /// The formats that the tests of this crate convert between.
    pub(crate) fn for_tests() -> Self {
        let codecs: [Arc<dyn ckpt_api::Codec>; 5] = [
            Arc::new(ckpt_bullet::Bullet),
            Arc::new(ckpt_gguf::Gguf),
            Arc::new(ckpt_npz::Npz),
            Arc::new(ckpt_safetensors::Safetensors),
            Arc::new(ckpt_tf2::Tf2),
        ];
        Registry::of(Formats::with(codecs.into(), Vec::new()))
    }
}

impl Deref for Registry {
    type Target = Formats;

    fn deref(&self) -> &Formats {
        &self.formats
    }
}

impl DerefMut for Registry {
    fn deref_mut(&mut self) -> &mut Formats {
        &mut self.formats
    }
}
