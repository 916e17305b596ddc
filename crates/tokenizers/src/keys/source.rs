//! The files that every kind of tokenizer reads.

use crate::Request;
use crate::files::{self, Json, TokenizerConfig, TokenizerJson, name};
use ckpt_api::{Input, Limits, MetadataMap, Result};

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

    /// `tokenizer.json`, if its model has this type.
    pub(super) fn json_of(&self, kind: &str) -> Option<&Json<TokenizerJson>> {
        self.json.as_ref().filter(|json| json.value.model.as_ref().is_some_and(|model| model.kind() == kind))
    }
}
