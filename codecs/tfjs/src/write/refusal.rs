//! Whose configuration is converted, and the error about a layer of it.

use ckpt_api::{Error, Result};

/// Whose configuration it is.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub(super) is_keras_3: bool,
}

/// The error about a layer.
pub(super) fn refused<T>(name: &str, what: impl Into<String>) -> Result<T> {
    Err(Error::unsupported(what.into()).field(format!("layer '{}'", name.escape_debug())))
}
