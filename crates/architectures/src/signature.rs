//! The signature of a template: which checkpoints it describes.
//!
//! Recognizing a checkpoint needs only the fields that a template's file states before its `parameters`. Of the built-in
//! templates, [`Signature::builtin`] parses nothing else: reading all of their graphs takes longer than all else that
//! `inspect` does with a small checkpoint.

use super::builtin;
use super::document::{Document, is_automatic, no_prefix};
use super::tensors::Tensors;
use super::value::Value;
use ckpt_api::{Error, Input, Limits, Result, Tensor, nearest};
use ckpt_engine::source::Configuration;
use serde::Deserialize;

/// Most tensors of a checkpoint that is looked at unasked: those of the built-in templates' models are far fewer.
pub(super) const MAX_TENSORS: usize = 1 << 16;

/// Which checkpoints a template describes: the fields of a document that say so.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Signature {
    #[serde(skip)]
    name: String,
    #[serde(default = "is_automatic")]
    pub(super) automatic: bool,
    #[serde(default)]
    pub(super) by_model_type: bool,
    #[serde(default)]
    model_types: Vec<String>,
    #[serde(default)]
    mappings: Vec<String>,
    #[serde(default)]
    configurations: Vec<String>,
    #[serde(default = "no_prefix")]
    pub(super) prefixes: Vec<String>,
    pub(super) recognize: Vec<String>,
}

impl Signature {
    /// The signature of a template of this name.
    pub(super) fn new(name: String, document: &Document) -> Self {
        Signature {
            name,
            automatic: document.automatic,
            by_model_type: document.by_model_type,
            model_types: document.model_types.clone(),
            mappings: document.mappings.clone(),
            configurations: document.configurations.clone(),
            prefixes: document.prefixes.clone(),
            recognize: document.recognize.clone(),
        }
    }

    /// The signature of a built-in template.
    pub(super) fn builtin(name: &str) -> Option<Self> {
        // A test reads the head of every file, so `ok` hides no error.
        let fields: Signature = builtin::head(name)?.parse().ok()?;
        Some(Signature { name: name.to_owned(), ..fields })
    }

    /// The built-in templates that describe checkpoints without being asked for, in the order in which they are tried.
    pub fn automatic() -> impl Iterator<Item = Signature> {
        builtin::names().filter_map(Signature::builtin).filter(|signature| signature.automatic)
    }

    /// The built-in template whose names the tensors have. `configuration` reads what is beside them for a template.
    pub fn recognized(
        tensors: &[Tensor],
        configuration: impl Fn(&Signature) -> Option<Configuration>,
    ) -> Option<Signature> {
        if tensors.len() > MAX_TENSORS {
            return None;
        }
        let by_name = Tensors::new(tensors);
        Signature::automatic().find(|signature| {
            if signature.known_prefix(&by_name).is_none() {
                return false;
            }
            let configuration = configuration(signature);
            let is_told = !signature.by_model_type || configuration.as_ref().is_some_and(states_model);
            is_told && signature.refused_model(configuration.as_ref()).is_none()
        })
    }

    /// Whether a built-in template has the names of the tensors.
    pub(super) fn has_names(tensors: &[Tensor]) -> bool {
        let by_name = (tensors.len() <= MAX_TENSORS).then(|| Tensors::new(tensors));
        by_name.is_some_and(|by_name| {
            Signature::automatic().any(|signature| signature.known_prefix(&by_name).is_some())
        })
    }

    /// The template's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names of built-in mappings that lead to the template's names.
    pub fn mappings(&self) -> &[String] {
        &self.mappings
    }

    /// Reads the configuration beside a checkpoint.
    ///
    /// # Errors
    /// Whatever keeps it from being read.
    pub fn configuration(&self, input: &Input, limits: &Limits) -> Result<Option<Configuration>> {
        Configuration::beside(input, &self.configurations, limits)
    }

    /// The prefix with which the tensors have the template's names, or an error with the nearest name: comparing all
    /// names takes a hundred times as long as finding one.
    pub(super) fn prefix(&self, tensors: &Tensors<'_>) -> Result<String> {
        self.known_prefix(tensors).cloned().ok_or_else(|| {
            let prefix = self.prefixes.first();
            let first = prefix.and_then(|prefix| self.missing(prefix, tensors)).unwrap_or_default();
            Error::usage("the checkpoint does not have the tensors of the architecture")
                .found(format!("no tensor '{first}'"))
                .help(nearest(&first, tensors.names()))
        })
    }

    /// Fails for a model whose configuration states another type than the template's.
    pub(super) fn check_model(&self, configuration: Option<&Configuration>) -> Result<()> {
        self.refused_model(configuration).map_or(Ok(()), |found| {
            Err(Error::unsupported("the architecture does not describe this model")
                .field("model_type")
                .found(format!("'{found}'"))
                .expected(self.model_types.join(", ")))
        })
    }

    /// Whether the configurations of the template's models have a `model_type` that tells their family.
    pub(super) fn has_model_types(&self) -> bool {
        !self.model_types.is_empty()
    }

    fn known_prefix(&self, tensors: &Tensors<'_>) -> Option<&String> {
        self.prefixes.iter().find(|prefix| self.missing(prefix, tensors).is_none())
    }

    /// The first of the template's names that no tensor has with this prefix.
    fn missing(&self, prefix: &str, tensors: &Tensors<'_>) -> Option<String> {
        let mut names = self.recognize.iter().map(|name| name.replace("{prefix}", prefix));
        names.find(|name| tensors.get(name).is_none())
    }

    /// The configuration's type of model, if it is none of the template's.
    fn refused_model(&self, configuration: Option<&Configuration>) -> Option<String> {
        let found = Value::from_json(configuration?.get("model_type")?)?;
        let known = self.model_types.iter().any(|known| found == Value::Text(known.clone()));
        (!known && self.has_model_types()).then(|| found.to_string())
    }
}

/// Whether a configuration tells the family of its model.
fn states_model(configuration: &Configuration) -> bool {
    configuration.get("model_type").is_some()
}
