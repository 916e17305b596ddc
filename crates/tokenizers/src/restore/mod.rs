//! From keys to files.

use crate::Files;
use ckpt_api::{Error, Limits, MetadataMap, Result};

/// Returns the files of a tokenizer.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`].
pub fn from_gguf(_pairs: &MetadataMap, _limits: &Limits) -> Result<Files> {
    Err(Error::unsupported("a tokenizer's files cannot be made of its keys"))
}
