//! The state of a reading: what the user asked for, and the contents so far.

use crate::format::{Content, ID, RecordForm};
use crate::net::architecture::Architecture;
use ckpt_api::{
    Contents, Encoding, Extent, FileId, Input, Limits, Options, Placement, Tensor, TensorId, Text,
};

/// Collects the contents of a checkpoint.
pub(super) struct Reader<'a> {
    pub(super) input: &'a Input,
    pub(super) limits: &'a Limits,
    pub(super) architecture: Option<&'a Architecture>,
    /// Whether to keep the integers of quantised.bin.
    pub(super) keeps_integers: bool,
    /// Whether an entry of integers was read.
    pub(super) has_integers: bool,
    /// Whether to compare the files of a directory.
    pub(super) compares: bool,
    /// The form of the optimizer's files, if it is given or known from another file.
    pub(super) form: Option<RecordForm>,
    /// The optimizer whose files must be there.
    pub(super) optimizer: Option<&'a str>,
    pub(super) contents: Contents,
    /// What the files contain, in the order in which they were read.
    pub(super) parts: Vec<Content>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        input: &'a Input,
        options: &'a Options,
        limits: &'a Limits,
        architecture: Option<&'a Architecture>,
    ) -> Self {
        Reader {
            input,
            limits,
            architecture,
            keeps_integers: options.flag("integers"),
            has_integers: false,
            compares: options.flag("check"),
            form: options.text("records").and_then(RecordForm::from_name),
            optimizer: options.text("optimiser"),
            contents: Contents::default(),
            parts: Vec::new(),
        }
    }

    pub(super) fn add_file(&mut self, name: &str) -> FileId {
        self.contents.files.push(name.to_owned());
        FileId(self.contents.files.len() - 1)
    }

    /// Adds a tensor, which the file stores under the id `stored`.
    pub(super) fn add_tensor(&mut self, tensor: Tensor, stored: &str, extent: Extent, encoding: Encoding) {
        let id = TensorId(self.contents.checkpoint.tensors.len());
        self.contents.placements.push(Placement::new(id, stored, vec![extent], encoding));
        self.contents.checkpoint.tensors.push(tensor);
    }

    /// Keeps a text in the checkpoint's metadata.
    pub(super) fn keep(&mut self, key: &str, text: impl Into<String>) {
        self.contents.checkpoint.metadata.insert(ID, key, text.into());
    }

    pub(super) fn note(&mut self, text: impl Into<Text>) {
        self.contents.notes.push(text.into());
    }
}
