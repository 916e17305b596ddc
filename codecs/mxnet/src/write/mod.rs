//! Writes the file that was read if nothing changed, or else a new one.

mod fresh;
mod unchanged;

use ckpt_api::{Checkpoint, OutputLayout, Result};

/// See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str) -> Result<OutputLayout> {
    match unchanged::place(checkpoint, name) {
        Some(layout) => Ok(layout),
        None => fresh::place(checkpoint, name),
    }
}
