//! The files to write, as far as they are laid out.

use super::bind::Binding;
use crate::format::{StateFile, extent};
use ckpt_api::{Added, Encoding, FileId, Literal, Loss, LossKind, OutputFile, OutputLayout, Placement, Text};

/// Collects files, literals, placements and losses.
#[derive(Default)]
pub(super) struct Output {
    pub(super) placed: OutputLayout,
}

impl Output {
    pub(super) fn add_file(&mut self, name: String, len: u64) -> FileId {
        self.placed.files.push(OutputFile::new(name, len));
        FileId(self.placed.files.len() - 1)
    }

    pub(super) fn add_block(&mut self, file: FileId, offset: u64, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.placed.literals.push(Literal { file, offset, bytes });
        }
    }

    /// Adds a file that consists of a text.
    pub(super) fn add_text(&mut self, name: String, text: &str) {
        let bytes = text.as_bytes().to_vec();
        let file = self.add_file(name, bytes.len() as u64);
        self.add_block(file, 0, bytes);
    }

    /// Adds a tensor under an id.
    pub(super) fn add_tensor(
        &mut self,
        binding: &Binding<'_>,
        id: &str,
        (file, offset, len): (FileId, u64, u64),
        encoding: Encoding,
        added: Vec<Added>,
    ) {
        let placement = Placement::new(binding.tensor, id, vec![extent(file, offset, len)], encoding);
        self.placed.placements.push(placement.with_added(added));
    }

    pub(super) fn add_loss(&mut self, kind: LossKind, subject: impl Into<String>, why: impl Into<Text>) {
        self.placed.losses.push(Loss::new(kind, subject, why));
    }

    /// Reports that zeros are written as a weight, or as one slot of it.
    pub(super) fn add_filled(&mut self, state: StateFile, id: &str) {
        let why = match state.slot {
            None => "other weights include it already; zeros are written",
            Some(_) => "the source has none; zeros are written",
        };
        self.add_loss(LossKind::Filled, format!("{}{id}", state.prefix), why);
    }
}
