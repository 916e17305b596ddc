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

    /// The same with the codec of a plugin: a WebAssembly module that the crate `ckpt-plugin` made of a codec. It can read the
    /// input's files, and nothing else.
    ///
    /// ```
    /// let error = ckpt::Registry::builtin().with_plugin(b"no module").unwrap_err();
    /// assert!(error.to_string().starts_with("the file is no plugin"));
    /// ```
    ///
    /// # Errors
    /// [`Kind::Unsupported`](ckpt_api::Kind) for what is no plugin of this version of `ckpt`;
    /// [`Kind::Usage`](ckpt_api::Kind) if its id or an ending of its file names is that of a known format.
    #[cfg(feature = "plugins")]
    pub fn with_plugin(mut self, bytes: &[u8]) -> ckpt_api::Result<Self> {
        crate::plugins::add(&mut self.0, bytes, "plugin", &ckpt_api::Limits::default())?;
        Ok(self)
    }

    /// As [`Registry::with_plugin`], with the plugin of a file: errors and plans name it.
    ///
    /// ```
    /// let error = ckpt::Registry::builtin().with_plugin_file("Cargo.toml".as_ref()).unwrap_err();
    /// assert_eq!(error.context().file, Some("Cargo.toml"));
    /// ```
    ///
    /// # Errors
    /// As [`Registry::with_plugin`]; [`Kind::Io`](ckpt_api::Kind) if the file cannot be read.
    #[cfg(feature = "plugins")]
    pub fn with_plugin_file(mut self, path: &std::path::Path) -> ckpt_api::Result<Self> {
        let bytes = crate::plugins::bytes_of(path)?;
        crate::plugins::add(&mut self.0, &bytes, &path.display().to_string(), &ckpt_api::Limits::default())?;
        Ok(self)
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
