//! A template, and how it describes a checkpoint.

use super::document::Document;
use super::expand::{Expanded, expand};
use super::parameters::{Given, Origins, bind};
use super::scope::Scope;
use super::signature::Signature;
use super::tensors::Tensors;
use super::value::Value;
use super::{builtin, inputs};
use ckpt_api::{ArchitectureFile, Contents, Input, Limits, Result, Role, Tensor, first_few};
use ckpt_engine::formats::Choices;
use ckpt_engine::pattern::{Pattern, PatternSet, SEPARATOR};
use ckpt_engine::source::Configuration;
use std::collections::HashSet;

/// A graph with repeats on the tensor names of one convention.
pub struct Template {
    pub(super) signature: Signature,
    pub(super) document: Document,
}

/// How a template describes a checkpoint.
pub struct Described {
    pub(super) expanded: Expanded,
    pub(super) origins: Origins,
    configuration: Option<String>,
    /// Optional inputs that the graph does not have.
    left_out: Vec<String>,
    /// Whether only the names of the tensors tell which family of models it is.
    is_family_assumed: bool,
    /// Weights that the graph does not use.
    pub unused: Vec<String>,
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`], naming the file and the field.
    pub(crate) fn parse(file: &ArchitectureFile) -> Result<Self> {
        let mut document: Document = file.parse()?;
        for (name, block) in builtin::blocks()? {
            document.blocks.entry(name).or_insert(block);
        }
        let signature = Signature::new(file.name().unwrap_or("template").to_owned(), &document);
        Ok(Template { signature, document })
    }

    /// The template's name.
    pub fn name(&self) -> &str {
        self.signature.name()
    }

    /// Reads the configuration beside a checkpoint.
    ///
    /// # Errors
    /// Whatever keeps it from being read.
    pub fn configuration(&self, input: &Input, limits: &Limits) -> Result<Option<Configuration>> {
        self.signature.configuration(input, limits)
    }

    /// Describes a checkpoint, with the parameters that the user sets and the inputs that are given.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for tensors and parameters that are missing or do not fit,
    /// [`ckpt_api::Kind::Unsupported`] for a model that the template does not describe, naming the template.
    pub fn describe(
        &self,
        tensors: &[Tensor],
        configuration: Option<&Configuration>,
        choices: &Choices,
        limits: &Limits,
    ) -> Result<Described> {
        let by_name = Tensors::new(tensors);
        let model_type =
            configuration.and_then(|configuration| Value::from_json(configuration.get("model_type")?));
        let is_family_assumed = !choices.is_named && self.signature.has_model_types() && model_type.is_none();
        let described =
            self.describe_named(&by_name, configuration, choices, limits).and_then(|(origins, expanded)| {
                let unused = self.unused(tensors, &expanded)?;
                let configuration = configuration.map(|configuration| configuration.name.clone());
                let left_out = self.left_out(&expanded);
                Ok(Described { expanded, origins, configuration, left_out, is_family_assumed, unused })
            });
        described.map_err(|error| match error.context().file {
            Some(_) => error,
            None => error.file(self.shown()),
        })
    }

    fn describe_named(
        &self,
        tensors: &Tensors<'_>,
        configuration: Option<&Configuration>,
        choices: &Choices,
        limits: &Limits,
    ) -> Result<(Origins, Expanded)> {
        self.signature.check_model(configuration)?;
        let mut scope = Scope::new(tensors);
        scope.configuration = configuration;
        scope.set("prefix", Value::Text(self.signature.prefix(tensors)?));
        inputs::choose(&self.document, choices, &mut scope)?;
        let settings = &choices.settings;
        let origins = bind(&self.document, &Given { settings, configuration }, &mut scope)?;
        let mut expanded = expand(&self.document, &mut scope, limits)?;
        expanded.graph.name = self.name().to_owned();
        expanded.graph.check()?;
        Ok((origins, expanded))
    }

    /// The weights that neither the graph nor the template's list of unused ones names.
    fn unused(&self, tensors: &[Tensor], expanded: &Expanded) -> Result<Vec<String>> {
        let limits = Limits::default();
        let patterns = self.document.unused.iter().map(|text| Pattern::selecting(text, &limits));
        let patterns = patterns.collect::<Result<Vec<_>>>().map_err(|error| error.field("unused"))?;
        let mut set = PatternSet::new(&patterns, SEPARATOR);
        let nodes = &expanded.graph.nodes;
        let used: HashSet<&str> =
            nodes.iter().flat_map(|node| node.parameters.values()).map(String::as_str).collect();
        let weights = tensors.iter().filter(|tensor| tensor.role == Role::Weight);
        let left = weights
            .filter(|tensor| !used.contains(tensor.name.as_str()) && set.matches(&tensor.name).is_empty());
        Ok(left.map(|tensor| tensor.name.to_string()).collect())
    }

    /// The optional inputs that a graph does not have.
    fn left_out(&self, expanded: &Expanded) -> Vec<String> {
        let has = |name: &str| expanded.graph.inputs.iter().any(|input| input.name == name);
        let optional = self.document.inputs.iter().filter(|input| input.optional);
        optional.map(|input| input.name.clone()).filter(|name| !has(name)).collect()
    }

    /// The template's name in errors.
    fn shown(&self) -> String {
        match builtin::names().any(|name| name == self.name()) {
            true => format!("architecture {}", self.name()),
            false => self.name().to_owned(),
        }
    }
}

impl Described {
    /// Gives the checkpoint the graph, and its weights their axes, and notes what that rests on.
    pub fn apply(self, template: &Template, contents: &mut Contents) {
        let note = self.note(template);
        for tensor in &mut contents.checkpoint.tensors {
            if let Some(axes) = self.expanded.axes.get(tensor.name.as_str()) {
                tensor.axes = Some(axes[..].into());
            }
        }
        contents.checkpoint.graph = Some(self.expanded.graph);
        contents.example_shapes = self.expanded.examples;
        contents.missing_graph = None;
        contents.graph_notes.clear();
        contents.graph_notes.push(note.into());
        if !self.unused.is_empty() {
            let names = first_few(self.unused.iter(), 4);
            contents.graph_notes.push(format!("the architecture does not use these weights: {names}").into());
        }
    }

    pub(super) fn note(&self, template: &Template) -> String {
        let name = template.name();
        let mut note = format!("architecture {name} ({}), read off the tensors", template.document.title);
        let configuration = self.configuration.as_deref().unwrap_or_default();
        for (before, list) in [
            (": ", &self.origins.from_tensors),
            ("; set: ", &self.origins.from_settings),
            (&format!("; from {configuration}: "), &self.origins.from_configuration),
            ("; assumed: ", &self.origins.assumed),
        ] {
            if !list.is_empty() {
                note += before;
                note += &list.join(", ");
            }
        }
        if !self.left_out.is_empty() {
            note += "; inputs that may be given, too: ";
            note += &self.left_out.join(", ");
        }
        if self.is_family_assumed {
            note += "; no configuration states the model_type: the family is assumed from the names of the tensors";
        }
        note
    }
}
