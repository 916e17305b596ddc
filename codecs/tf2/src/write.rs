//! Writing.

use ckpt_api::{Error, Placed, Result};

/// Refuses: this version reads only.
pub(crate) fn place() -> Result<Placed> {
    Err(Error::unsupported("TensorFlow checkpoints cannot be written by this version")
        .help("choose another target format; `ckpt formats` lists which can be written"))
}
