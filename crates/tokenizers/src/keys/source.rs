//! The files that every kind of tokenizer reads.

use crate::Request;
use crate::files::{self, Json, Model, TokenizerConfig, TokenizerJson, name};
use ckpt_api::{Error, Input, Limits, MetadataMap, Result};

/// Keys, and facts that the keys do not hold. `None` if the directory has no tokenizer of the kind.
pub(super) type Found = Option<(MetadataMap, Vec<String>)>;

/// The directory, what the caller asks for, and the files that every kind reads.
#[derive(Debug)]
pub(super) struct Source<'a> {
    pub(super) directory: &'a Input,
    pub(super) request: &'a Request<'a>,
    pub(super) limits: &'a Limits,
    pub(super) json: Option<Json<TokenizerJson>>,
    pub(super) config: Option<Json<TokenizerConfig>>,
}

impl<'a> Source<'a> {
    /// Reads the files.
    pub(super) fn open(directory: &'a Input, request: &'a Request<'a>, limits: &'a Limits) -> Result<Self> {
        Ok(Source {
            directory,
            request,
            limits,
            json: files::from_directory(directory, name::TOKENIZER_JSON, limits)?,
            config: files::from_directory(directory, name::TOKENIZER_CONFIG, limits)?,
        })
    }

    /// The model of `tokenizer.json`, if it has this type.
    pub(super) fn model_of(&self, kind: &str) -> Option<&Model> {
        self.json.as_ref()?.value.model.as_ref().filter(|model| model.kind() == kind)
    }

    /// Takes the model of `tokenizer.json`, whose texts become those of the keys: a large one has 500,000.
    pub(super) fn take_model(&mut self) -> Option<Model> {
        self.json.as_mut()?.value.model.take()
    }

    /// Names `tokenizer.json` in an error.
    pub(super) fn in_json(&self, error: Error) -> Error {
        error.file(self.directory.display(name::TOKENIZER_JSON))
    }
}
