//! What is written and from which tensors: fixed before the first file.

use super::bind::{Binding, Bindings};
use super::origin::Origin;
use super::target::Target;
use crate::format::{
    ID, KEY_FOLDER, KEY_NETWORK, KEY_PADDING, KEY_RECORDS, PARAMS, Padding, QUANTISED, RAW, RecordForm, SLOW,
    STATE, StateFile, WEIGHTS,
};
use crate::net::architecture::Architecture;
use ckpt_api::{Checkpoint, Error, Options, Result, Setting, text};

/// A checkpoint to write, and how to write it.
pub(super) struct Context<'a> {
    pub(super) checkpoint: &'a Checkpoint,
    pub(super) architecture: Option<&'a Architecture>,
    pub(super) bindings: Bindings<'a>,
    pub(super) target: Target,
    pub(super) padding: Padding,
    pub(super) form: RecordForm,
    pub(super) origin: Origin,
}

impl<'a> Context<'a> {
    pub(super) fn new(
        checkpoint: &'a Checkpoint,
        options: &Options,
        architecture: Option<&'a Architecture>,
        bindings: Bindings<'a>,
        target: Target,
    ) -> Result<Self> {
        let form = match target.state {
            Some(PARAMS) => RecordForm::of_params(options.text("records").and_then(RecordForm::from_name))?,
            _ => choice(checkpoint, options, "records", KEY_RECORDS, RecordForm::from_name),
        };
        Ok(Context {
            checkpoint,
            architecture,
            bindings,
            target,
            padding: choice(checkpoint, options, "padding", KEY_PADDING, Padding::from_name),
            form,
            origin: Origin::new(checkpoint),
        })
    }

    /// The folder of the optimizer's files: values without records were in the directory itself.
    pub(super) fn state_folder(&self) -> &'static str {
        let was_in_folder = self.checkpoint.metadata.text(ID, KEY_FOLDER) == Some(STATE);
        if self.form == RecordForm::Headerless && !was_in_folder { "" } else { STATE }
    }

    /// The name of the quantized net in a directory: beside values without records, that of the checkpoint that was read.
    pub(super) fn network(&self) -> &'a str {
        let is_name = |name: &&str| name.ends_with(".bin") && !name.contains(['/', '\\', ':']);
        let is_other = |name: &&str| *name != RAW && StateFile::from_name(name).is_none();
        let kept = self.checkpoint.metadata.text(ID, KEY_NETWORK).filter(is_name).filter(is_other);
        kept.filter(|_| self.state_folder().is_empty()).unwrap_or(QUANTISED)
    }

    /// Returns the tensor to write as a weight or as one slot of it; `None` for zeros.
    pub(super) fn source_of(&self, state: StateFile, id: &str) -> Result<Option<&Binding<'a>>> {
        match (self.bindings.get(state, id), state.slot) {
            (Some(binding), _) => Ok(Some(binding)),
            (None, None) if self.is_merged(id) => Ok(None),
            (None, None) => Err(missing(id)),
            // Ranger's slow weights start as a copy of the weights.
            (None, Some(_)) if state == SLOW => Ok(self.bindings.get(WEIGHTS, id)),
            (None, Some(_)) => Ok(None),
        }
    }

    /// Whether the values of a tensor include those of the weight with this id, which its entry merges into it.
    pub(super) fn includes(&self, binding: &Binding<'_>, id: &str) -> bool {
        let origin = self.origin.entry(binding.id);
        binding.quantised().is_some() && origin.is_none_or(|entry| entry.merge.as_deref() == Some(id))
    }

    /// Whether a weight is merged into tensors of the source, so that zeros in its place change nothing.
    fn is_merged(&self, id: &str) -> bool {
        let entries = self.architecture.into_iter().flat_map(|architecture| architecture.merging(id));
        let mut merged = entries.map(|entry| {
            self.bindings.get(WEIGHTS, &entry.id).is_some_and(|binding| self.includes(binding, id))
        });
        // There is at least one entry, and the tensors of all of them include the weight.
        merged.next().is_some_and(|first| first && merged.all(|is_merged| is_merged))
    }
}

/// Returns what an option says, or else the source's metadata, or else the default.
fn choice<T: Default>(
    checkpoint: &Checkpoint,
    options: &Options,
    option: &str,
    key: &str,
    parse: fn(&str) -> Option<T>,
) -> T {
    let text = options.text(option).or_else(|| checkpoint.metadata.text(ID, key));
    text.and_then(parse).unwrap_or_default()
}

/// The error for a weight that the source lacks.
pub(super) fn missing(id: &str) -> Error {
    Error::usage("the source lacks a weight of the net").tensor(id).help(text![
        "rename tensors with ",
        Setting::MAPPING,
        " if their names differ; raw.bin lacks weights that are merged into others: read weights.bin \
             or quantised.bin",
    ])
}
