//! Architecture files, applied to an opened checkpoint.

use super::{OpenOptions, graph_file};
use crate::formats::{Choices, Formats, OPTION_PREFIX};
use ckpt_api::{
    ArchitectureFile, Contents, DType, Error, Input, Limit, Result, Setting, Shape, Tensor, text,
};

/// The parameter of a template that an option sets: `heads` of `arch.heads`.
pub(crate) fn template_parameter(key: &str) -> Option<&str> {
    key.strip_prefix(OPTION_PREFIX)
}

/// What options say about the model that a template describes, which the user does not name.
pub fn template_choices(options: &OpenOptions) -> Choices {
    let parameter =
        |(key, value): &(String, String)| Some((template_parameter(key)?.to_owned(), value.clone()));
    let settings = options.options.iter().filter_map(parameter).collect();
    Choices { settings, inputs: options.inputs.clone(), is_named: false }
}

/// Gives the contents the graph that a file describes: as a chain of layers, as a graph, or as a template.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`], naming the file, for what does not fit the checkpoint.
pub(super) fn apply(
    formats: &Formats,
    file: &ArchitectureFile,
    input: &Input,
    contents: &mut Contents,
    options: &OpenOptions,
) -> Result<()> {
    let choices = Choices { is_named: true, ..template_choices(options) };
    if file.has("nodes") {
        let architectures = formats.architectures().ok_or_else(|| {
            Error::unsupported("an architecture of nodes needs the program's architectures").field("nodes")
        })?;
        return architectures.describe(file, input, contents, &choices, &options.limits);
    }
    if let Some((name, _)) = choices.settings.first() {
        return Err(no_template(name));
    }
    if file.has("graph") {
        return graph_file::apply(file, contents, &options.limits);
    }
    let layers = file.layers()?;
    options.limits.check(Limit::GraphNodes, layers.layers.len() as u64)?;
    layers.apply(&mut contents.checkpoint)?;
    // They are about the graph that the file replaces.
    contents.graph_notes.clear();
    contents.missing_graph = None;
    Ok(())
}

/// Fails for parameters of a template where no built-in one describes the checkpoint, nor through a mapping or its
/// kind of models.
pub(super) fn check_parameters(formats: &Formats, contents: &Contents, options: &OpenOptions) -> Result<()> {
    let choices = template_choices(options);
    let Some((name, _)) = choices.settings.first() else { return Ok(()) };
    let tensors = &contents.checkpoint.tensors;
    let Some(architectures) = formats.architectures() else { return Err(no_template(name)) };
    let is_described = |tensors: &[Tensor]| architectures.recognize(tensors);
    let by = |mapping: &String| {
        let applied = formats.mapping(mapping)?.apply_to(tensors, &options.limits).ok()?;
        let named =
            applied.targets.into_iter().map(|target| Tensor::new(target.name, DType::F32, Shape::scalar()));
        Some(is_described(&named.collect::<Vec<_>>()))
    };
    let is_named_by_mapping = || architectures.mappings().iter().any(|name| by(name) == Some(true));
    let is_of_kind = formats.model_kinds().is_some_and(|kinds| kinds.has_graph_form(&contents.checkpoint));
    if is_described(tensors) || is_of_kind || is_named_by_mapping() { Ok(()) } else { Err(no_template(name)) }
}

fn no_template(name: &str) -> Error {
    Error::usage("no architecture takes this option")
        .field(format!("{OPTION_PREFIX}{name}"))
        .help(text!["name the architecture with ", Setting::ARCHITECTURE])
}
