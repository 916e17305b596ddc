//! Sizes of what is held in memory.

use ckpt_api::{Error, Result};

/// The number as one that counts bytes in memory.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`] for what this machine cannot address.
pub(super) fn to_usize(value: u64) -> Result<usize> {
    usize::try_from(value).map_err(|_| Error::limit("too large for this machine").found(value.to_string()))
}
