//! Writes the file that was read if nothing changed, or else a new one.

mod pickle;
mod records;
mod unchanged;

use crate::format::{OLD_RECORDS, RECORDS};
use crate::read::is_named;
use ckpt_api::{Checkpoint, OutputLayout, Result};

/// See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str) -> Result<OutputLayout> {
    let is_records = is_named(name, &[RECORDS, OLD_RECORDS]);
    if let Some(layout) = unchanged::place(checkpoint, name, is_records) {
        return Ok(layout);
    }
    match is_records {
        true => records::place(checkpoint, name),
        false => pickle::place(checkpoint, name),
    }
}
