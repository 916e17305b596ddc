//! Families of language models as data: what a Hugging Face directory and a GGUF file say of a model beyond its tensors.
//!
//! A family is a file of [`data/families`](https://docs.rs/crate/ckpt-families): the classes of transformers that load its
//! models, the architecture and the keys of its GGUF files, the mapping of its tensors, its kind of tokenizer, and tensors that
//! follow from the configuration. [`KnownFamilies`] gives them to the engine.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod adapter;
mod agreement;
mod card;
mod catalog;
mod companions;
mod config;
mod exact;
mod family;
mod formats;
mod identity;
mod keys;
mod name;
mod nested;
mod pooling;
mod rope;
mod ssm;
mod tied;
mod to_gguf;
mod to_hugging_face;

use crate::config::Config;
use crate::formats::{GGUF, MAGIC, SAFETENSORS};
use ckpt_api::{Checkpoint, Input, Result};
use ckpt_engine::formats::{Formats, GraphForm, ModelKinds, ModelRequest, ModelTranslation};
use ckpt_engine::source::{Configuration, Source};

/// The families that come with the program.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownFamilies;

impl ModelKinds for KnownFamilies {
    fn translate(&self, formats: &Formats, request: &ModelRequest<'_>) -> Result<Option<ModelTranslation>> {
        match (request.source.format() == GGUF, request.target.id) {
            (true, SAFETENSORS) => to_hugging_face::translate(formats, request),
            (true, _) => Ok(None),
            (false, GGUF) => match adapter::translate(formats, request)? {
                None => to_gguf::translate(formats, request),
                adapter => Ok(adapter),
            },
            (false, SAFETENSORS) => companions::translate(request),
            (false, _) => Ok(None),
        }
    }

    fn directory_format(&self, input: &Input) -> Result<Option<&'static str>> {
        let is_gguf = input.is_file() && input.head()? == Some(*MAGIC);
        let config = if is_gguf { None } else { Config::beside(input, input.limits())? };
        let is_model = is_gguf || config.is_some_and(|config| config.class().is_some());
        Ok(is_model.then_some(SAFETENSORS))
    }

    fn has_graph_form(&self, checkpoint: &Checkpoint) -> bool {
        to_hugging_face::is_known(checkpoint)
    }

    /// Graphs are described for the names of Hugging Face.
    fn graph_form(&self, formats: &Formats, source: &Source) -> Result<Option<GraphForm>> {
        if source.format() == GGUF {
            return to_hugging_face::graph_form(formats, source);
        }
        let found = Configuration::beside(source.input(), &[config::FILE.to_owned()], source.limits())?;
        let is_model = |configuration: &Configuration| configuration.get("architectures.0").is_some();
        let own = |configuration| GraphForm { mapping: None, exclude: Vec::new(), configuration };
        Ok(found.filter(is_model).map(own))
    }
}
