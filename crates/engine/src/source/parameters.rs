//! What a source knows of the parameters of mappings.

use super::{Configuration, Source};
use crate::mapping::{Generated, KEY_SEPARATOR, Mapping, Parameter, Translation};
use crate::pattern::Pattern;
use ckpt_api::{Error, Graph, Limits, Metadata, Result, Setting, text};
use std::borrow::Cow;

/// Files beside a checkpoint that describe its model: of Hugging Face, and of Meta.
const CONFIGURATIONS: [&str; 2] = ["config.json", "params.json"];

impl Source {
    /// Returns the mapping with a value for each parameter: that of the `config.json` or `params.json` beside the
    /// checkpoint, of its metadata, or the default. Its needs are those that this file states.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] for a parameter without a value; whatever keeps the file from being read.
    pub fn with_parameters<'m>(&self, mapping: &'m Mapping) -> Result<Cow<'m, Mapping>> {
        if let Some(translation) = self.translation(mapping)? {
            return translation.mapping_for(mapping).map(Cow::Owned);
        }
        let has_parameters = mapping.parameters().next().is_some();
        if !has_parameters && mapping.needs.is_empty() {
            return Ok(Cow::Borrowed(mapping));
        }
        let limits = &self.options.limits;
        let configuration = Configuration::beside(&self.input, &CONFIGURATIONS.map(str::to_owned), limits);
        // A file of this name that is no configuration matters to a parameter only.
        let configuration = if has_parameters { configuration? } else { configuration.ok().flatten() };
        let mapping =
            mapping.clone().with_needs_of(|key| configuration.as_ref().and_then(|config| config.text(key)));
        let find = |parameter: &Parameter| {
            let config = configuration
                .iter()
                .find_map(|config| parameter.config.iter().find_map(|key| config.number(key)));
            match config {
                Some(value) => Ok(Some(value)),
                None => in_metadata(&self.checkpoint().metadata, &parameter.metadata, limits),
            }
        };
        mapping.with_parameters_of(find).map(Cow::Owned)
    }
}

impl Source {
    /// What the graph makes of a mapping that is generated; `None` for another one. A mapping to the generator's target is
    /// made of the source's graph, one from there of the graph of the model that is given beside.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] without a graph; what keeps a layer from having a module.
    pub(crate) fn translation(&self, mapping: &Mapping) -> Result<Option<Translation>> {
        let Some(Generated { generator, is_inverse }) = &mapping.generated else { return Ok(None) };
        let needs_graph = generator.needs_graph();
        if *is_inverse {
            let framework = generator.source_framework();
            let Some(model) = &self.options.graph else {
                return Err(Error::mapping(format!(
                    "the way back to {framework} needs the {framework} model"
                ))
                .found(match needs_graph {
                    true => format!("no model whose graph has the names of {framework}"),
                    false => format!("no checkpoint with the names of {framework}"),
                })
                .help(text!["give it with ", Setting::ARCHITECTURE]));
            };
            let no_graph = Graph::default();
            let graph = if needs_graph { model.graph()? } else { &no_graph };
            return generator.translate(graph, &model.to_tensors()).map(Some);
        }
        if !needs_graph {
            return generator.translate(&Graph::default(), &self.checkpoint().tensors).map(Some);
        }
        if let Some(graph) = &self.checkpoint().graph {
            return generator.translate(graph, &self.checkpoint().tensors).map(Some);
        }
        let Some(outline) = &self.contents().outline else { return Err(self.without_graph()) };
        let translation = generator.translate(outline, &self.checkpoint().tensors)?;
        let missing = self.contents().missing_graph.as_ref();
        let reason = missing.map(|missing| missing.reason.clone()).unwrap_or_default();
        Ok(Some(translation.of_outline(&reason, generator.target_framework())))
    }

    /// The error of a mapping that is made of a graph: what the checkpoint lacks, or why the model that was given beside it
    /// does not fit.
    fn without_graph(&self) -> Error {
        let (shown, misfit) = (self.shown(), self.contents().misfit.as_ref());
        let model = self.options.graph.as_ref();
        let error = model.and_then(|model| model.apply(&mut self.checkpoint().clone(), misfit, &shown).err());
        if let Some(error) = error {
            return error;
        }
        let reason = self.contents().missing_graph.as_ref().map(|missing| missing.reason.clone());
        Error::mapping("a mapping that is made of a graph needs a graph")
            .found(
                reason.unwrap_or_else(|| {
                    format!("a checkpoint of format '{}' without one", self.format()).into()
                }),
            )
            .help(text![
                "convert a SavedModel, which has one, or give the model with ",
                Setting::ARCHITECTURE
            ])
    }
}

/// Returns the number at the first key that one of the patterns matches.
fn in_metadata(metadata: &Metadata, patterns: &[String], limits: &Limits) -> Result<Option<u64>> {
    for pattern in patterns {
        let pattern = Pattern::selecting(pattern, limits)?;
        let mut entries = metadata.iter().flat_map(|(_, entries)| entries.iter());
        let found = entries.find(|(key, _)| pattern.matches(key, KEY_SEPARATOR).is_some());
        if let Some(number) = found.and_then(|(_, value)| value.as_u64()) {
            return Ok(Some(number));
        }
    }
    Ok(None)
}
