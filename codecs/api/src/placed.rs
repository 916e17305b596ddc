//! What a codec says when it writes.

use crate::{Checkpoint, Error, FileId, Loss, Placement, Result};
use serde::Serialize;
use std::collections::HashSet;

/// Where everything goes: the result of [`crate::Codec::place`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// The files that will exist, in the order in which they get their final names: the one that makes the
    /// others findable (an index) last.
    pub files: Vec<OutputFile>,
    /// Header and padding bytes known before any tensor is read. Blocks and extents never overlap; bytes that
    /// neither covers are zero.
    pub blocks: Vec<Block>,
    /// Where tensors go. A tensor of the checkpoint that has none must be named in `losses`.
    pub placements: Vec<Placement>,
    /// What the target cannot carry.
    pub losses: Vec<Loss>,
}

impl Placed {
    /// Checks what the engine relies on: every tensor is placed once or named in a loss, every file exists.
    ///
    /// # Errors
    /// [`crate::Kind::Mismatch`]: a defect of the codec, not of the input.
    pub fn check(&self, checkpoint: &Checkpoint) -> Result<()> {
        let defect = |message: &str| {
            Error::mismatch(message).help("this is a defect of the target's codec: please report it")
        };
        let lost: HashSet<&str> = self.losses.iter().map(|loss| loss.subject.as_str()).collect();
        let mut placed = vec![false; checkpoint.tensors.len()];
        for placement in &self.placements {
            match placed.get_mut(placement.tensor.0) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err(defect("a tensor is placed twice or does not exist").tensor(&placement.name)),
            }
            if placement.extents.iter().any(|extent| extent.file.0 >= self.files.len()) {
                return Err(
                    defect("a tensor is placed in a file that does not exist").tensor(&placement.name)
                );
            }
        }
        let silent = checkpoint
            .tensors
            .iter()
            .zip(&placed)
            .find(|(tensor, placed)| !**placed && !lost.contains(tensor.name.as_str()));
        match silent {
            Some((tensor, _)) => Err(defect("a tensor would be lost silently").tensor(&tensor.name)),
            None => Ok(()),
        }
    }
}

/// One file to be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutputFile {
    /// Path relative to the directory of the output, with `/`; never absolute, never with `..`.
    pub name: String,
    /// Bytes; `None` where only [`crate::Codec::seal`] can tell.
    pub len: Option<u64>,
}

/// Literal bytes at a place in a file.
#[derive(Clone, PartialEq, Eq)]
pub struct Block {
    /// Which file.
    pub file: FileId,
    /// First byte.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Block { file, offset, bytes } = self;
        write!(f, "Block {{ file: {}, offset: {offset}, {} bytes }}", file.0, bytes.len())
    }
}

/// What was written for one placement, for [`crate::Codec::seal`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// For each extent the checksum it asked for, as the format would store it.
    pub checksums: Vec<Option<u32>>,
}
